//! Calls of functions: the body is what the function works on, the answer says how it went.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use keyloom_api as api;
use keyloom_engine::{Identity, ObjectId, OutboxAt};

use super::Refusal;
use super::answer::{self, Answer, JSON};
use super::letters::number;
use super::objects::PROTOBUF;
use super::read::{At, Parameters, Raw, depth};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::grid as convert;
use crate::service::{ASYNC, Invoke};

/// What a function may be given.
pub(super) const PAYLOADS: &[&str] = &[JSON, PROTOBUF, "application/octet-stream"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            "/api/class/{class}/{partition}/invokes/{function}",
            &[Method::POST],
            post(of_class),
        ),
        Route::new(
            "/api/class/{class}/{partition}/objects/{id}/invokes/{function}",
            &[Method::POST],
            post(on_object),
        ),
        Route::new(
            "/api/class/{class}/{partition}/invocations/{invocation}",
            &[Method::GET],
            get(result),
        ),
    ]
}

/// What a function is given beside the body: the parameters, and how many events led to the call.
struct Options {
    options: BTreeMap<String, String>,
    depth: u32,
}

impl FromRequestParts<Arc<App>> for Options {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Options, Refusal> {
        let Parameters(given) = Parameters::from_request_parts(parts, app).await?;
        Ok(Options { options: given.into_iter().collect(), depth: depth(&parts.headers)? })
    }
}

async fn of_class(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, function)): At<(String, String, String)>,
    options: Options,
    body: Raw,
) -> Answer {
    let place = (class, partition, function);
    invoke(&app, &caller, (place, None), options, body).await
}

async fn on_object(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, id, function)): At<(String, String, String, String)>,
    options: Options,
    body: Raw,
) -> Answer {
    let object = app.service.object_segment(&id)?;
    let place = (class, partition, function);
    invoke(&app, &caller, (place, Some(object)), options, body).await
}

/// Class, partition and function; and the object, if it is called on one.
type Place = ((String, String, String), Option<ObjectId>);

async fn invoke(
    app: &Arc<App>,
    caller: &Identity,
    ((class, partition, function), object): Place,
    Options { options, depth }: Options,
    body: Raw,
) -> Answer {
    // As everywhere: what a form of a foreign web page can send is not taken.
    if !PAYLOADS.contains(&body.media.as_str()) {
        let detail = format!("the body has to be {}: set Content-Type", PAYLOADS.join(" or "));
        return Err(Refusal::invalid(detail).status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let is_async = options.get(ASYNC).is_some_and(|value| value == "true");
    let partition = convert::partition(&partition)?;
    let payload = body.bytes.to_vec();
    let invoke = Invoke { class, partition, object, function, options, payload };
    let invoke = invoke.deeper(depth);
    let answer = Arc::clone(&app.service).invoke(caller, invoke).await?;
    let mut response = answer::json(&api::Invoked::from(answer))?;
    if is_async {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(response)
}

async fn result(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, invocation)): At<(String, String, String)>,
) -> Answer {
    let at = OutboxAt { class: &class, partition: number("the partition", &partition)? };
    let found = app.service.invocation_result(&caller, at, &invocation).await?;
    let Some(found) = found else {
        let running = api::Invoked {
            payload: None,
            status: "RUNNING".to_owned(),
            headers: BTreeMap::new(),
            invocation_id: Some(invocation),
        };
        let mut response = answer::json(&running)?;
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    };
    answer::json(&api::Invoked::from(found))
}
