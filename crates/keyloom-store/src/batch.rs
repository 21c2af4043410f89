//! Decides what a group of commits does to a store, before any of it is written.
//!
//! B1: A commit whose check fails, or whose counter is damaged, leaves the batch as it was.
//! B2: A commit is decided against the store as the earlier commits of its batch leave it.
//! B3: Each commit that holds takes the next sequence number, and each change the next position;
//!     neither is ever taken twice. The sequence number is the stamp of all that the commit writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::{Check, Commit, CommitOutcome, Expect, Position, Stamp, StoreError, Write};

/// The last numbers that a store has given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// How many commits there have been.
    pub sequence: u64,
    /// Where the feed ends.
    pub position: Position,
}

/// The state of the store below a batch.
pub trait Base {
    /// The stamp of a key, if it has a value.
    fn stamp(&self, key: &[u8]) -> Result<Option<Stamp>, StoreError>;

    /// Whether a key has no value.
    fn is_absent(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.stamp(key)?.is_none())
    }

    /// The value of a key.
    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
}

/// What is to be written: each key once, in key order.
#[derive(Debug)]
pub struct Batch<'a> {
    tip: Tip,
    /// What the first commit writes, in key order, as long as it is alone: most batches have one,
    /// and need no tree.
    alone: Vec<(&'a [u8], Option<Slot<'a>>)>,
    /// What all commits write, as soon as there are several.
    slots: BTreeMap<&'a [u8], Option<Slot<'a>>>,
    changes: Vec<Appended<'a>>,
}

/// What the feed will hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Appended<'a> {
    /// Where.
    pub position: Position,
    /// The stamp of the commit that appended it.
    pub stamp: Stamp,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// What a key will hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot<'a> {
    /// The stamp of the commit that wrote it.
    pub stamp: Stamp,
    /// The bytes.
    pub value: Cow<'a, [u8]>,
}

impl<'a> Batch<'a> {
    /// An empty batch on a store whose last numbers are `tip`.
    pub fn new(tip: Tip) -> Self {
        Batch { tip, alone: Vec::new(), slots: BTreeMap::new(), changes: Vec::new() }
    }

    /// Decides one commit, and takes it in if its checks hold.
    pub fn add(
        &mut self,
        commit: &'a Commit,
        base: &impl Base,
    ) -> Result<CommitOutcome, StoreError> {
        for (index, check) in commit.checks.iter().enumerate() {
            if !self.holds(check, base)? {
                return Ok(CommitOutcome::Conflict { check: index });
            }
        }
        // Counters are the last thing that can fail, so they come before the first change (B1).
        let counters = self.counters(&commit.writes, base)?;
        self.take_in(commit, counters);
        Ok(CommitOutcome::Committed { position: self.tip.position })
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.slots.is_empty() && self.changes.is_empty()
    }

    /// The last numbers of the store once this batch is written.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// Each key that is written, in key order; `None` is deleted.
    pub fn slots(&self) -> impl Iterator<Item = (&'a [u8], Option<&Slot<'a>>)> {
        let alone = self.alone.iter().map(|(key, slot)| (*key, slot.as_ref()));
        alone.chain(self.slots.iter().map(|(key, slot)| (*key, slot.as_ref())))
    }

    /// What the batch makes of a key; `None` if it leaves it alone.
    pub fn slot(&self, key: &[u8]) -> Option<Option<&Slot<'a>>> {
        if self.alone.is_empty() {
            return self.slots.get(key).map(Option::as_ref);
        }
        let place = self.alone.binary_search_by(|(known, _)| (*known).cmp(key)).ok()?;
        self.alone.get(place).map(|(_, slot)| slot.as_ref())
    }

    /// The changes to append, in order.
    pub fn changes(&self) -> &[Appended<'a>] {
        &self.changes
    }

    fn holds(&self, check: &Check, base: &impl Base) -> Result<bool, StoreError> {
        let Check { key, expect } = check;
        let expected = match expect {
            Expect::Absent => None,
            Expect::At(stamp) => Some(*stamp),
        };
        match (self.slot(key), expected) {
            (Some(slot), _) => Ok(slot.map(|slot| slot.stamp) == expected),
            (None, None) => base.is_absent(key),
            (None, Some(_)) => Ok(base.stamp(key)? == expected),
        }
    }

    /// The new values of all counters among `writes`, in their order.
    fn counters(&self, writes: &[Write], base: &impl Base) -> Result<Vec<[u8; 8]>, StoreError> {
        let mut counters = Vec::new();
        for write in writes {
            let Write::Add { key, delta } = write else { continue };
            let sum = match self.slot(key) {
                Some(Some(slot)) => counter(key, &slot.value)?,
                Some(None) => 0,
                None => base.value(key)?.map_or(Ok(0), |value| counter(key, &value))?,
            };
            counters.push(sum.wrapping_add(*delta).to_be_bytes());
        }
        Ok(counters)
    }

    fn take_in(&mut self, commit: &'a Commit, counters: Vec<[u8; 8]>) {
        self.tip.sequence += 1;
        let stamp = Stamp(self.tip.sequence);
        let mut counters = counters.into_iter();
        let slots = commit.writes.iter().map(|write| {
            let value = match write {
                Write::Put { value, .. } => Some(Cow::Borrowed(value.as_slice())),
                Write::Delete { .. } => None,
                Write::Add { .. } => {
                    let sum = counters.next().expect("one sum was computed for each counter");
                    Some(Cow::Owned(sum.to_vec()))
                }
            };
            (write.key(), value.map(|value| Slot { stamp, value }))
        });
        if self.alone.is_empty() && self.slots.is_empty() {
            self.alone = slots.collect();
            self.alone.sort_unstable_by_key(|(key, _)| *key);
        } else {
            self.slots.extend(self.alone.drain(..).chain(slots));
        }
        for change in &commit.changes {
            self.tip.position.0 += 1;
            self.changes.push(Appended { position: self.tip.position, stamp, bytes: change });
        }
    }
}

fn counter(key: &[u8], value: &[u8]) -> Result<i64, StoreError> {
    let bytes = value.try_into().map_err(|_| StoreError::Corrupt {
        detail: format!("the counter {} holds {} bytes, not 8", key.escape_ascii(), value.len()),
    })?;
    Ok(i64::from_be_bytes(bytes))
}

/// A store that holds nothing.
#[cfg(test)]
pub(crate) struct Empty;

#[cfg(test)]
impl Base for Empty {
    fn stamp(&self, _key: &[u8]) -> Result<Option<Stamp>, StoreError> {
        Ok(None)
    }

    fn value(&self, _key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that holds `stored` with stamp 3, and a damaged counter.
    struct Fixed;

    impl Base for Fixed {
        fn stamp(&self, key: &[u8]) -> Result<Option<Stamp>, StoreError> {
            Ok((key != b"absent").then_some(Stamp(3)))
        }

        fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(match key {
                b"stored" => Some(40_i64.to_be_bytes().to_vec()),
                b"damaged" => Some(b"no counter".to_vec()),
                _ => None,
            })
        }
    }

    const TIP: Tip = Tip { sequence: 7, position: Position(9) };

    fn commit(writes: Vec<Write>) -> Commit {
        Commit { writes, changes: vec![b"change".to_vec()], ..Commit::default() }
    }

    fn put(key: &str, value: &str) -> Write {
        Write::Put { key: key.into(), value: value.into() }
    }

    fn add(key: &str, delta: i64) -> Write {
        Write::Add { key: key.into(), delta }
    }

    /// Each key with its stamp and its value.
    fn slots(batch: &Batch<'_>) -> Vec<(String, u64, Vec<u8>)> {
        let slots = batch.slots().map(|(key, slot)| {
            let slot = slot.expect("these tests end with values");
            (String::from_utf8(key.to_vec()).unwrap(), slot.stamp.0, slot.value.to_vec())
        });
        slots.collect()
    }

    #[test]
    fn b1_a_commit_that_fails_leaves_no_trace() {
        let conflict = Commit {
            checks: vec![Check { key: b"stored".into(), expect: Expect::At(Stamp(4)) }],
            ..commit(vec![put("a", "1")])
        };
        let damaged = commit(vec![put("a", "1"), add("damaged", 1)]);
        let mut batch = Batch::new(TIP);
        assert_eq!(batch.add(&conflict, &Fixed).unwrap(), CommitOutcome::Conflict { check: 0 });
        assert!(batch.add(&damaged, &Fixed).is_err());
        assert!(batch.is_empty());
        assert_eq!(batch.tip(), TIP);
    }

    #[test]
    fn b2_a_commit_meets_what_earlier_ones_of_its_batch_wrote() {
        let check = |key: &str, expect| Commit {
            checks: vec![Check { key: key.into(), expect }],
            ..Commit::default()
        };
        let first = commit(vec![
            put("absent", "1"),
            Write::Delete { key: b"stored".into() },
            add("counter", 2),
        ]);
        let second = commit(vec![add("counter", 3), add("stored", 5)]);
        let [created, gone, old] = [
            check("absent", Expect::At(Stamp(8))),
            check("stored", Expect::Absent),
            check("stored", Expect::At(Stamp(3))),
        ];
        let mut batch = Batch::new(TIP);
        batch.add(&first, &Fixed).unwrap();
        for holds in [&created, &gone] {
            let outcome = batch.add(holds, &Fixed).unwrap();
            assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
        }
        assert_eq!(batch.add(&old, &Fixed).unwrap(), CommitOutcome::Conflict { check: 0 });
        batch.add(&second, &Fixed).unwrap();
        let expected = [
            ("absent".into(), 8, b"1".to_vec()),
            ("counter".into(), 11, 5_i64.to_be_bytes().to_vec()),
            // Deleted in this batch, so it starts again, whatever the store holds.
            ("stored".into(), 11, 5_i64.to_be_bytes().to_vec()),
        ];
        assert_eq!(slots(&batch), expected);
    }

    #[test]
    fn keys_come_in_order_from_one_commit_and_from_several() {
        let first = commit(vec![put("c", "1"), put("a", "1")]);
        let second = commit(vec![put("d", "2"), put("b", "2"), put("a", "2")]);
        let found = |batch: &Batch<'_>| -> Vec<(String, u64)> {
            slots(batch).into_iter().map(|(key, stamp, _)| (key, stamp)).collect()
        };
        let mut batch = Batch::new(TIP);
        batch.add(&first, &Fixed).unwrap();
        assert_eq!(found(&batch), [("a".into(), 8), ("c".into(), 8)]);
        assert_eq!(batch.slot(b"c").unwrap().unwrap().stamp, Stamp(8));
        assert!(batch.slot(b"b").is_none());
        batch.add(&second, &Fixed).unwrap();
        let expected = [("a".into(), 9), ("b".into(), 9), ("c".into(), 8), ("d".into(), 9)];
        assert_eq!(found(&batch), expected);
        assert_eq!(batch.slot(b"c").unwrap().unwrap().stamp, Stamp(8));
    }

    #[test]
    fn b3_each_commit_and_each_change_takes_the_next_number() {
        let [quiet, loud] = [vec![], vec![b"x".to_vec(), b"y".to_vec()]]
            .map(|changes| Commit { changes, ..commit(vec![put("a", "1")]) });
        let mut batch = Batch::new(TIP);
        let positions = [&loud, &quiet, &loud].map(|commit| batch.add(commit, &Fixed).unwrap());
        let expected =
            [11, 11, 13].map(|position| CommitOutcome::Committed { position: Position(position) });
        assert_eq!(positions, expected);
        assert_eq!(batch.tip(), Tip { sequence: 10, position: Position(13) });
        let numbers: Vec<_> =
            batch.changes().iter().map(|change| (change.position.0, change.stamp.0)).collect();
        assert_eq!(numbers, [(10, 8), (11, 8), (12, 10), (13, 10)]);
        assert_eq!(slots(&batch), [("a".into(), 10, b"1".to_vec())]);
    }
}
