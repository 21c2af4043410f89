//! The laws of the store contract. Every store runs them with one line:
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use keyloom_store::OrderedStore;
//! use keyloom_store::memory::MemoryStore;
//!
//! /// Opens the store that belongs to this folder; laws of their own folder never meet.
//! fn open(_folder: &Path) -> Arc<dyn OrderedStore> {
//!     Arc::new(MemoryStore::new())
//! }
//!
//! keyloom_store::conformance_tests!(open);
//! ```
//!
//! A store that survives its process adds `keyloom_store::conformance_reopen_tests!(open);`.
//!
//! W1: A law uses nothing but the contract, so it holds for every technology.
//! W2: A law that draws lots names its seed when it fails; `KEYLOOM_SEED=<seed>` repeats it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is test code that other crates compile: a broken law has to panic"
)]

pub mod commits;
pub mod concurrency;
pub mod crash;
pub mod damage;
pub mod feed;
pub mod limits;
pub mod model;
mod random;
pub mod reads;
pub mod reopen;

use std::path::Path;
use std::sync::Arc;

use pollster::block_on;
use tempfile::TempDir;

use crate::{
    Change, Check, Commit, CommitOutcome, Direction, Entry, Expect, KeyRange, OrderedStore,
    Position, ScanOptions, Snapshot, Stamp, StoreError, Stored, Write,
};

pub use random::Random;

/// How a law opens the store that lives in a folder.
pub type Open = fn(&Path) -> Arc<dyn OrderedStore>;

/// One test for each law of the contract, for the store that `$open` opens; see
/// [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($open:expr) => {
        $crate::conformance_laws! { $open =>
            commits {
                a_commit_happens_whole
                keys_in_no_order_are_created_once_each
                a_failed_check_writes_nothing_at_all
                the_first_failing_check_is_reported
                absent_holds_only_without_a_value
                at_stamp_holds_only_for_the_value_that_was_read
                a_stamp_is_never_reused_after_delete_and_put
                a_check_guards_a_key_that_is_not_written
                an_empty_commit_is_committed
                deleting_an_absent_key_is_no_error
                a_counter_starts_at_zero_adds_and_wraps
                a_counter_takes_part_in_checks_like_any_value
                a_damaged_counter_is_reported_and_nothing_is_written
                the_same_key_written_twice_is_refused
                an_empty_key_is_refused
            }
            reads {
                a_snapshot_sees_what_was_acknowledged_before_it
                a_snapshot_never_changes
                an_open_scan_does_not_see_later_commits
                a_scan_yields_its_range_in_byte_order_in_both_directions
                a_scan_keeps_its_place_over_pages_of_any_size
                a_scan_stops_at_its_limit_and_stays_at_its_end
                a_range_holds_its_start_and_not_its_end
                an_empty_or_inverted_range_yields_nothing
                keys_of_zeros_and_ffs_sort_as_bytes
                get_many_answers_in_order_with_repeats
                values_of_all_sizes_come_back_unchanged
                a_key_that_cannot_be_stored_is_absent
            }
            feed {
                changes_come_in_commit_order
                a_commit_reports_the_position_of_its_last_change
                the_feed_is_paged_by_position
                a_failed_commit_leaves_no_change
                a_trimmed_feed_keeps_the_rest_and_never_skips_in_silence
                a_feed_that_is_trimmed_whole_goes_on_at_the_next_position
            }
            limits {
                the_longest_key_fits_and_one_byte_more_does_not
                the_longest_value_fits_and_one_byte_more_does_not
                the_most_operations_fit_and_one_more_does_not
                the_largest_commit_fits_and_one_byte_more_does_not
            }
            concurrency {
                of_sixteen_writers_on_one_stamp_exactly_one_wins
                transfers_keep_the_sum_in_every_snapshot
                gets_and_scans_of_a_snapshot_agree_while_others_write
                concurrent_additions_are_all_counted
                concurrent_changes_are_all_in_the_feed_in_the_order_of_their_writer
            }
            model {
                random_operations_agree_with_a_plain_map
            }
        }
    };
}

/// One test for each law of a store that survives its process.
#[macro_export]
macro_rules! conformance_reopen_tests {
    ($open:expr) => {
        $crate::conformance_laws! { $open =>
            reopen {
                everything_is_there_after_reopen
                keys_in_no_order_are_created_once_across_reopens
                stamps_and_positions_are_not_reused_after_reopen
                a_trimmed_feed_stays_trimmed_after_reopen
                random_operations_survive_many_reopens
            }
        }

        #[test]
        fn acknowledged_commits_survive_kill_nine() {
            let test = concat!(module_path!(), "::acknowledged_commits_survive_kill_nine");
            $crate::conformance::crash::acknowledged_commits_survive_kill_nine($open, test);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_laws {
    ($open:expr => $($module:ident { $($law:ident)* })*) => {
        $($(
            #[test]
            fn $law() {
                $crate::conformance::$module::$law($open);
            }
        )*)*
    };
}

/// A store in a folder of its own, and the calls of the contract in blocking form.
struct Subject {
    store: Arc<dyn OrderedStore>,
    folder: TempDir,
}

impl Subject {
    fn fresh(open: Open) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Subject { store: open(folder.path()), folder }
    }

    fn reopen(self, open: Open) -> Self {
        let Subject { store, folder } = self;
        drop(store);
        Subject { store: open(folder.path()), folder }
    }

    fn try_commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        block_on(self.store.commit(Arc::new(commit)))
    }

    fn commit(&self, commit: Commit) -> CommitOutcome {
        self.try_commit(commit).unwrap()
    }

    /// Writes without a check, and returns the position that was reported.
    fn write(&self, writes: Vec<Write>) -> Position {
        match self.commit(Commit { writes, ..Commit::default() }) {
            CommitOutcome::Committed { position } => position,
            CommitOutcome::Conflict { .. } => panic!("a commit without checks cannot conflict"),
        }
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        block_on(self.store.snapshot()).unwrap()
    }

    fn get(&self, key: &[u8]) -> Option<Stored> {
        block_on(self.snapshot().get(key)).unwrap()
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key).map(|stored| stored.value)
    }

    fn stamp(&self, key: &[u8]) -> Stamp {
        self.get(key).unwrap().stamp
    }

    fn changes(&self, after: Position, limit: usize) -> Vec<Change> {
        block_on(self.store.changes(after, limit)).unwrap()
    }
}

fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Write {
    Write::Put { key: key.as_ref().to_vec(), value: value.as_ref().to_vec() }
}

fn delete(key: impl AsRef<[u8]>) -> Write {
    Write::Delete { key: key.as_ref().to_vec() }
}

fn add(key: impl AsRef<[u8]>, delta: i64) -> Write {
    Write::Add { key: key.as_ref().to_vec(), delta }
}

fn absent(key: impl AsRef<[u8]>) -> Check {
    Check { key: key.as_ref().to_vec(), expect: Expect::Absent }
}

fn at(key: impl AsRef<[u8]>, stamp: Stamp) -> Check {
    Check { key: key.as_ref().to_vec(), expect: Expect::At(stamp) }
}

fn range(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> KeyRange {
    KeyRange { from: from.as_ref().to_vec(), to: to.as_ref().to_vec() }
}

/// A range that holds every key that a store takes.
fn everything() -> KeyRange {
    range([], [0xFF; 2048])
}

/// All entries of a range, fetched in pages of `page` entries.
fn scan_pages(
    snapshot: &dyn Snapshot,
    range: &KeyRange,
    options: ScanOptions,
    page: usize,
) -> Vec<Entry> {
    block_on(async {
        let mut scan = snapshot.scan(range, options).await.unwrap();
        let mut entries = Vec::new();
        loop {
            let next = scan.next(page).await.unwrap();
            assert!(next.len() <= page, "a page holds {} entries, asked for {page}", next.len());
            if next.is_empty() {
                return entries;
            }
            entries.extend(next);
        }
    })
}

fn scan(snapshot: &dyn Snapshot, range: &KeyRange, direction: Direction) -> Vec<Entry> {
    scan_pages(snapshot, range, ScanOptions { direction, limit: usize::MAX }, 7)
}

fn keys(entries: &[Entry]) -> Vec<Vec<u8>> {
    entries.iter().map(|entry| entry.key.clone()).collect()
}
