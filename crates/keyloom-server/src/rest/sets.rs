//! Sets: documents that are replaced as one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::routing::put;
use keyloom_api::SetBody;
use keyloom_engine::SetReplacement;
use serde_json::Value as Json;

use super::Refusal;
use super::answer::Answer;
use super::documents::results;
use super::read::{self, Segments};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::typed;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(
        "/v1/collections/{collection}/sets/{set}/{*leading}",
        &[Method::PUT],
        put(replace),
    )]
}

async fn replace(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Segments { collection, name: set, values: leading }: Segments,
    read::Json(SetBody { documents }): read::Json<SetBody>,
) -> Answer {
    let schema = app.service.schema(&caller, &collection)?;
    let by: &[String] = schema.sets.get(&set).map_or(&[], |set| &set.by);
    let leading = leading.iter().enumerate().map(|(place, text)| {
        let kind = by.get(place).and_then(|field| typed::kind_of(&schema, field));
        typed::value(kind, text)
    });
    let leading: Vec<Json> = leading.collect::<Result<_, _>>().map_err(Refusal::invalid)?;
    let documents: Vec<Vec<u8>> = documents
        .into_iter()
        .map(|data| String::from(Box::<str>::from(data)).into_bytes())
        .collect();
    let replacement = SetReplacement {
        collection: &collection,
        set: &set,
        leading: &leading,
        documents: &documents,
    };
    Ok(results(&app.service.replace_set(&caller, &replacement).await?))
}
