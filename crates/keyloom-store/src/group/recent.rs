//! Rows that were read more than once lately: what many ask for is found without a walk through the
//! engine, and costs the same however much else is stored.
//!
//! T1: A row that is found here is the row that the reader's view shows. It is kept together with
//!     the number of the view that it was read from, and holds as long as its key was not written
//!     since: for each class of keys the last commit that wrote one of them is noted, before its
//!     view is published. Nobody waits for anybody: a writer notes a number for each key.
//! T2: The rows take [`ROWS_BYTES_MAX`] bytes at most; one that alone would take many of them is
//!     not kept.
//! T3: A row is kept when it is read for the second time. Who reads everything once neither pays
//!     for that nor pushes out what is read again.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::batch::Batch;
use crate::limits::{ROW_BYTES_MAX, ROWS_BYTES_MAX};
use crate::{StoreError, Stored};

/// How many classes of keys there are: a row is good for some ten thousand commits to other keys.
const CLASSES: usize = 1 << 17;

/// What a row takes beside its key and value: its places in the cache and in the allocator.
const ROW_OVERHEAD: usize = 128;

/// The bytes of a usual row, from which the room for all of them is estimated.
const ROW_BYTES_USUAL: usize = 512;

/// Rows that were read more than once lately.
pub(super) struct Recent {
    rows: Cache<Box<[u8]>, Arc<Row>, InBytes, RandomState>,
    hasher: RandomState,
    /// By class, the last commit that wrote a key of it.
    written: Box<[AtomicU64]>,
    /// By class, a mark of the key that was read last.
    read: Box<[AtomicU32]>,
}

struct Row {
    stored: Stored,
    /// The number of the view that it was read from.
    sequence: u64,
}

#[derive(Clone)]
struct InBytes;

impl Weighter<Box<[u8]>, Arc<Row>> for InBytes {
    fn weight(&self, key: &Box<[u8]>, row: &Arc<Row>) -> u64 {
        (key.len() + row.stored.value.len() + ROW_OVERHEAD) as u64
    }
}

impl Recent {
    pub(super) fn new() -> Recent {
        let hasher = RandomState::new();
        let rows = Cache::with(
            ROWS_BYTES_MAX / ROW_BYTES_USUAL,
            ROWS_BYTES_MAX as u64,
            InBytes,
            hasher.clone(),
            DefaultLifecycle::default(),
        );
        let written = (0..CLASSES).map(|_| AtomicU64::new(0)).collect();
        let read = (0..CLASSES).map(|_| AtomicU32::new(0)).collect();
        Recent { rows, hasher, written, read }
    }

    /// The row of a key in the view with this number; `look` finds it in the view.
    pub(super) fn row(
        &self,
        key: &[u8],
        sequence: u64,
        look: impl FnOnce() -> Result<Option<Stored>, StoreError>,
    ) -> Result<Option<Stored>, StoreError> {
        let hash = self.hasher.hash_one(key);
        if let Some(row) = self.rows.get(key)
            && row.stored.stamp.0 <= sequence
            && self.last_write(hash) <= row.sequence
        {
            return Ok(Some(row.stored.clone()));
        }
        let found = look()?;
        if let Some(stored) = &found
            && self.was_read_before(hash)
            && stored.value.len() <= ROW_BYTES_MAX
        {
            let row = Row { stored: stored.clone(), sequence };
            self.rows.insert(key.into(), Arc::new(row));
        }
        Ok(found)
    }

    /// Follows a batch that was written and whose view is not published yet (T1).
    pub(super) fn follow(&self, batch: &Batch<'_>) {
        let sequence = batch.tip().sequence;
        for (key, _) in batch.slots() {
            if let Some(written) = self.written.get(class(self.hasher.hash_one(key))) {
                written.store(sequence, Ordering::Release);
            }
        }
    }

    fn last_write(&self, hash: u64) -> u64 {
        let written = self.written.get(class(hash));
        written.map_or(u64::MAX, |written| written.load(Ordering::Acquire))
    }

    /// Whether the last key of its class that was read is this one; from now on it is.
    fn was_read_before(&self, hash: u64) -> bool {
        let mark = (hash >> 32) as u32 | 1;
        let last = self.read.get(class(hash));
        last.is_some_and(|last| last.swap(mark, Ordering::Relaxed) == mark)
    }
}

fn class(hash: u64) -> usize {
    hash as usize % CLASSES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Stamp, Write};

    const KEY: &[u8] = b"key";

    fn stored(value: &str, stamp: u64) -> Stored {
        Stored { value: value.into(), stamp: Stamp(stamp) }
    }

    /// Reads a key that holds `stored` in the view; whether the view was asked.
    fn asked(recent: &Recent, key: &[u8], sequence: u64, holds: &Stored) -> bool {
        let mut asked = false;
        let look = || {
            asked = true;
            Ok(Some(holds.clone()))
        };
        assert_eq!(recent.row(key, sequence, look).unwrap().as_ref(), Some(holds));
        asked
    }

    fn write(recent: &Recent, key: &[u8], sequence: u64) {
        let writes = vec![Write::Put { key: key.into(), value: Vec::new() }];
        let commit = Commit { writes, ..Commit::default() };
        let mut batch = Batch::new(Tip { sequence: sequence - 1, ..Tip::default() });
        batch.add(&commit, &Empty).unwrap();
        recent.follow(&batch);
    }

    #[test]
    fn t3_a_row_is_kept_when_it_is_read_again() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let reads = [(); 4].map(|()| asked(&recent, KEY, 7, &row));
        assert_eq!(reads, [true, true, false, false]);
    }

    #[test]
    fn t1_what_was_written_since_is_read_from_the_view() {
        let (recent, old, new) = (Recent::new(), stored("old", 1), stored("new", 8));
        for _ in 0..2 {
            asked(&recent, KEY, 7, &old);
        }
        write(&recent, KEY, 8);
        assert!(asked(&recent, KEY, 8, &new));
        // A view from before the commit still shows the old row, and does not find the new one.
        assert!(asked(&recent, KEY, 7, &old));
        assert!(asked(&recent, KEY, 8, &new));
        assert!(!asked(&recent, KEY, 8, &new));
        assert!(asked(&recent, KEY, 7, &old));
    }

    #[test]
    fn t1_what_an_older_view_shows_is_not_kept_for_a_newer_one() {
        let (recent, old, new) = (Recent::new(), stored("old", 1), stored("new", 8));
        write(&recent, KEY, 8);
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &old));
        }
        assert!(asked(&recent, KEY, 8, &new));
    }

    #[test]
    fn t1_a_row_that_was_not_written_since_serves_older_and_newer_views() {
        let (recent, row) = (Recent::new(), stored("value", 3));
        for _ in 0..2 {
            asked(&recent, KEY, 7, &row);
        }
        for sequence in [3, 7, 9] {
            assert!(!asked(&recent, KEY, sequence, &row));
        }
    }

    #[test]
    fn what_is_absent_is_looked_for_every_time() {
        let recent = Recent::new();
        for _ in 0..3 {
            let mut asked = false;
            let look = || {
                asked = true;
                Ok(None)
            };
            assert_eq!(recent.row(KEY, 7, look).unwrap(), None);
            assert!(asked);
        }
    }

    #[test]
    fn t2_the_bytes_of_all_rows_are_bounded_and_a_large_row_is_not_kept() {
        let recent = Recent::new();
        let large = Stored { value: vec![0; ROW_BYTES_MAX], stamp: Stamp(1) };
        for number in 0..4 * ROWS_BYTES_MAX / ROW_BYTES_MAX {
            for _ in 0..2 {
                asked(&recent, &number.to_be_bytes(), 7, &large);
            }
        }
        assert!(recent.rows.weight() <= ROWS_BYTES_MAX as u64);
        assert!(recent.rows.weight() >= ROWS_BYTES_MAX as u64 / 2);
        let larger = Stored { value: vec![0; ROW_BYTES_MAX + 1], stamp: Stamp(1) };
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &larger));
        }
    }
}
