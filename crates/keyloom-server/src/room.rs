//! The memory that clients make the server hold: bodies that arrive, and answers that leave.
//!
//! M1: All of it together is bounded. What is small does not count: there is never more of it than
//!     the connections can carry.
//! M2: A body arrives before its request has a place among those that are worked on: a client that
//!     sends slowly keeps nobody else out.
//! M3: What was changed is told, whether there is room for the answer or not.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use keyloom_api::Code;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::Config;
use crate::limits::SMALL_BYTES_MAX;
use crate::rest::Refusal;

/// Room is given in units of so many bytes.
const UNIT: usize = 1 << 10;

/// All the room there is.
pub(crate) struct Room {
    free: Arc<Semaphore>,
    body_bytes_max: usize,
}

/// Room that is taken, until this is dropped.
#[derive(Default)]
pub(crate) struct Claim(Option<OwnedSemaphorePermit>);

impl Room {
    pub(crate) fn new(config: &Config) -> Room {
        let units = (config.room_bytes_max / UNIT).min(Semaphore::MAX_PERMITS);
        Room { free: Arc::new(Semaphore::new(units)), body_bytes_max: config.body_bytes_max }
    }

    /// Reads a body to its end, within the time (M2).
    pub(crate) async fn arrive<B>(
        &self,
        headers: &HeaderMap,
        body: B,
        time: Duration,
    ) -> Result<(Bytes, Claim), Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > self.body_bytes_max) {
            return Err(self.too_large());
        }
        let late = || {
            let refusal = Refusal::invalid("the body did not arrive in time");
            refusal.status(StatusCode::REQUEST_TIMEOUT)
        };
        timeout(time, self.gather(body)).await.map_err(|_| late())?
    }

    async fn gather<B>(&self, mut body: B) -> Result<(Bytes, Claim), Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (mut claim, mut whole, mut pieces) = (Claim::default(), Bytes::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Refusal::invalid("the body did not arrive whole"))?;
            let Ok(piece) = Frame::into_data(frame) else { continue };
            let bytes = whole.len() + pieces.len() + piece.len();
            if bytes > self.body_bytes_max {
                return Err(self.too_large());
            }
            if !self.grow(&mut claim, bytes) {
                return Err(no_room());
            }
            if whole.is_empty() && pieces.is_empty() {
                whole = piece;
                continue;
            }
            pieces.extend_from_slice(&std::mem::take(&mut whole));
            pieces.extend_from_slice(&piece);
        }
        let whole = if pieces.is_empty() { whole } else { pieces.into() };
        Ok((whole, claim))
    }

    /// Takes the room of an answer until it is sent. Without room a reader is told to come back.
    pub(crate) fn depart<B: Body>(
        &self,
        response: &mut Response<B>,
        is_safe: bool,
    ) -> Result<(), Refusal> {
        let bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
        let mut claim = Claim::default();
        // M3
        if !self.grow(&mut claim, bytes) && is_safe {
            return Err(no_room());
        }
        if claim.0.is_some() {
            response.extensions_mut().insert(Arc::new(claim));
        }
        Ok(())
    }

    /// Makes a claim as large as this, unless there is no room.
    fn grow(&self, claim: &mut Claim, bytes: usize) -> bool {
        let held = claim.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = if bytes <= SMALL_BYTES_MAX { 0 } else { bytes.div_ceil(UNIT) };
        let Some(more) = wanted.checked_sub(held).filter(|more| *more > 0) else { return true };
        let Ok(more) = u32::try_from(more) else { return false };
        let Ok(more) = Arc::clone(&self.free).try_acquire_many_owned(more) else { return false };
        match &mut claim.0 {
            Some(held) => held.merge(more),
            held => *held = Some(more),
        }
        true
    }

    fn too_large(&self) -> Refusal {
        let detail = format!("the body is larger than {} bytes", self.body_bytes_max);
        Refusal::new(Code::LimitExceeded, detail)
    }
}

fn no_room() -> Refusal {
    Refusal::busy("the server holds as many large bodies and answers as it can")
}
