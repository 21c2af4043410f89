//! Events that could not be delivered: looked at, tried again, and forgotten.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::routing::{delete, get, post};
use keyloom_api as api;
use keyloom_engine::{EventCause, OutboxAt, OutboxEvent, Touched};

use super::Refusal;
use super::answer::{self, Answer, JSON};
use super::objects::read_limit;
use super::read::{At, Parameters, check_media};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;

pub(super) fn routes() -> Vec<Route> {
    let list = "/api/class/{class}/{partition}/dead-letters";
    let replay = "/api/class/{class}/{partition}/dead-letters/{sequence}/replay";
    let one = "/api/class/{class}/{partition}/dead-letters/{sequence}";
    vec![
        Route::new(list, &[Method::GET, Method::DELETE], get(page).delete(forget_all)),
        Route::new(one, &[Method::DELETE], delete(forget)),
        Route::new(replay, &[Method::POST], post(again)),
    ]
}

async fn page(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition)): At<(String, String)>,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["from", "limit"])?;
    let from = parameters.get("from").map_or(Ok(0), |text| number("from", text))?;
    let limit = read_limit(&parameters)?;
    let at = OutboxAt { class: &class, partition: number("the partition", &partition)? };
    let found = app.service.dead_letters(&caller, at, from, limit).await?;
    let items = found.items.into_iter().map(shown).collect();
    answer::json(&api::DeadLetters { items, next: found.next })
}

async fn forget_all(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition)): At<(String, String)>,
) -> Answer {
    let at = OutboxAt { class: &class, partition: number("the partition", &partition)? };
    let deleted = app.service.delete_letters(&caller, at).await?;
    answer::json(&api::LettersDeleted { deleted })
}

async fn forget(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, sequence)): At<(String, String, String)>,
) -> Answer {
    let at = OutboxAt { class: &class, partition: number("the partition", &partition)? };
    let sequence = number("the sequence number", &sequence)?;
    app.service.delete_letter(&caller, at, sequence).await?;
    answer::json(&api::LettersDeleted { deleted: 1 })
}

async fn again(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition, sequence)): At<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    // There is nothing to send; the type shows that no form of a web page did.
    check_media(&headers, &[JSON])?;
    let at = OutboxAt { class: &class, partition: number("the partition", &partition)? };
    let sequence = number("the sequence number", &sequence)?;
    app.service.replay(&caller, at, sequence).await?;
    answer::json(&api::Replayed { sequence })
}

/// A number in an address.
pub(super) fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Refusal> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let found = text.parse().ok().filter(|_| is_digits);
    found.ok_or_else(|| Refusal::invalid(format!("{what} is a number, not `{text}`")))
}

fn shown(event: OutboxEvent) -> api::DeadLetter {
    let (cause, key) = match event.cause {
        EventCause::Entry(Touched::Created, key) => ("created", key.to_string()),
        EventCause::Entry(Touched::Updated, key) => ("updated", key.to_string()),
        EventCause::Entry(Touched::Deleted, key) => ("deleted", key.to_string()),
        EventCause::Completed(function) => ("completed", function),
        EventCause::Failed(function) => ("failed", function),
    };
    api::DeadLetter {
        sequence: event.sequence,
        cause: cause.to_owned(),
        of: key,
        object_id: event.object.map(|id| id.to_string()),
        version: event.version,
        time: event.time,
        target_cls_id: event.target.class,
        target_fn_id: event.target.function,
        depth: event.depth,
        attempts: event.attempts,
        error: event.error,
    }
}
