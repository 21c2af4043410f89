//! What every call passes: admission, the caller, a deadline.
//!
//! E1: A call that finds no place is answered at once; none waits for a place, and none has one
//!     while its message arrives.
//! E2: The caller is known before the service is asked: it finds him among the extensions.
//! E3: What a web page of another origin could send here unasked is no call.
//! E4: A message that cannot be read is the fault of who sent it.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use keyloom_api as api;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};
use tower::Service;
use tracing::field::Empty;
use tracing::{Instrument, debug, debug_span, warn};

use super::status::{CODE, invalid, refused};
use super::{Asked, Body, Methods, Named, streams};
use crate::app::App;
use crate::caller::Caller;
use crate::edge::no_place;
use crate::rest::Refusal;
use crate::traces;

/// The time that a client gives a call: digits and a unit.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Lets a call through to its service.
pub(super) async fn pass(
    app: &Arc<App>,
    service: &Named,
    request: Request<Incoming>,
) -> Response<Body> {
    let begun = Instant::now();
    let _in_flight = app.metrics.begin();
    let span = debug_span!(
        "call",
        otel.kind = "server",
        otel.name = %request.uri().path(),
        service = service.name,
        status = Empty,
        object.id = Empty,
        object.id_str = Empty,
    );
    traces::follow(&span, request.headers());
    let response = if is_grpc(request.method(), request.headers()) {
        let answer = answer(app, service, request).instrument(span.clone()).await;
        answer.unwrap_or_else(|refusal| refused(&refusal).into_http()).map(Either::Right)
    } else {
        let detail = "a call is a POST of the type application/grpc";
        let refusal = Refusal::invalid(detail).status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        refusal.into_response().map(Either::Left)
    };
    // Where there is no status yet, the answer has begun, and went well so far.
    let status =
        Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
    let number = i32::from(status);
    app.metrics.end(
        service.name,
        &Method::POST,
        u16::try_from(number).unwrap_or(u16::MAX),
        begun.elapsed(),
    );
    span.record("status", number);
    match status {
        Code::Internal | Code::Unknown | Code::Unavailable | Code::DataLoss => {
            warn!(service = service.name, status = number, "call failed");
        }
        _ => debug!(service = service.name, status = number, "call"),
    }
    response
}

/// Lets a call through once it is all here and has a place.
async fn answer(
    app: &Arc<App>,
    service: &Named,
    request: Request<Incoming>,
) -> Result<Response<tonic::body::Body>, Refusal> {
    let time = given(request.headers()).unwrap_or(app.config.deadline).min(app.config.deadline);
    let is_safe = is_read(request.uri().path());
    let (parts, body) = request.into_parts();
    let methods = service.methods.clone();
    if service.is_stream {
        let answer = work(app, methods, parts, Either::Right(body), time).await;
        return Ok(answer.map(|body| streams::until(body, app.stopping.clone())));
    }
    if app.places.available_permits() == 0 {
        return Err(no_place());
    }
    let patience = time.min(app.config.body_timeout);
    let (message, _claim) = app.room.arrive(&parts.headers, body, patience).await?;
    // E1
    let _place = app.places.try_acquire().map_err(|_| no_place())?;
    let message = Either::Left(Full::new(message));
    let (parts, body) = work(app, methods, parts, message, time).await.into_parts();
    // All of it is there: how large it is decides whether it can be held until it is sent.
    let whole = body.collect().await.map_err(|status| Refusal::invalid(status.message()))?;
    let trailers = whole.trailers().cloned();
    let mut answer = Response::from_parts(parts, Full::new(whole.to_bytes()));
    app.room.depart(&mut answer, is_safe)?;
    Ok(answer.map(|body| match trailers {
        Some(trailers) => tonic::body::Body::new(body.with_trailers(ready(Some(Ok(trailers))))),
        // What is refused ends with its headers, and clients look for the status there.
        None => tonic::body::Body::new(body),
    }))
}

async fn work(
    app: &Arc<App>,
    mut methods: Methods,
    mut parts: Parts,
    asked: Asked,
    time: Duration,
) -> Response<tonic::body::Body> {
    let work = async move {
        // E2
        let caller = match Caller::from_request_parts(&mut parts, app).await {
            Ok(caller) => caller,
            Err(refusal) => return refused(&refusal).into_http(),
        };
        parts.extensions.insert(caller);
        match methods.call(Request::from_parts(parts, asked)).await {
            Ok(response) => blame(response),
            Err(never) => match never {},
        }
    };
    match timeout(time, work).await {
        Ok(response) => response,
        Err(_) => {
            let what = "the deadline has passed; a change may still happen: read before you retry";
            Status::deadline_exceeded(what).into_http()
        }
    }
}

/// What goes wrong inside carries a code of ours; without one, the message could not be read (E4).
fn blame(response: Response<tonic::body::Body>) -> Response<tonic::body::Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    if status.metadata().contains_key(CODE) {
        return response;
    }
    match status.code() {
        Code::Internal => invalid(status.message()).into_http(),
        // It is larger than it may be.
        Code::OutOfRange => {
            refused(&Refusal::new(api::Code::LimitExceeded, status.message())).into_http()
        }
        _ => response,
    }
}

/// Whether a request is a call, which no web page can send without being asked first (E3).
fn is_grpc(method: &Method, headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    method == Method::POST && ["application/grpc", "application/grpc+proto"].contains(&media)
}

/// Whether a call changes nothing, by its name.
fn is_read(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    method.starts_with("Get") || method.starts_with("List")
}

/// The time that the client gives, if it says so in a way that gRPC knows.
fn given(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // More digits are not allowed, and would not fit.
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gives_its_time_in_any_unit_of_grpc() {
        let read = |text: &'static str| {
            given(&HeaderMap::from_iter([(TIMEOUT, axum::http::HeaderValue::from_static(text))]))
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("4S"), Some(Duration::from_secs(4)));
        assert_eq!(read("5m"), Some(Duration::from_millis(5)));
        assert_eq!(read("6u"), Some(Duration::from_micros(6)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for wrong in ["", "S", "5", "5x", "123456789S", "-1S", "1.5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
