//! The write-optimized embedded store: fjall, a log-structured merge tree.
//!
//! Several times the durable commits of the default store in less space; lists are two to four
//! times slower. Commits that wait together share one batch and one sync (see
//! `keyloom_store::group`).
//!
//! J1: An acknowledged commit is in the journal: synced if durable, handed to the system if
//!     buffered.
//! J2: What the journal misses is noticed, wherever it is missing (`journal`).
//! J3: Tables in memory that are full are left to be written by the commit that has filled them;
//!     see `tables`.
//! J4: A snapshot keeps the database open and the folder locked.
//! J5: A view keeps what it shows at any moment from its own on, until nobody reads it any more.

mod archive;
mod engine;
mod journal;
mod limits;
mod parts;
mod segment;
pub mod settings;
mod tables;

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
use journal::Journal;

pub use keyloom_store::group::Durability;
pub use limits::{
    KEYS_TABLE_BYTES, MEMTABLE_BYTES, RUNS_MAX, SEALED_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX,
};

/// The engine's name in the folder and in `?engine=`.
pub const ENGINE: &str = "fjall";

/// The oldest layout of a folder that is read: there was no release before it.
const FORMAT_MIN: u32 = 3;

/// The name of the database in the folder.
const DATA: &str = "data.fjall";

/// The name of the journal in the folder.
const JOURNAL: &str = "journal";

/// A store in a folder of this machine.
pub struct FjallStore {
    group: GroupStore<FjallEngine>,
}

impl FjallStore {
    /// Opens the store in this folder, and creates it if there is none.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, StoreError> {
        let folder = Folder::open(path, ENGINE)?;
        folder.check_format(FORMAT_MIN)?;
        let mark = folder.mark()?;
        let data = folder.data(DATA);
        let journal = folder.data(JOURNAL);
        if !data.exists() {
            // Nothing is touched if there was something once.
            mark.check(0)?;
            if !journal.exists() {
                folder.create_data(JOURNAL, Journal::create)?;
            }
            folder.create_data(DATA, |path| guarded(|| engine::create(path)))?;
        }
        archive::check(&data)?;
        let engine = guarded(|| FjallEngine::open(&data, &journal, folder, durability))?;
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
