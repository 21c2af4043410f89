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

/// Begins new tables in memory if the present ones of all keyspaces together are full; to be called
/// after every commit.
///
/// fjall does so itself, but asks its workers for it with every commit until it is done. If they
/// are busy that fills their queue, and a worker which then has to put something into it waits for
/// the workers: if it is the only one, for ever. No table is written from then on, and the memory
/// grows with every commit. What this calls is hidden in the documentation of fjall, so a release
/// without it would not compile here.
pub fn make_room(keyspaces: &[Keyspace]) -> fjall::Result<()> {
    let bytes = keyspaces.iter().map(|keyspace| keyspace.tree.active_memtable().size());
    if bytes.sum::<u64>() >= MEMTABLE_BYTES {
        for keyspace in keyspaces {
            keyspace.rotate_memtable()?;
        }
    }
    Ok(())
}

/// One worker writes tables and merges them. Of several, the first one never merges: while the
/// others do, it takes the message for the next merge and puts it back, all the time. That keeps a
/// processor busy, so it is worth it only where there are some left.
fn workers() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors < WORKERS { 1 } else { WORKERS }
}
