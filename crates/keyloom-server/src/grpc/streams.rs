//! Streams of messages, which end when the server stops.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use axum::http::HeaderMap;
use hyper::body::{Body, Frame};
use tokio::sync::watch;
use tonic::Status;

/// A stream that ends when the server stops, and says why.
pub(super) fn until(
    body: tonic::body::Body,
    mut stopping: watch::Receiver<bool>,
) -> tonic::body::Body {
    let stopped = Box::pin(async move {
        // The sender lives as long as the server runs.
        let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
    });
    tonic::body::Body::new(Until { body, stopped, is_ended: false })
}

struct Until {
    body: tonic::body::Body,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_ended: bool,
}

impl Body for Until {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if this.is_ended {
            return Poll::Ready(None);
        }
        // What there is to say comes first: that the server stops, to those who watch its health.
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(this.stopped.as_mut().poll(context));
        this.is_ended = true;
        let mut trailers = HeaderMap::new();
        let ending = Status::unavailable("the server stops").add_header(&mut trailers);
        Poll::Ready(Some(ending.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended || self.body.is_end_stream()
    }
}
