//! What stands around all routes: compression, and pages of other origins if they are allowed.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, CompressionLevel};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::limits::{COMPRESSED_BYTES_MIN, CORS_MAX_AGE};
use crate::listen::ServeError;

/// What browsers are told, if any origin is allowed.
pub(crate) fn cors(origins: &[String]) -> Result<Option<CorsLayer>, ServeError> {
    if origins.is_empty() {
        return Ok(None);
    }
    let parse = |origin: &String| {
        let value = HeaderValue::try_from(origin).ok();
        let is_origin = origin.starts_with("http://") || origin.starts_with("https://");
        value.filter(|_| is_origin).ok_or_else(|| ServeError::Origin(origin.clone()))
    };
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
    };
    let methods =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let last_event_id = HeaderName::from_static("last-event-id");
    let request_id = HeaderName::from_static("x-request-id");
    let taken = [
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::IF_MATCH,
        header::IF_NONE_MATCH,
        last_event_id,
        request_id.clone(),
    ];
    let shown = [header::ETAG, header::LOCATION, header::RETRY_AFTER, request_id];
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(methods)
        .allow_headers(taken)
        .expose_headers(shown)
        .max_age(CORS_MAX_AGE);
    Ok(Some(layer))
}

/// A router with all that stands around it.
pub(crate) fn layered(router: Router, cors: Option<CorsLayer>) -> Router {
    // Events have to arrive at once, and a compressor would hold them back.
    let worth =
        SizeAbove::new(COMPRESSED_BYTES_MIN).and(NotForContentType::const_new("text/event-stream"));
    let compression = CompressionLayer::new().quality(CompressionLevel::Fastest);
    let router = router.layer(compression.compress_when(worth));
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}
