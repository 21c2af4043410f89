//! A call, taken apart: who calls, on which terms, and what is asked.

use axum::http::{HeaderMap, HeaderName};
use keyloom_engine::{Identity, ObjectAt, ObjectId, Partition, Precondition, Terms};
use tonic::{Request, Response, Status};

use super::status::invalid;
use crate::caller::Caller;
use crate::grid::PARTITION;
use crate::service::DEPTH;

/// Says `auto` where the server is to choose the partition.
const PLACE: HeaderName = HeaderName::from_static(PARTITION);

/// Says how many events led to the call.
const EVENTS: HeaderName = HeaderName::from_static(DEPTH);

/// What a call answers.
pub(super) type Answer<T> = Result<Response<T>, Status>;

/// A call, and where its object is.
pub(super) struct Call<T> {
    pub(super) caller: Identity,
    pub(super) partition: Partition,
    pub(super) message: T,
    pub(super) depth: u32,
}

impl<T> Call<T> {
    /// Takes a request apart. Who calls was found out at the edge.
    pub(super) fn read(
        request: Request<T>,
        partition: impl FnOnce(&T) -> u32,
    ) -> Result<Call<T>, Status> {
        let headers = request.metadata().as_ref();
        let is_auto = match headers.get(PLACE) {
            None => false,
            Some(value) if value == "auto" => true,
            Some(_) => return Err(invalid("keyloom-partition can only be auto")),
        };
        let depth = depth(headers)?;
        let (_, mut extensions, message) = request.into_parts();
        let caller = extensions.remove::<Caller>();
        let Caller(caller) =
            caller.expect("every call has passed the edge, which knows the caller");
        let partition = match partition(&message) {
            0 if is_auto => Partition::Auto,
            _ if is_auto => return Err(invalid("the partition is auto and a number")),
            number => Partition::Number(number),
        };
        Ok(Call { caller, partition, message, depth })
    }

    pub(super) fn at<'a>(&self, class: &'a str, id: &'a ObjectId) -> ObjectAt<'a> {
        ObjectAt { class, partition: self.partition, id }
    }

    /// On which terms an object is written.
    pub(super) fn terms(&self, precondition: Precondition) -> Terms {
        Terms { precondition, depth: self.depth }
    }
}

/// How many events led to the call: a function passes on what it was told.
fn depth(headers: &HeaderMap) -> Result<u32, Status> {
    let Some(value) = headers.get(EVENTS) else { return Ok(0) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid("keyloom-depth is a number"))
}
