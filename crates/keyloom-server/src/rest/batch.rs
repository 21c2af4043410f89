//! Several operations in one commit, and the check of all that is stored.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::routing::post;
use keyloom_api::{BatchBody, CheckBody};
use keyloom_engine::{Error, Operation, Repair};

use super::Refusal;
use super::answer::{self, Answer};
use super::documents::results;
use super::read::{Json, Parameters};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::service::Service;
use crate::{asked, wire};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/v1/batch", &[Method::POST], post(batch)),
        Route::new("/v1/check", &[Method::POST], post(check)).long(),
    ]
}

async fn batch(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    parameters: Parameters,
    Json(BatchBody { operations, owner }): Json<BatchBody>,
) -> Answer {
    parameters.only(&["explain"])?;
    let explain = parameters.get("explain").map_or(Ok(false), |text| asked::flag("explain", text));
    let operations = operations.into_iter().enumerate().map(|(operation, body)| {
        asked::operation(body).map_err(|detail| Error::Batch {
            operation,
            source: Box::new(Error::Invalid { detail }),
        })
    });
    let operations: Vec<Operation> = operations.collect::<Result<_, _>>()?;
    let caller = match owner {
        Some(owner) => Service::for_owner(&caller, owner)?,
        None => caller,
    };
    if explain.map_err(Refusal::invalid)? {
        let plan = app.service.explain_write(&caller, &operations).await?;
        return answer::json(&wire::write_plan(plan));
    }
    Ok(results(&app.service.batch(&caller, &operations).await?))
}

async fn check(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Json(CheckBody { repair }): Json<CheckBody>,
) -> Answer {
    let repair = if repair { Repair::Yes } else { Repair::No };
    answer::json(&wire::check_report(app.service.check(&caller, repair).await?))
}
