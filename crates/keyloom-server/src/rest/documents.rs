//! The documents of a collection: create one, query by parameters, get or delete many.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use keyloom_api::{DeletedMany, DocumentBody, KeysBody, QueryBody};
use keyloom_engine::{Action, Written};

use super::Refusal;
use super::answer::{self, Answer};
use super::read::{At, Json, Parameters};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::{asked, body, wire};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            "/v1/collections/{collection}/documents",
            &[Method::GET, Method::POST],
            get(query).post(create),
        ),
        Route::new("/v1/collections/{collection}/get", &[Method::POST], post(get_many)).question(),
        Route::new("/v1/collections/{collection}/delete", &[Method::POST], post(delete_many)),
    ]
}

async fn query(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    Parameters(parameters): Parameters,
) -> Answer {
    let schema = app.service.schema(&caller, &collection)?;
    let (query, explain) = asked::parameters(&schema, &parameters).map_err(Refusal::invalid)?;
    let page = app.service.query(&caller, &collection, &query).await?;
    Ok(answer::bytes(StatusCode::OK, body::page(page, explain)))
}

async fn create(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    Json(body): Json<DocumentBody>,
) -> Answer {
    let DocumentBody { data, description } = body;
    let data = String::from(Box::<str>::from(data)).into_bytes();
    let action = Action::Create { key: None, data, description };
    let written = app.service.execute(&caller, &collection, action).await?;
    let new = written.into_document().expect("a create leaves a document");
    Ok(answer::created(&collection, &new))
}

async fn get_many(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    Json(KeysBody { keys }): Json<KeysBody>,
) -> Answer {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = app.service.get_many(&caller, &collection, &keys).await?;
    Ok(answer::bytes(StatusCode::OK, body::documents(&found)))
}

async fn delete_many(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    Json(body): Json<QueryBody>,
) -> Answer {
    if body.select.is_some() || body.after.is_some() || body.explain {
        let detail = "a delete by filter takes where, any, order, limit, distinct and scan";
        return Err(Refusal::invalid(detail));
    }
    if body.filter.is_empty() && body.any.is_empty() {
        let detail =
            "a delete by filter says in where or any what is deleted; \"any\": [{}] is all";
        return Err(Refusal::invalid(detail));
    }
    let (query, _) = asked::query(body);
    let done = app.service.delete_matching(&caller, &collection, &query).await?;
    let deleted = u64::try_from(done.deleted).unwrap_or(u64::MAX);
    answer::json(&DeletedMany { deleted, more: done.more, cost: wire::cost(done.cost) })
}

/// What operations did.
pub(super) fn results(written: &[Written]) -> Response {
    answer::bytes(StatusCode::OK, body::results(written))
}
