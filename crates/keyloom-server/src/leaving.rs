//! Answers on their way to the client, and what is under way on a connection.
//!
//! A1: An answer is handed out in pieces, so that its room is free when nearly all of it is sent.
//! A2: A client that takes nothing of a large answer for too long loses its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Pieces of answers that were taken.
    taken: AtomicUsize,
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
    under_way: UnderWay,
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
            let (is_sending, taken) = (self.is_sending(), self.taken());
            sleep(answer_timeout).await;
            if is_sending && self.is_sending() && taken == self.taken() {
                return;
            }
        }
    }

    /// Ends when nothing is under way any more.
    pub(crate) async fn ends(&self) {
        loop {
            sleep(STOP_GRACE).await;
            if self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }

    fn is_sending(&self) -> bool {
        self.large.load(Ordering::Relaxed) > 0
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl UnderWay {
    /// The answer with what it holds.
    pub(crate) fn answer<B>(mut self, body: B, claim: Option<Arc<Claim>>) -> Leaving<B> {
        if claim.is_some() {
            self.traffic.large.fetch_add(1, Ordering::Relaxed);
        }
        self.claim = claim;
        Leaving { body, rest: Bytes::new(), under_way: self }
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
        this.under_way.traffic.taken.fetch_add(1, Ordering::Relaxed);
        // A1
        let piece = this.rest.split_to(this.rest.len().min(ANSWER_PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
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
