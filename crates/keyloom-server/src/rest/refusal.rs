//! What a client is told when something is not done: a problem document.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use keyloom_api::{Code, Details, Problem};
use keyloom_engine::Error;
use tracing::warn;

use crate::caller::CHALLENGE;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::problem::problem;

/// Why a request is refused, or has failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    problem: Box<Problem>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Refusal {
        let problem = Box::new(Problem::new(code, detail, Details::default()));
        Refusal { problem, header: None }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, detail)
    }

    /// Not now, but soon.
    pub(crate) fn busy(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::Unavailable, detail)
            .header(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))
    }

    /// What is wrong.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The same with the status that HTTP has for it.
    pub(crate) fn status(mut self, status: StatusCode) -> Refusal {
        self.problem.status = status.as_u16();
        self
    }

    /// The same with a header.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Refusal {
        self.header = Some((name, value));
        self
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let refusal = Refusal { problem: Box::new(problem(&error)), header: None };
        if let Error::Unavailable(cause) | Error::OutcomeUnknown(cause) = &error {
            warn!(%cause, "the store failed");
        }
        match error {
            Error::ChangesGone { .. } => refusal.status(StatusCode::GONE),
            Error::Unavailable(_) => {
                refusal.header(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))
            }
            error if error.code() == "unauthenticated" => {
                refusal.header(header::WWW_AUTHENTICATE, CHALLENGE)
            }
            _ => refusal,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status);
        let body = serde_json::to_vec(&self.problem).expect("a problem document is JSON");
        let content = [(header::CONTENT_TYPE, "application/problem+json")];
        let status = status.expect("problems have statuses of HTTP");
        let mut response = (status, content, body).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The answer on a connection that is one too many; it is closed after it.
pub(crate) fn too_many_connections() -> Response {
    let mut response =
        Refusal::busy("the server has as many connections as it can hold").into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
