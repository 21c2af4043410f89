//! One document: by its key, or by a unique claim.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::routing::get;
use keyloom_api::{Deleted, DocumentBody};
use keyloom_engine::{Action, Error, Written};
use serde_json::Value as Json;
use std::sync::Arc;

use super::answer::{self, Answer, JSON};
use super::read::{self, At, Parameters, Raw, Segments, check_media};
use super::route::Route;
use super::{Refusal, read::from_json};
use crate::app::App;
use crate::caller::Caller;
use crate::typed;

/// A JSON merge patch.
const MERGE_PATCH: &str = "application/merge-patch+json";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            "/v1/collections/{collection}/documents/{*key}",
            &[Method::GET, Method::PUT, Method::PATCH, Method::DELETE],
            get(show).put(put).patch(patch).delete(delete),
        ),
        Route::new(
            "/v1/collections/{collection}/unique/{name}/{*values}",
            &[Method::GET],
            get(lookup),
        ),
    ]
}

async fn show(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((collection, key)): At<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let document = app.service.get(&caller, &collection, &key).await?;
    if headers.contains_key(header::IF_NONE_MATCH) && read::has_version(&headers, document.version)
    {
        return Ok(answer::not_modified(document.version));
    }
    Ok(answer::document(StatusCode::OK, &document))
}

async fn put(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((collection, key)): At<(String, String)>,
    headers: HeaderMap,
    read::Json(body): read::Json<DocumentBody>,
) -> Answer {
    let DocumentBody { data, description } = body;
    let precondition = read::precondition(&headers)?;
    let data = String::from(Box::<str>::from(data)).into_bytes();
    let action = Action::Put { key: key.clone(), precondition, data, description };
    let written = app.service.execute(&caller, &collection, action).await?;
    Ok(changed(&collection, &key, written))
}

async fn patch(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((collection, key)): At<(String, String)>,
    headers: HeaderMap,
    Raw { media: _, bytes }: Raw,
) -> Answer {
    check_media(&headers, &[MERGE_PATCH, JSON])?;
    // Read once here, so that what is no JSON is an error of the body.
    from_json::<serde::de::IgnoredAny>(&bytes)?;
    let precondition = read::precondition(&headers)?;
    let action = Action::Patch { key: key.clone(), precondition, patch: bytes.to_vec() };
    let written = app.service.execute(&caller, &collection, action).await?;
    Ok(changed(&collection, &key, written))
}

async fn delete(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((collection, key)): At<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let precondition = read::precondition(&headers)?;
    let action = Action::Delete { key: key.clone(), precondition };
    let deleted = match app.service.execute(&caller, &collection, action).await? {
        Written::Deleted { key, version } => Deleted { key, deleted: true, version: Some(version) },
        _ => Deleted { key, deleted: false, version: None },
    };
    answer::json(&deleted)
}

async fn lookup(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Segments { collection, name, values }: Segments,
    headers: HeaderMap,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let schema = app.service.schema(&caller, &collection)?;
    let template = schema.unique.get(&name).ok_or_else(|| {
        Refusal::from(Error::Invalid { detail: format!("there is no unique claim `{name}`") })
    })?;
    let fields = typed::template_fields(template);
    let values: Result<Vec<Json>, String> = values
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let kind = fields.get(place).and_then(|field| typed::kind_of(&schema, field));
            typed::value(kind, text)
        })
        .collect();
    let values = values.map_err(Refusal::invalid)?;
    let found = app.service.lookup(&caller, &collection, &name, &values).await?;
    let document = found.ok_or_else(|| Error::NotFound {
        collection: collection.clone(),
        key: values.iter().map(Json::to_string).collect::<Vec<_>>().join(", "),
    })?;
    if headers.contains_key(header::IF_NONE_MATCH) && read::has_version(&headers, document.version)
    {
        return Ok(answer::not_modified(document.version));
    }
    Ok(answer::document(StatusCode::OK, &document))
}

/// The answer to a change, with where the document is if that is news.
fn changed(collection: &str, key: &str, written: Written) -> axum::response::Response {
    match written {
        Written::Created(new) => answer::created(collection, &new),
        Written::Updated(new) => {
            let mut response = answer::document(StatusCode::OK, &new);
            if new.key != key {
                let place = answer::location(collection, &new.key);
                response.headers_mut().insert(header::CONTENT_LOCATION, place);
            }
            response
        }
        Written::Deleted { .. } | Written::Absent { .. } => {
            unreachable!("a put and a patch leave a document")
        }
    }
}
