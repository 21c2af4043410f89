//! Waits for a future on the thread that asks, which is parked meanwhile: what a caller without an
//! executor does, and the way in which the raw engines are waited for, too.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// What the future is ready with.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_future_that_is_woken_from_another_thread_ends_the_wait() {
        let (sender, receiver) = oneshot::channel();
        let caller = thread::spawn(|| block_on(receiver));
        sender.send(7).unwrap();
        assert_eq!(caller.join().unwrap(), Ok(7));
    }
}
