//! fjall, used by hand: one keyspace, plain batches, the settings that Keyloom gives it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fjall::{
    AbstractTree as _, Database, Iter, Keyspace, OwnedWriteBatch, PersistMode, Readable, Snapshot,
};
use keyloom_store::{Commit, KeyRange, Write};
use keyloom_store_fjall::{MEMTABLE_BYTES, settings};

use super::redb::change_key;
use super::{Group, RawEngine, RawKeys, RawView};
use crate::contender::Promise;
use crate::outcome::Outcome;

/// The engine, and its writer if commits are durable.
pub(crate) struct RawFjall {
    open: Arc<Open>,
    group: Option<Group<Arc<Commit>>>,
}

struct Open {
    database: Database,
    rows: Keyspace,
    documents: AtomicI64,
    changes: AtomicU64,
}

impl RawFjall {
    /// Opens or creates the database.
    pub(crate) fn open(folder: &Path, promise: Promise) -> Outcome<RawFjall> {
        let path = folder.join("raw.fjall");
        let database = settings::database(&path).open()?;
        let rows = database.keyspace("rows", settings::keyspace)?;
        let (documents, changes) = (AtomicI64::new(0), AtomicU64::new(last_change(&rows)?));
        let open = Arc::new(Open { database, rows, documents, changes });
        let writer = Arc::clone(&open);
        let group = (promise == Promise::Durable).then(|| {
            Group::start(move |commits: &[&Arc<Commit>]| {
                writer.write(commits, PersistMode::SyncData)
            })
        });
        Ok(RawFjall { open, group })
    }
}

/// The position of the last change of an earlier run.
fn last_change(rows: &Keyspace) -> Outcome<u64> {
    let Some(last) = rows.last_key_value() else { return Ok(0) };
    let key = last.key()?;
    Ok(key.get(1..).and_then(|it| it.try_into().ok()).map_or(0, u64::from_be_bytes))
}

impl Open {
    fn write(&self, commits: &[&Arc<Commit>], persist: PersistMode) -> Outcome<()> {
        let rows: usize = commits.iter().map(|it| it.writes.len() + it.changes.len()).sum();
        let mut batch =
            OwnedWriteBatch::with_capacity(self.database.clone(), rows).durability(Some(persist));
        let mut counter = None;
        for write in commits.iter().flat_map(|commit| &commit.writes) {
            match write {
                Write::Put { key, value } => {
                    batch.insert(&self.rows, key.as_slice(), value.as_slice());
                }
                Write::Delete { key } => batch.remove(&self.rows, key.as_slice()),
                Write::Add { key, delta } => {
                    let documents = self.documents.fetch_add(*delta, Ordering::Relaxed) + delta;
                    counter = Some((key, documents));
                }
            }
        }
        if let Some((key, documents)) = counter {
            batch.insert(&self.rows, key.as_slice(), documents.to_be_bytes());
        }
        for change in commits.iter().flat_map(|commit| &commit.changes) {
            let position = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
            batch.insert(&self.rows, change_key(position), change.as_slice());
        }
        batch.commit()?;
        self.make_room()
    }

    /// Begins a new table in memory if the present one is full.
    ///
    /// fjall does so itself, but asks its workers for it with every commit until it is done. If
    /// they are busy that fills their queue, and a worker which then has to put something into it
    /// waits for the workers: if it is the only one, for ever. No table is written from then on,
    /// and the memory grows with every commit.
    fn make_room(&self) -> Outcome<()> {
        if self.rows.tree.active_memtable().size() >= MEMTABLE_BYTES {
            self.rows.rotate_memtable()?;
        }
        Ok(())
    }
}

impl RawEngine for RawFjall {
    type View = FjallView;

    fn commit(&self, commit: &Arc<Commit>) -> Outcome<()> {
        match &self.group {
            Some(group) => group.write(Arc::clone(commit)),
            None => self.open.write(&[commit], PersistMode::Buffer),
        }
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.open.rows.get(key)?.map(|value| value.to_vec()))
    }

    fn view(&self) -> Outcome<FjallView> {
        let rows = self.open.rows.clone();
        Ok(FjallView { snapshot: self.open.database.snapshot(), rows })
    }
}

/// A keyspace at one point in time.
pub(crate) struct FjallView {
    snapshot: Snapshot,
    rows: Keyspace,
}

impl RawView for FjallView {
    type Keys = FjallKeys;

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.snapshot.get(&self.rows, key)?.map(|value| value.to_vec()))
    }

    fn keys(&self, range: &KeyRange) -> Outcome<FjallKeys> {
        let range = range.from.as_slice()..range.to.as_slice();
        Ok(FjallKeys { iter: self.snapshot.range(&self.rows, range) })
    }
}

/// A place in a range.
pub(crate) struct FjallKeys {
    iter: Iter,
}

impl RawKeys for FjallKeys {
    fn next<R>(&mut self, copy: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
        match self.iter.next() {
            Some(guard) => Ok(Some(copy(&guard.key()?))),
            None => Ok(None),
        }
    }
}
