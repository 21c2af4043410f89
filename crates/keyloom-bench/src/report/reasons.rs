//! Why a row is lost, where it is lost.

use crate::contender::{Promise, Who};
use crate::row::Row;

/// Why a list or a lookup takes longer in more data.
pub(super) const GROWTH: &str = "The trees are deeper, and less of them is in the caches of the \
    processor; the number of keys is the same.";

/// Why SQLite may be ahead of Keyloom in a row.
pub(super) const fn behind_sqlite(row: Row, ours: Who) -> &'static str {
    match (row, ours) {
        (Row::Create { writers: 1, .. }, Who::KeyloomRedb) => {
            "A lone commit goes to the writer thread and back, and redb copies the path to every \
             page that it changes. fjall is the store for many writes."
        }
        (Row::Load | Row::Create { .. } | Row::Update, Who::KeyloomRedb) => {
            "redb copies the path to every page that it changes, in memory for each group and once \
             more at a checkpoint. fjall is the store for many writes."
        }
        (Row::Load | Row::Create { .. } | Row::Update, _) => {
            "Keyloom also writes a change, a counter and the heads of its keys, and every commit \
             is checked."
        }
        (Row::Read(_), Who::KeyloomFjall) => {
            "A log-structured merge tree looks for a key in several tables; redb is the store for \
             reads."
        }
        (Row::Read(_), _) => {
            "Keyloom checks the checksum of every row, plans each query anew, and reports the plan \
             and its cost."
        }
        (Row::Memory, _) => {
            "The caches of 512 MiB are full, and commits and memtables come on top of them."
        }
        (Row::Disk, _) => {
            "Keyloom keeps the change of every commit, and redb leaves room in its pages; the \
             table in SQLite has no feed."
        }
    }
}

/// Why Keyloom may be further behind the raw engine than it should.
pub(super) const fn behind_raw(row: Row) -> &'static str {
    match row {
        Row::Create { promise: Promise::Buffered, .. } => {
            "The raw engine is handed finished keys. Keyloom parses the document, checks its \
             rules, builds its keys and checks that they are free, all on the thread of the caller."
        }
        Row::Create { .. } => {
            "With two cores, parsing and planning take time from the writer, which also checks \
             that every key is free; the raw engine checks nothing."
        }
        Row::Read(_) => {
            "Keyloom reads and plans the query, and reports the plan and its cost; the raw engine \
             is handed the range."
        }
        Row::Load | Row::Update | Row::Memory | Row::Disk => "",
    }
}
