//! What is in the journal and not yet in fjall's files survives, whole, and only once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test is a panic")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use keyloom_store::conformance::Random;
use keyloom_store::{Commit, OrderedStore, Position, StoreError, Write};
use keyloom_store_fjall::{Durability, FjallStore, MEMTABLE_BYTES, SEALED_MAX, SEGMENTS_MAX};
use pollster::block_on;
use tempfile::TempDir;

fn open(folder: &Path) -> Result<FjallStore, StoreError> {
    FjallStore::open(folder, Durability::Durable)
}

fn put(key: impl ToString, value: &[u8]) -> Write {
    Write::Put { key: key.to_string().into(), value: value.into() }
}

fn commit(store: &FjallStore, writes: Vec<Write>) {
    let changes = vec![b"change".to_vec()];
    let commit = Commit { writes, changes, ..Commit::default() };
    block_on(store.commit(Arc::new(commit))).unwrap();
}

fn get(store: &FjallStore, key: impl ToString) -> Option<Vec<u8>> {
    let snapshot = block_on(store.snapshot()).unwrap();
    block_on(snapshot.get(key.to_string().as_bytes())).unwrap().map(|stored| stored.value)
}

fn changes(store: &FjallStore) -> usize {
    block_on(store.changes(Position::default(), usize::MAX)).unwrap().len()
}

/// What a process that was killed in this moment leaves behind, if fjall writes no files just now.
fn killed(folder: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    copy(folder, to.path());
    to
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => {
                fs::create_dir(&target).unwrap();
                copy(&path, &target);
            }
            false => {
                fs::copy(&path, &target).unwrap();
            }
        }
    }
}

/// The names in the journal, but for the spare one.
fn segments(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder.join("journal")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn commits_are_in_the_journal_before_they_are_acknowledged() {
    for durability in [Durability::Durable, Durability::Buffered] {
        let folder = tempfile::tempdir().unwrap();
        let store = FjallStore::open(folder.path(), durability).unwrap();
        for number in 0..20 {
            commit(&store, vec![put(number, b"value"), put("last", &[number])]);
            let copy = killed(folder.path());
            let found = open(copy.path()).unwrap();
            assert_eq!(get(&found, number).unwrap(), b"value");
            assert_eq!(get(&found, "last").unwrap(), [number]);
            assert_eq!(changes(&found), usize::from(number) + 1);
        }
    }
}

/// A folder as after a kill, with three commits of equal length in the journal.
struct Torn {
    folder: TempDir,
    journal: Vec<u8>,
    /// Where the records of the journal end.
    ends: [usize; 3],
    /// The mark after each of the commits.
    marks: [Vec<u8>; 3],
}

impl Torn {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        let read = |name| fs::read(folder.path().join(name)).unwrap();
        let steps = ["zero", "one!", "two!"].map(|key| {
            commit(&store, vec![put(key, b"1"), put("all", key.as_bytes())]);
            let end = read("journal/1").iter().rposition(|byte| *byte != 0).map_or(0, |it| it + 1);
            (end, read("MARK"))
        });
        let (copy, journal) = (killed(folder.path()), read("journal/1"));
        let (ends, marks) = (steps.clone().map(|it| it.0), steps.map(|it| it.1));
        Torn { folder: copy, journal, ends, marks }
    }

    /// A copy with this journal, in which so many commits were acknowledged.
    fn copy(&self, journal: &[u8], acknowledged: usize) -> TempDir {
        let copy = killed(self.folder.path());
        fs::write(copy.path().join("journal/1"), journal).unwrap();
        fs::write(copy.path().join("MARK"), &self.marks[acknowledged - 1]).unwrap();
        copy
    }
}

#[test]
fn n5_a_record_that_was_cut_short_is_left_out_whole_and_missed_if_it_was_acknowledged() {
    let torn = Torn::new();
    let [_, one, two] = torn.ends;
    for cut in (one..two).step_by(7) {
        let mut journal = torn.journal.clone();
        journal[cut..].fill(0);
        let folder = torn.copy(&journal, 2);
        let store = open(folder.path()).unwrap();
        assert_eq!(get(&store, "one!").unwrap(), b"1", "cut at {cut}");
        assert_eq!(get(&store, "two!"), None, "cut at {cut}");
        assert_eq!(changes(&store), 2, "cut at {cut}");
        // What comes behind it in a segment of its own is found again.
        commit(&store, vec![put("later", b"1")]);
        drop(store);
        let store = open(folder.path()).unwrap();
        assert_eq!((get(&store, "later"), changes(&store)), (Some(b"1".to_vec()), 3));
        let refused = open(torn.copy(&journal, 3).path()).err().unwrap().to_string();
        assert!(refused.contains("the acknowledged commits 3 to 3 are missing"), "{refused}");
    }
    let store = open(torn.copy(&torn.journal, 3).path()).unwrap();
    assert_eq!((get(&store, "all").unwrap(), changes(&store)), (b"two!".to_vec(), 3));
}

#[test]
fn damage_to_a_journal_that_is_needed_is_reported_and_leaves_the_rest_as_it_is() {
    let torn = Torn::new();
    let mut random = Random::from_environment();
    for round in 0..60 {
        let mut journal = torn.journal.clone();
        // A third of it in the head.
        let place = match round % 3 {
            0 => random.below(40),
            _ => 4096 + random.below(torn.ends[2] - 4096),
        };
        journal[place] ^= 1 << random.below(8);
        let folder = torn.copy(&journal, 3);
        let error = open(folder.path()).err().map(|error| error.to_string());
        let is_missed = error.is_some_and(|error| {
            error.contains(if place < 40 { "1 is damaged" } else { "are missing" })
        });
        assert!(is_missed, "a bit flipped at {place}; {random}");
        assert!(fs::read(folder.path().join("journal/1")).unwrap() == journal);
        // Who has another copy of the journal can go on.
        fs::write(folder.path().join("journal/1"), &torn.journal).unwrap();
        let store = open(folder.path()).unwrap();
        assert_eq!((get(&store, "all").unwrap(), changes(&store)), (b"two!".to_vec(), 3));
    }
}

#[test]
fn n4_records_behind_a_damaged_one_do_not_come_back() {
    let torn = Torn::new();
    let mut journal = torn.journal.clone();
    journal[torn.ends[0]] ^= 1;
    let folder = torn.copy(&journal, 1);
    let store = open(folder.path()).unwrap();
    for (commits, key) in [(2, "new!"), (3, "next")] {
        // As long as the one that was damaged.
        commit(&store, vec![put(key, b"1"), put("all", key.as_bytes())]);
        let found = open(killed(folder.path()).path()).unwrap();
        assert_eq!(get(&found, "two!"), None);
        assert_eq!((get(&found, "all").unwrap(), changes(&found)), (key.into(), commits));
    }
}

#[test]
fn n2_a_segment_that_is_missing_or_lost_its_end_is_noticed_although_others_follow() {
    let original = tempfile::tempdir().unwrap();
    for number in 1..=4 {
        commit(&open(original.path()).unwrap(), vec![put(number, b"1")]);
    }
    assert_eq!(segments(original.path()), [1, 2, 3, 4]);
    for number in 1..=3 {
        let name = format!("journal/{number}");
        for damaged in [None, Some(40), Some(4096), Some(4096 + 20)] {
            let folder = killed(original.path());
            let path = folder.path().join(&name);
            let bytes = fs::read(&path).unwrap();
            match damaged {
                None => fs::remove_file(&path).unwrap(),
                Some(len) => fs::write(&path, &bytes[..len]).unwrap(),
            }
            let error = open(folder.path()).err().unwrap();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains(&name) && error.contains("restore a backup"), "{error}");
            fs::write(&path, bytes).unwrap();
            assert_eq!(changes(&open(folder.path()).unwrap()), 4);
        }
    }
}

#[test]
fn a_segment_that_was_not_begun_whole_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    commit(&open(folder.path()).unwrap(), vec![put(1, b"1")]);
    for bytes in [vec![], vec![0; 100], fs::read(folder.path().join("journal/1")).unwrap()] {
        let copy = killed(folder.path());
        fs::write(copy.path().join("journal/2"), bytes).unwrap();
        for commits in 2..4 {
            let store = open(copy.path()).unwrap();
            commit(&store, vec![put("more", b"1")]);
            assert_eq!(changes(&store), commits);
        }
        assert_eq!(segments(copy.path()), [1, 2, 3]);
    }
}

#[test]
fn every_process_begins_a_segment_and_there_are_never_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let lives = 3 * SEGMENTS_MAX;
    let mut most = 0;
    for number in 0..lives {
        let store = open(folder.path()).unwrap();
        commit(&store, vec![put(number, b"1")]);
        most = most.max(segments(folder.path()).len() as u64);
    }
    assert_eq!(most, SEGMENTS_MAX);
    let store = open(folder.path()).unwrap();
    assert!((0..lives).all(|number| get(&store, number).is_some()));
    assert_eq!(changes(&store) as u64, lives);
}

/// Commits until the tables in memory have become files so often, and gives how many there were.
fn fill(store: &FjallStore, times: u64) -> u64 {
    let value = vec![7; 2 << 20];
    let commits = times * MEMTABLE_BYTES / (2 << 20) + 1;
    for number in 0..commits {
        commit(store, vec![put(number, &value), put("last", &number.to_be_bytes())]);
    }
    commits
}

#[test]
fn n1_segments_are_removed_once_their_rows_are_in_files_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    for round in 1..=3 {
        let commits = fill(&store, 3);
        let kept = segments(folder.path());
        // Of each keyspace so many tables may wait, and one is filled.
        assert!(kept.len() <= SEALED_MAX + 1, "{kept:?}");
        assert!(*kept.last().unwrap() >= 3 * round, "{kept:?}");
        drop(store);
        // Whatever fjall had not written yet comes from the journal.
        store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
        assert!((0..commits).all(|number| get(&store, number).is_some()));
        assert_eq!(get(&store, "last").unwrap(), (commits - 1).to_be_bytes());
        assert_eq!(changes(&store) as u64, round * commits);
    }
    assert!(!segments(folder.path()).contains(&1));
}

#[test]
fn a_journal_that_vanished_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    commit(&open(folder.path()).unwrap(), vec![put("a", b"1")]);
    let [journal, elsewhere] = ["journal", "elsewhere"].map(|name| folder.path().join(name));
    fs::rename(&journal, &elsewhere).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("journal cannot be read: "), "{error}");
    fs::create_dir(&journal).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("the acknowledged commits 1 to 1 are missing"), "{error}");
    fs::remove_dir(&journal).unwrap();
    fs::rename(&elsewhere, &journal).unwrap();
    assert_eq!(get(&open(folder.path()).unwrap(), "a").unwrap(), b"1");
}

#[test]
fn what_is_written_is_the_same_with_and_without_fjalls_own_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    let commits = fill(&store, 1);
    drop(store);
    for journal in [None, Some(&b"whatever"[..]), Some(&[1; 4096])] {
        let own = folder.path().join("data.fjall/0.jnl");
        match journal {
            None => fs::remove_file(own).unwrap(),
            Some(bytes) => fs::write(own, bytes).unwrap(),
        }
        let store = open(folder.path()).unwrap();
        // A row that is written anew wins over the one in a file.
        commit(&store, vec![put("last", b"new")]);
        assert_eq!(get(&store, "last").unwrap(), b"new");
        assert!((0..commits).all(|number| get(&store, number).is_some()));
    }
}
