//! Calls of functions: servers elsewhere that implement `OprcFunction`.
//!
//! F1: A call ends: in its own time, or with the answer that the function was not reached.
//! F2: One channel for each address; it connects when it is first used, and again when it breaks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keyloom_api::Problem;
use keyloom_api::grid::oprc_function_client::OprcFunctionClient;
use keyloom_api::grid::{
    InvocationRequest, InvocationResponse, ObjectInvocationRequest, ResponseStatus,
};
use keyloom_engine::schema::FunctionSchema;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::limits::{FUNCTION_BYTES_MAX, FUNCTION_CONNECT_TIMEOUT, FUNCTION_TIMEOUT};
use crate::problem::CODE;

/// Where an answer says what went wrong.
pub(crate) const ERROR: &str = "error";

/// A call of a function.
#[derive(Clone, Debug)]
pub(crate) enum Invocation {
    /// Of a class.
    Class(InvocationRequest),
    /// On an object.
    Object(ObjectInvocationRequest),
}

/// The channels to all functions that were called.
#[derive(Default)]
pub(crate) struct Functions {
    channels: Mutex<HashMap<String, Channel>>,
}

impl Functions {
    /// Calls a function. What goes wrong is an answer, too: whoever called it is told (F1).
    pub(crate) async fn call(
        &self,
        function: &FunctionSchema,
        invocation: Invocation,
    ) -> InvocationResponse {
        let time = function.timeout_ms.map_or(FUNCTION_TIMEOUT, Duration::from_millis);
        let channel = match self.channel(&function.url) {
            Ok(channel) => channel,
            Err(reason) => return failed(ResponseStatus::SystemError, reason),
        };
        let mut client = OprcFunctionClient::new(channel)
            .max_decoding_message_size(FUNCTION_BYTES_MAX)
            .max_encoding_message_size(FUNCTION_BYTES_MAX);
        let answer = async {
            match invocation {
                Invocation::Class(request) => client.invoke_fn(request).await,
                Invocation::Object(request) => client.invoke_obj(request).await,
            }
        };
        match timeout(time, answer).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => from_status(&status),
            Err(_) => {
                let reason = format!("the function did not answer within {} ms", time.as_millis());
                failed(ResponseStatus::SystemError, reason)
            }
        }
    }

    /// F2
    fn channel(&self, url: &str) -> Result<Channel, String> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(url) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(url.to_owned());
        let endpoint = endpoint.map_err(|error| format!("`{url}` is no address: {error}"))?;
        let channel = endpoint.connect_timeout(FUNCTION_CONNECT_TIMEOUT).connect_lazy();
        channels.insert(url.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// Whether a function did its work.
pub(crate) fn is_okay(response: &InvocationResponse) -> bool {
    response.status == i32::from(ResponseStatus::Okay)
}

/// What is told if a function has no answer of its own.
fn from_status(status: &Status) -> InvocationResponse {
    let kind = match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::OutOfRange | Code::FailedPrecondition => {
            ResponseStatus::InvalidRequest
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unimplemented => {
            ResponseStatus::SystemError
        }
        _ => ResponseStatus::AppError,
    };
    failed(kind, format!("{}: {}", status.code(), status.message()))
}

/// What is told if a function was not called at all.
pub(crate) fn refused(problem: &Problem) -> InvocationResponse {
    let kind = match problem.status {
        429 | 500.. => ResponseStatus::SystemError,
        _ => ResponseStatus::InvalidRequest,
    };
    let mut answer = failed(kind, problem.detail.clone());
    answer.headers.insert(CODE.to_owned(), problem.code.as_str().to_owned());
    answer
}

/// What is told if something went wrong.
pub(crate) fn failed(status: ResponseStatus, reason: String) -> InvocationResponse {
    InvocationResponse {
        payload: None,
        status: status.into(),
        headers: [(ERROR.to_owned(), reason)].into(),
        invocation_id: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn f1_a_function_that_is_not_there_is_an_answer() {
        let functions = Functions::default();
        // A port that nobody listens on: it was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (url, expected) in
            [(format!("http://{free}"), "unavailable"), ("no address".to_owned(), "is no address")]
        {
            let function = FunctionSchema { url, timeout_ms: Some(2000) };
            let call = Invocation::Class(InvocationRequest::default());
            let answer = functions.call(&function, call).await;
            assert_eq!(answer.status(), ResponseStatus::SystemError);
            assert!(answer.headers[ERROR].contains(expected), "{answer:?}");
        }
    }

    #[test]
    fn a_status_of_grpc_is_a_status_of_the_grid() {
        for (code, expected) in [
            (Code::InvalidArgument, ResponseStatus::InvalidRequest),
            (Code::Internal, ResponseStatus::AppError),
            (Code::Unavailable, ResponseStatus::SystemError),
        ] {
            assert_eq!(from_status(&Status::new(code, "why")).status(), expected);
        }
    }
}
