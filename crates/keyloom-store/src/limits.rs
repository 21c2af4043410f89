//! The limits of the embedded stores, and the one function that enforces the limits of any store.
//!
//! L1: A commit that passes [`check_commit`] fits the store; one that does not leaves no trace.
//! L2: Every limit is inclusive: a commit at the limit is taken, one byte or item more is refused.

use std::time::Duration;

use crate::{Commit, Isolation, Limits, Sharing, StoreError, Write};

/// Longest key. All stores share it so that data moves between them; a B-tree page of 4 KiB still
/// holds three such keys, and etcd and PostgreSQL index far longer ones.
pub const KEY_BYTES_MAX: usize = 1024;

/// Longest value. A document that is larger belongs into an object store; the value is copied a few
/// times on its way, so this also bounds the memory that one read may take.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Most checks, writes and changes of one commit, added up. Enough to replace a set of thousands of
/// documents with all their index keys, small enough to hold the writer for well under a second.
pub const COMMIT_OPERATIONS_MAX: usize = 65_536;

/// Most bytes of keys, values and changes of one commit: two of the largest values.
pub const COMMIT_BYTES_MAX: usize = 32 << 20;

/// Most commits that wait for the writer. Beyond this the writer is hopelessly behind, and a caller
/// is better served by an error than by a longer wait.
pub const QUEUE_COMMITS_MAX: usize = 4096;

/// Most bytes that wait for the writer, so that large commits cannot fill the memory.
pub const QUEUE_BYTES_MAX: usize = 128 << 20;

/// Most commits that share one sync. The sync is paid off long before; more would only make the
/// first caller of a group wait for the last.
pub const GROUP_COMMITS_MAX: usize = 1024;

/// Most bytes that share one sync, unless a single commit is larger.
pub const GROUP_BYTES_MAX: usize = 8 << 20;

/// Most groups that a caller of a buffered commit writes for others before the writer thread takes
/// over: a caller is not held up for long by those who came later.
pub const HELP_GROUPS_MAX: usize = 4;

/// Most changes that one call forgets: the writer is held up for a few milliseconds only.
pub const TRIM_CHANGES_MAX: u64 = 4096;

/// Longest time for which a group waits for callers that were just answered and may commit again:
/// well below the time of a sync, and long enough for a thread to be woken.
pub const GATHER_TIME: Duration = Duration::from_micros(50);

/// How long nobody commits before an engine may write out what it has put off: far longer than
/// those who commit all the time take, and short enough for the next ones to find it done.
pub const REST_TIME: Duration = Duration::from_millis(100);

/// Most bytes of the rows that an embedded store keeps because they were read lately: the hot part
/// of a database, beside the cache of its engine.
pub const ROWS_BYTES_MAX: usize = 64 << 20;

/// Most bytes of such a row, with its key: a larger one is cheap to find, compared with its copy.
pub const ROW_BYTES_MAX: usize = 1 << 10;

/// Most bytes of the pages of ranges that an embedded store keeps for the same reason: room for
/// the lists of sixteen thousand people.
pub const PAGES_BYTES_MAX: usize = 64 << 20;

/// Most bytes of such a page, with its range: more than twenty index keys have.
pub const PAGE_BYTES_MAX: usize = 4 << 10;

/// The bytes of the filter that tells which keys are absent: with a million keys hardly any is
/// looked for in vain, and with ten million one in twenty-five.
pub const FILTER_BYTES: usize = 8 << 20;

/// Most bytes that are read for the keys of a family, once after a store was opened and beside
/// everything else. It bounds the keys, too: too many would only fill the filter.
pub const FILTER_SCAN_BYTES_MAX: usize = 1 << 30;

/// A buffer for a record of a journal that has more space than this is given back after use.
pub const RECORD_BYTES_KEPT: usize = 4 << 20;

/// The limits of the memory store and of the embedded stores.
pub const EMBEDDED: Limits = Limits {
    key_bytes_max: KEY_BYTES_MAX,
    value_bytes_max: VALUE_BYTES_MAX,
    commit_operations_max: COMMIT_OPERATIONS_MAX,
    commit_bytes_max: COMMIT_BYTES_MAX,
    isolation: Isolation::Serial,
    sharing: Sharing::Exclusive,
};

/// Refuses a commit that a store with these limits does not take, before anything happens (L1).
///
/// Besides the sizes, it refuses an empty key (not every engine has one) and a key that is written
/// twice (the outcome would depend on an order that the contract does not promise).
pub fn check_commit(commit: &Commit, limits: &Limits) -> Result<(), StoreError> {
    let operations = commit.checks.len() + commit.writes.len() + commit.changes.len();
    at_most("the number of operations of a commit", operations, limits.commit_operations_max)?;
    for check in &commit.checks {
        check_key(&check.key, limits)?;
    }
    for write in &commit.writes {
        check_key(write.key(), limits)?;
        if let Write::Put { value, .. } = write {
            at_most("the length of a value", value.len(), limits.value_bytes_max)?;
        }
    }
    for change in &commit.changes {
        at_most("the length of a change", change.len(), limits.value_bytes_max)?;
    }
    at_most("the size of a commit", commit_bytes(commit), limits.commit_bytes_max)?;
    check_distinct(&commit.writes)
}

/// The bytes of all keys, values and changes of a commit; a counter counts as its 8 bytes.
pub fn commit_bytes(commit: &Commit) -> usize {
    let Commit { checks, writes, changes } = commit;
    let checks: usize = checks.iter().map(|check| check.key.len()).sum();
    let writes: usize = writes
        .iter()
        .map(|write| match write {
            Write::Put { key, value } => key.len() + value.len(),
            Write::Delete { key } => key.len(),
            Write::Add { key, .. } => key.len() + size_of::<i64>(),
        })
        .sum();
    checks + writes + changes.iter().map(Vec::len).sum::<usize>()
}

fn check_key(key: &[u8], limits: &Limits) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Invalid { what: "a key is empty".into() });
    }
    at_most("the length of a key", key.len(), limits.key_bytes_max)
}

fn check_distinct(writes: &[Write]) -> Result<(), StoreError> {
    // The commit of one document usually is in key order.
    if writes.is_sorted_by(|write, next| write.key() < next.key()) {
        return Ok(());
    }
    let mut keys: Vec<&[u8]> = writes.iter().map(Write::key).collect();
    keys.sort_unstable();
    for (key, next) in keys.iter().zip(keys.iter().skip(1)) {
        if key == next {
            let what = format!("the key {} is written twice", key.escape_ascii());
            return Err(StoreError::Invalid { what });
        }
    }
    Ok(())
}

fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), StoreError> {
    if found > max { Err(StoreError::LimitExceeded { what, found, max }) } else { Ok(()) }
}
