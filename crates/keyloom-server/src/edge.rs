//! What every request passes: an id, admission, a deadline.
//!
//! E1: A request that finds no place is answered at once; none waits for a place, and none has one
//!     while its body arrives.
//! E2: A request that is given up says whether it may have changed something.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use keyloom_api::Code;
use tokio::time::{Instant, timeout};
use tracing::field::Empty;
use tracing::{Instrument, debug, debug_span, warn};

use crate::app::App;
use crate::limits::REQUEST_ID_BYTES_MAX;
use crate::rest::{Passage, Refusal};
use crate::room::Claim;
use crate::traces;

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Ids for requests that come without one.
pub(crate) struct RequestIds {
    next: AtomicU64,
}

/// Lets a request through to its handler.
pub(crate) async fn pass(State(passage): State<Passage>, request: Request, next: Next) -> Response {
    let app = &*passage.app;
    let begun = Instant::now();
    let _in_flight = app.metrics.begin();
    let id = request_id(app, &request);
    let method = request.method().clone();
    let span = debug_span!(
        "request",
        otel.kind = "server",
        otel.name = %format_args!("{method} {}", passage.path),
        otel.status_code = Empty,
        id = id.to_str().unwrap_or_default(),
        method = %method,
        route = passage.path,
        status = Empty,
        plan = Empty,
        ranges = Empty,
        keys_read = Empty,
        object.id = Empty,
        object.id_str = Empty,
    );
    traces::follow(&span, request.headers());
    let worked = work(&passage, request, next).instrument(span.clone()).await;
    let mut response = worked.unwrap_or_else(Refusal::into_response);
    let status = response.status().as_u16();
    let time = begun.elapsed();
    app.metrics.end(passage.path, &method, status, time);
    span.record("status", status);
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let shown = id.to_str().unwrap_or_default();
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
        warn!(id = shown, %method, route = passage.path, status, micros, "request failed");
    } else {
        // Inside of the span, which carries the plan.
        span.in_scope(|| debug!(micros, "request"));
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Lets a request through once it is all here and has a place.
async fn work(passage: &Passage, request: Request, next: Next) -> Result<Response, Refusal> {
    let app = &*passage.app;
    if app.places.available_permits() == 0 && !passage.is_always_answered() {
        return Err(no_place());
    }
    if let Some(answer) = passage.answer(request.method(), request.headers()) {
        return Ok(answer);
    }
    let (request, _claim) = arrive(app, request).await?;
    // E1
    let _place = match app.places.try_acquire() {
        Ok(place) => Some(place),
        Err(_) if passage.is_always_answered() => None,
        Err(_) => return Err(no_place()),
    };
    let is_safe = passage.is_safe(request.method());
    let mut response = in_time(passage.deadline(), is_safe, next.run(request)).await;
    app.room.depart(&mut response, is_safe)?;
    Ok(response)
}

/// A request with all of its body, and the room that it takes.
async fn arrive(app: &App, request: Request) -> Result<(Request, Claim), Refusal> {
    if request.body().is_end_stream() {
        return Ok((request, Claim::default()));
    }
    let (parts, body) = request.into_parts();
    let (bytes, claim) = app.room.arrive(&parts.headers, body, app.config.body_timeout).await?;
    Ok((Request::from_parts(parts, Body::from(bytes)), claim))
}

/// There are as many requests as there may be.
pub(crate) fn no_place() -> Refusal {
    Refusal::busy("the server has as many requests as it can work on")
}

async fn in_time(
    deadline: Duration,
    is_safe: bool,
    work: impl Future<Output = Response>,
) -> Response {
    match timeout(deadline, work).await {
        Ok(response) => response,
        Err(_) if is_safe => {
            Refusal::busy("the deadline of the request has passed").into_response()
        }
        // E2
        Err(_) => Refusal::new(
            Code::OutcomeUnknown,
            "the deadline has passed, and the change may still happen: read before you retry",
        )
        .into_response(),
    }
}

fn request_id(app: &App, request: &Request) -> HeaderValue {
    let given = request
        .headers()
        .get(REQUEST_ID)
        .filter(|id| id.len() <= REQUEST_ID_BYTES_MAX && !id.is_empty() && id.to_str().is_ok());
    given.cloned().unwrap_or_else(|| app.request_ids.next())
}

impl RequestIds {
    /// Ids that begin at a random place, so that those of two runs are not mixed up.
    pub(crate) fn starting_at(start: u64) -> RequestIds {
        RequestIds { next: AtomicU64::new(start) }
    }

    fn next(&self) -> HeaderValue {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{id:016x}")).expect("hexadecimal digits are a header")
    }
}
