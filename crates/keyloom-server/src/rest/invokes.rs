//! Calls of functions: the body is what the function works on, the answer says how it went.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use keyloom_api as api;
use keyloom_engine::{Identity, ObjectId, OutboxAt};

use super::Refusal;
use super::answer::{self, Answer, JSON};
use super::letters::number;
use super::objects::PROTOBUF;
use super::read::{At, Parameters, Raw};
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

async fn of_class(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, function)): At<(String, String, String)>,
    parameters: Parameters,
    body: Raw,
) -> Answer {
    let place = (class, partition, function);
    invoke(&app, &caller, (place, None), &parameters, body).await
}

async fn on_object(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, id, function)): At<(String, String, String, String)>,
    parameters: Parameters,
    body: Raw,
) -> Answer {
    let object = app.service.object_segment(&id)?;
    let place = (class, partition, function);
    invoke(&app, &caller, (place, Some(object)), &parameters, body).await
}

/// Class, partition and function; and the object, if it is called on one.
type Place = ((String, String, String), Option<ObjectId>);

async fn invoke(
    app: &Arc<App>,
    caller: &Identity,
    ((class, partition, function), object): Place,
    parameters: &Parameters,
    body: Raw,
) -> Answer {
    // As everywhere: what a form of a foreign web page can send is not taken.
    if !PAYLOADS.contains(&body.media.as_str()) {
        let detail = format!("the body has to be {}: set Content-Type", PAYLOADS.join(" or "));
        return Err(Refusal::invalid(detail).status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    // Parameters are the options of the function.
    let options: BTreeMap<String, String> = parameters.0.iter().cloned().collect();
    let is_async = options.get(ASYNC).is_some_and(|value| value == "true");
    let partition = convert::partition(&partition)?;
    let payload = body.bytes.to_vec();
    let invoke = Invoke { class, partition, object, function, options, payload };
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
