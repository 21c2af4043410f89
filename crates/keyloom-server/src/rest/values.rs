//! The entries of an object: one, several, a page.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::routing::{get, post};
use keyloom_api::{self as api, EntryBatchBody, ValueBody, grid};
use keyloom_engine::{EntryKey, EntryList, Precondition, Val};

use super::Refusal;
use super::answer::{self, Answer, etag};
use super::objects::{
    ANSWERS, Address, PROTOBUF, changed, from_protobuf, protobuf, read_limit, wants_protobuf,
};
use super::read::{self, At, Parameters, Raw, check_media, from_json, object_from_json};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::grid as convert;

pub(super) fn routes() -> Vec<Route> {
    let one = Route::new(
        "/api/class/{class}/{partition}/objects/{id}/values/{field}",
        &[Method::GET, Method::PUT, Method::DELETE],
        get(show).put(put).delete(delete),
    );
    let many = Route::new(
        "/api/class/{class}/{partition}/objects/{id}/values/batch",
        &[Method::POST, Method::GET, Method::PUT, Method::DELETE],
        post(batch).get(show).put(put).delete(delete),
    );
    let list = "/api/class/{class}/{partition}/objects/{id}/values";
    let list = Route::new(list, &[Method::GET], get(page));
    vec![list, one.producing(ANSWERS), many.producing(ANSWERS)]
}

/// The name of an entry, and the address of batches.
const BATCH: &str = "batch";

/// Where an entry is. What is no batch is about the entry that has its name.
struct Field {
    object: (String, String, String),
    field: String,
}

impl FromRequestParts<Arc<App>> for Field {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Field, Refusal> {
        if parts.uri.path().ends_with("/values/batch") {
            let At(object) = At::from_request_parts(parts, app).await?;
            return Ok(Field { object, field: BATCH.to_owned() });
        }
        let At((class, partition, id, field)) = At::from_request_parts(parts, app).await?;
        Ok(Field { object: (class, partition, id), field })
    }
}

async fn page(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["prefix", "limit", "cursor", "key"])?;
    let address = Address::read(&app.service, segments)?;
    let keys = parameters.all("key").map(|text| app.service.entry_segment(text));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    if !keys.is_empty() {
        if ["prefix", "limit", "cursor"].iter().any(|name| parameters.get(name).is_some()) {
            return Err(Refusal::invalid("ask for keys, or for a page, not for both"));
        }
        let read = app.service.entries(&caller, address.at(), &keys).await?;
        let found = keys.into_iter().zip(read.values);
        let found = found.filter_map(|(key, val)| Some(shown((key, val?), read.version)));
        return answer::json(&api::EntryPage { items: found.collect(), next: None });
    }
    let list = EntryList {
        prefix: parameters.get("prefix").unwrap_or_default(),
        limit: read_limit(&parameters)?,
        after: parameters.get("cursor"),
    };
    let page = app.service.list_entries(&caller, address.at(), list).await?;
    let items = page.items.into_iter().map(|entry| shown(entry, page.version)).collect();
    answer::json(&api::EntryPage { items, next: page.next })
}

fn shown((key, val): (EntryKey, Val), version: u64) -> api::Entry {
    let api::Value { data, kind } = convert::value(val).into();
    api::Entry { key: key.to_string(), data, kind, version }
}

async fn show(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Field { object, field }: Field,
    headers: HeaderMap,
) -> Answer {
    let address = Address::read(&app.service, object)?;
    let key = app.service.entry_segment(&field)?;
    let read = app.service.entry(&caller, address.at(), &key).await?;
    if read::has_version(&headers, read.version) {
        return Ok(answer::not_modified(read.version));
    }
    let mut response = if wants_protobuf(&headers) {
        protobuf(&convert::value(read.val))
    } else {
        answer::json(&shown((key, read.val), read.version))?
    };
    response.headers_mut().insert(header::ETAG, etag(read.version));
    Ok(response)
}

async fn put(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Field { object, field }: Field,
    headers: HeaderMap,
    body: Raw,
) -> Answer {
    check_media(&headers, ANSWERS)?;
    let value: grid::ValData = if body.media == PROTOBUF {
        from_protobuf(&body.bytes)?
    } else {
        from_json::<ValueBody>(&body.bytes)?.read().map_err(Refusal::invalid)?
    };
    let address = Address::read(&app.service, object)?;
    let entry = (app.service.entry_segment(&field)?, convert::val(value)?);
    let terms = read::terms(&headers)?;
    let written = app.service.set_entry(&caller, address.at(), entry, terms).await?;
    changed(&headers, &address, written)
}

async fn delete(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Field { object, field }: Field,
    headers: HeaderMap,
) -> Answer {
    let address = Address::read(&app.service, object)?;
    let key = app.service.entry_segment(&field)?;
    let terms = read::terms(&headers)?;
    let written = app.service.delete_entry(&caller, address.at(), key, terms).await?;
    changed(&headers, &address, written)
}

async fn batch(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    headers: HeaderMap,
    body: Raw,
) -> Answer {
    check_media(&headers, ANSWERS)?;
    let (values, delete_keys, expected) = if body.media == PROTOBUF {
        let message: grid::BatchSetValuesRequest = from_protobuf(&body.bytes)?;
        (message.values, message.delete_keys, message.expected_object_version)
    } else {
        let EntryBatchBody { values, delete_keys, expected_object_version } =
            object_from_json(&body.bytes)?;
        let read = |(key, value): (String, ValueBody)| Ok((key, value.read()?));
        let values = values.into_iter().map(read).collect::<Result<BTreeMap<_, _>, String>>();
        (values.map_err(Refusal::invalid)?, delete_keys, expected_object_version)
    };
    let mut terms = read::terms(&headers)?;
    terms.precondition = match (terms.precondition, expected) {
        (precondition, None) => precondition,
        (Precondition::Unsaid, Some(version)) => Precondition::Version(version),
        _ => {
            let detail = "send the expected version in the body or as If-Match, not both";
            return Err(Refusal::invalid(detail));
        }
    };
    let address = Address::read(&app.service, segments)?;
    let batch = convert::batch(&app.service, values, &delete_keys)?;
    let written = app.service.batch_entries(&caller, address.at(), batch, terms).await?;
    changed(&headers, &address, written)
}
