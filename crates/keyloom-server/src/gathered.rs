//! What is said on a connection, gathered into few writes.
//!
//! Each answer, and each frame of a large one, would be a write of its own, and one to a socket
//! costs as much as most answers do. So the connection writes into a buffer, which is sent whenever
//! it pauses; and it pauses after the answers that are ready by then.
//!
//! ```text
//! requests ─► tasks ─► answers ─► connection ─► buffer ─► one write
//! ```
//!
//! W1: Nothing stays in the buffer while the client takes what is sent; a connection that has ended
//!     is there until all of it was sent.
//! W2: The buffer is bounded, and there is none while nothing waits.
//! W3: While the client takes nothing, nothing counts as flushed.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::leaving::Traffic;
use crate::limits::GATHERED_BYTES_MAX;

/// The buffer's size at first: room for the answers of many small calls.
const GATHERED_BYTES: usize = 16 << 10;

/// A stream whose writes are gathered; its clones are the same stream.
pub(crate) struct Gathered<S>(Arc<Mutex<Outlet<S>>>);

struct Outlet<S> {
    stream: S,
    waiting: Vec<u8>,
    /// How many of the bytes that wait are sent already.
    sent: usize,
    traffic: Arc<Traffic>,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Gathered<S> {
        Gathered(Arc::clone(&self.0))
    }
}

impl<S> Gathered<S> {
    /// A stream that tells what becomes of what is said on it.
    pub(crate) fn new(stream: S, traffic: Arc<Traffic>) -> Gathered<S> {
        Gathered(Arc::new(Mutex::new(Outlet { stream, waiting: Vec::new(), sent: 0, traffic })))
    }

    fn outlet(&self) -> MutexGuard<'_, Outlet<S>> {
        // Bytes that are in the buffer are in it as a whole, whatever happened then.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Write + Unpin> Gathered<S> {
    /// Runs a connection that speaks through this stream until it has ended and all is sent, or
    /// nothing can be sent any more.
    pub(crate) async fn serve(&self, connection: impl Future) {
        let mut connection = pin!(connection);
        let (mut has_let_others, mut has_ended) = (false, false);
        poll_fn(|context| {
            // Who wakes it has an answer; those who are about to have one come first.
            has_let_others = !has_let_others;
            if has_let_others {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            has_ended = has_ended || connection.as_mut().poll(context).is_ready();
            match ready!(self.outlet().poll_send(context)) {
                Ok(()) if !has_ended => Poll::Pending,
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl<S: Write + Unpin> Outlet<S> {
    /// Sends all that waits.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.poll_write_out(context);
        self.traffic.hold_up(sent.is_pending());
        sent
    }

    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(&mut self.stream);
        while let Some(rest) = self.waiting.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(stream.as_mut().poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => {
                    self.sent += count;
                    self.traffic.sends(count);
                }
            }
        }
        (self.waiting, self.sent) = (Vec::new(), 0);
        stream.poll_flush(context)
    }

    /// Takes bytes in, as many as there is room for.
    fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= GATHERED_BYTES_MAX {
            ready!(self.poll_send(context))?;
        }
        if self.waiting.is_empty() {
            self.waiting.reserve(GATHERED_BYTES);
        }
        let before = self.waiting.len();
        for piece in pieces {
            let room = GATHERED_BYTES_MAX.saturating_sub(self.waiting.len());
            self.waiting.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        Poll::Ready(Ok(self.waiting.len() - before))
    }
}

impl<S: Read + Unpin> Read for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.outlet().stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outlet().poll_take(context, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outlet().poll_take(context, pieces)
    }

    /// What was written is sent at the next pause.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outlet = self.outlet();
        match outlet.traffic.is_held_up() {
            // W3
            true => outlet.poll_send(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outlet = self.outlet();
        ready!(outlet.poll_send(context))?;
        Pin::new(&mut outlet.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::task::yield_now;

    use super::*;

    /// A stream that counts the writes to it.
    struct Counted(TokioIo<DuplexStream>, Arc<AtomicUsize>);

    impl Write for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    /// A gathered stream that holds so many bytes on their way, its other end, and its writes.
    fn stream(held: usize) -> (Gathered<Counted>, DuplexStream, Arc<AtomicUsize>) {
        let (near, far) = duplex(held);
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Counted(TokioIo::new(near), Arc::clone(&writes));
        (Gathered::new(counted, Arc::default()), far, writes)
    }

    async fn write(stream: &mut Gathered<Counted>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken =
                poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await.unwrap();
            bytes = &bytes[taken..];
        }
        poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_written_until_a_pause_is_one_write() {
        let (stream, mut far, writes) = stream(1 << 20);
        let mut speaker = stream.clone();
        stream
            .serve(async {
                for part in [&b"one "[..], b"two ", b"three "] {
                    write(&mut speaker, part).await;
                }
                yield_now().await;
                let mut found = [0; 14];
                far.read_exact(&mut found).await.unwrap();
                assert_eq!(&found, b"one two three ");
                assert_eq!(writes.load(Ordering::Relaxed), 1);
                write(&mut speaker, b"last").await;
            })
            .await;
        let mut found = [0; 4];
        far.read_exact(&mut found).await.unwrap();
        assert_eq!(&found, b"last");
        assert_eq!(writes.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_fills_the_buffer_and_no_more() {
        let (stream, mut far, _) = stream(1000);
        let bytes: Vec<u8> = (0..3 * GATHERED_BYTES_MAX).map(|place| place as u8).collect();
        let mut speaker = stream.clone();
        let spoken = bytes.clone();
        let speaking = async move {
            write(&mut speaker, &spoken).await;
            poll_fn(|context| Pin::new(&mut speaker).poll_shutdown(context)).await.unwrap();
        };
        let served = stream.clone();
        let serving = tokio::spawn(async move { served.serve(speaking).await });
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!serving.is_finished());
        assert_eq!(stream.outlet().waiting.len(), GATHERED_BYTES_MAX);
        let mut found = Vec::new();
        far.read_to_end(&mut found).await.unwrap();
        assert!(found == bytes);
        serving.await.unwrap();
        assert_eq!(stream.outlet().waiting.capacity(), 0);
    }

    #[tokio::test]
    async fn a_client_that_has_gone_ends_it() {
        let (stream, far, _) = stream(1000);
        drop(far);
        let mut speaker = stream.clone();
        stream
            .serve(async {
                write(&mut speaker, b"anyone?").await;
                std::future::pending::<()>().await;
            })
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn answers_that_are_about_to_be_ready_go_with_the_first() {
        let (stream, mut far, writes) = stream(1000);
        let mut speaker = stream.clone();
        let connection = async move {
            let (answer, mut answers) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..10_u8 {
                let answer = answer.clone();
                tokio::spawn(async move { answer.send(number) });
            }
            drop(answer);
            while let Some(number) = answers.recv().await {
                write(&mut speaker, &[number]).await;
            }
        };
        tokio::spawn(async move { stream.serve(connection).await }).await.unwrap();
        let mut found = [0; 10];
        far.read_exact(&mut found).await.unwrap();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(writes.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_waits_when_the_connection_ends_is_still_sent() {
        let (stream, mut far, _) = stream(1000);
        let bytes: Vec<u8> = (0..50_000).map(|place| place as u8).collect();
        let (mut speaker, spoken) = (stream.clone(), bytes.clone());
        let serving = tokio::spawn(async move {
            stream.serve(async move { write(&mut speaker, &spoken).await }).await;
        });
        let mut found = vec![0; bytes.len()];
        for part in found.chunks_mut(700) {
            far.read_exact(part).await.unwrap();
        }
        assert!(found == bytes);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn w3_nothing_is_flushed_while_the_client_takes_nothing() {
        let (stream, mut far, _) = stream(1000);
        let mut speaker = stream.clone();
        let speaking = async move {
            let mut flushes = Vec::new();
            write(&mut speaker, &[7; 5000]).await;
            for _ in 0..2 {
                yield_now().await;
                let flushed =
                    poll_fn(|context| Poll::Ready(Pin::new(&mut speaker).poll_flush(context)));
                flushes.push(flushed.await.is_ready());
                if flushes.len() == 1 {
                    far.read_exact(&mut [0; 4500]).await.unwrap();
                }
            }
            assert_eq!(flushes, [false, true]);
        };
        stream.serve(speaking).await;
    }
}
