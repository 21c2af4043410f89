//! The write-optimized embedded store: fjall, a log-structured merge tree.
//!
//! Several times the durable commits of the default store in less space; lists are two to four
//! times slower. Commits that wait together share one batch and one sync (see
//! `keyloom_store::group`).
//!
//! J1: An acknowledged commit is in the journal: synced if durable, handed to the system if
//!     buffered.
//! J2: A journal that does not hold together is refused. fjall itself cuts a journal off at the
//!     first entry that it cannot read, and opens without an error; see `journal`.
//! J3: A table in memory that is full is left to be written by the commit that has filled it; see
//!     `settings`.
//! J4: A snapshot keeps the database open and the folder locked, and keeps old versions of rows
//!     from being dropped.

mod archive;
mod engine;
mod journal;
mod parts;
pub mod settings;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use keyloom_store::folder::Folder;
use keyloom_store::group::{GroupStore, guarded};
use keyloom_store::{
    Change, Commit, CommitOutcome, Feed, Limits, OrderedStore, Position, Snapshot, StoreError,
    Tally,
};

use engine::FjallEngine;

pub use keyloom_store::group::Durability;

/// The engine's name in the folder and in `?engine=`.
pub const ENGINE: &str = "fjall";

/// The name of the database in the folder.
const DATA: &str = "data.fjall";

/// A store in a folder of this machine.
pub struct FjallStore {
    group: GroupStore<FjallEngine>,
}

impl FjallStore {
    /// Opens the store in this folder, and creates it if there is none.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        let folder = Folder::open(path, ENGINE)?;
        let mark = folder.mark()?;
        let data = folder.data(DATA);
        if !data.exists() {
            folder.create_data(DATA, |path| guarded(|| engine::create(path)))?;
        }
        archive::check(&data)?;
        journal::check(&data)?;
        let engine = guarded(|| FjallEngine::open(&data, folder, durability))?;
        Ok(FjallStore { group: GroupStore::start(engine, mark, durability)? })
    }
}

#[async_trait]
impl OrderedStore for FjallStore {
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
