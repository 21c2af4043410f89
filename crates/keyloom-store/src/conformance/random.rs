//! Replayable chance for laws and for the crash tests of the stores.

use std::env;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// A small generator (SplitMix64): the same seed gives the same numbers, everywhere and always.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// A generator that repeats what it did with this seed before.
    pub fn new(seed: u64) -> Self {
        Random { seed, state: seed }
    }

    /// A generator with a new seed, or with the one in `KEYLOOM_SEED`.
    pub fn from_environment() -> Self {
        let seed = match env::var("KEYLOOM_SEED") {
            Ok(seed) => seed.parse().expect("KEYLOOM_SEED is a number"),
            // The keys of the standard hasher are the randomness that needs no dependency.
            Err(_) => RandomState::new().hash_one(0),
        };
        Random::new(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits");
        usize::try_from(self.next_u64() % bound).expect("it is below a usize")
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KEYLOOM_SEED={}", self.seed)
    }
}
