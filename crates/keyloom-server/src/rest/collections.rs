//! Collections and the schema.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{get, put};
use keyloom_api::Collections;
use keyloom_engine::schema::Schema;

use super::Refusal;
use super::answer::{self, Answer, JSON};
use super::read::{At, Parameters, Raw};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::{asked, wire};

/// A schema file.
const TOML: &str = "application/toml";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/v1/collections", &[Method::GET], get(names)),
        Route::new("/v1/collections/{collection}", &[Method::GET], get(show)),
        Route::new("/v1/schema", &[Method::PUT], put(apply)).long(),
    ]
}

async fn names(State(app): State<Arc<App>>, Caller(caller): Caller) -> Answer {
    answer::json(&Collections { collections: app.service.collections(&caller) })
}

async fn show(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
) -> Answer {
    let info = app.service.collection(&caller, &collection).await?;
    answer::json(&wire::collection(info)?)
}

async fn apply(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    parameters: Parameters,
    Raw { media, bytes }: Raw,
) -> Answer {
    parameters.only(&["dry_run"])?;
    let dry_run = parameters.get("dry_run").map_or(Ok(false), |text| asked::flag("dry_run", text));
    let dry_run = dry_run.map_err(Refusal::invalid)?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| Refusal::invalid("the body is not UTF-8"))?;
    let schema = match media.as_str() {
        TOML => Schema::from_toml(text)?,
        JSON if text.trim_start().starts_with('[') => {
            return Err(Refusal::invalid("a schema is an object, not an array"));
        }
        JSON => Schema::from_json(text)?,
        _ => {
            let detail = format!("a schema is {TOML} or {JSON}: set Content-Type");
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Refusal::invalid(detail).status(status));
        }
    };
    if dry_run {
        let change = app.service.plan_schema(&caller, &schema).await?;
        return answer::json(&wire::schema_change(change, false));
    }
    let change = app.service.apply_schema(&caller, &schema).await?;
    answer::json(&wire::schema_change(change, true))
}
