//! Answers that are no refusals.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use keyloom_engine::{Document, Error};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Serialize;

use super::Refusal;
use crate::body;

pub(super) const JSON: &str = "application/json";

/// What stays as it is in a segment of a path; everything else is escaped, `/` included.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a handler gives.
pub(super) type Answer = Result<Response, Refusal>;

/// An answer from a type of the wire.
pub(super) fn json(value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value)
        .map_err(|error| Error::Corrupt { detail: format!("an answer is not JSON: {error}") })?;
    Ok(bytes(StatusCode::OK, body))
}

/// An answer from JSON bytes.
pub(super) fn bytes(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// An answer that is a document, with its ETag.
pub(super) fn document(status: StatusCode, document: &Document) -> Response {
    let mut response = bytes(status, body::document(document));
    response.headers_mut().insert(header::ETAG, etag(document.version));
    response
}

/// An answer that is a new document, with where it is.
pub(super) fn created(collection: &str, new: &Document) -> Response {
    let mut response = document(StatusCode::CREATED, new);
    response.headers_mut().insert(header::LOCATION, location(collection, &new.key));
    response
}

/// That the document is still what the client has.
pub(super) fn not_modified(version: u64) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, etag(version))]).into_response()
}

/// Where a document is.
pub(super) fn location(collection: &str, key: &str) -> HeaderValue {
    let (collection, key) = (escaped(collection), escaped(key));
    let address = format!("/v1/collections/{collection}/documents/{key}");
    HeaderValue::try_from(address).expect("an escaped address is a header")
}

/// A segment of an address.
pub(super) fn escaped(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, UNESCAPED)
}

/// The version of a document or an object, as HTTP knows it.
pub(super) fn etag(version: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("digits in quotes are a header")
}
