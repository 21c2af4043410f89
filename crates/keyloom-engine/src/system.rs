//! Time and randomness, handed in so that every test can replay a run.

use std::time::Duration;

use async_trait::async_trait;

/// Where the engine gets the time, waits and randomness from.
#[async_trait]
pub trait System: Send + Sync {
    /// Microseconds since 1970.
    fn now_micros(&self) -> u64;

    /// Fills `bytes` with unpredictable bytes.
    fn random(&self, bytes: &mut [u8]);

    /// Waits this long.
    async fn sleep(&self, duration: Duration);
}

/// The real clock and the system's secure randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealSystem;

#[async_trait]
impl System for RealSystem {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the real clock")]
    fn now_micros(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        // A clock before 1970 counts as 1970: versions only have to grow.
        since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has randomness");
    }

    /// Sleeps on a thread of its own: the engine belongs to no async runtime, and it only waits
    /// between the attempts of a retry.
    #[expect(clippy::disallowed_methods, reason = "the one place that really waits")]
    async fn sleep(&self, duration: Duration) {
        let (done, waiting) = futures_channel::oneshot::channel::<()>();
        std::thread::spawn(move || {
            std::thread::sleep(duration);
            // The waiter may be gone, which is its own business.
            let _ = done.send(());
        });
        let _ = waiting.await;
    }
}
