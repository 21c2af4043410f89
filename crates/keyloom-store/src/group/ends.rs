//! Which keys there are at the ends of families, so that a new key there need not be looked for.
//!
//! Identities that grow with time are the usual ones: the key of a new document lies behind all
//! others of its collection, or before those that others have created in the same moment, and every
//! commit that creates one checks that it is absent. A family are the keys that begin with the same
//! bytes.
//!
//! E1: Behind the floor of a family the store holds those of its keys that are listed here, and no
//!     others.
//! E2: At most [`FAMILIES_MAX`] families are known, and of one more nothing is; at most
//!     [`KEYS_MAX`] keys of a family are listed, and with one more the floor rises above the
//!     smaller half.

use crate::StoreError;
use crate::batch::Batch;

/// As many bytes as the head of a key has.
const FAMILY_BYTES: usize = 5;
pub(super) const FAMILIES_MAX: usize = 64;

/// A caller who has his identity and is then not let run for some ten milliseconds still comes in
/// time, however many others create meanwhile.
const KEYS_MAX: usize = 4096;

/// Among so many last keys a new one nearly always has its place.
const KEYS_NEAR: usize = 32;

/// The bytes that a family begins with.
pub(super) type Family = [u8; FAMILY_BYTES];

/// The ends of some families.
#[derive(Debug, Default)]
pub(super) struct Ends {
    known: Vec<(Family, End)>,
}

/// The end of a family.
#[derive(Debug, Default)]
struct End {
    floor: Vec<u8>,
    /// All keys behind the floor, in order.
    listed: Vec<Vec<u8>>,
}

impl Ends {
    /// Whether a key is known to be absent since it lies at the end of its family. `last` finds the
    /// last key in a range of keys; it is asked once for each family.
    pub(super) fn exclude(
        &mut self,
        key: &[u8],
        last: impl FnOnce(&[u8], &[u8]) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some((family, _)) = key.split_first_chunk() else { return Ok(false) };
        if let Some(end) = self.end(family) {
            return Ok(end.excludes(key));
        }
        let Some(next) = following(*family).filter(|_| self.known.len() < FAMILIES_MAX) else {
            return Ok(false);
        };
        // An empty family ends before its first key.
        let floor = last(family, &next)?.unwrap_or_default();
        let end = End { floor, listed: Vec::new() };
        let is_absent = end.excludes(key);
        self.known.push((*family, end));
        Ok(is_absent)
    }

    /// Follows a batch that was written (E1).
    pub(super) fn follow(&mut self, batch: &Batch<'_>) {
        for (key, slot) in batch.slots() {
            let Some((family, _)) = key.split_first_chunk() else { continue };
            let Some(end) = self.end(family) else { continue };
            match slot {
                Some(_) => end.add(key),
                None => end.remove(key),
            }
        }
    }

    fn end(&mut self, wanted: &Family) -> Option<&mut End> {
        self.known.iter_mut().find(|(family, _)| family == wanted).map(|(_, end)| end)
    }
}

impl End {
    fn excludes(&self, key: &[u8]) -> bool {
        key > self.floor.as_slice() && self.find(key).is_err()
    }

    fn add(&mut self, key: &[u8]) {
        if key <= self.floor.as_slice() {
            return;
        }
        let Err(place) = self.find(key) else { return };
        self.listed.insert(place, key.to_vec());
        if self.listed.len() > KEYS_MAX {
            let mut smaller = self.listed.drain(..self.listed.len() / 2);
            self.floor = smaller.next_back().unwrap_or_default();
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Ok(place) = self.find(key) {
            self.listed.remove(place);
        }
    }

    /// Where a key is listed, or would be.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let near = self.listed.len().saturating_sub(KEYS_NEAR);
        let (before, last) = self.listed.split_at(near);
        let is_near = before.last().is_none_or(|before| before.as_slice() < key);
        let (from, among) = if is_near { (near, last) } else { (0, before) };
        let found = among.binary_search_by(|listed| listed.as_slice().cmp(key));
        found.map(|place| from + place).map_err(|place| from + place)
    }
}

/// The first bytes behind all keys of a family.
pub(super) fn following(family: Family) -> Option<Family> {
    let [a, b, c, d, e] = family;
    let next = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]) + 1;
    let [_, _, overflow, a, b, c, d, e] = next.to_be_bytes();
    (overflow == 0).then_some([a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Empty, Tip};
    use crate::{Commit, Write};

    fn write(ends: &mut Ends, writes: Vec<Write>) {
        let commit = Commit { writes, ..Commit::default() };
        let mut batch = Batch::new(Tip::default());
        batch.add(&commit, &Empty).unwrap();
        ends.follow(&batch);
    }

    fn put(key: &str) -> Write {
        Write::Put { key: key.into(), value: Vec::new() }
    }

    fn delete(key: &str) -> Write {
        Write::Delete { key: key.into() }
    }

    fn absent(ends: &mut Ends, key: &str) -> bool {
        let known = |_: &[u8], _: &[u8]| panic!("the family of {key} is known");
        ends.exclude(key.as_bytes(), known).unwrap()
    }

    /// Knows that `docs:m` is the last of its family.
    fn known() -> Ends {
        let mut ends = Ends::default();
        let last = |from: &[u8], to: &[u8]| {
            assert_eq!((from, to), (&b"docs:"[..], &b"docs;"[..]));
            Ok(Some(b"docs:m".to_vec()))
        };
        assert!(!ends.exclude(b"docs:m", last).unwrap());
        ends
    }

    #[test]
    fn e1_only_what_exclude_the_last_key_is_known_to_be_absent() {
        let mut ends = known();
        assert!(absent(&mut ends, "docs:m1"));
        assert!(absent(&mut ends, "docs:n"));
        assert!(!absent(&mut ends, "docs:m"));
        assert!(!absent(&mut ends, "docs:a"));
    }

    #[test]
    fn e1_what_is_written_is_followed_in_any_order() {
        let mut ends = known();
        write(&mut ends, vec![put("docs:p"), put("docs:n"), put("other:z"), put("docs")]);
        for (key, is_absent) in [("m", false), ("n", false), ("o", true), ("p", false), ("q", true)]
        {
            assert_eq!(absent(&mut ends, &format!("docs:{key}")), is_absent, "{key}");
        }
    }

    #[test]
    fn e1_a_key_that_was_deleted_is_absent_behind_the_floor_and_unknown_before_it() {
        let mut ends = known();
        write(&mut ends, vec![put("docs:p"), delete("docs:m"), delete("docs:z")]);
        write(&mut ends, vec![delete("docs:p")]);
        assert!(!absent(&mut ends, "docs:l"));
        assert!(!absent(&mut ends, "docs:m"));
        assert!(absent(&mut ends, "docs:p"));
    }

    #[test]
    fn e1_keys_are_known_wherever_they_are_listed() {
        let key = |number: usize| format!("docs:n{number:05}");
        let mut ends = known();
        // 7 and 300 have no divisor in common, so each number comes once, in no order.
        for number in (0..300).map(|turn| turn * 7 % 300) {
            write(&mut ends, vec![put(&key(2 * number))]);
        }
        for number in 0..600 {
            assert_eq!(absent(&mut ends, &key(number)), number % 2 == 1, "{number}");
        }
    }

    #[test]
    fn e2_with_one_key_too_many_the_floor_rises_above_the_smaller_half() {
        let key = |number: usize| format!("docs:n{number:05}");
        // The one too many may be the largest of all, one among the others, or the smallest.
        for too_many in [9000, 3, 0] {
            let mut ends = known();
            for number in 0..KEYS_MAX {
                write(&mut ends, vec![put(&key(2 * number + 2))]);
            }
            assert!(absent(&mut ends, &key(1)));
            write(&mut ends, vec![put(&key(too_many))]);
            let end = ends.end(b"docs:").unwrap();
            assert_eq!(end.listed.len(), KEYS_MAX - KEYS_MAX / 2 + 1);
            assert!(end.listed.is_sorted() && end.floor < end.listed[0]);
            for number in [0, 1, 2, 3, too_many, 2 * KEYS_MAX] {
                assert!(!absent(&mut ends, &key(number)), "{number} with {too_many}");
            }
            assert!(absent(&mut ends, &key(2 * KEYS_MAX - 1)) && absent(&mut ends, &key(9001)));
        }
    }

    #[test]
    fn an_empty_family_ends_before_its_first_key() {
        let mut ends = Ends::default();
        assert!(ends.exclude(b"docs:a", |_, _| Ok(None)).unwrap());
        write(&mut ends, vec![put("docs:a")]);
        assert!(!absent(&mut ends, "docs:a"));
        assert!(absent(&mut ends, "docs:b"));
    }

    #[test]
    fn e2_of_one_family_too_many_nothing_is_known() {
        let mut ends = Ends::default();
        let key = |family: usize| format!("{family:05}");
        for family in 0..FAMILIES_MAX {
            assert!(ends.exclude(key(family).as_bytes(), |_, _| Ok(None)).unwrap());
        }
        let asked = |_: &[u8], _: &[u8]| panic!("there is no room for it");
        assert!(!ends.exclude(key(FAMILIES_MAX).as_bytes(), asked).unwrap());
        assert_eq!(ends.known.len(), FAMILIES_MAX);
    }

    #[test]
    fn keys_without_a_family_and_behind_all_others_are_looked_for() {
        let mut ends = Ends::default();
        let asked = |_: &[u8], _: &[u8]| panic!("they have no family with an end");
        assert!(!ends.exclude(b"docs", asked).unwrap());
        assert!(!ends.exclude(&[0xFF; 9], asked).unwrap());
        assert_eq!(following([1, 0, 0, 0xFF, 0xFF]), Some([1, 0, 1, 0, 0]));
    }

    #[test]
    fn a_family_whose_end_cannot_be_read_stays_unknown() {
        let mut ends = Ends::default();
        let broken = |_: &[u8], _: &[u8]| Err(StoreError::Corrupt { detail: "x".into() });
        assert!(ends.exclude(b"docs:a", broken).is_err());
        assert!(ends.exclude(b"docs:a", |_, _| Ok(None)).unwrap());
    }
}
