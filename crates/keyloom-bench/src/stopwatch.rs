//! The one clock of the benchmarks.

use std::time::{Duration, Instant};

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "measuring time is what benchmarks do")]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { started: Instant::now() }
    }

    /// The time since it was started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
