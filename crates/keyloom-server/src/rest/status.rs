//! Whether the server lives, and whether it can answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::routing::get;
use keyloom_api::Readiness;
use keyloom_engine::Actor;

use super::Refusal;
use super::answer::{self, Answer};
use super::route::Route;
use crate::app::App;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/healthz", &[Method::GET], get(health)),
        Route::new("/readyz", &[Method::GET], get(ready)),
    ]
}

/// That the process answers is all that this says.
async fn health() -> Answer {
    answer::json(&Readiness { status: "ok".to_owned(), building: Vec::new() })
}

async fn ready(State(app): State<Arc<App>>) -> Answer {
    if app.is_stopping() {
        return Err(Refusal::busy("the server is stopping"));
    }
    let mut building = Vec::new();
    for name in app.service.collections(&Actor::Local.into()) {
        // Reads the store, so that a store that cannot be reached is told.
        let info = app.service.collection(&Actor::Local.into(), &name).await?;
        let unfinished = info.indexes.into_iter().filter(|index| index.state != "ready");
        building.extend(unfinished.map(|index| format!("{name} {}", index.path)));
    }
    answer::json(&Readiness { status: "ready".to_owned(), building })
}
