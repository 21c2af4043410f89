//! Where families of keys end, so that a new key behind all others need not be looked for.
//!
//! Identities that grow with time are the usual ones: the key of a new document lies behind all
//! others of its collection, and every commit that creates one checks that it is absent. A family
//! are the keys that begin with the same bytes.
//!
//! E1: Behind the end of a family the store holds none of its keys. Deleting the last one leaves
//!     the end where it is.
//! E2: At most [`FAMILIES_MAX`] families are known; of one more nothing is.

use crate::StoreError;
use crate::batch::Batch;

/// As many bytes as the head of a key has.
const FAMILY_BYTES: usize = 5;
pub(super) const FAMILIES_MAX: usize = 64;

/// The bytes that a family begins with.
pub(super) type Family = [u8; FAMILY_BYTES];

/// The ends of some families.
#[derive(Debug, Default)]
pub(super) struct Ends {
    known: Vec<(Family, Vec<u8>)>,
}

impl Ends {
    /// Whether a key lies behind the end of its family. `last` finds the last key in a range of
    /// keys; it is asked once for each family.
    pub(super) fn lies_behind(
        &mut self,
        key: &[u8],
        last: impl FnOnce(&[u8], &[u8]) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some((family, _)) = key.split_first_chunk() else { return Ok(false) };
        if let Some(end) = self.end(family) {
            return Ok(key > end.as_slice());
        }
        let Some(next) = following(*family).filter(|_| self.known.len() < FAMILIES_MAX) else {
            return Ok(false);
        };
        // An empty family ends before its first key.
        let end = last(family, &next)?.unwrap_or_default();
        let is_behind = key > end.as_slice();
        self.known.push((*family, end));
        Ok(is_behind)
    }

    /// Follows a batch that was written (E1).
    pub(super) fn follow(&mut self, batch: &Batch<'_>) {
        for (key, _) in batch.slots().filter(|(_, slot)| slot.is_some()) {
            let Some((family, _)) = key.split_first_chunk() else { continue };
            if let Some(end) = self.end(family).filter(|end| key > end.as_slice()) {
                end.clear();
                end.extend_from_slice(key);
            }
        }
    }

    fn end(&mut self, wanted: &Family) -> Option<&mut Vec<u8>> {
        self.known.iter_mut().find(|(family, _)| family == wanted).map(|(_, end)| end)
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

    fn behind(ends: &mut Ends, key: &str) -> bool {
        let known = |_: &[u8], _: &[u8]| panic!("the family of {key} is known");
        ends.lies_behind(key.as_bytes(), known).unwrap()
    }

    /// Knows that `docs:m` is the last of its family.
    fn known() -> Ends {
        let mut ends = Ends::default();
        let last = |from: &[u8], to: &[u8]| {
            assert_eq!((from, to), (&b"docs:"[..], &b"docs;"[..]));
            Ok(Some(b"docs:m".to_vec()))
        };
        assert!(!ends.lies_behind(b"docs:m", last).unwrap());
        ends
    }

    #[test]
    fn e1_only_what_lies_behind_the_last_key_is_known_to_be_absent() {
        let mut ends = known();
        assert!(behind(&mut ends, "docs:m1"));
        assert!(behind(&mut ends, "docs:n"));
        assert!(!behind(&mut ends, "docs:m"));
        assert!(!behind(&mut ends, "docs:a"));
    }

    #[test]
    fn e1_the_end_follows_what_is_written() {
        let mut ends = known();
        write(&mut ends, vec![put("docs:p"), put("docs:o"), put("other:z"), put("docs")]);
        assert!(!behind(&mut ends, "docs:o1"));
        assert!(behind(&mut ends, "docs:q"));
    }

    #[test]
    fn e1_deleting_the_last_key_leaves_the_end_where_it_is() {
        let mut ends = known();
        write(&mut ends, vec![delete("docs:m"), delete("docs:z")]);
        assert!(!behind(&mut ends, "docs:l"));
        assert!(!behind(&mut ends, "docs:m"));
        assert!(behind(&mut ends, "docs:n"));
    }

    #[test]
    fn an_empty_family_ends_before_its_first_key() {
        let mut ends = Ends::default();
        assert!(ends.lies_behind(b"docs:a", |_, _| Ok(None)).unwrap());
        write(&mut ends, vec![put("docs:a")]);
        assert!(!behind(&mut ends, "docs:a"));
        assert!(behind(&mut ends, "docs:b"));
    }

    #[test]
    fn e2_of_one_family_too_many_nothing_is_known() {
        let mut ends = Ends::default();
        let key = |family: usize| format!("{family:05}");
        for family in 0..FAMILIES_MAX {
            assert!(ends.lies_behind(key(family).as_bytes(), |_, _| Ok(None)).unwrap());
        }
        let asked = |_: &[u8], _: &[u8]| panic!("there is no room for it");
        assert!(!ends.lies_behind(key(FAMILIES_MAX).as_bytes(), asked).unwrap());
        assert_eq!(ends.known.len(), FAMILIES_MAX);
    }

    #[test]
    fn keys_without_a_family_and_behind_all_others_are_looked_for() {
        let mut ends = Ends::default();
        let asked = |_: &[u8], _: &[u8]| panic!("they have no family with an end");
        assert!(!ends.lies_behind(b"docs", asked).unwrap());
        assert!(!ends.lies_behind(&[0xFF; 9], asked).unwrap());
        assert_eq!(following([1, 0, 0, 0xFF, 0xFF]), Some([1, 0, 1, 0, 0]));
    }

    #[test]
    fn a_family_whose_end_cannot_be_read_stays_unknown() {
        let mut ends = Ends::default();
        let broken = |_: &[u8], _: &[u8]| Err(StoreError::Corrupt { detail: "x".into() });
        assert!(ends.lies_behind(b"docs:a", broken).is_err());
        assert!(ends.lies_behind(b"docs:a", |_, _| Ok(None)).unwrap());
    }
}
