//! How fjall is set up; whoever compares Keyloom with the bare engine sets it up the same way.

use std::path::Path;
use std::thread;

use fjall::{Database, DatabaseBuilder, KeyspaceCreateOptions};

/// How many bytes of tables are kept in memory.
const CACHE_BYTES: u64 = 512 << 20;

/// When fjall itself begins a new table in memory, if rows come through its journal.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// How large fjall's own journals may grow, for whoever uses them.
const JOURNAL_BYTES: u64 = 256 << 20;

/// How many threads write and merge tables where there are processors enough.
const WORKERS: usize = 4;

/// The database in a folder.
pub fn database(path: &Path) -> DatabaseBuilder<Database> {
    Database::builder(path)
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(workers())
}

/// A keyspace of the database.
pub fn keyspace() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX)
}

/// One worker writes tables and merges them. Of several, the first one never merges: while the
/// others do, it takes the message for the next merge and puts it back, all the time. That keeps a
/// processor busy, so it is worth it only where there are some left.
fn workers() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors < WORKERS { 1 } else { WORKERS }
}
