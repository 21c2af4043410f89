//! Why a row is lost, where it is lost.

use crate::contender::Promise;
use crate::row::Row;

/// Why SQLite may be ahead in a row.
pub(super) const fn behind_sqlite(row: Row) -> &'static str {
    match row {
        Row::Load => {
            "redb copies every page that a commit touches and syncs twice with quick repair; \
             fjall is the store for bulk loads."
        }
        Row::Create { promise: Promise::Durable, .. } | Row::Update => {
            "redb copies the path to every changed page, and quick repair adds the pages of its \
             allocator; SQLite appends changed pages to its log."
        }
        Row::Create { promise: Promise::Buffered, .. } => {
            "Keyloom also writes a change and a counter, which the table does not have."
        }
        Row::Read(_) => {
            "A log-structured tree asks several tables for a key, and redb checks the checksum of \
             every row that it reads; SQLite asks one tree and checks nothing."
        }
        Row::Memory => {
            "The cache of 512 MiB is filled with what was written, too, and fjall holds memtables \
             beside it."
        }
        Row::Disk => {
            "redb leaves room in its pages and keeps pages of the last commits; index keys repeat \
             the 16 bytes of the identity, and changes are kept, which SQLite does not do."
        }
    }
}
