//! The few rows that commit after commit is checked against: the catalog, counters.
//!
//! H1: A row that is kept is the row that the store holds: the writer is the only one who writes,
//!     and what it writes is followed.
//! H2: At most [`ROWS_MAX`] rows are kept; the one that was not needed for the longest time goes.

use std::collections::VecDeque;

use crate::Stamp;
use crate::batch::Batch;

/// A commit is checked against one catalog and counts in few counters; what else is met here comes
/// and goes.
const ROWS_MAX: usize = 8;

/// A row as the store holds it.
#[derive(Debug)]
pub(super) struct HotRow {
    pub(super) key: Vec<u8>,
    pub(super) stamp: Stamp,
    /// The value, if it was asked for.
    pub(super) value: Option<Vec<u8>>,
}

/// Rows that were needed last, the last one in front.
#[derive(Debug, Default)]
pub(super) struct HotRows {
    rows: VecDeque<HotRow>,
}

impl HotRows {
    /// A row that is kept; it is now the last one that was needed.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<&HotRow> {
        let place = self.rows.iter().position(|row| row.key == key)?;
        if place > 0 {
            let row = self.rows.remove(place)?;
            self.rows.push_front(row);
        }
        self.rows.front()
    }

    /// Keeps a row as it was read; one that is known is replaced.
    pub(super) fn keep(&mut self, row: HotRow) {
        self.rows.retain(|known| known.key != row.key);
        self.rows.truncate(ROWS_MAX - 1);
        self.rows.push_front(row);
    }

    /// Follows a batch that was written (H1).
    pub(super) fn follow(&mut self, batch: &Batch<'_>) {
        self.rows.retain_mut(|row| match batch.slot(&row.key) {
            None => true,
            Some(None) => false,
            Some(Some(slot)) => {
                row.stamp = slot.stamp;
                if let Some(value) = &mut row.value {
                    value.clear();
                    value.extend_from_slice(&slot.value);
                }
                true
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Write};

    fn row(key: &str, value: Option<&str>) -> HotRow {
        let value = value.map(|value| value.as_bytes().to_vec());
        HotRow { key: key.into(), stamp: Stamp(1), value }
    }

    #[test]
    fn h1_what_is_written_is_followed() {
        let mut hot = HotRows::default();
        for key in ["deleted", "left alone"] {
            hot.keep(row(key, None));
        }
        hot.keep(row("counter", Some("old")));
        hot.keep(row("checked", None));
        let put = |key: &str| Write::Put { key: key.into(), value: b"new".into() };
        let delete = Write::Delete { key: b"deleted".into() };
        let writes = vec![put("counter"), put("checked"), put("never seen"), delete];
        let commit = Commit { writes, ..Commit::default() };
        let mut batch = Batch::new(Tip { sequence: 6, ..Tip::default() });
        batch.add(&commit, &Empty).unwrap();
        hot.follow(&batch);
        let counter = hot.find(b"counter").unwrap();
        assert_eq!((counter.stamp, counter.value.as_deref()), (Stamp(7), Some(&b"new"[..])));
        let checked = hot.find(b"checked").unwrap();
        assert_eq!((checked.stamp, checked.value.as_deref()), (Stamp(7), None));
        assert_eq!(hot.find(b"left alone").unwrap().stamp, Stamp(1));
        assert!(hot.find(b"deleted").is_none());
        assert!(hot.find(b"never seen").is_none());
    }

    #[test]
    fn h2_the_row_that_was_not_needed_for_the_longest_time_goes() {
        let mut hot = HotRows::default();
        for number in 0..ROWS_MAX {
            hot.keep(row(&number.to_string(), None));
        }
        assert!(hot.find(b"0").is_some());
        hot.keep(row("one more", None));
        assert!(hot.find(b"0").is_some());
        assert!(hot.find(b"1").is_none());
        assert_eq!(hot.rows.len(), ROWS_MAX);
    }

    #[test]
    fn a_row_is_kept_once() {
        let mut hot = HotRows::default();
        hot.keep(row("a", None));
        hot.keep(row("a", Some("value")));
        assert_eq!(hot.rows.len(), 1);
        assert!(hot.find(b"a").unwrap().value.is_some());
    }
}
