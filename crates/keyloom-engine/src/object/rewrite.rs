//! Moves objects from the older layouts to the new one, a few in each commit.
//!
//! G1: Rewriting changes nothing that a client can see: not a value, not a version, not an order,
//!     and the feed does not tell of it.
//! G2: Each commit checks what it moves, so it may run beside writers, and be stopped and begun
//!     again.

use std::sync::Arc;

use keyloom_key::{Head, ObjectId, ObjectKey, ObjectRecord, Space, StoredKey};
use keyloom_store::{
    Commit, CommitOutcome, Direction, Entry, KeyRange, ScanOptions, Snapshot, StoreError,
};

use super::draft::rewrite;
use super::read::State;
use super::record::Metadata;
use crate::catalog::{Catalog, Class};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{REPLAN_ATTEMPTS_MAX, REWRITE_OBJECTS};

impl Engine {
    /// Moves all objects of a class that lie in an older layout to the new one, and says how many
    /// that were. `progress` hears of each commit how many objects it moved.
    pub async fn rewrite_legacy(
        &self,
        class: &str,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<u64, Error> {
        let catalog = self.reload_catalog().await?;
        let class = catalog.class(class)?;
        let mut moved = 0;
        for partition in 0..class.schema.partitions {
            let partition = class.partition(partition).map_err(Error::corrupt)?;
            let mut found = Finder::new(class.id, partition);
            loop {
                let snapshot = self.store.snapshot().await?;
                let ids = found.next(&*snapshot).await?;
                if ids.is_empty() {
                    break;
                }
                self.rewrite_objects(&class.name, partition, &ids).await?;
                moved += ids.len() as u64;
                progress(ids.len() as u64);
            }
        }
        Ok(moved)
    }

    /// Moves these objects; who meets writers tries fewer at a time.
    async fn rewrite_objects(
        &self,
        class: &str,
        partition: u16,
        ids: &[ObjectId],
    ) -> Result<(), Error> {
        let (mut rest, mut size) = (ids, ids.len());
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let (some, behind) = rest.split_at_checked(size.min(rest.len())).unwrap_or((rest, &[]));
            if some.is_empty() {
                return Ok(());
            }
            let catalog = self.reload_catalog().await?;
            let class = catalog.class(class)?;
            let commit = self.draft_rewrite(&catalog, class, partition, some).await?;
            match self.store.commit(Arc::new(commit)).await {
                Ok(CommitOutcome::Committed { .. }) => rest = behind,
                // What became of it is seen when the objects are read again: a moved one is left
                // alone.
                Ok(CommitOutcome::Conflict { .. }) | Err(StoreError::OutcomeUnknown { .. }) => {
                    size = (size / 2).max(1);
                }
                // Large objects do not fit into one commit together.
                Err(StoreError::LimitExceeded { .. }) if size > 1 => size = (size / 2).max(1),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::exhausted())
    }

    async fn draft_rewrite(
        &self,
        catalog: &Catalog,
        class: &Class,
        partition: u16,
        ids: &[ObjectId],
    ) -> Result<Commit, Error> {
        let snapshot = self.store.snapshot().await?;
        let mut whole = Commit::default();
        for id in ids {
            let keys = ObjectKey::new(class.id, partition, id);
            let state = State::whole(&*snapshot, &keys).await?;
            if state.is_older() {
                let Commit { checks, writes, changes: _ } = rewrite(catalog, &keys, &state)?;
                whole.checks.extend(checks);
                whole.writes.extend(writes);
            }
        }
        Ok(whole)
    }
}

/// Finds the objects of a partition that lie in an older layout.
struct Finder {
    /// What is left of the oldest layout, then of the metadata of the others.
    ranges: Vec<KeyRange>,
    class: u16,
    partition: u16,
}

impl Finder {
    fn new(class: u16, partition: u16) -> Finder {
        let range = |space| {
            let head = Head { space, collection: class, template: partition };
            let (from, to) = head.whole();
            KeyRange { from, to }
        };
        let mut objects = range(Space::Object);
        // Behind the directory.
        objects.from.push(1);
        Finder { ranges: vec![objects, range(Space::LegacyObject)], class, partition }
    }

    /// Some that were not found before; none at the end.
    async fn next(&mut self, snapshot: &dyn Snapshot) -> Result<Vec<ObjectId>, Error> {
        let mut ids = Vec::new();
        while ids.len() < REWRITE_OBJECTS {
            let Some(range) = self.ranges.last_mut() else { break };
            let options = ScanOptions { direction: Direction::Forward, limit: 1 };
            let page = snapshot.scan(range, options).await?.next(1).await?;
            let Some(Entry { key, stored }) = page.into_iter().next() else {
                self.ranges.pop();
                continue;
            };
            let (.., read) = StoredKey::read(&key).map_err(|e| Error::corrupt(e.to_string()))?;
            match read {
                StoredKey::Legacy(number) => {
                    ids.push(ObjectId::Numeric(number));
                    range.from = [&key[..], &[0]].concat();
                }
                StoredKey::Record { id, record: ObjectRecord::Metadata } => {
                    range.from = ObjectKey::new(self.class, self.partition, &id).end();
                    if Metadata::decode(&stored.value)?.has_length_entries {
                        ids.push(id);
                    }
                    crate::pause::pause().await;
                }
                _ => return Err(Error::corrupt("an object has no metadata")),
            }
        }
        Ok(ids)
    }
}
