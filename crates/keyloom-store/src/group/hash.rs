//! The hash of a key, by which rows and bits are found.

use std::hash::{BuildHasher as _, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A hash that nobody outside can foresee, another one each time. A commit takes it of each of its
/// keys while others wait, which the hash of the standard library is too slow for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash {
    seed: u64,
}

impl Hash {
    /// The hash of a key.
    pub(super) fn of(self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { seed: RandomState::new().hash_one(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_hash_and_every_store_another() {
        let (one, other) = (Hash::default(), Hash::default());
        assert_eq!(one.of(b"key"), one.of(b"key"));
        assert_ne!(one.of(b"key"), one.of(b"kez"));
        assert_ne!(one.of(b"key"), other.of(b"key"));
    }
}
