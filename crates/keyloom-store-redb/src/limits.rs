//! The limits of this store, beside those that all embedded stores share.

/// How many bytes of the file are kept in memory.
pub const CACHE_BYTES: usize = 512 << 20;

/// Up to this size a file is verified when it is opened: a fraction of a second at most.
pub const VERIFY_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of the journal: they are read when the store is opened after a crash.
pub const JOURNAL_BYTES_MAX: usize = 4 << 20;

/// Most rows of the journal. Each may have changed a page of its own, and a checkpoint writes all
/// of these while commits wait: 256 MiB at the worst.
pub const JOURNAL_ROWS_MAX: usize = 65_536;

/// The space that the journal has at first; it doubles as it is needed.
pub(crate) const JOURNAL_BYTES_MIN: usize = 64 << 10;
