//! Rows that were read more than once lately: what many ask for is found without a walk through the
//! engine, in as many steps however much else is stored.
//!
//! ```text
//! row = sequence u64 | stamp u64 | length of the key u16 | key | value        in one allocation
//! ```
//!
//! T1: A row that is found here is the row that the reader's view shows. It is kept together with
//!     the number of the view that it was read from, and holds as long as its key was not written
//!     since: for each class of keys the last commit that wrote one of them is noted, before its
//!     view is published.
//! T2: There is one place for each class, with a row of [`ROW_BYTES_MAX`] bytes at most, so all of
//!     them together take [`ROWS_BYTES_MAX`]. Four classes share their places: hot rows of one
//!     class find room beside each other.
//! T3: A row is kept when it is read again before another one of its class is. Who reads everything
//!     once neither pays for that nor pushes out what is read again. What gives way to it was not
//!     found for longer than what lies beside it.
//! T4: Nobody waits for anybody: who finds a class in use reads from the engine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use super::hash::Hash;
use crate::batch::Batch;
use crate::limits::{ROW_BYTES_MAX, ROWS_BYTES_MAX};
use crate::{Stamp, StoreError, Stored};

/// How many classes of keys there are: a row is good for some thousand commits to other keys.
const CLASSES: usize = ROWS_BYTES_MAX / ROW_BYTES_MAX;

/// Rows that were read more than once lately.
pub(super) struct Recent {
    classes: Box<[Class]>,
    /// Apart from the classes and small, so that the caches of the processor hold them: who looks
    /// for what is not kept need not look any further.
    marks: Box<[Marks]>,
    hash: Hash,
}

/// What is known of the keys with the same hash. It never lies in two cache lines: a row is found
/// with two looks into the memory, here and at the row.
#[derive(Default)]
#[repr(align(32))]
struct Class {
    /// The last commit that wrote one of them.
    written: AtomicU64,
    row: Mutex<Option<Box<[u8]>>>,
}

/// Further bits of the hashes of two keys; [`NONE`] of no key.
#[derive(Default)]
struct Marks {
    /// Of the key whose row lies here, with [`FOUND`] if it was found lately.
    kept: AtomicU16,
    /// Of the key of this class that was read last.
    read: AtomicU16,
}

const NONE: u16 = 0;

/// The row was found since the others beside it were looked through for one to give way (T3).
const FOUND: u16 = 1;

/// In every mark, which is then never [`NONE`].
const MARKED: u16 = 2;

/// How many classes share their places. Their marks lie in one cache line.
const WAYS: usize = 4;

/// A row that is to be kept.
struct Row<'a> {
    key: &'a [u8],
    stored: &'a Stored,
    /// The number of the view that it was read from.
    sequence: u64,
}

impl Recent {
    pub(super) fn new() -> Recent {
        let classes = (0..CLASSES).map(|_| Class::default()).collect();
        let marks = (0..CLASSES).map(|_| Marks::default()).collect();
        Recent { classes, marks, hash: Hash::default() }
    }

    /// The row of a key in the view with this number; `look` finds it in the view.
    pub(super) fn row(
        &self,
        key: &[u8],
        sequence: u64,
        look: impl FnOnce() -> Result<Option<Stored>, StoreError>,
    ) -> Result<Option<Stored>, StoreError> {
        let hash = self.hash.of(key);
        let mark = mark(hash);
        let last_write = || self.class(hash).map(|class| class.written.load(Ordering::Acquire));
        for (marks, class) in self.places(hash) {
            if marks.is_of(mark)
                && let Some(stored) = class.find(key, sequence, last_write)
            {
                marks.note_found(mark);
                return Ok(Some(stored));
            }
        }
        let found = look()?;
        if let Some(stored) = &found
            && self.is_read_again(hash, mark)
        {
            self.keep(hash, mark, Row { key, stored, sequence });
        }
        Ok(found)
    }

    /// Follows a batch that was written and whose view is not published yet (T1).
    pub(super) fn follow(&self, batch: &Batch<'_>) {
        let sequence = batch.tip().sequence;
        for (key, _) in batch.slots() {
            if let Some(class) = self.class(self.hash.of(key)) {
                class.written.store(sequence, Ordering::Release);
            }
        }
    }

    fn class(&self, hash: u64) -> Option<&Class> {
        self.classes.get(place(hash))
    }

    /// Whether the last key of its class that was read is this one; from now on it is.
    fn is_read_again(&self, hash: u64, mark: u16) -> bool {
        let marks = self.marks.get(place(hash));
        marks.is_some_and(|marks| marks.read.swap(mark, Ordering::Relaxed) == mark)
    }

    /// Keeps a row where it was, or where none is, or in place of one that was not found lately.
    fn keep(&self, hash: u64, mark: u16, row: Row<'_>) {
        let own = self.places(hash).find(|(marks, _)| marks.is_of(mark));
        let free = || self.places(hash).find(|(marks, _)| marks.is_of(NONE));
        let idle = || self.places(hash).find(|(marks, _)| !marks.was_found());
        let any = || {
            // All of them were: whoever is not found from now on gives way next.
            self.places(hash).for_each(|(marks, _)| marks.forget_found());
            self.places(hash).nth(usize::from(mark / (2 * MARKED)) % WAYS)
        };
        if let Some((marks, class)) = own.or_else(free).or_else(idle).or_else(any)
            && class.keep(row)
        {
            marks.kept.store(mark, Ordering::Relaxed);
        }
    }

    /// Where the row of a key may be: in its class, or in one of those beside it.
    fn places(&self, hash: u64) -> impl Iterator<Item = (&Marks, &Class)> {
        let places = (0..WAYS).map(move |way| place(hash) ^ way);
        places.filter_map(|place| Some((self.marks.get(place)?, self.classes.get(place)?)))
    }
}

fn place(hash: u64) -> usize {
    hash as usize % CLASSES
}

fn mark(hash: u64) -> u16 {
    (hash >> 48) as u16 & !FOUND | MARKED
}

impl Marks {
    fn is_of(&self, mark: u16) -> bool {
        self.kept.load(Ordering::Relaxed) & !FOUND == mark
    }

    fn was_found(&self) -> bool {
        self.kept.load(Ordering::Relaxed) & FOUND != 0
    }

    /// Only the first one who finds a row writes, and not if another row has come meanwhile.
    fn note_found(&self, mark: u16) {
        if !self.was_found() {
            let (relaxed, found) = (Ordering::Relaxed, mark | FOUND);
            let _ = self.kept.compare_exchange(mark, found, relaxed, relaxed);
        }
    }

    fn forget_found(&self) {
        self.kept.fetch_and(!FOUND, Ordering::Relaxed);
    }
}

impl Class {
    /// The row of a key, if it is here and as the view with this number shows it.
    fn find(
        &self,
        key: &[u8],
        sequence: u64,
        last_write: impl FnOnce() -> Option<u64>,
    ) -> Option<Stored> {
        let row = self.row.try_lock().ok()?;
        let (read_at, rest) = row.as_deref()?.split_first_chunk()?;
        let (stamp, rest) = rest.split_first_chunk()?;
        let stamp = u64::from_be_bytes(*stamp);
        let value = rest.split_first_chunk().and_then(|(key_len, rest)| {
            let (own, value) = rest.split_at_checked(u16::from_be_bytes(*key_len).into())?;
            (own == key).then_some(value)
        })?;
        let is_shown = stamp <= sequence && last_write()? <= u64::from_be_bytes(*read_at);
        is_shown.then(|| Stored { value: value.to_vec(), stamp: Stamp(stamp) })
    }

    /// Keeps a row, unless it is too large or the class is in use.
    fn keep(&self, row: Row<'_>) -> bool {
        let Row { key, stored, sequence } = row;
        let Ok(key_len) = u16::try_from(key.len()) else { return false };
        let head = [sequence.to_be_bytes(), stored.stamp.0.to_be_bytes()];
        let parts = [head.as_flattened(), &key_len.to_be_bytes(), key, &stored.value];
        let fits = parts.iter().map(|part| part.len()).sum::<usize>() <= ROW_BYTES_MAX;
        match self.row.try_lock() {
            Ok(mut row) if fits => *row = Some(parts.concat().into_boxed_slice()),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Stamp, Write};

    const KEY: &[u8] = b"key";

    fn stored(value: &str, stamp: u64) -> Stored {
        Stored { value: value.into(), stamp: Stamp(stamp) }
    }

    /// Reads a key that holds `stored` in the view; whether the view was asked.
    fn asked(recent: &Recent, key: &[u8], sequence: u64, holds: &Stored) -> bool {
        let mut asked = false;
        let look = || {
            asked = true;
            Ok(Some(holds.clone()))
        };
        assert_eq!(recent.row(key, sequence, look).unwrap().as_ref(), Some(holds));
        asked
    }

    fn write(recent: &Recent, key: &[u8], sequence: u64) {
        let writes = vec![Write::Put { key: key.into(), value: Vec::new() }];
        let commit = Commit { writes, ..Commit::default() };
        let mut batch = Batch::new(Tip { sequence: sequence - 1, ..Tip::default() });
        batch.add(&commit, &Empty).unwrap();
        recent.follow(&batch);
    }

    #[test]
    fn t3_a_row_is_kept_when_it_is_read_again() {
        let (recent, row) = (Recent::new(), stored("value", 1));
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
        // A view from before the commit still shows the old row, and does not find the new one.
        assert!(asked(&recent, KEY, 7, &old));
        assert!(asked(&recent, KEY, 8, &new));
        assert!(!asked(&recent, KEY, 8, &new));
        assert!(asked(&recent, KEY, 7, &old));
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
        for sequence in [3, 7, 9] {
            assert!(!asked(&recent, KEY, sequence, &row));
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
            assert_eq!(recent.row(KEY, 7, look).unwrap(), None);
            assert!(asked);
        }
    }

    #[test]
    fn t2_a_row_at_the_limit_is_kept_and_one_byte_more_is_not() {
        let recent = Recent::new();
        let fits = ROW_BYTES_MAX - 8 - 8 - 2 - KEY.len();
        for (sequence, bytes, is_kept) in [(7, fits, true), (8, fits + 1, false)] {
            let row = Stored { value: vec![0; bytes], stamp: Stamp(sequence) };
            write(&recent, KEY, sequence);
            let reads = [(); 3].map(|()| asked(&recent, KEY, sequence, &row));
            assert_eq!(reads.last(), Some(&!is_kept));
        }
        assert_eq!(CLASSES * ROW_BYTES_MAX, ROWS_BYTES_MAX);
    }

    #[test]
    fn t3_a_row_that_is_read_once_pushes_out_nothing() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        for _ in 0..2 {
            asked(&recent, KEY, 7, &row);
        }
        let others = neighbours(&recent);
        for _ in 0..2 {
            for other in &others {
                assert!(asked(&recent, other, 7, &stored("other", 1)));
            }
        }
        assert!(!asked(&recent, KEY, 7, &row));
    }

    #[test]
    fn t2_rows_of_one_class_find_room_and_one_too_many_takes_the_place_of_one() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let keys: Vec<_> = [KEY.to_vec()].into_iter().chain(neighbours(&recent)).collect();
        assert_eq!(keys.len(), WAYS + 1);
        for key in &keys {
            for _ in 0..2 {
                assert!(asked(&recent, key, 7, &row));
            }
            assert!(!asked(&recent, key, 7, &row));
        }
        let kept = keys.iter().filter(|key| !asked(&recent, key, 7, &row));
        assert_eq!(kept.count(), WAYS);
        // What is written is read from the view, wherever it lies.
        for (sequence, key) in (8..).zip(&keys) {
            write(&recent, key, sequence);
            assert!(asked(&recent, key, sequence, &stored("new", sequence)));
        }
    }

    #[test]
    fn t3_what_is_found_stays_and_what_is_not_gives_way() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let keys: Vec<_> = others_like_key(&recent).take(2 * WAYS).collect();
        let (old, new) = keys.split_at(WAYS);
        for key in old {
            [(); 2].map(|()| asked(&recent, key, 7, &row));
        }
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

    fn others_like_key(recent: &Recent) -> impl Iterator<Item = Vec<u8>> {
        let keys = (0_u64..).map(|number| number.to_be_bytes().to_vec());
        let class = place(recent.hash.of(KEY));
        keys.filter(move |key| place(recent.hash.of(key)) == class)
    }

    #[test]
    fn t4_a_class_that_is_in_use_is_left_alone() {
        let (recent, row) = (Recent::new(), stored("value", 1));
        let class = recent.class(recent.hash.of(KEY)).unwrap();
        let in_use = class.row.lock().unwrap();
        for _ in 0..3 {
            assert!(asked(&recent, KEY, 7, &row));
        }
        drop(in_use);
        let reads = [(); 2].map(|()| asked(&recent, KEY, 7, &row));
        assert_eq!(reads, [true, false]);
    }
}
