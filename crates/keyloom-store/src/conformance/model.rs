//! Random operations agree with a plain map at every step.

use std::collections::{BTreeMap, BTreeSet};

use pollster::block_on;

use super::{Open, Random, Subject, everything, range, scan, scan_pages};
use crate::{
    Check, Commit, CommitOutcome, Direction, Expect, KeyRange, Position, ScanOptions, Snapshot,
    Stamp, Stored, Write,
};

const STEPS: usize = 400;

/// Checks, writes, counters, changes, reads, scans and old snapshots, drawn from a seed.
pub fn random_operations_agree_with_a_plain_map(open: Open) {
    let mut random = Random::from_environment();
    let subject = Subject::fresh(open);
    let mut model = Model::default();
    for _ in 0..STEPS {
        model.step(&subject, &mut random);
    }
    model.agrees(&subject, &random);
}

/// What the store should hold. Stamps are learned from the store; their law is in `history`.
#[derive(Default)]
pub(super) struct Model {
    keys: Keys,
    feed: Vec<(Position, Vec<u8>)>,
    /// Every stamp that a key has had.
    history: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    old: Vec<(Box<dyn Snapshot>, Keys)>,
}

type Keys = BTreeMap<Vec<u8>, Stored>;

impl Model {
    pub(super) fn step(&mut self, subject: &Subject, random: &mut Random) {
        match random.below(10) {
            0 => self.read(&*subject.snapshot(), &self.keys, random),
            1 => self.old.push((subject.snapshot(), self.keys.clone())),
            2 if !self.old.is_empty() => {
                let index = random.below(self.old.len());
                let (snapshot, keys) = self.old.swap_remove(index);
                self.read(&*snapshot, &keys, random);
            }
            _ => self.commit(subject, random),
        }
    }

    /// Compares everything that is stored. Old snapshots are let go, for the store may be closed.
    pub(super) fn agrees(&mut self, subject: &Subject, random: &Random) {
        self.old.clear();
        let entries = scan(&*subject.snapshot(), &everything(), Direction::Forward);
        let found: Vec<_> = entries.into_iter().map(|entry| (entry.key, entry.stored)).collect();
        assert_eq!(found, Vec::from_iter(self.keys.clone()), "{random}");
        let feed = subject.changes(Position::default(), usize::MAX);
        let feed: Vec<_> = feed.into_iter().map(|change| (change.position, change.bytes)).collect();
        assert_eq!(feed, self.feed, "{random}");
    }

    fn commit(&mut self, subject: &Subject, random: &mut Random) {
        let commit = self.draw(random);
        let failing = commit.checks.iter().position(|check| {
            let stamp = self.keys.get(&check.key).map(|stored| stored.stamp);
            match check.expect {
                Expect::Absent => stamp.is_some(),
                Expect::At(expected) => stamp != Some(expected),
            }
        });
        let damaged = commit.writes.iter().any(|write| {
            matches!(write, Write::Add { key, .. }
                if self.keys.get(key).is_some_and(|stored| stored.value.len() != 8))
        });
        let outcome = subject.try_commit(commit.clone());
        match (failing, outcome) {
            (Some(check), outcome) => {
                assert_eq!(outcome.unwrap(), CommitOutcome::Conflict { check }, "{random}");
            }
            (None, Err(error)) => assert!(damaged, "{error}; {random}"),
            (None, Ok(CommitOutcome::Committed { position })) => {
                assert!(!damaged, "{random}");
                self.take_in(subject, &commit, position, random);
            }
            (None, Ok(outcome)) => panic!("{outcome:?}, but all checks hold; {random}"),
        }
    }

    fn take_in(&mut self, subject: &Subject, commit: &Commit, position: Position, random: &Random) {
        for write in &commit.writes {
            let value = match write {
                Write::Put { value, .. } => value.clone(),
                Write::Delete { key } => {
                    self.keys.remove(key);
                    continue;
                }
                Write::Add { key, delta } => {
                    let old = self
                        .keys
                        .get(key)
                        .map_or([0; 8], |stored| stored.value.as_slice().try_into().unwrap());
                    i64::from_be_bytes(old).wrapping_add(*delta).to_be_bytes().to_vec()
                }
            };
            let stamp = subject.stamp(write.key());
            let is_new = self.history.entry(write.key().to_vec()).or_default().insert(stamp.0);
            assert!(is_new, "{stamp:?} was used before for {:?}; {random}", write.key());
            self.keys.insert(write.key().to_vec(), Stored { value, stamp });
        }
        let end = self.feed.last().map_or(Position::default(), |(position, _)| *position);
        if commit.changes.is_empty() {
            assert_eq!(position, end, "{random}");
        } else {
            let found = subject.changes(end, usize::MAX);
            assert_eq!(found.last().unwrap().position, position, "{random}");
            let found_bytes: Vec<_> = found.iter().map(|change| change.bytes.clone()).collect();
            assert_eq!(found_bytes, commit.changes, "{random}");
            self.feed.extend(found.into_iter().map(|change| (change.position, change.bytes)));
        }
    }

    fn read(&self, snapshot: &dyn Snapshot, expected: &Keys, random: &mut Random) {
        let asked: Vec<Vec<u8>> = (0..random.below(6)).map(|_| draw_key(random)).collect();
        let found = block_on(snapshot.get_many(&asked)).unwrap();
        let wanted: Vec<_> = asked.iter().map(|key| expected.get(key).cloned()).collect();
        assert_eq!(found, wanted, "{random}");
        let range = draw_range(random);
        let limit = if random.below(2) == 0 { usize::MAX } else { random.below(5) };
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Reverse };
        let options = ScanOptions { direction, limit };
        let found = scan_pages(snapshot, &range, options, 1 + random.below(4));
        // Who asks again and again, and for all at once, may be answered from elsewhere.
        for _ in 0..random.below(4) {
            assert_eq!(scan_pages(snapshot, &range, options, limit.max(1)), found, "{random}");
        }
        let mut wanted: Vec<_> =
            expected.iter().filter(|(key, _)| range.contains(key)).map(|(key, _)| key).collect();
        if direction == Direction::Reverse {
            wanted.reverse();
        }
        wanted.truncate(limit);
        assert_eq!(found.iter().map(|entry| &entry.key).collect::<Vec<_>>(), wanted, "{random}");
        for entry in &found {
            assert_eq!(expected.get(&entry.key), Some(&entry.stored), "{random}");
        }
    }

    fn draw(&self, random: &mut Random) -> Commit {
        let mut commit = Commit::default();
        for _ in 0..random.below(3) {
            let key = draw_key(random);
            // Mostly the truth, so that most commits go through.
            let expect = match (self.keys.get(&key), random.below(6)) {
                (_, 0) => Expect::Absent,
                (_, 1) => Expect::At(Stamp(random.next_u64() % 50)),
                (Some(stored), _) => Expect::At(stored.stamp),
                (None, _) => Expect::Absent,
            };
            commit.checks.push(Check { key, expect });
        }
        let keys: BTreeSet<Vec<u8>> = (0..random.below(5)).map(|_| draw_key(random)).collect();
        for key in keys {
            let write = match random.below(6) {
                0 | 1 => Write::Delete { key },
                2 => Write::Add { key, delta: random.next_u64() as i64 },
                3 => Write::Put { key, value: random.bytes(8) },
                _ => {
                    let len = random.below(40);
                    Write::Put { key, value: random.bytes(len) }
                }
            };
            commit.writes.push(write);
        }
        for _ in 0..random.below(3) {
            let len = random.below(20);
            commit.changes.push(random.bytes(len));
        }
        commit
    }
}

/// What keys begin with, so that some belong to a family of keys, as those of documents and claims
/// do, and some share more than that, as the index keys of one list do.
const FAMILIES: [&[u8]; 4] = [b"", b"", b"famil", b"family of rather long keys"];

/// One of some hundred keys, so that operations meet.
fn draw_key(random: &mut Random) -> Vec<u8> {
    const BYTES: [u8; 5] = [0x00, 0x01, b'k', 0xFE, 0xFF];
    let family = FAMILIES[random.below(FAMILIES.len())];
    let len = 1 + random.below(3);
    let own = (0..len).map(|_| BYTES[random.below(BYTES.len())]);
    family.iter().copied().chain(own).collect()
}

fn draw_range(random: &mut Random) -> KeyRange {
    match random.below(4) {
        0 => everything(),
        1 => {
            let [.., family] = FAMILIES;
            range(family, [family, &[0xFF; 4]].concat())
        }
        _ => range(draw_key(random), draw_key(random)),
    }
}
