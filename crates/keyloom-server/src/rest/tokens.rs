//! Tokens: made, listed and revoked by administrators.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{delete, get};
use keyloom_api::{Revoked, TokenBody};

use super::Refusal;
use super::answer::{self, Answer};
use super::read::{At, Json, Parameters};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::{asked, wire};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/v1/tokens", &[Method::GET, Method::POST], get(list).post(create)),
        Route::new("/v1/tokens/{id}", &[Method::DELETE], delete(revoke)),
    ]
}

async fn create(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Json(body): Json<TokenBody>,
) -> Answer {
    let (token, secret) = app.service.create_token(&caller, &asked::token(body)).await?;
    let mut response = answer::json(&wire::new_token(token, &secret))?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

async fn list(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["after", "limit"])?;
    let limit = parameters.get("limit").map(|text| asked::number("limit", text)).transpose();
    let limit = limit.map_err(Refusal::invalid)?;
    let page = app.service.tokens(&caller, parameters.get("after"), limit).await?;
    answer::json(&wire::token_page(page))
}

async fn revoke(State(app): State<Arc<App>>, Caller(caller): Caller, At(id): At<String>) -> Answer {
    let revoked = app.service.revoke_token(&caller, &id).await?;
    answer::json(&Revoked { id, revoked })
}
