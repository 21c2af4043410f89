//! Questions with a body: query, count, exists, list; and the keys of a path.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{MethodRouter, get, post};
use keyloom_api::{ListBody, QueryBody};
use keyloom_engine::{Identity, KeyQuery};

use super::Refusal;
use super::answer::{self, Answer};
use super::read::{At, Json, Parameters};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::service::Service;
use crate::{asked, body, wire};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            "/v1/collections/{collection}/query",
            &[Method::POST],
            question(Question::Query),
        )
        .question(),
        Route::new(
            "/v1/collections/{collection}/count",
            &[Method::POST],
            question(Question::Count),
        )
        .question(),
        Route::new(
            "/v1/collections/{collection}/exists",
            &[Method::POST],
            question(Question::Exists),
        )
        .question(),
        Route::new("/v1/collections/{collection}/list", &[Method::POST], post(list)).question(),
        Route::new("/v1/collections/{collection}/keys", &[Method::GET], get(keys)),
    ]
}

/// What is asked with a query.
#[derive(Clone, Copy)]
enum Question {
    Query,
    Count,
    Exists,
}

fn question(question: Question) -> MethodRouter<Arc<App>> {
    post(
        async move |State(app): State<Arc<App>>,
                    Caller(caller): Caller,
                    At(collection): At<String>,
                    Json(body): Json<QueryBody>| {
            ask(question, &app.service, (&caller, &collection), body).await
        },
    )
}

async fn ask(
    question: Question,
    service: &Service,
    (caller, collection): (&Identity, &str),
    body: QueryBody,
) -> Answer {
    let (query, explain) = asked::query(body);
    match question {
        Question::Query => {
            let page = service.query(caller, collection, &query).await?;
            Ok(answer::bytes(StatusCode::OK, body::page(page, explain)))
        }
        Question::Count => {
            let counted = service.count(caller, collection, &query).await?;
            answer::json(&wire::count(counted, explain))
        }
        Question::Exists => {
            let existence = service.exists(caller, collection, &query).await?;
            answer::json(&wire::exists(existence, explain))
        }
    }
}

async fn list(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    Json(body): Json<ListBody>,
) -> Answer {
    let ListBody { count, explain, .. } = body;
    let list = asked::list(body);
    let mut listed = app.service.list(&caller, &collection, &list).await?;
    if count && listed.matches_length.is_none() {
        let counted = app.service.count_list(&caller, &collection, &list).await?;
        listed.matches_length = Some(counted.count);
        listed.matches_pages = pages(counted.count, list.limit);
        listed.cost.keys_read += counted.cost.keys_read;
        listed.cost.documents_read += counted.cost.documents_read;
        listed.cost.ranges += counted.cost.ranges;
    }
    Ok(answer::bytes(StatusCode::OK, body::list(listed, explain)))
}

async fn keys(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(collection): At<String>,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["index", "prefix", "limit", "after"])?;
    let limit = parameters.get("limit").map(|text| asked::number("limit", text)).transpose();
    let query = KeyQuery {
        path: parameters.get("index").map(str::to_owned),
        prefix: parameters.get("prefix").map(str::to_owned),
        limit: limit.map_err(Refusal::invalid)?,
        after: parameters.get("after").map(str::to_owned),
    };
    answer::json(&wire::keys(app.service.keys(&caller, &collection, &query).await?))
}

/// How many pages of a limit so many matches fill.
fn pages(matches: u64, limit: Option<usize>) -> Option<u64> {
    let limit = limit.unwrap_or(keyloom_engine::limits::PAGE_LIMIT_DEFAULT);
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    (limit > 0).then(|| matches.div_ceil(limit))
}
