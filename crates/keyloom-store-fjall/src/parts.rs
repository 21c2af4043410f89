//! Where the rows lie: keyspaces that follow each other in the order of rows.
//!
//! ```text
//! documents   the tip, the catalog, documents      up to 01 03
//! keys        index keys, claims, all other keys   from 01 03
//! changes     the feed                             from 02
//! ```
//!
//! Documents and changes mostly come in the order of their keys, and what lies behind everything
//! else has nothing to be merged with. Index keys and claims come anywhere. In one keyspace every
//! table would hold some of each, all would be merged with all, and a list would look for its range
//! among documents (`docs/decisions/0013-three-keyspaces-on-fjall.md`).
//!
//! P1: A row lies in the last keyspace that begins at or before it, whatever it holds. So it has
//!     one place, and a range is read from one keyspace after the other.
//! P2: A keyspace of a database that was created is never created again: one that is missing is
//!     damage.

use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::{AbstractTree as _, Database, Keyspace, Slice};
use keyloom_store::Direction;
use keyloom_store::group::{Moment, Span};
use lsm_tree::IterGuardImpl;

use crate::limits::KEYS_TABLE_BYTES;
use crate::settings;

/// The name of each keyspace, and the two bytes that its first row may begin with.
const PARTS: [(&str, u16); 3] = [("documents", 0x0000), (KEYS, 0x0103), ("changes", 0x0200)];

/// The keyspace whose ranges are read.
const KEYS: &str = "keys";

/// All keyspaces, in the order of their rows.
pub(crate) struct Parts {
    keyspaces: Vec<Keyspace>,
}

impl Parts {
    /// Creates the keyspaces of a new database.
    pub(crate) fn create(database: &Database) -> fjall::Result<Parts> {
        let merged = || Leveled::default().with_table_target_size(KEYS_TABLE_BYTES);
        let settings_of = |name| match name {
            KEYS => settings::keyspace().compaction_strategy(Arc::new(merged())),
            _ => settings::keyspace(),
        };
        let keyspaces = PARTS.iter().map(|(name, _)| database.keyspace(name, || settings_of(name)));
        Ok(Parts { keyspaces: keyspaces.collect::<fjall::Result<_>>()? })
    }

    /// Opens the keyspaces; the name of one that is missing is the error (P2).
    pub(crate) fn open(database: &Database) -> fjall::Result<Result<Parts, &'static str>> {
        match PARTS.iter().find(|(name, _)| !database.keyspace_exists(name)) {
            Some((missing, _)) => Ok(Err(missing)),
            None => Parts::create(database).map(Ok),
        }
    }

    /// All keyspaces.
    pub(crate) fn all(&self) -> &[Keyspace] {
        &self.keyspaces
    }

    /// The keyspace of a row.
    pub(crate) fn of(&self, row: &[u8]) -> &Keyspace {
        self.keyspaces.get(self.place(row)).expect("a place is one of them")
    }

    /// The value of a row.
    pub(crate) fn get(&self, row: &[u8], at: Moment) -> fjall::Result<Option<Slice>> {
        Ok(self.of(row).tree.get(row, at.0)?)
    }

    /// The rows of a span.
    pub(crate) fn range(&self, Span { from, to, at }: Span<'_>) -> PartsIter {
        let mut iters = [const { None }; PARTS.len()];
        let places = self.place(from)..=self.place(to);
        for (place, iter) in iters.iter_mut().enumerate() {
            let keyspace = self.keyspaces.get(place).filter(|_| places.contains(&place));
            *iter = keyspace.map(|keyspace| keyspace.tree.range(from..to, at.0, None));
        }
        PartsIter { iters }
    }

    /// Which keyspace a row lies in.
    pub(crate) fn place(&self, row: &[u8]) -> usize {
        let byte = |place: usize| row.get(place).copied().unwrap_or_default();
        let start = u16::from_be_bytes([byte(0), byte(1)]);
        PARTS.iter().skip(1).filter(|(_, from)| *from <= start).count()
    }
}

/// The rows of one keyspace.
type TreeIter = Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send>;

/// A place in a range, which may go through several keyspaces.
pub(crate) struct PartsIter {
    iters: [Option<TreeIter>; PARTS.len()],
}

impl PartsIter {
    /// The next row from the end where this direction starts.
    pub(crate) fn next(&mut self, direction: Direction) -> Option<IterGuardImpl> {
        let mut iters = self.iters.iter_mut().flatten();
        match direction {
            Direction::Forward => iters.find_map(Iterator::next),
            Direction::Reverse => iters.rev().find_map(DoubleEndedIterator::next_back),
        }
    }
}

#[cfg(test)]
mod tests {
    use lsm_tree::Guard as _;
    use tempfile::TempDir;

    use super::*;

    /// Rows on both sides of every border, in order.
    const EDGES: [&[u8]; 12] = [
        &[0x00],
        &[0x00, 0xFF],
        &[0x01],
        &[0x01, 0x02],
        &[0x01, 0x02, 0xFF],
        &[0x01, 0x03],
        &[0x01, 0x03, 0x00],
        &[0x01, 0xFF, 0xFF],
        &[0x02],
        &[0x02, 0x00, 0x01],
        &[0x02, 0xFF],
        &[0xFF],
    ];

    fn database() -> (Database, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (settings::database(folder.path()).open().unwrap(), folder)
    }

    fn fill(database: &Database) -> Parts {
        let parts = Parts::create(database).unwrap();
        for row in EDGES {
            parts.of(row).insert(row, row).unwrap();
        }
        parts
    }

    fn read(parts: &Parts, database: &Database, ends: [&[u8]; 2], to: Direction) -> Vec<Vec<u8>> {
        let at = Moment(database.snapshot().seqno());
        let mut iter = parts.range(Span { from: ends[0], to: ends[1], at });
        let mut rows = Vec::new();
        while let Some(guard) = iter.next(to) {
            rows.push(guard.key().unwrap().to_vec());
        }
        rows
    }

    #[test]
    fn p1_any_range_is_read_whole_and_in_order() {
        let (database, _folder) = database();
        let parts = fill(&database);
        for (first, from) in EDGES.iter().enumerate() {
            for (last, to) in EDGES.iter().enumerate().skip(first + 1) {
                let mut expected: Vec<_> =
                    EDGES[first..last].iter().map(|it| it.to_vec()).collect();
                let found = |direction| read(&parts, &database, [from, to], direction);
                assert_eq!(found(Direction::Forward), expected);
                expected.reverse();
                assert_eq!(found(Direction::Reverse), expected);
            }
        }
    }

    #[test]
    fn p1_every_keyspace_has_its_rows() {
        let (database, _folder) = database();
        let parts = fill(&database);
        let rows: Vec<usize> =
            parts.keyspaces.iter().map(|keyspace| keyspace.len().unwrap()).collect();
        assert_eq!(rows, [5, 3, 4]);
    }

    #[test]
    fn p2_a_keyspace_that_is_missing_is_named() {
        let (database, _folder) = database();
        assert_eq!(Parts::open(&database).unwrap().err(), Some("documents"));
        let parts = fill(&database);
        assert!(Parts::open(&database).unwrap().is_ok());
        database.delete_keyspace(parts.keyspaces[1].clone()).unwrap();
        assert_eq!(Parts::open(&database).unwrap().err(), Some("keys"));
    }
}
