//! The limits of this store, beside those that all embedded stores share.

/// How many bytes are collected in memory before they become tables.
pub const MEMTABLE_BYTES: u64 = 60 << 20;

/// How many tables in memory of one keyspace may wait to be written; who commits waits then.
pub const SEALED_MAX: usize = 4;

/// How many runs of tables that were not merged yet a keyspace may have; who commits waits then.
/// fjall begins to slow down commits at as many.
pub const RUNS_MAX: usize = 20;

/// The size of merged tables of keys; the first level is four times larger. A list looks into each
/// level, and with fjall's 64 MiB there is one more for a million documents.
pub const KEYS_TABLE_BYTES: u64 = 128 << 20;

/// Most bytes of a segment of the journal. A full table in memory and the largest commit, which may
/// be the one that fills it, are less; only a group of very many changes without content is not,
/// and is refused.
pub const SEGMENT_BYTES_MAX: usize = 128 << 20;

/// The space that a segment has at first, and the most that it takes at once. Space is filled with
/// zeros before it is used, and what is not used is still read after a crash.
pub(crate) const SPACE_BYTES_MIN: usize = 64 << 10;
pub(crate) const SPACE_BYTES_MAX: usize = 1 << 20;

/// How many segments are read when the store is opened before their rows are written to tables:
/// every process that commits begins one.
pub const SEGMENTS_MAX: u64 = 16;

/// How many bytes of groups readers are shown by one view. To make one costs a small part of a
/// small commit. Until the next one is made, tables in memory and files that others have replaced
/// are kept for it: this is little of what makes a table full.
pub(crate) const VIEW_BYTES_MAX: usize = 256 << 10;
