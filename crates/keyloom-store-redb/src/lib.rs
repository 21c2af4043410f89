//! The default embedded store: redb, a copy-on-write B-tree in one file.
//!
//! Every acknowledged commit is durable; there is no other mode. Commits that wait together are one
//! record of a journal and share one sync (see `keyloom_store::group` and `journal`); redb has them
//! in memory, and writes its pages for many groups at once.
//!
//! E1: A row carries a checksum over its key and its value, which every read checks: redb checks
//!     its own page checksums only when it repairs, so a damaged page would be read as it is.
//! E2: A file up to [`VERIFY_BYTES_MAX`] is verified whole when it is opened, without writing to
//!     it. Larger ones are verified on demand ([`RedbStore::verify`]): it costs seconds for a
//!     gigabyte.
//! E3: A snapshot keeps the database open and the folder locked, and keeps the pages that it shows
//!     from being used again: a snapshot that lives for long makes the file grow.

mod engine;
mod journal;
mod limits;
mod overlay;
#[cfg(test)]
mod power;
mod tree;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use keyloom_store::folder::Folder;
use keyloom_store::group::{Durability, GroupStore, guarded};
use keyloom_store::{
    Change, Commit, CommitOutcome, Feed, Limits, OrderedStore, Position, Snapshot, StoreError,
    Tally,
};

use engine::RedbEngine;

pub use limits::{CACHE_BYTES, JOURNAL_BYTES_MAX, JOURNAL_ROWS_MAX, VERIFY_BYTES_MAX};

/// The engine's name in the folder and in `?engine=`.
pub const ENGINE: &str = "redb";

/// The name of the database file in the folder.
const DATA: &str = "data.redb";

/// The name of the journal in the folder.
const JOURNAL: &str = "journal";

/// A store in a folder of this machine.
pub struct RedbStore {
    group: GroupStore<RedbEngine>,
}

impl RedbStore {
    /// Opens the store in this folder, and creates it if there is none.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Folder::open(path, ENGINE)?;
        let mark = folder.mark()?;
        let data = folder.data(DATA);
        let journal = folder.data(JOURNAL);
        if !data.exists() {
            // Nothing is touched if there was something once.
            mark.check(0)?;
        }
        // A link that leads nowhere, as to a disk that is not there, is left alone and refused.
        if fs::symlink_metadata(&journal).is_err() {
            folder.create_data(JOURNAL, engine::create_journal)?;
        }
        if !data.exists() {
            folder.create_data(DATA, |path| guarded(|| engine::create(path)))?;
        }
        if data.metadata().is_ok_and(|file| file.len() <= VERIFY_BYTES_MAX) {
            guarded(|| overlay::verify(&data))?;
        }
        let engine = guarded(|| {
            RedbEngine::start(engine::open(&data)?, engine::open_journal(&journal)?, folder)
        })?;
        Ok(RedbStore { group: GroupStore::start(engine, mark, Durability::Durable)? })
    }

    /// Reads the whole file of redb and checks every page, without writing to it. The journal is
    /// checked whenever the store is opened.
    pub fn verify(path: &Path) -> Result<(), StoreError> {
        let folder = Folder::open(path, ENGINE)?;
        let data = folder.data(DATA);
        guarded(|| overlay::verify(&data))
    }
}

#[async_trait]
impl OrderedStore for RedbStore {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.group.snapshot().await
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        self.group.commit(commit).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.group.changes(after, limit).await
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        self.group.feed().await
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.group.trim(through).await
    }

    fn limits(&self) -> Limits {
        self.group.limits()
    }

    fn tally(&self) -> Tally {
        self.group.tally()
    }
}
