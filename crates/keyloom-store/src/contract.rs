//! The store contract: the smallest thing that every target can do in one round trip.
//!
//! C1: A commit happens whole or not at all; a reader never sees a part of it.
//! C2: All checks of a commit hold at the instant at which its writes happen.
//! C3: A snapshot never changes, and sees every commit that was acknowledged before it was taken.
//! C4: Two different values that a key has held never carry the same stamp, nor does a value that
//!     was deleted and written again.
//! C5: The feed holds the changes of all commits in commit order, each at a position of its own.
//! C6: A feed that was trimmed never skips in silence: who asks for what is gone gets an error.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::StoreError;

/// An ordered map from bytes to bytes with snapshots, checked atomic commits and a change feed.
#[async_trait]
pub trait OrderedStore: Send + Sync {
    /// A consistent view of everything committed so far.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Applies all writes and changes if all checks hold, and nothing otherwise. The caller keeps a
    /// share of the commit, to find out what became of it.
    ///
    /// [`StoreError::OutcomeUnknown`] means that the reply was lost and the commit may have
    /// happened; every other error means that it did not.
    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError>;

    /// At most `limit` changes behind the position `after`, in commit order;
    /// [`StoreError::Trimmed`] if some of them are gone (C6).
    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Where the feed begins and ends.
    async fn feed(&self) -> Result<Feed, StoreError>;

    /// Forgets changes up to and including `through`, the oldest first and at most
    /// [`TRIM_CHANGES_MAX`](crate::limits::TRIM_CHANGES_MAX) in one call.
    async fn trim(&self, through: Position) -> Result<(), StoreError>;

    /// What this store can hold and promise.
    fn limits(&self) -> Limits;

    /// What was done since the store was opened.
    fn tally(&self) -> Tally;
}

/// Consistent reads at one point in the history of a store.
#[async_trait]
pub trait Snapshot: Send + Sync {
    /// The value of one key.
    async fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError>;

    /// The values of many keys, in the order in which they were asked for.
    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>, StoreError>;

    /// Opens a scan over the keys of `range`; it reads nothing before [`Scan::next`] is called.
    async fn scan(
        &self,
        range: &KeyRange,
        options: ScanOptions,
    ) -> Result<Box<dyn Scan>, StoreError>;
}

/// An open scan. It keeps its place, so that a merge of several ranges reads one key ahead in each
/// and never more.
#[async_trait]
pub trait Scan: Send {
    /// The next page of at most `count` entries; an empty page is the end.
    async fn next(&mut self, count: usize) -> Result<Entries, StoreError>;
}

/// How a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Which end of the range comes first.
    pub direction: Direction,
    /// The most entries that the scan yields over all its pages.
    pub limit: usize,
}

/// The order in which a scan yields the keys of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Reverse,
}

/// The keys from `from` (inclusive) up to `to` (exclusive), in byte order. A range whose `from` is
/// not below its `to` is empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key that belongs to the range, if it exists.
    pub from: Vec<u8>,
    /// The first key behind the range.
    pub to: Vec<u8>,
}

impl KeyRange {
    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.to.as_slice()
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from.escape_ascii(), self.to.escape_ascii())
    }
}

/// An opaque mark of one value of one key (C4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64);

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The bytes that were put.
    pub value: Vec<u8>,
    /// The mark of this value.
    pub stamp: Stamp,
}

/// A key and its value as a scan yields them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The whole key.
    pub key: Vec<u8>,
    /// The value and its stamp.
    pub stored: Stored,
}

/// Entries in the order in which a scan yields them. Their keys lie in one piece of memory: most
/// of what is scanned are keys, and each by itself would cost more than it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    keys: Vec<u8>,
    /// Where each key ends, and what is stored under it.
    rows: Vec<(usize, Stored)>,
}

impl Entries {
    /// No entries yet, with room for so many, and for usual keys.
    pub fn with_capacity(entries: usize) -> Entries {
        const KEY_BYTES_USUAL: usize = 80;
        Entries {
            keys: Vec::with_capacity(entries * KEY_BYTES_USUAL),
            rows: Vec::with_capacity(entries),
        }
    }

    /// Appends an entry.
    pub fn push(&mut self, key: &[u8], stored: Stored) {
        self.keys.extend_from_slice(key);
        self.rows.push((self.keys.len(), stored));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All keys, and what is stored under them.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Stored)> {
        let mut from = 0;
        self.rows.iter().map(move |(to, stored)| {
            let key = self.keys.get(from..*to).unwrap_or_default();
            from = *to;
            (key, stored)
        })
    }

    /// What [`parts`](Self::parts) gives.
    pub(crate) fn from_parts(keys: Vec<u8>, rows: Vec<(usize, Stored)>) -> Entries {
        Entries { keys, rows }
    }

    /// The keys, one behind the other, and of each where it ends and what is stored under it.
    pub(crate) fn parts(&self) -> (&[u8], &[(usize, Stored)]) {
        (&self.keys, &self.rows)
    }

    /// The same, owned.
    pub fn into_parts(self) -> (Vec<u8>, Vec<(usize, Stored)>) {
        (self.keys, self.rows)
    }
}

impl IntoIterator for Entries {
    type Item = Entry;
    type IntoIter = std::vec::IntoIter<Entry>;

    fn into_iter(self) -> Self::IntoIter {
        let mut from = 0;
        let entry = |(to, stored)| {
            let key = self.keys.get(from..to).unwrap_or_default().to_vec();
            from = to;
            Entry { key, stored }
        };
        self.rows.into_iter().map(entry).collect::<Vec<_>>().into_iter()
    }
}

impl<'k> FromIterator<(&'k [u8], Stored)> for Entries {
    fn from_iter<I: IntoIterator<Item = (&'k [u8], Stored)>>(entries: I) -> Entries {
        let mut found = Entries::default();
        entries.into_iter().for_each(|(key, stored)| found.push(key, stored));
        found
    }
}

/// What a commit asks for: checks, then writes and changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// What has to hold.
    pub checks: Vec<Check>,
    /// What is written; each key at most once.
    pub writes: Vec<Write>,
    /// What is appended to the feed, in this order.
    pub changes: Vec<Vec<u8>>,
}

/// One condition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key that is looked at.
    pub key: Vec<u8>,
    /// What it must hold.
    pub expect: Expect,
}

/// What a check expects of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key has no value.
    Absent,
    /// The key has the very value that was read with this stamp.
    At(Stamp),
}

/// One write of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value of a key.
    Put {
        /// The key to set.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Removes a key; no effect if it is absent.
    Delete {
        /// The key to remove.
        key: Vec<u8>,
    },
    /// Adds to a counter: 8 bytes, signed, big-endian, zero if absent. Counters need no check, so
    /// concurrent commits do not conflict over them.
    Add {
        /// The key of the counter.
        key: Vec<u8>,
        /// What is added; wraps around at the ends of the range.
        delta: i64,
    },
}

impl Write {
    /// The key that this write touches.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } | Write::Add { key, .. } => key,
        }
    }
}

/// How a commit ended when the store could decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Everything is written, as durably as the store promises.
    Committed {
        /// Where the last change of this commit stands in the feed; the end of the feed at that
        /// moment if it brought none.
        position: Position,
    },
    /// A check did not hold, and nothing is written.
    Conflict {
        /// The first check that did not hold, counted from zero.
        check: usize,
    },
}

/// A place in the change feed. Zero stands before the first change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Which changes a store still has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// Everything up to and including this position is gone; zero if nothing is.
    pub trimmed: Position,
    /// Where the feed ends.
    pub last: Position,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Commits that were written.
    pub commits: u64,
    /// Commits whose checks did not hold.
    pub conflicts: u64,
    /// Groups of commits that were written together; each has cost one sync at most.
    pub groups: u64,
}

/// One item of the change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its place; later changes have larger ones, not always without gaps.
    pub position: Position,
    /// What the commit appended.
    pub bytes: Vec<u8>,
}

/// What a store can hold and promise. A schema is checked against it when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest key, in bytes.
    pub key_bytes_max: usize,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// The most checks, writes and changes of one commit, added up.
    pub commit_operations_max: usize,
    /// The most bytes of keys, values and changes of one commit, added up.
    pub commit_bytes_max: usize,
    /// How concurrent commits see each other.
    pub isolation: Isolation,
    /// Whether other processes write to the same data.
    pub sharing: Sharing,
}

/// How concurrent commits see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// As if one commit ran after the other, in the order of their acknowledgement.
    Serial,
}

/// Whether a store is used by one process or by many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// This process owns the data.
    Exclusive,
    /// Other processes read and write the same data.
    Shared,
}
