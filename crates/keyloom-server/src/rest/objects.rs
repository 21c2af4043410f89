//! Objects: by their class, partition and id.
//!
//! A segment of digits is a number, anything else a string. Bodies and answers are JSON, or the
//! messages of the grid if the client says so.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use keyloom_api::{self as api, ObjectBody, grid};
use keyloom_engine::{
    ObjectAt, ObjectContent, ObjectId, ObjectItem, ObjectList, ObjectOrder, ObjectWritten,
    Partition, Touched,
};
use prost::Message;

use super::Refusal;
use super::answer::{self, Answer, JSON, escaped, etag};
use super::read::{self, At, Parameters, Raw, check_media, object_from_json};
use super::route::{Route, takes};
use crate::app::App;
use crate::caller::Caller;
use crate::grid as convert;
use crate::limits::LIST_LIMIT;
use crate::service::Service;

/// A message of the grid.
pub(super) const PROTOBUF: &str = "application/x-protobuf";

/// What a client may ask for.
pub(super) const ANSWERS: &[&str] = &[JSON, PROTOBUF];

pub(super) fn routes() -> Vec<Route> {
    let route = Route::new(
        "/api/class/{class}/{partition}/objects/{id}",
        &[Method::GET, Method::PUT, Method::PATCH, Method::DELETE],
        get(show).put(put).patch(patch).delete(delete),
    );
    let list = "/api/class/{class}/{partition}/objects";
    vec![Route::new(list, &[Method::GET], get(page)), route.producing(ANSWERS)]
}

/// Where an object is, as an address says it.
pub(super) struct Address {
    pub(super) class: String,
    pub(super) partition: Partition,
    pub(super) id: ObjectId,
}

impl Address {
    /// Reads the segments.
    pub(super) fn read(
        service: &Service,
        (class, partition, id): (String, String, String),
    ) -> Result<Address, Refusal> {
        let id = service.object_segment(&id)?;
        Ok(Address { class, partition: convert::partition(&partition)?, id })
    }

    pub(super) fn at(&self) -> ObjectAt<'_> {
        ObjectAt { class: &self.class, partition: self.partition, id: &self.id }
    }
}

async fn page(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At((class, partition)): At<(String, String)>,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["prefix", "limit", "cursor", "order"])?;
    let partition = convert::listed(convert::partition(&partition)?)?;
    let order = match parameters.get("order") {
        None | Some("bytes") => ObjectOrder::Bytes,
        Some("numeric") => ObjectOrder::Numeric,
        Some(_) => return Err(Refusal::invalid("order is bytes or numeric")),
    };
    let list = ObjectList {
        class: &class,
        partition,
        prefix: parameters.get("prefix").unwrap_or_default(),
        order,
        limit: read_limit(&parameters)?,
        after: parameters.get("cursor"),
    };
    let page = app.service.list_objects(&caller, list).await?;
    let item = |item: ObjectItem| api::ObjectListed {
        object_id: item.id.to_string(),
        version: item.version,
        entry_count: item.entries,
    };
    answer::json(&api::ObjectPage {
        items: page.items.into_iter().map(item).collect(),
        next: page.next,
    })
}

/// The most items of a page, as an address says it.
pub(super) fn read_limit(parameters: &Parameters) -> Result<usize, Refusal> {
    let Some(text) = parameters.get("limit") else { return Ok(LIST_LIMIT) };
    text.parse().map_err(|_| Refusal::invalid(format!("limit is a number, not `{text}`")))
}

async fn show(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let address = Address::read(&app.service, segments)?;
    let object = app.service.object(&caller, address.at()).await?;
    let version = object.version;
    if read::has_version(&headers, version) {
        return Ok(answer::not_modified(version));
    }
    let message = convert::object(address.at(), object);
    let mut response = if wants_protobuf(&headers) {
        protobuf(&message)
    } else {
        answer::json(&convert::object_json(message))?
    };
    response.headers_mut().insert(header::ETAG, etag(version));
    Ok(response)
}

async fn put(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    headers: HeaderMap,
    body: Raw,
) -> Answer {
    let address = Address::read(&app.service, segments)?;
    let content = object_body(&app.service, address.at(), &headers, &body)?;
    let terms = read::terms(&headers)?;
    let written = app.service.set_object(&caller, address.at(), content, terms).await?;
    changed(&headers, &address, written)
}

async fn patch(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    headers: HeaderMap,
    body: Raw,
) -> Answer {
    let address = Address::read(&app.service, segments)?;
    let content = object_body(&app.service, address.at(), &headers, &body)?;
    let terms = read::terms(&headers)?;
    let written = app.service.merge_object(&caller, address.at(), content, terms).await?;
    changed(&headers, &address, written)
}

async fn delete(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
    headers: HeaderMap,
) -> Answer {
    let address = Address::read(&app.service, segments)?;
    let terms = read::terms(&headers)?;
    let written = app.service.delete_object(&caller, address.at(), terms).await?;
    changed(&headers, &address, written)
}

/// What an object is to be.
fn object_body(
    service: &Service,
    at: ObjectAt<'_>,
    headers: &HeaderMap,
    body: &Raw,
) -> Result<ObjectContent, Refusal> {
    check_media(headers, ANSWERS)?;
    if body.media == PROTOBUF {
        return Ok(convert::content(service, at, from_protobuf(&body.bytes)?)?);
    }
    let ObjectBody { metadata, entries, entries_str, event } = object_from_json(&body.bytes)?;
    if let Some(claim) = metadata {
        convert::check_claim(service, at, &claim)?;
    }
    let mut data = grid::ObjData { event, ..grid::ObjData::default() };
    for (key, value) in entries {
        data.entries.insert(key, value.read().map_err(Refusal::invalid)?);
    }
    for (key, value) in entries_str {
        data.entries_str.insert(key, value.read().map_err(Refusal::invalid)?);
    }
    Ok(convert::content(service, at, data)?)
}

/// The answer to a change of an object.
pub(super) fn changed(headers: &HeaderMap, address: &Address, written: ObjectWritten) -> Answer {
    let (kind, version, partition) = (written.kind, written.version, written.partition);
    let mut response = if wants_protobuf(headers) {
        protobuf(&convert::written(written))
    } else {
        answer::json(&api::ObjectWritten {
            version,
            partition_id: u32::from(partition),
            warning: written.warning.map(str::to_owned),
        })?
    };
    if kind != Touched::Deleted {
        response.headers_mut().insert(header::ETAG, etag(version));
    }
    if kind == Touched::Created {
        *response.status_mut() = StatusCode::CREATED;
        let (class, id) = (escaped(&address.class), address.id.to_string());
        let place = format!("/api/class/{class}/{partition}/objects/{}", escaped(&id));
        let place = HeaderValue::try_from(place).expect("an escaped address is a header");
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Whether the client takes messages, and no JSON before them.
pub(super) fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let first = accepted
        .flat_map(|text| text.split(','))
        .find(|range| ANSWERS.iter().any(|media| takes(range, media)));
    first.is_some_and(|range| !takes(range, JSON))
}

/// An answer that is a message.
pub(super) fn protobuf(message: &impl Message) -> Response {
    ([(header::CONTENT_TYPE, PROTOBUF)], message.encode_to_vec()).into_response()
}

/// Reads a message.
pub(super) fn from_protobuf<T: Message + Default>(bytes: &[u8]) -> Result<T, Refusal> {
    T::decode(bytes).map_err(|error| Refusal::invalid(format!("the body: {error}")))
}
