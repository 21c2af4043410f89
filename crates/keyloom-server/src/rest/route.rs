//! A route: its path, its methods, what it answers with.
//!
//! T1: `OPTIONS`, a method that a path does not have, and an `Accept` that it cannot satisfy are
//!     answered here, the same for every route.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use keyloom_api::Code;
use tonic::Status;

use super::Refusal;
use super::answer::JSON;
use crate::app::App;
use crate::edge::pass;

/// One path and what is answered there.
pub(crate) struct Route {
    path: &'static str,
    handlers: MethodRouter<Arc<App>>,
    methods: &'static [Method],
    produces: &'static [&'static str],
    work: Work,
    /// Whether it only asks, also by `POST`.
    is_question: bool,
}

/// How long the work of a route may take.
#[derive(Clone, Copy)]
enum Work {
    Short,
    /// It tells how the server is, however much there is to do.
    Always,
    /// It reads everything that is stored.
    Long,
}

/// What a request needs to know of its route before it is handled.
#[derive(Clone)]
pub(crate) struct Passage {
    pub(crate) app: Arc<App>,
    pub(crate) path: &'static str,
    methods: &'static [Method],
    produces: &'static [&'static str],
    work: Work,
    is_question: bool,
}

impl Route {
    /// A route that answers in JSON.
    pub(super) fn new(
        path: &'static str,
        methods: &'static [Method],
        handlers: MethodRouter<Arc<App>>,
    ) -> Route {
        Route { path, handlers, methods, produces: &[JSON], work: Work::Short, is_question: false }
    }

    /// Whatever is no route.
    pub(super) fn unknown(handlers: MethodRouter<Arc<App>>) -> Route {
        Route {
            path: "",
            handlers,
            methods: &[],
            produces: &[],
            work: Work::Short,
            is_question: false,
        }
    }

    /// The same route with other answers.
    pub(super) fn producing(self, produces: &'static [&'static str]) -> Route {
        Route { produces, ..self }
    }

    /// The same route, which only asks, also by `POST`.
    pub(super) fn question(self) -> Route {
        Route { is_question: true, ..self }
    }

    /// The same route, answered also when there is no place for another request.
    pub(super) fn always(self) -> Route {
        Route { work: Work::Always, ..self }
    }

    /// The same route with time to read everything that is stored.
    pub(super) fn long(self) -> Route {
        Route { work: Work::Long, ..self }
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    #[cfg(test)]
    pub(super) fn methods(&self) -> &'static [Method] {
        self.methods
    }

    /// The route as the router takes it.
    pub(super) fn build(self, app: &Arc<App>) -> (&'static str, MethodRouter<Arc<App>>) {
        let Route { path, handlers, methods, produces, work, is_question } = self;
        let app = Arc::clone(app);
        let passage = Passage { app, path, methods, produces, work, is_question };
        (path, handlers.layer(from_fn_with_state(passage, pass)))
    }
}

impl Passage {
    /// The answer to a request that its handler need not see (T1).
    pub(crate) fn answer(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if self.path.is_empty() {
            return None;
        }
        if method == Method::OPTIONS {
            return Some((StatusCode::NO_CONTENT, [(header::ALLOW, self.allow())]).into_response());
        }
        let is_known = |known: &Method| known == method;
        let is_head = method == Method::HEAD && self.methods.contains(&Method::GET);
        if !is_head && !self.methods.iter().any(is_known) {
            let refusal = Refusal::invalid(format!("{method} is not a method of this address"))
                .status(StatusCode::METHOD_NOT_ALLOWED)
                .header(header::ALLOW, self.allow());
            return Some(refusal.into_response());
        }
        if accepts(headers, self.produces) {
            return None;
        }
        let detail = format!("this address answers with {}", self.produces.join(" or "));
        Some(Refusal::invalid(detail).status(StatusCode::NOT_ACCEPTABLE).into_response())
    }

    /// The time after which a request is given up.
    pub(crate) fn deadline(&self) -> Duration {
        match self.work {
            Work::Short | Work::Always => self.app.config.deadline,
            Work::Long => self.app.config.long_deadline,
        }
    }

    /// Whether a request changes nothing.
    pub(crate) fn is_safe(&self, method: &Method) -> bool {
        self.is_question || matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Whether requests are answered although there is no place for them.
    pub(crate) fn is_always_answered(&self) -> bool {
        matches!(self.work, Work::Always)
    }

    fn allow(&self) -> HeaderValue {
        let mut methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
        if self.methods.contains(&Method::GET) {
            methods.push("HEAD");
        }
        methods.push("OPTIONS");
        HeaderValue::try_from(methods.join(", ")).expect("methods are a header")
    }
}

/// Tells that there is nothing at an address, in the words of who asks.
pub(super) async fn not_found(headers: HeaderMap, uri: Uri) -> Response {
    let media = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if media.is_some_and(|media| media.starts_with(b"application/grpc")) {
        return Status::unimplemented(format!("there is no method {}", uri.path())).into_http();
    }
    let detail = format!("there is nothing at {}: see /docs for what there is", uri.path());
    Refusal::new(Code::NotFound, detail).into_response()
}

/// Whether a client takes one of these types.
fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    let mut any = false;
    for value in headers.get_all(header::ACCEPT) {
        any = true;
        let Ok(text) = value.to_str() else { continue };
        if text.split(',').any(|range| types.iter().any(|media| takes(range, media))) {
            return true;
        }
    }
    !any
}

/// Whether one media range of `Accept` takes a type.
pub(super) fn takes(range: &str, media: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let is_refused = parts.any(|part| {
        part.strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
    });
    let family = media.split('/').next().unwrap_or_default();
    let in_family = name.strip_suffix("/*").is_some_and(|prefix| prefix == family);
    !is_refused && (name == "*/*" || in_family || name.eq_ignore_ascii_case(media))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_takes_what_its_ranges_say() {
        for (range, expected) in [
            ("*/*", true),
            (" application/*", true),
            ("application/JSON; charset=utf-8", true),
            ("application/json;q=0", false),
            ("text/html", false),
            ("text/*", false),
            ("", false),
        ] {
            assert_eq!(takes(range, JSON), expected, "{range}");
        }
    }

    #[test]
    fn a_client_that_says_nothing_takes_everything() {
        assert!(accepts(&HeaderMap::new(), &[JSON]));
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT, HeaderValue::from_static("text/html, application/xml"));
        assert!(!accepts(&headers, &[JSON]));
        headers.append(header::ACCEPT, HeaderValue::from_static("*/*;q=0.1"));
        assert!(accepts(&headers, &[JSON]));
    }
}
