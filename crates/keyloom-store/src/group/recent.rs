//! What was read lately, rows and whole pages of ranges: what is asked for again is found without a
//! walk through the engine, in as many steps however much else is stored.
//!
//! T1: What is found here is what the reader's moment shows. It is kept together with the moment at
//!     which it was read, and holds as long as nothing of it was written since. Before a commit is
//!     published, its moment is noted for each key that it writes and for how that key begins; a
//!     page holds if nothing was noted for what its range begins with.
//! T2: All rows together take at most [`ROWS_BYTES_MAX`], and all pages [`PAGES_BYTES_MAX`].

mod places;

use super::Moment;
use super::hash::Hash;
use crate::batch::Batch;
use crate::limits::{PAGE_BYTES_MAX, PAGES_BYTES_MAX, ROW_BYTES_MAX, ROWS_BYTES_MAX};
use crate::{Direction, Entries, Stamp, StoreError, Stored};
use places::{Asked, Content, Places};

/// The lengths of how a key begins, of which commits note each and a page the longest that all its
/// keys share: the head of a key, and a few bytes or most of its first component.
const BEGINNINGS: [usize; 2] = [20, 10];

/// Most entries of a page that is kept: what people look at.
const ENTRIES_MAX: usize = 64;

/// What was read lately.
pub(super) struct Recent {
    rows: Places,
    pages: Places,
    hash: Hash,
}

/// A range that is read at once, as rows of an engine.
#[derive(Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) from: &'a [u8],
    pub(super) to: &'a [u8],
    pub(super) direction: Direction,
    /// The most entries that are wanted.
    pub(super) count: usize,
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent {
            rows: Places::new(ROWS_BYTES_MAX / ROW_BYTES_MAX, ROW_BYTES_MAX),
            pages: Places::new(PAGES_BYTES_MAX / PAGE_BYTES_MAX, PAGE_BYTES_MAX),
            hash: Hash::default(),
        }
    }

    /// The row of a key at this moment; `look` finds it there.
    pub(super) fn row(
        &self,
        key: &[u8],
        at: Moment,
        look: impl FnOnce() -> Result<Option<Stored>, StoreError>,
    ) -> Result<Option<Stored>, StoreError> {
        let hash = self.hash.of(key);
        self.rows.get(Asked { key, hash, noted: hash, at }, look)
    }

    /// The entries of a range at this moment; `look` finds them there.
    pub(super) fn page(
        &self,
        range: Range<'_>,
        at: Moment,
        look: impl FnOnce() -> Result<Entries, StoreError>,
    ) -> Result<Entries, StoreError> {
        let Some(beginning) = range.beginning().filter(|_| range.count <= ENTRIES_MAX) else {
            return look();
        };
        let key = range.key();
        let (hash, noted) = (self.hash.of(&key), self.hash.of(beginning));
        let found = self.pages.get(Asked { key: &key, hash, noted, at }, || look().map(Some));
        found.map(Option::unwrap_or_default)
    }

    /// Follows a batch that was written and is not published yet (T1).
    pub(super) fn follow(&self, batch: &Batch<'_>, at: Moment) {
        for (key, _) in batch.slots() {
            self.rows.note(self.hash.of(key), at);
            for beginning in BEGINNINGS.iter().filter_map(|bytes| key.get(..*bytes)) {
                self.pages.note(self.hash.of(beginning), at);
            }
        }
    }
}

impl<'a> Range<'a> {
    /// What all keys of the range begin with, as commits note it: both ends do.
    fn beginning(&self) -> Option<&'a [u8]> {
        let beginnings = BEGINNINGS.iter().filter_map(|bytes| self.from.get(..*bytes));
        beginnings.into_iter().find(|beginning| self.to.starts_with(beginning))
    }

    /// Tells it from all other ranges.
    fn key(&self) -> Vec<u8> {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX).to_be_bytes();
        let from_len = u32::try_from(self.from.len()).unwrap_or(u32::MAX).to_be_bytes();
        let direction = [u8::from(self.direction == Direction::Reverse)];
        [&count[..], &direction, &from_len, self.from, self.to].concat()
    }
}

const STAMP_BYTES: usize = 8;
const LEN_BYTES: usize = 4;

impl Content for Stored {
    fn bytes(&self) -> usize {
        STAMP_BYTES + self.value.len()
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.stamp.0.to_be_bytes());
        bytes.extend_from_slice(&self.value);
    }

    fn read(bytes: &[u8]) -> Option<Stored> {
        let (stamp, value) = bytes.split_first_chunk()?;
        Some(Stored { value: value.to_vec(), stamp: Stamp(u64::from_be_bytes(*stamp)) })
    }
}

/// ```text
/// bytes of all keys u32 | all keys | entry | entry | …
/// entry: where its key ends u32 | bytes of its row u32 | row
/// ```
impl Content for Entries {
    fn bytes(&self) -> usize {
        let rows = self.iter().map(|(key, stored)| key.len() + 2 * LEN_BYTES + stored.bytes());
        LEN_BYTES + rows.sum::<usize>()
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let len = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
        let (keys, rows) = self.parts();
        bytes.extend_from_slice(&len(keys.len()));
        bytes.extend_from_slice(keys);
        for (end, stored) in rows {
            bytes.extend_from_slice(&len(*end));
            bytes.extend_from_slice(&len(stored.bytes()));
            stored.write(bytes);
        }
    }

    fn read(bytes: &[u8]) -> Option<Entries> {
        let (keys, mut rest) = split_counted(bytes)?;
        let mut rows = Vec::with_capacity(ENTRIES_MAX / 2);
        while !rest.is_empty() {
            let (end, behind) = rest.split_first_chunk()?;
            let (row, behind) = split_counted(behind)?;
            rows.push((u32::from_be_bytes(*end) as usize, Stored::read(row)?));
            rest = behind;
        }
        Some(Entries::from_parts(keys.to_vec(), rows))
    }
}

/// The bytes behind their number, and what follows them.
fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*count) as usize)
}

#[cfg(test)]
mod tests {
    use super::places::WAYS;
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Stamp, Write};

    const KEY: &[u8] = b"key";

    fn stored(value: &str, stamp: u64) -> Stored {
        Stored { value: value.into(), stamp: Stamp(stamp) }
    }

    /// Reads a key that holds `stored` in the view; whether the view was asked.
    fn asked(recent: &Recent, key: &[u8], at: u64, holds: &Stored) -> bool {
        let mut asked = false;
        let look = || {
            asked = true;
            Ok(Some(holds.clone()))
        };
        assert_eq!(recent.row(key, Moment(at), look).unwrap().as_ref(), Some(holds));
        asked
    }

    fn write(recent: &Recent, key: &[u8], at: u64) {
        let writes = vec![Write::Put { key: key.into(), value: Vec::new() }];
        let commit = Commit { writes, ..Commit::default() };
        let mut batch = Batch::new(Tip::default());
        batch.add(&commit, &Empty).unwrap();
        recent.follow(&batch, Moment(at));
    }

    #[test]
    fn p2_a_row_is_kept_at_once_where_nothing_is() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let reads = [(); 3].map(|()| asked(&recent, KEY, 7, &row));
        assert_eq!(reads, [true, false, false]);
    }

    #[test]
    fn p2_a_row_is_kept_in_place_of_another_when_it_is_read_again() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        assert!(neighbours(&recent).iter().all(|other| asked(&recent, other, 7, &row)));
        let reads = [(); 4].map(|()| asked(&recent, KEY, 7, &row));
        assert_eq!(reads, [true, true, false, false]);
    }

    #[test]
    fn t1_what_was_written_since_is_read_from_the_view() {
        let (recent, old, new) = (Recent::new(), stored("old", 1), stored("new", 8));
        for _ in 0..2 {
            asked(&recent, KEY, 7, &old);
        }
        write(&recent, KEY, 8);
        assert!(asked(&recent, KEY, 8, &new));
        // Before the commit there is still the old row, which does not take the place of the new.
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &old));
            assert!(!asked(&recent, KEY, 8, &new));
        }
    }

    #[test]
    fn t1_what_an_older_view_shows_is_not_kept_for_a_newer_one() {
        let (recent, old, new) = (Recent::new(), stored("old", 1), stored("new", 8));
        write(&recent, KEY, 8);
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &old));
        }
        assert!(asked(&recent, KEY, 8, &new));
    }

    #[test]
    fn t1_a_row_that_was_not_written_since_serves_older_and_newer_views() {
        let (recent, row) = (Recent::new(), stored("value", 3));
        for _ in 0..2 {
            asked(&recent, KEY, 7, &row);
        }
        for at in [3, 7, 9] {
            assert!(!asked(&recent, KEY, at, &row));
        }
    }

    #[test]
    fn what_is_absent_is_looked_for_every_time() {
        let recent = Recent::new();
        for _ in 0..3 {
            let mut asked = false;
            let look = || {
                asked = true;
                Ok(None)
            };
            assert_eq!(recent.row(KEY, Moment(7), look).unwrap(), None);
            assert!(asked);
        }
    }

    #[test]
    fn p1_a_row_at_the_limit_is_kept_and_one_byte_more_is_not() {
        let recent = Recent::new();
        let fits = ROW_BYTES_MAX - 8 - 8 - 2 - KEY.len();
        for (at, bytes, is_kept) in [(7, fits, true), (8, fits + 1, false)] {
            let row = Stored { value: vec![0; bytes], stamp: Stamp(at) };
            write(&recent, KEY, at);
            let reads = [(); 3].map(|()| asked(&recent, KEY, at, &row));
            assert_eq!(reads.last(), Some(&!is_kept));
        }
    }

    #[test]
    fn p2_a_row_that_has_changed_is_kept_again_at_once() {
        let recent = Recent::new();
        let keys: Vec<_> = [KEY.to_vec()].into_iter().chain(neighbours(&recent)).collect();
        let (old, new) = (stored("old", 1), stored("new", 8));
        for key in &keys[..WAYS] {
            assert!(asked(&recent, key, 7, &old));
        }
        write(&recent, KEY, 8);
        assert_eq!([(); 2].map(|()| asked(&recent, KEY, 8, &new)), [true, false]);
    }

    #[test]
    fn p2_a_row_that_is_read_once_pushes_out_nothing() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let keys: Vec<_> = others_like_key(&recent).take(2 * WAYS).collect();
        let (kept, others) = keys.split_at(WAYS);
        kept.iter().for_each(|key| _ = asked(&recent, key, 7, &row));
        for other in others.iter().chain(others) {
            assert!(asked(&recent, other, 7, &stored("other", 1)));
        }
        assert!(kept.iter().all(|key| !asked(&recent, key, 7, &row)));
    }

    #[test]
    fn p1_rows_of_one_class_find_room_and_one_too_many_takes_the_place_of_one() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let keys: Vec<_> = [KEY.to_vec()].into_iter().chain(neighbours(&recent)).collect();
        assert_eq!(keys.len(), WAYS + 1);
        let (last, fitting) = keys.split_last().unwrap();
        for key in fitting {
            assert_eq!([(); 2].map(|()| asked(&recent, key, 7, &row)), [true, false]);
        }
        assert_eq!([(); 3].map(|()| asked(&recent, last, 7, &row)), [true, true, false]);
        let kept = keys.iter().filter(|key| !asked(&recent, key, 7, &row));
        assert_eq!(kept.count(), WAYS);
        // What is written is read from the view, wherever it lies.
        for (at, key) in (8..).zip(&keys) {
            write(&recent, key, at);
            assert!(asked(&recent, key, at, &stored("new", at)));
        }
    }

    #[test]
    fn p2_what_is_found_stays_and_what_is_not_gives_way() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let keys: Vec<_> = others_like_key(&recent).take(2 * WAYS).collect();
        let (old, new) = keys.split_at(WAYS);
        assert!(old.iter().all(|key| asked(&recent, key, 7, &row)));
        let (stays, gone) = old.split_first().unwrap();
        assert!(!asked(&recent, stays, 7, &row));
        for key in &new[1..] {
            assert_eq!([(); 3].map(|()| asked(&recent, key, 7, &row)), [true, true, false]);
        }
        assert!(gone.iter().all(|key| asked(&recent, key, 7, &row)));
        assert!([stays].into_iter().chain(&new[1..]).all(|key| !asked(&recent, key, 7, &row)));
    }

    /// Keys of the class of [`KEY`], as many as find room.
    fn neighbours(recent: &Recent) -> Vec<Vec<u8>> {
        others_like_key(recent).take(WAYS).collect()
    }

    fn others_like_key(recent: &Recent) -> impl Iterator<Item = Vec<u8>> + '_ {
        let keys = (0_u64..).map(|number| number.to_be_bytes().to_vec());
        let class = |key: &[u8]| recent.rows.class(recent.hash.of(key));
        keys.filter(move |key| class(key) == class(KEY))
    }

    #[test]
    fn p3_a_place_that_is_in_use_is_left_alone() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let in_use = recent.rows.in_use(recent.hash.of(KEY));
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &row));
        }
        drop(in_use);
        let reads = [(); 2].map(|()| asked(&recent, KEY, 7, &row));
        assert_eq!(reads, [true, false]);
    }

    const FROM: &[u8] = b"index of ann, ";
    const TO: &[u8] = b"index of ann-";

    fn range(from: &'static [u8], to: &'static [u8], count: usize) -> Range<'static> {
        Range { from, to, direction: Direction::Forward, count }
    }

    fn entries(keys: &[&str]) -> Entries {
        let mut entries = Entries::default();
        keys.iter().for_each(|key| entries.push(key.as_bytes(), stored(key, 1)));
        entries
    }

    /// Reads a range that holds `entries` in the view; whether the view was asked.
    fn asked_page(recent: &Recent, range: Range<'_>, at: u64, holds: &Entries) -> bool {
        let mut asked = false;
        let look = || {
            asked = true;
            Ok(holds.clone())
        };
        assert_eq!(recent.page(range, Moment(at), look).unwrap(), *holds);
        asked
    }

    #[test]
    fn t1_a_page_holds_until_something_in_its_range_is_written() {
        let recent = Recent::new();
        let (old, new) = (entries(&["index of ann, 1"]), entries(&[]));
        let reads = [(); 3].map(|()| asked_page(&recent, range(FROM, TO, 20), 7, &old));
        assert_eq!(reads, [true, false, false]);
        write(&recent, b"index of bob, 1", 8);
        assert!(!asked_page(&recent, range(FROM, TO, 20), 8, &old));
        write(&recent, b"index of ann, 1", 9);
        assert!(asked_page(&recent, range(FROM, TO, 20), 9, &new));
        assert!(!asked_page(&recent, range(FROM, TO, 20), 9, &new));
        // Who reads from before asks every time, and takes nothing from the others.
        assert!(asked_page(&recent, range(FROM, TO, 20), 8, &old));
        assert!(!asked_page(&recent, range(FROM, TO, 20), 9, &new));
    }

    #[test]
    fn t1_pages_of_one_range_differ_by_their_ends_direction_and_count() {
        let recent = Recent::new();
        let reverse = Range { direction: Direction::Reverse, ..range(FROM, TO, 20) };
        let ranges = [
            (range(FROM, TO, 20), entries(&["", "1", "2, with more behind it"])),
            (range(FROM, TO, 1), entries(&["1"])),
            (reverse, entries(&["2", "1"])),
            (range(b"index of ann, 2", TO, 20), entries(&["2"])),
            (range(FROM, b"index of ann, 2", 20), entries(&["1"])),
        ];
        for (range, entries) in ranges.iter().chain(&ranges).chain(&ranges) {
            asked_page(&recent, *range, 7, entries);
        }
    }

    #[test]
    fn t1_ranges_that_begin_alike_for_too_few_bytes_are_read_from_the_view() {
        let (recent, page) = (Recent::new(), entries(&["1"]));
        for range in [range(b"index", b"indey", 20), range(b"index of a", b"index of b", 20)] {
            assert_eq!([(); 4].map(|()| asked_page(&recent, range, 7, &page)), [true; 4]);
        }
        let large = range(FROM, TO, ENTRIES_MAX + 1);
        assert_eq!([(); 4].map(|()| asked_page(&recent, large, 7, &page)), [true; 4]);
    }

    #[test]
    fn t2_a_page_that_is_too_large_is_not_kept() {
        let recent = Recent::new();
        let value = "v".repeat(PAGE_BYTES_MAX);
        let mut page = Entries::default();
        page.push(b"key", stored(&value, 1));
        let reads = [(); 4].map(|()| asked_page(&recent, range(FROM, TO, 20), 7, &page));
        assert_eq!(reads, [true; 4]);
    }
}
