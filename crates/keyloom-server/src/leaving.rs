//! Answers on their way to the client, and what is under way on a connection.
//!
//! A1: A large answer is handed out in pieces. It is under way, and keeps its room, until the last
//!     of them was written.
//! A2: A client that takes no piece of a large answer for too long, or nothing at all of what is
//!     said to it, loses its connection.
//! A3: A stop waits for what is under way, and for clients that still take what was said.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::sleep;

use crate::limits::{ANSWER_PIECE_BYTES, STOP_GRACE};
use crate::room::Claim;

/// What is under way on a connection.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Requests that were ever made.
    asked: AtomicUsize,
    /// Requests whose answer is not sent yet.
    open: AtomicUsize,
    /// Those of them whose answer is large.
    large: AtomicUsize,
    /// Pieces of large answers that were written.
    written: AtomicUsize,
    /// Bytes that were sent.
    sent: AtomicUsize,
    /// Whether bytes wait for the client to take some.
    is_held_up: AtomicBool,
}

/// A request that is under way, until this is dropped.
pub(crate) struct UnderWay {
    traffic: Arc<Traffic>,
    claim: Option<Arc<Claim>>,
}

/// An answer on its way.
pub(crate) struct Leaving<B> {
    body: B,
    /// What was not handed out yet of the last frame.
    rest: Bytes,
    under_way: Arc<UnderWay>,
}

/// A piece of a large answer, until it was written.
struct Piece {
    bytes: Bytes,
    under_way: Arc<UnderWay>,
}

impl Traffic {
    pub(crate) fn begin(self: &Arc<Traffic>) -> UnderWay {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        UnderWay { traffic: Arc::clone(self), claim: None }
    }

    /// Ends when the client does not do its part: asks nothing at first, or takes no answer (A2).
    pub(crate) async fn stalls(&self, head_timeout: Duration, answer_timeout: Duration) {
        sleep(head_timeout).await;
        if self.asked.load(Ordering::Relaxed) == 0 {
            return;
        }
        loop {
            let (is_sending, written) = (self.is_sending(), self.written());
            let (is_held_up, sent) = (self.is_held_up(), self.sent());
            sleep(answer_timeout).await;
            let takes_no_piece = is_sending && self.is_sending() && written == self.written();
            let takes_nothing = is_held_up && self.is_held_up() && sent == self.sent();
            if takes_no_piece || takes_nothing {
                return;
            }
        }
    }

    /// Ends when nothing is under way any more (A3).
    pub(crate) async fn ends(&self) {
        loop {
            sleep(STOP_GRACE).await;
            if self.open.load(Ordering::Relaxed) == 0 && !self.is_held_up() {
                return;
            }
        }
    }

    /// Some of what was said is sent.
    pub(crate) fn sends(&self, bytes: usize) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was said waits for the client, or no longer does.
    pub(crate) fn hold_up(&self, is_held_up: bool) {
        self.is_held_up.store(is_held_up, Ordering::Relaxed);
    }

    /// Whether what was said waits for the client.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::Relaxed)
    }

    fn is_sending(&self) -> bool {
        self.large.load(Ordering::Relaxed) > 0
    }

    fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

impl UnderWay {
    /// The answer with what it holds.
    pub(crate) fn answer<B>(mut self, body: B, claim: Option<Arc<Claim>>) -> Leaving<B> {
        if claim.is_some() {
            self.traffic.large.fetch_add(1, Ordering::Relaxed);
        }
        self.claim = claim;
        Leaving { body, rest: Bytes::new(), under_way: Arc::new(self) }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.traffic.open.fetch_sub(1, Ordering::Relaxed);
        if self.claim.is_some() {
            self.traffic.large.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.under_way.traffic.written.fetch_add(1, Ordering::Relaxed);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Leaving<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let bytes = this.rest.split_to(this.rest.len().min(ANSWER_PIECE_BYTES));
        if this.under_way.claim.is_none() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        // A1
        let piece = Piece { bytes, under_way: Arc::clone(&this.under_way) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        // In this order: a lower bound stays below the upper one.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const MOMENT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a2_a_client_that_takes_nothing_stalls() {
        let traffic = Arc::new(Traffic::default());
        drop(traffic.begin());
        let stalls = || traffic.stalls(MOMENT, MOMENT);
        assert!(timeout(10 * MOMENT, stalls()).await.is_err());
        traffic.hold_up(true);
        timeout(PATIENCE, stalls()).await.unwrap();
        traffic.hold_up(false);
        assert!(timeout(10 * MOMENT, stalls()).await.is_err());
    }

    #[tokio::test]
    async fn a3_a_stop_waits_for_what_was_said() {
        let traffic = Traffic::default();
        traffic.hold_up(true);
        assert!(timeout(3 * STOP_GRACE, traffic.ends()).await.is_err());
        traffic.hold_up(false);
        timeout(PATIENCE, traffic.ends()).await.unwrap();
    }
}
