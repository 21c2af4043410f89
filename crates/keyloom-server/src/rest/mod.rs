//! REST: one file per resource, each with its routes; handlers read, ask the service, and answer.

mod answer;
mod batch;
mod changes;
mod classes;
mod collections;
mod describe;
mod describe_objects;
mod document;
mod documents;
mod examples;
mod invokes;
mod layers;
mod letters;
mod objects;
mod openapi;
mod queries;
mod read;
mod refusal;
mod route;
mod sets;
mod status;
mod tokens;
mod values;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use crate::app::App;
use route::Route;

pub(crate) use layers::{cors, layered};
pub(crate) use refusal::{Refusal, too_many_connections};
pub(crate) use route::Passage;

/// Everything that is answered over HTTP.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let (path, handlers) = route.build(app);
        router = router.route(path, handlers);
    }
    let unknown = Route::unknown(any(route::not_found)).build(app).1;
    router.fallback_service(unknown.with_state(Arc::clone(app))).with_state(Arc::clone(app))
}

/// Every route there is.
fn routes() -> Vec<Route> {
    let resources = [
        status::routes(),
        collections::routes(),
        documents::routes(),
        document::routes(),
        queries::routes(),
        sets::routes(),
        batch::routes(),
        tokens::routes(),
        changes::routes(),
        classes::routes(),
        objects::routes(),
        values::routes(),
        invokes::routes(),
        letters::routes(),
        openapi::routes(),
    ];
    resources.into_iter().flatten().collect()
}
