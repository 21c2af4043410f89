//! A moment for others: an embedded store answers at once, so that a long read would otherwise hold
//! its thread until the end, and whoever limits its time would never be asked.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets other tasks of the same thread go first.
pub(crate) async fn pause() {
    Pause { is_over: false }.await;
}

struct Pause {
    is_over: bool,
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        self.is_over = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_gives_way_once_and_then_ends() {
        let mut pause = std::pin::pin!(pause());
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(pause.as_mut().poll(&mut context).is_pending());
        assert!(pause.as_mut().poll(&mut context).is_ready());
    }
}
