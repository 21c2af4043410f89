//! How fjall is set up; whoever compares Keyloom with the bare engine sets it up the same way.

use std::path::Path;
use std::thread;

use fjall::{Database, DatabaseBuilder, KeyspaceCreateOptions};

/// How much of the tables is kept in memory.
const CACHE_BYTES: u64 = 512 << 20;

/// How much is collected in memory before it becomes a table.
const MEMTABLE_BYTES: u64 = 64 << 20;

/// How large the journals may grow; opening after a crash reads them, so this bounds its time.
const JOURNAL_BYTES: u64 = 256 << 20;

/// Most threads that write and merge tables.
const WORKERS_MAX: usize = 4;

/// The database in a folder.
pub fn database(path: &Path) -> DatabaseBuilder<Database> {
    Database::builder(path)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(workers())
}

/// A keyspace of the database.
pub fn keyspace() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES)
}

/// Half of the processors. While tables are merged, one of several workers does nothing but look
/// for other work all the time, and with as many workers as processors whoever commits pays for it.
fn workers() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, WORKERS_MAX)
}
