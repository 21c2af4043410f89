//! What the conductor asks of a worker process, and what it answers: one line of JSON each.
//!
//! Each contender has a process of its own, so that memory, allocator and background threads of
//! one do not blur those of another. A worker computes documents and questions by itself.

use serde::{Deserialize, Serialize};

use crate::contender::Promise;
use crate::workload::Reading;

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Open, after closing what is open.
    Open { promise: Promise },
    /// Load the approvals with these numbers.
    Load { from: u64, to: u64 },
    /// Create the approvals with these numbers, each in a commit of its own.
    Create { from: u64, to: u64, writers: usize },
    /// Decide the pending approvals of these turns, each in a commit of its own.
    Update { from: u64, to: u64, writers: usize },
    /// Open one more database, which has only the first `size` approvals.
    OpenSmaller { size: u64 },
    /// Close and remove all smaller databases.
    RemoveSmaller,
    /// Answer questions about the first `among` documents, all of them so often; the last time
    /// counts.
    Read { database: Database, reading: Reading, among: u64, seed: u64, count: u64, times: u64 },
    /// Tell what is in use.
    Weigh,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Database {
    /// The database that everything is measured with.
    Main,
    /// The smaller one with so many approvals.
    Smaller { size: u64 },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Nothing was measured.
    Done,
    /// It took this long.
    Measured(Timing),
    /// Memory and disk.
    Weighed { resident_bytes: u64, disk_bytes: u64 },
    /// It did not work.
    Failed { reason: String },
}

/// How long a task took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// How many operations there were.
    pub(crate) operations: u64,
    /// How long all of them took.
    pub(crate) nanos: u64,
    /// Of single reads; zero for writes.
    pub(crate) p50: u64,
    /// Of single reads; zero for writes.
    pub(crate) p99: u64,
    /// Of all answers; zero for writes.
    pub(crate) digest: u64,
    /// The fewest and the most keys that one read has cost, where the contender tells.
    pub(crate) keys_read: (u64, u64),
}
