//! From what went wrong to a status of gRPC.

use keyloom_api::Problem;
use keyloom_engine::Error;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

pub(super) use crate::problem::CODE;
use crate::problem::problem;
use crate::rest::Refusal;

/// An error of the engine as a status.
pub(super) fn status(error: Error) -> Status {
    from_problem(&problem(&error))
}

/// What refuses a request of REST refuses a call.
pub(super) fn refused(refusal: &Refusal) -> Status {
    from_problem(refusal.problem())
}

/// The call makes no sense.
pub(super) fn invalid(detail: impl Into<String>) -> Status {
    refused(&Refusal::invalid(detail))
}

fn from_problem(problem: &Problem) -> Status {
    let mut status = Status::new(Code::from(problem.code.grpc_status()), &problem.detail);
    let code = MetadataValue::from_static(problem.code.as_str());
    status.metadata_mut().insert(CODE, code);
    status
}
