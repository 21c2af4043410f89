//! What handlers read from a request: the place, parameters, bodies, preconditions.
//!
//! D1: An address is decoded once. What is then no UTF-8, or holds a NUL, is refused.
//! D2: A body is read only if its type is the right one.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use keyloom_engine::{Precondition, Terms};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::Refusal;
use super::answer::JSON;
use crate::app::App;
use crate::service::DEPTH;

/// The parts of the path that a route leaves open.
pub(super) struct At<T>(pub(super) T);

/// `/v1/collections/{collection}/{what}/{name}/{values…}`, decoded segment by segment: what is
/// escaped in a segment, a `/` too, belongs to its value.
pub(super) struct Segments {
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

/// The parameters of an address, in order.
pub(super) struct Parameters(pub(super) Vec<(String, String)>);

/// A body that is JSON of this type.
pub(super) struct Json<T>(pub(super) T);

/// A body and its media type.
pub(super) struct Raw {
    pub(super) media: String,
    pub(super) bytes: Bytes,
}

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<At<T>, Refusal> {
        if parts.uri.path().contains("%00") {
            return Err(Refusal::invalid("an address holds no NUL"));
        }
        let Path(at) = Path::from_request_parts(parts, app)
            .await
            .map_err(|error| Refusal::invalid(format!("the address: {error}")))?;
        Ok(At(at))
    }
}

impl FromRequestParts<Arc<App>> for Segments {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Segments, Refusal> {
        let mut segments = Vec::new();
        for segment in parts.uri.path().split('/') {
            let decoded = percent_decode_str(segment).decode_utf8();
            let decoded = decoded.map_err(|_| Refusal::invalid("the address is not UTF-8"))?;
            if decoded.contains('\0') {
                return Err(Refusal::invalid("an address holds no NUL"));
            }
            segments.push(decoded.into_owned());
        }
        match segments.as_slice() {
            [_, _, _, collection, _, name, values @ ..] => Ok(Segments {
                collection: collection.clone(),
                name: name.clone(),
                values: values.to_vec(),
            }),
            _ => Err(Refusal::invalid("the address is cut off")),
        }
    }
}

impl FromRequestParts<Arc<App>> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Parameters, Refusal> {
        let pairs = parts.uri.query().unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        Ok(Parameters(pairs.collect::<Result<_, Refusal>>()?))
    }
}

impl Parameters {
    /// Refuses every parameter that is not one of these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let known = known.join(", ");
                Err(Refusal::invalid(format!("there is no parameter `{name}`; there are: {known}")))
            }
        }
    }

    /// The values of a parameter that may be repeated, in their order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter; the last one if it is repeated.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Json<T>, Refusal> {
        check_media(request.headers(), &[JSON])?;
        let bytes = read_body(request).await?;
        object_from_json(&bytes).map(Json)
    }
}

impl FromRequest<Arc<App>> for Raw {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Raw, Refusal> {
        let media = media_of(request.headers());
        Ok(Raw { media, bytes: read_body(request).await? })
    }
}

/// Refuses a body that is of none of these types.
pub(super) fn check_media(headers: &HeaderMap, types: &[&str]) -> Result<(), Refusal> {
    let media = media_of(headers);
    if types.contains(&media.as_str()) {
        return Ok(());
    }
    let detail = format!("the body has to be {}: set Content-Type", types.join(" or "));
    Err(Refusal::invalid(detail).status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// Reads a JSON object: an array would be taken for its members in their order.
pub(super) fn object_from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Refusal::invalid("the body has to be an object, not an array"));
    }
    from_json(bytes)
}

/// Reads JSON.
pub(super) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::invalid(format!("the body: {error}")))
}

/// What must hold of the stored document, as the headers say.
pub(super) fn precondition(headers: &HeaderMap) -> Result<Precondition, Refusal> {
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        if headers.get_all(&name).iter().count() > 1 {
            return Err(Refusal::invalid(format!("{name} is sent more than once")));
        }
    }
    match (headers.get(header::IF_MATCH), headers.get(header::IF_NONE_MATCH)) {
        (None, None) => Ok(Precondition::Unsaid),
        (Some(value), None) if value == "*" => Ok(Precondition::Any),
        (Some(value), None) => version(value).map(Precondition::Version).ok_or_else(|| {
            Refusal::invalid("If-Match is the ETag of the document, as in \"17\", or *")
        }),
        (None, Some(value)) if value == "*" => Ok(Precondition::Absent),
        (None, Some(_)) => Err(Refusal::invalid("If-None-Match of a change can only be *")),
        (Some(_), Some(_)) => Err(Refusal::invalid("send If-Match or If-None-Match, not both")),
    }
}

/// On which terms an object is changed, as the headers say. A function that was called because of
/// an event passes on how many events led to it.
pub(super) fn terms(headers: &HeaderMap) -> Result<Terms, Refusal> {
    Ok(Terms { precondition: precondition(headers)?, depth: depth(headers)? })
}

/// How many events led to a request.
pub(super) fn depth(headers: &HeaderMap) -> Result<u32, Refusal> {
    let Some(value) = headers.get(DEPTH) else { return Ok(0) };
    let depth = value.to_str().ok().and_then(|text| text.parse().ok());
    depth.ok_or_else(|| Refusal::invalid("Keyloom-Depth is a number"))
}

/// Whether the client has this version already.
pub(super) fn has_version(headers: &HeaderMap, stored: u64) -> bool {
    let mut values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.any(|value| {
        let Ok(text) = value.to_str() else { return false };
        text.split(',').map(str::trim).any(|tag| {
            // A weak tag is as good here: nothing is changed.
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag == "*" || quoted(tag) == Some(stored)
        })
    })
}

fn version(value: &HeaderValue) -> Option<u64> {
    quoted(value.to_str().ok()?.trim())
}

fn quoted(tag: &str) -> Option<u64> {
    let digits = tag.strip_prefix('"')?.strip_suffix('"')?;
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn media_of(headers: &HeaderMap) -> String {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = text.unwrap_or_default().split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

fn decoded(text: &str) -> Result<String, Refusal> {
    let spaced =
        if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| Refusal::invalid("a parameter is not UTF-8"))?;
    if decoded.contains('\0') {
        return Err(Refusal::invalid("a parameter holds no NUL"));
    }
    Ok(decoded.into_owned())
}

/// The body, which has arrived already.
async fn read_body(request: Request) -> Result<Bytes, Refusal> {
    let whole = request.into_body().collect().await;
    let whole = whole.map_err(|_| Refusal::invalid("the body did not arrive whole"))?;
    Ok(whole.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_precondition_is_one_etag_or_a_star() {
        let read = |pairs: &[_]| precondition(&headers(pairs)).ok();
        assert_eq!(read(&[]), Some(Precondition::Unsaid));
        assert_eq!(read(&[(header::IF_MATCH, "\"17\"")]), Some(Precondition::Version(17)));
        assert_eq!(read(&[(header::IF_MATCH, "*")]), Some(Precondition::Any));
        assert_eq!(read(&[(header::IF_NONE_MATCH, "*")]), Some(Precondition::Absent));
        for wrong in
            ["17", "W/\"17\"", "\"+17\"", "\"1\", \"2\"", "\"\"", "\"99999999999999999999\""]
        {
            assert_eq!(read(&[(header::IF_MATCH, wrong)]), None, "{wrong}");
        }
        assert_eq!(read(&[(header::IF_NONE_MATCH, "\"17\"")]), None);
        assert_eq!(read(&[(header::IF_MATCH, "*"), (header::IF_NONE_MATCH, "*")]), None);
        assert_eq!(read(&[(header::IF_MATCH, "\"1\""), (header::IF_MATCH, "\"2\"")]), None);
        assert_eq!(read(&[(header::IF_NONE_MATCH, "*"), (header::IF_NONE_MATCH, "*")]), None);
    }

    #[test]
    fn a_version_that_the_client_has_is_found_in_a_list() {
        let has = |value| has_version(&headers(&[(header::IF_NONE_MATCH, value)]), 17);
        assert!(has("\"17\"") && has("W/\"17\"") && has("\"3\", \"17\"") && has("*"));
        assert!(!has("\"3\"") && !has("17") && !has(""));
        assert!(!has_version(&HeaderMap::new(), 17));
    }

    #[test]
    fn d1_parameters_are_decoded_once_and_have_to_be_utf_8() {
        assert_eq!(decoded("a+b%2Bc%2520").unwrap(), "a b+c%20");
        assert!(decoded("%FF").is_err() && decoded("%00").is_err());
    }
}
