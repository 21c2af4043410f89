//! A store in memory: the model in tests, and a place for data that need not survive.
//!
//! M1: Taking a snapshot costs the same however much is stored; it remembers only a number.
//! M2: The versions of a key stand from oldest to newest; a reader takes the last one that is not
//!     younger than its snapshot.
//! M3: A version is dropped as soon as it is older than what the oldest snapshot sees.
//! M4: Locks are taken in the order `state`, `readers`, and never while a caller's code runs.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;

use crate::batch::{Base, Batch, Tip};
use crate::limits::{self, EMBEDDED};
use crate::patience::wait_for;
use crate::{
    Change, Commit, CommitOutcome, Direction, Entries, Feed, KeyRange, Limits, OrderedStore,
    Position, Scan, ScanOptions, Snapshot, Stamp, StoreError, Stored, Tally,
};

const POISONED: &str = "no code panics while it holds this lock";

/// An [`OrderedStore`] in memory. Clones share the data.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl OrderedStore for MemoryStore {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        Ok(Box::new(MemorySnapshot { view: Arc::new(View::open(&self.shared)) }))
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        limits::check_commit(&commit, &EMBEDDED)?;
        let mut state = self.shared.write();
        let mut batch = Batch::new(state.tip);
        let outcome = batch.add(&commit, &*state)?;
        match outcome {
            CommitOutcome::Committed { .. } => {
                let oldest = oldest_reader(&self.shared.readers());
                state.apply(&batch, oldest);
                state.tally.commits += 1;
                state.tally.groups += 1;
            }
            CommitOutcome::Conflict { .. } => state.tally.conflicts += 1,
        }
        Ok(outcome)
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        let state = self.shared.read();
        if after < state.trimmed && limit > 0 {
            return Err(StoreError::Trimmed { trimmed: state.trimmed });
        }
        // Position n is the n-th change, and the first of them are gone.
        let skipped = after.0.saturating_sub(state.trimmed.0);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(state.feed.iter().skip(skipped).take(limit).cloned().collect())
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        let state = self.shared.read();
        Ok(Feed { trimmed: state.trimmed, last: state.tip.position })
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        let mut state = self.shared.write();
        for _ in 0..limits::TRIM_CHANGES_MAX {
            let Some(gone) = state.feed.pop_front_if(|change| change.position <= through) else {
                break;
            };
            state.trimmed = gone.position;
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        EMBEDDED
    }

    fn tally(&self) -> Tally {
        self.shared.read().tally
    }
}

#[derive(Default)]
struct Shared {
    state: RwLock<State>,
    /// How many snapshots there are of each sequence number.
    readers: Mutex<BTreeMap<u64, usize>>,
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect(POISONED)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        let free = wait_for(|| self.state.try_write().ok());
        free.unwrap_or_else(|| self.state.write().expect(POISONED))
    }

    fn readers(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.readers.lock().expect(POISONED)
    }
}

#[derive(Default)]
struct State {
    tip: Tip,
    keys: BTreeMap<Vec<u8>, Versions>,
    feed: VecDeque<Change>,
    /// The last change that was forgotten.
    trimmed: Position,
    tally: Tally,
    /// Keys that hold an old version, each with the sequence number that made it old.
    old: VecDeque<(u64, Vec<u8>)>,
}

/// The versions of one key (M2). Nearly every key has one, so only the others cost an allocation.
struct Versions {
    older: Vec<Version>,
    newest: Version,
}

struct Version {
    sequence: u64,
    /// `None` if the key was deleted.
    value: Option<Vec<u8>>,
}

impl State {
    fn apply(&mut self, batch: &Batch<'_>, oldest: Option<u64>) {
        self.tip = batch.tip();
        let sequence = self.tip.sequence;
        for (key, slot) in batch.slots() {
            let version = Version { sequence, value: slot.map(|slot| slot.value.to_vec()) };
            if let Some(versions) = self.keys.get_mut(key) {
                versions.push(version);
                self.old.push_back((sequence, key.to_vec()));
            } else if slot.is_some() {
                let versions = Versions { older: Vec::new(), newest: version };
                self.keys.insert(key.to_vec(), versions);
            }
        }
        for change in batch.changes() {
            self.feed.push_back(Change { position: change.position, bytes: change.bytes.to_vec() });
        }
        self.prune(oldest);
    }

    /// Drops what no snapshot can see (M3): all that was old when the oldest one was taken.
    fn prune(&mut self, oldest: Option<u64>) {
        let visible_from = oldest.unwrap_or(self.tip.sequence);
        while let Some((_, key)) = self.old.pop_front_if(|(sequence, _)| *sequence <= visible_from)
        {
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            versions.drop_older_than(visible_from);
            if versions.older.is_empty()
                && versions.newest.value.is_none()
                && versions.newest.sequence <= visible_from
            {
                self.keys.remove(&key);
            }
        }
    }
}

impl Versions {
    fn push(&mut self, version: Version) {
        self.older.push(std::mem::replace(&mut self.newest, version));
    }

    /// What a snapshot taken at `sequence` sees.
    fn at(&self, sequence: u64) -> Option<&Version> {
        std::iter::once(&self.newest)
            .chain(self.older.iter().rev())
            .find(|version| version.sequence <= sequence)
    }

    /// Keeps the version that a snapshot taken at `sequence` sees, and all younger ones.
    fn drop_older_than(&mut self, sequence: u64) {
        if self.newest.sequence <= sequence {
            self.older = Vec::new();
        } else {
            let younger = self.older.partition_point(|version| version.sequence <= sequence);
            self.older.drain(..younger.saturating_sub(1));
        }
    }
}

impl Version {
    fn stored(&self) -> Option<Stored> {
        let value = self.value.clone()?;
        Some(Stored { value, stamp: Stamp(self.sequence) })
    }
}

impl Base for State {
    fn stamp(&self, key: &[u8]) -> Result<Option<Stamp>, StoreError> {
        let newest = self.keys.get(key).map(|versions| &versions.newest);
        Ok(newest.filter(|version| version.value.is_some()).map(|found| Stamp(found.sequence)))
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.keys.get(key).and_then(|versions| versions.newest.value.clone()))
    }
}

/// One open snapshot; scans hold on to it, so that their versions stay.
struct View {
    shared: Arc<Shared>,
    sequence: u64,
}

impl View {
    fn open(shared: &Arc<Shared>) -> Self {
        // Both locks together: otherwise a commit in between could drop what is about to be seen.
        let state = shared.read();
        let sequence = state.tip.sequence;
        *shared.readers().entry(sequence).or_insert(0) += 1;
        View { shared: Arc::clone(shared), sequence }
    }

    fn get(&self, state: &State, key: &[u8]) -> Option<Stored> {
        state.keys.get(key)?.at(self.sequence)?.stored()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut readers = self.shared.readers();
        let before = oldest_reader(&readers);
        if let Some(count) = readers.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.sequence);
            }
        }
        let moved = before != oldest_reader(&readers);
        drop(readers);
        if moved {
            // The oldest reader is looked up again under the lock: others may have come or gone.
            let mut state = self.shared.write();
            let oldest = oldest_reader(&self.shared.readers());
            state.prune(oldest);
        }
    }
}

fn oldest_reader(readers: &BTreeMap<u64, usize>) -> Option<u64> {
    readers.first_key_value().map(|(sequence, _)| *sequence)
}

struct MemorySnapshot {
    view: Arc<View>,
}

#[async_trait]
impl Snapshot for MemorySnapshot {
    async fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        Ok(self.view.get(&self.view.shared.read(), key))
    }

    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>, StoreError> {
        let state = self.view.shared.read();
        Ok(keys.iter().map(|key| self.view.get(&state, key)).collect())
    }

    async fn scan(
        &self,
        range: &KeyRange,
        options: ScanOptions,
    ) -> Result<Box<dyn Scan>, StoreError> {
        Ok(Box::new(MemoryScan {
            view: Arc::clone(&self.view),
            from: Bound::Included(range.from.clone()),
            to: Bound::Excluded(range.to.clone()),
            direction: options.direction,
            left: if range.is_empty() { 0 } else { options.limit },
        }))
    }
}

/// A scan that holds no lock between its pages: it keeps what is left of its range.
struct MemoryScan {
    view: Arc<View>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    left: usize,
}

#[async_trait]
impl Scan for MemoryScan {
    async fn next(&mut self, count: usize) -> Result<Entries, StoreError> {
        let count = count.min(self.left);
        if count == 0 {
            return Ok(Entries::default());
        }
        let page: Entries = {
            let state = self.view.shared.read();
            let keys = state.keys.range((self.from.clone(), self.to.clone()));
            let visible = |found| visible(found, self.view.sequence);
            match self.direction {
                Direction::Forward => keys.filter_map(visible).take(count).collect(),
                Direction::Reverse => keys.rev().filter_map(visible).take(count).collect(),
            }
        };
        match (page.iter().last(), self.direction) {
            (Some((last, _)), Direction::Forward) => self.from = Bound::Excluded(last.to_vec()),
            (Some((last, _)), Direction::Reverse) => self.to = Bound::Excluded(last.to_vec()),
            (None, _) => self.left = 0,
        }
        self.left = self.left.saturating_sub(page.len());
        Ok(page)
    }
}

/// A key with what a view with this number shows of it.
fn visible<'s>(
    (key, versions): (&'s Vec<u8>, &Versions),
    sequence: u64,
) -> Option<(&'s [u8], Stored)> {
    Some((key, versions.at(sequence)?.stored()?))
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;
    use crate::Write;

    fn write(store: &MemoryStore, writes: Vec<Write>) {
        block_on(store.commit(Arc::new(Commit { writes, ..Commit::default() }))).unwrap();
    }

    fn put(key: &str, value: &str) -> Write {
        Write::Put { key: key.into(), value: value.into() }
    }

    fn delete(key: &str) -> Write {
        Write::Delete { key: key.into() }
    }

    /// (keys, versions, entries of the list of old ones)
    fn sizes(store: &MemoryStore) -> (usize, usize, usize) {
        let state = store.shared.read();
        let versions = state.keys.values().map(|versions| versions.older.len() + 1).sum();
        (state.keys.len(), versions, state.old.len())
    }

    #[test]
    fn m3_without_snapshots_nothing_old_is_kept() {
        let store = MemoryStore::new();
        for _ in 0..10 {
            write(&store, vec![put("a", "1"), put("b", "1"), delete("c")]);
            write(&store, vec![delete("b"), put("c", "1")]);
        }
        assert_eq!(sizes(&store), (2, 2, 0));
        write(&store, vec![delete("a"), delete("b"), delete("c")]);
        assert_eq!(sizes(&store), (0, 0, 0));
    }

    #[test]
    fn m3_a_version_goes_with_the_last_snapshot_that_sees_it() {
        let store = MemoryStore::new();
        write(&store, vec![put("a", "1"), put("b", "1")]);
        let first = block_on(store.snapshot()).unwrap();
        write(&store, vec![put("a", "2"), delete("b")]);
        let second = block_on(store.snapshot()).unwrap();
        write(&store, vec![put("a", "3")]);
        assert_eq!(sizes(&store), (2, 5, 3));
        drop(first);
        assert_eq!(sizes(&store), (1, 2, 1));
        assert_eq!(block_on(second.get(b"a")).unwrap().unwrap().value, b"2");
        drop(second);
        assert_eq!(sizes(&store), (1, 1, 0));
    }

    #[test]
    fn m3_a_younger_snapshot_keeps_only_its_own_versions() {
        let store = MemoryStore::new();
        write(&store, vec![put("a", "1")]);
        let early = block_on(store.snapshot()).unwrap();
        write(&store, vec![put("a", "2")]);
        write(&store, vec![put("a", "3")]);
        let late = block_on(store.snapshot()).unwrap();
        write(&store, vec![put("a", "4")]);
        drop(early);
        assert_eq!(sizes(&store), (1, 2, 1));
        assert_eq!(block_on(late.get(b"a")).unwrap().unwrap().value, b"3");
    }

    #[test]
    fn an_open_scan_keeps_its_versions_after_its_snapshot_is_gone() {
        let store = MemoryStore::new();
        write(&store, vec![put("a", "1")]);
        let range = KeyRange { from: b"a".into(), to: b"b".into() };
        let options = ScanOptions { direction: Direction::Forward, limit: 10 };
        let mut scan =
            block_on(async { store.snapshot().await.unwrap().scan(&range, options).await })
                .unwrap();
        write(&store, vec![delete("a")]);
        assert_eq!(sizes(&store), (1, 2, 1));
        assert_eq!(block_on(scan.next(1)).unwrap().len(), 1);
        drop(scan);
        assert_eq!(sizes(&store), (0, 0, 0));
    }
}
