//! Which keys are certainly absent, so that a key which may be anywhere need not be looked for.
//!
//! A commit that takes a claim checks that it is free, and nearly always it is. To find that out an
//! engine walks through its tree, or through several tables; one bit that is not set tells it, too.
//! The bits are those of all keys of some families (Bloom's filter, in blocks of a cache line).
//!
//! F1: The bits of every key of a complete family are set: those that were there when the family
//!     was taken up by the scan, those that came later by the writer. So a key with a bit that is
//!     not set is absent. A key whose bits are all set may be there: it is looked for.
//! F2: The bits of deleted keys stay, until the store is opened again.
//! F3: A family is given up if reading its keys means to read more than
//!     [`FILTER_SCAN_BYTES_MAX`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::ends::{FAMILIES_MAX, Family, following};
use super::hash::Hash;
use super::rows;
use super::{Cursor as _, Shown, View, guarded};
use crate::batch::Batch;
use crate::limits::{FILTER_BYTES, FILTER_SCAN_BYTES_MAX};
use crate::{Direction, StoreError};

/// A cache line: all bits of a key lie in one.
const BLOCK_BITS: u64 = 512;
const BITS_PER_KEY: u32 = 5;

/// How many keys a scan reads from one view, which keeps what it shows alive.
const SCAN_KEYS: usize = 4096;

/// What is known of the keys of some families.
#[derive(Default)]
pub(super) struct Filter {
    known: Vec<(Family, Arc<Scan>)>,
    bits: Arc<Bits>,
}

/// The reading of all keys of a family.
pub(super) struct Scan {
    family: Family,
    bits: Arc<Bits>,
    is_complete: AtomicBool,
}

#[derive(Default)]
struct Bits {
    words: OnceLock<Box<[AtomicU64]>>,
    hash: Hash,
}

impl Filter {
    /// Whether a key is certainly absent. The first time that a key of its family is asked for,
    /// `begin` is handed the scan that has to be run.
    pub(super) fn excludes(&mut self, key: &[u8], begin: impl FnOnce(Arc<Scan>)) -> bool {
        let Some((family, _)) = key.split_first_chunk() else { return false };
        if let Some((_, scan)) = self.known.iter().find(|(known, _)| known == family) {
            return scan.is_complete.load(Ordering::Acquire) && !self.bits.may_hold(key);
        }
        if self.known.len() < FAMILIES_MAX {
            let bits = Arc::clone(&self.bits);
            let scan =
                Arc::new(Scan { family: *family, bits, is_complete: AtomicBool::new(false) });
            self.known.push((*family, Arc::clone(&scan)));
            begin(scan);
        }
        false
    }

    /// Follows a batch that was written and is not published yet (F1).
    pub(super) fn follow(&self, batch: &Batch<'_>) {
        if self.known.is_empty() {
            return;
        }
        for (key, _) in batch.slots().filter(|(_, slot)| slot.is_some()) {
            let Some((family, _)) = key.split_first_chunk() else { continue };
            if self.known.iter().any(|(known, _)| known == family) {
                self.bits.set(key);
            }
        }
    }
}

impl Scan {
    /// Reads all keys of the family, from views that are taken after it became known; ends early if
    /// nothing is `shown`, if the family is too large (F3), or after an error.
    pub(super) fn run<V: View>(&self, shown: impl Fn() -> Option<Shown<V>>) {
        let Some(end) = following(self.family) else { return };
        let (mut from, mut bytes) = (self.family.to_vec(), 0);
        while bytes <= FILTER_SCAN_BYTES_MAX {
            let Some(shown) = shown() else { return };
            let Ok(part) = self.read(&shown, &from, &end) else { return };
            bytes += part.bytes;
            match part.next {
                Some(next) => from = next,
                None => return self.is_complete.store(true, Ordering::Release),
            }
        }
    }

    /// Reads some keys from `from` on.
    fn read<V: View>(
        &self,
        shown: &Shown<V>,
        from: &[u8],
        end: &Family,
    ) -> Result<Part, StoreError> {
        let [mut from_row, mut end_row] = [Vec::new(), Vec::new()];
        rows::value_key(from, &mut from_row);
        rows::value_key(end, &mut end_row);
        guarded(|| {
            let mut part = Part::default();
            let mut cursor = shown.range(&from_row, &end_row)?;
            let mut last = Vec::new();
            while part.keys < SCAN_KEYS {
                let found = cursor.next(Direction::Forward, |row, value| {
                    let key = rows::decode_value_key(row)?;
                    self.bits.set(key);
                    last.clear();
                    last.extend_from_slice(key);
                    Ok(row.len() + value.len())
                })?;
                let Some(bytes) = found else { return Ok(part) };
                part.keys += 1;
                part.bytes += bytes;
            }
            // The first key behind the last one.
            last.push(0);
            part.next = Some(last);
            Ok(part)
        })
    }
}

/// What a part of a scan has read.
#[derive(Default)]
struct Part {
    keys: usize,
    bytes: usize,
    /// Where the next part begins; `None` at the end.
    next: Option<Vec<u8>>,
}

impl Bits {
    fn set(&self, key: &[u8]) {
        self.each(key, |word, bit| {
            word.fetch_or(bit, Ordering::Relaxed);
            true
        });
    }

    fn may_hold(&self, key: &[u8]) -> bool {
        self.each(key, |word, bit| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Whether all bits of a key pass a test; ends at the first one that does not.
    fn each(&self, key: &[u8], test: impl Fn(&AtomicU64, u64) -> bool) -> bool {
        let words = self.words.get_or_init(|| {
            (0..FILTER_BYTES / size_of::<u64>()).map(|_| AtomicU64::new(0)).collect()
        });
        let hash = self.hash.of(key);
        let blocks = words.len() as u64 * u64::from(u64::BITS) / BLOCK_BITS;
        // The upper bits choose the block, and lower ones, nine at a time, bits in it.
        let block = (u128::from(hash) * u128::from(blocks)) >> u64::BITS;
        let block = block as u64 * (BLOCK_BITS / u64::from(u64::BITS));
        (0..BITS_PER_KEY).all(|number| {
            let bit = (hash >> (BLOCK_BITS.ilog2() * number)) % BLOCK_BITS;
            let word = words.get((block + bit / u64::from(u64::BITS)) as usize);
            word.is_none_or(|word| test(word, 1 << (bit % u64::from(u64::BITS))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Moment, Span};
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Write};

    /// Keys that all have the same value.
    struct Keys {
        keys: Vec<Vec<u8>>,
        value: Arc<Vec<u8>>,
    }

    struct KeysFrom {
        keys: std::vec::IntoIter<Vec<u8>>,
        value: Arc<Vec<u8>>,
    }

    impl View for Keys {
        type Cursor = KeysFrom;

        fn get<R>(
            &self,
            _row: &[u8],
            _at: Moment,
            _read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
        ) -> Result<Option<R>, StoreError> {
            panic!("a scan reads ranges");
        }

        fn range(&self, span: Span<'_>) -> Result<KeysFrom, StoreError> {
            let rows = self.keys.iter().map(|key| {
                let mut row = Vec::new();
                rows::value_key(key, &mut row);
                row
            });
            let within = rows.filter(|row| span.from <= row.as_slice() && row.as_slice() < span.to);
            let keys = within.collect::<Vec<_>>().into_iter();
            Ok(KeysFrom { keys, value: Arc::clone(&self.value) })
        }
    }

    impl super::super::Cursor for KeysFrom {
        fn next<R>(
            &mut self,
            _direction: Direction,
            read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
        ) -> Result<Option<R>, StoreError> {
            self.keys.next().map(|row| read(&row, &self.value)).transpose()
        }
    }

    fn view(keys: Vec<Vec<u8>>, value_bytes: usize) -> Shown<Keys> {
        Shown::new(Keys { keys, value: Arc::new(vec![0; value_bytes]) }, Moment::default())
    }

    fn key(number: usize) -> Vec<u8> {
        format!("claim{number:08}").into_bytes()
    }

    /// The scan that the first question about a key of this family begins.
    fn begun(filter: &mut Filter, key: &[u8]) -> Arc<Scan> {
        let mut begun = None;
        assert!(!filter.excludes(key, |scan| begun = Some(scan)));
        begun.expect("the family was not known")
    }

    fn excludes(filter: &mut Filter, key: &[u8]) -> bool {
        filter.excludes(key, |_| panic!("the family is known"))
    }

    fn write(filter: &Filter, write: Write) {
        let commit = Commit { writes: vec![write], ..Commit::default() };
        let mut batch = Batch::new(Tip::default());
        batch.add(&commit, &Empty).unwrap();
        filter.follow(&batch);
    }

    #[test]
    fn f1_nothing_is_excluded_before_the_scan_has_ended() {
        let mut filter = Filter::default();
        let scan = begun(&mut filter, &key(1));
        assert!(!excludes(&mut filter, &key(1)));
        scan.run::<Keys>(|| None);
        assert!(!excludes(&mut filter, &key(1)));
        scan.run(|| Some(view(vec![], 0)));
        assert!(excludes(&mut filter, &key(1)));
    }

    #[test]
    fn f1_no_key_that_was_scanned_or_written_is_excluded() {
        let mut filter = Filter::default();
        let scan = begun(&mut filter, &key(0));
        // Several parts, with neighbours at their ends.
        let stored: Vec<_> = (0..3 * SCAN_KEYS + 1).map(key).collect();
        let (first, late) = (stored.len(), stored.len() + 1);
        write(&filter, Write::Put { key: key(first), value: Vec::new() });
        scan.run(|| Some(view(stored.clone(), 1)));
        write(&filter, Write::Add { key: key(late), delta: 1 });
        for number in 0..=late {
            assert!(!excludes(&mut filter, &key(number)), "{number}");
        }
        let excluded = (late + 1..late + 10_001).filter(|it| excludes(&mut filter, &key(*it)));
        assert!(excluded.count() > 9_990);
    }

    #[test]
    fn f1_families_know_nothing_of_each_other() {
        let mut filter = Filter::default();
        begun(&mut filter, b"claim1").run(|| Some(view(vec![], 0)));
        write(&filter, Write::Put { key: b"names1".into(), value: Vec::new() });
        let names = begun(&mut filter, b"names1");
        assert!(!excludes(&mut filter, b"names1"));
        names.run(|| Some(view(vec![b"names1".to_vec()], 0)));
        assert!(!excludes(&mut filter, b"names1"));
        assert!(excludes(&mut filter, b"names2"));
    }

    #[test]
    fn f2_a_deleted_key_is_looked_for() {
        let mut filter = Filter::default();
        begun(&mut filter, &key(1)).run(|| Some(view(vec![key(1)], 0)));
        write(&filter, Write::Delete { key: key(1) });
        assert!(!excludes(&mut filter, &key(1)));
    }

    #[test]
    fn f3_a_family_that_is_too_large_to_read_is_given_up() {
        for (keys, is_known) in [(64, true), (65 * SCAN_KEYS, false)] {
            let mut filter = Filter::default();
            let scan = begun(&mut filter, &key(0));
            let stored =
                view((0..keys).map(key).collect(), FILTER_SCAN_BYTES_MAX / (64 * SCAN_KEYS));
            scan.run(|| Some(stored.clone()));
            assert_eq!(excludes(&mut filter, b"claim of nobody"), is_known);
        }
    }

    #[test]
    fn of_one_family_too_many_nothing_is_known() {
        let mut filter = Filter::default();
        for family in 0..FAMILIES_MAX {
            begun(&mut filter, format!("{family:05}").as_bytes());
        }
        assert!(!excludes(&mut filter, b"99999"));
    }
}
