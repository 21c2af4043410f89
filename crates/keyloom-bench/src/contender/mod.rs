//! Who is measured: Keyloom on each store, each raw engine, SQLite.
//!
//! C1: A contender prepares what it needs before the clock runs: keys, queries, statements, rows.
//! C2: What is timed ends when the contender has acknowledged the last write, or has handed out
//!     the last byte of an answer as its own copy.

mod keyloom;
pub(crate) mod raw;
mod sqlite;
mod writers;

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::probe::Probe;
use crate::workload::{Approval, Reading};

/// How many documents one commit of the bulk load holds: the most that Keyloom takes.
pub(crate) const LOAD_BATCH: usize = keyloom_engine::limits::BATCH_OPERATIONS_MAX;

/// How many threads load: with two, one prepares while the other waits for the store.
const LOAD_THREADS: usize = 2;

/// Somebody who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Who {
    /// Keyloom on redb.
    KeyloomRedb,
    /// redb with the keys and values of Keyloom.
    RawRedb,
    /// Keyloom on fjall.
    KeyloomFjall,
    /// fjall with the keys and values of Keyloom.
    RawFjall,
    /// SQLite with a table and the same indexes.
    Sqlite,
    /// Keyloom on its memory store.
    KeyloomMemory,
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Promise {
    /// The loss of power.
    Durable,
    /// The end of the process.
    Buffered,
}

/// Everything that is measured.
pub(crate) trait Contender {
    /// Writes these approvals, [`LOAD_BATCH`] in each commit.
    fn load(&self, approvals: &[Approval]) -> Outcome<Duration>;

    /// Creates each of these approvals in a commit of its own, from so many threads at once.
    fn create(&self, approvals: &[Approval], writers: usize) -> Outcome<Duration>;

    /// Replaces each of these approvals by its successor, from so many threads at once.
    fn update(&self, changes: &[(Approval, Approval)], writers: usize) -> Outcome<Duration>;

    /// Answers these questions, one after the other.
    fn read(&self, reading: Reading, questions: &[u64], probe: &mut Probe) -> Outcome<()>;
}

impl Who {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Who; 6] = [
        Who::KeyloomRedb,
        Who::RawRedb,
        Who::KeyloomFjall,
        Who::RawFjall,
        Who::Sqlite,
        Who::KeyloomMemory,
    ];

    /// The name at the head of its column.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Who::KeyloomRedb => "Keyloom redb",
            Who::RawRedb => "raw redb",
            Who::KeyloomFjall => "Keyloom fjall",
            Who::RawFjall => "raw fjall",
            Who::Sqlite => "SQLite",
            Who::KeyloomMemory => "Keyloom memory",
        }
    }

    /// Its name on the command line and as a folder.
    pub(crate) fn argument(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it can acknowledge a write before it is on the disk.
    pub(crate) const fn has_buffered_mode(self) -> bool {
        match self {
            Who::KeyloomFjall | Who::RawFjall | Who::Sqlite | Who::KeyloomMemory => true,
            Who::KeyloomRedb | Who::RawRedb => false,
        }
    }

    /// Whether nothing of it is on a disk.
    pub(crate) const fn is_in_memory(self) -> bool {
        matches!(self, Who::KeyloomMemory)
    }

    /// Opens it in its folder, which may hold what it wrote before.
    pub(crate) fn open(self, folder: &Path, promise: Promise) -> Outcome<Box<dyn Contender>> {
        Ok(match self {
            Who::KeyloomRedb => Box::new(keyloom::open_redb(folder)?),
            Who::KeyloomFjall => Box::new(keyloom::open_fjall(folder, promise)?),
            Who::KeyloomMemory => Box::new(keyloom::open_memory()?),
            Who::RawRedb => Box::new(raw::Raw::new(raw::RawRedb::open(folder)?)?),
            Who::RawFjall => Box::new(raw::Raw::new(raw::RawFjall::open(folder, promise)?)?),
            Who::Sqlite => Box::new(sqlite::Sqlite::open(folder, promise)?),
        })
    }
}
