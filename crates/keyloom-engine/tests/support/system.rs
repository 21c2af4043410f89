//! Time and randomness under the control of a test.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use keyloom_engine::System;

/// The time at which every test begins, in microseconds: 14 November 2023.
const START_MICROS: u64 = 1_700_000_000_000_000;

/// A clock that stands until it is moved, and randomness from a seed or a script (X1).
pub(crate) struct TestSystem {
    now_micros: AtomicU64,
    random: Mutex<Random>,
    sleeps: Mutex<Vec<Duration>>,
}

/// How far the clock moves.
#[derive(Clone, Copy)]
pub(crate) struct Seconds(pub(crate) i64);

struct Random {
    state: u64,
    /// What the next draws of a code give, whatever the seed says.
    codes: VecDeque<[u8; 6]>,
}

impl TestSystem {
    pub(crate) fn new(seed: u64) -> TestSystem {
        TestSystem {
            now_micros: AtomicU64::new(START_MICROS),
            random: Mutex::new(Random { state: seed << 32, codes: VecDeque::new() }),
            sleeps: Mutex::default(),
        }
    }

    /// Moves the clock, forward or back.
    pub(crate) fn pass(&self, seconds: Seconds) {
        let step = |now: u64| now.checked_add_signed(seconds.0 * 1_000_000);
        self.now_micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap();
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_millis(&self) -> u64 {
        self.now_micros.load(Ordering::SeqCst) / 1000
    }

    /// Lets the next draws of six bytes, which is what a code of six characters takes, give these.
    pub(crate) fn next_codes(&self, codes: impl IntoIterator<Item = [u8; 6]>) {
        self.random.lock().unwrap().codes.extend(codes);
    }

    /// How long each wait was.
    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().unwrap().clone()
    }
}

#[async_trait]
impl System for TestSystem {
    fn now_micros(&self) -> u64 {
        self.now_micros.load(Ordering::SeqCst)
    }

    fn random(&self, bytes: &mut [u8]) {
        let mut random = self.random.lock().unwrap();
        if let Some(code) = random.codes.pop_front_if(|code| code.len() == bytes.len()) {
            bytes.copy_from_slice(&code);
            return;
        }
        for chunk in bytes.chunks_mut(8) {
            let word = random.next().to_be_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.sleeps.lock().unwrap().push(duration);
    }
}

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
