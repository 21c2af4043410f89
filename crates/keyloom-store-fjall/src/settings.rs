//! How fjall is set up; whoever compares Keyloom with the bare engine sets it up the same way.

use std::path::Path;
use std::thread;

use fjall::{AbstractTree, Database, DatabaseBuilder, Keyspace, KeyspaceCreateOptions};

/// How many bytes of tables are kept in memory.
const CACHE_BYTES: u64 = 512 << 20;

/// How much is collected in memory before it becomes a table.
const MEMTABLE_BYTES: u64 = 60 << 20;

/// When fjall itself begins a new table in memory. Only a large commit reaches it.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// How large the journals may grow; opening after a crash reads them, so this bounds its time.
const JOURNAL_BYTES: u64 = 256 << 20;

/// Fewest threads that write and merge tables.
const WORKERS_MIN: usize = 2;

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
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX)
}

/// Begins a new table in memory if the present one is full; to be called after every commit.
///
/// fjall does so itself, but asks its workers for it with every commit until it is done. If they
/// are busy that fills their queue, and a worker which then has to put something into it waits for
/// the workers: if it is the only one, for ever. No table is written from then on, and the memory
/// grows with every commit. What this calls is hidden in the documentation of fjall, so a release
/// without it would not compile here.
pub fn make_room(keyspace: &Keyspace) -> fjall::Result<()> {
    if keyspace.tree.active_memtable().size() >= MEMTABLE_BYTES {
        keyspace.rotate_memtable()?;
    }
    Ok(())
}

/// One that writes tables and one that merges them, at least: a commit looks for its claims in all
/// tables that are still in memory, so a merge must not keep them from being written.
fn workers() -> usize {
    thread::available_parallelism().map_or(WORKERS_MIN, usize::from).clamp(WORKERS_MIN, WORKERS_MAX)
}
