//! Whether the server lives, and whether it can answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::IntoResponse;
use axum::routing::get;
use keyloom_api::Readiness;
use keyloom_engine::{Actor, Error, ObjectStats};

use super::Refusal;
use super::answer::{self, Answer};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::metrics::Looked;
use crate::service::Service;

/// What Prometheus reads.
const METRICS: &str = "application/openmetrics-text";
const PLAIN: &str = "text/plain";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/healthz", &[Method::GET], get(health)).always(),
        Route::new("/readyz", &[Method::GET], get(ready)).always(),
        Route::new("/metrics", &[Method::GET], get(metrics)).producing(&[METRICS, PLAIN]).always(),
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

async fn metrics(State(app): State<Arc<App>>, Caller(caller): Caller) -> Answer {
    Service::check_admin(&caller)?;
    let mut collections = Vec::new();
    for name in app.service.collections(&caller) {
        collections.push(app.service.collection(&caller, &name).await?);
    }
    let mut classes = Vec::new();
    for name in app.service.classes(&caller) {
        let mut sum = ObjectStats::default();
        for (_, stats) in app.service.class_stats(&caller, &name).await? {
            sum.numeric_objects += stats.numeric_objects;
            sum.string_objects += stats.string_objects;
            sum.numeric_entries += stats.numeric_entries;
            sum.string_entries += stats.string_entries;
            sum.waiting_events += stats.waiting_events;
            sum.dead_letters += stats.dead_letters;
        }
        classes.push((name, sum));
    }
    let (tally, feed) = (app.service.tally(), app.service.feed().await?);
    let looked = Looked { tally, feed, collections, classes };
    let text = app.metrics.text(looked).map_err(|error| Error::Corrupt {
        detail: format!("the metrics cannot be written: {error}"),
    })?;
    let media = format!("{METRICS}; version=1.0.0; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}
