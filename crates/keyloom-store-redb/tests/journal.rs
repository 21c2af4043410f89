//! What is in the journal and not yet in redb's file survives, whole, and only once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test is a panic")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use keyloom_store::conformance::Random;
use keyloom_store::{Commit, OrderedStore, Position, StoreError, Write};
use keyloom_store_redb::{JOURNAL_BYTES_MAX, RedbStore};
use pollster::block_on;
use tempfile::TempDir;

const FILES: [&str; 4] = ["KEYLOOM", "MARK", "data.redb", "journal"];

fn open(folder: &Path) -> Result<RedbStore, StoreError> {
    RedbStore::open(folder)
}

fn put(key: impl ToString, value: &[u8]) -> Write {
    Write::Put { key: key.to_string().into(), value: value.into() }
}

fn commit(store: &RedbStore, writes: Vec<Write>) {
    let changes = vec![b"change".to_vec()];
    let commit = Commit { writes, changes, ..Commit::default() };
    block_on(store.commit(Arc::new(commit))).unwrap();
}

fn get(store: &RedbStore, key: impl ToString) -> Option<Vec<u8>> {
    let snapshot = block_on(store.snapshot()).unwrap();
    block_on(snapshot.get(key.to_string().as_bytes())).unwrap().map(|stored| stored.value)
}

fn changes(store: &RedbStore) -> usize {
    block_on(store.changes(Position::default(), usize::MAX)).unwrap().len()
}

/// What a process that was killed in this moment leaves behind. The file of redb begins with what
/// tells its state, so a copy is that of one moment even if a checkpoint runs.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in FILES {
        fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn commits_are_in_the_journal_before_they_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    for number in 0..20 {
        commit(&store, vec![put(number, b"value"), put("last", &[number])]);
        let copy = killed(folder.path());
        let found = open(copy.path()).unwrap();
        assert_eq!(get(&found, number).unwrap(), b"value");
        assert_eq!(get(&found, "last").unwrap(), [number]);
        assert_eq!(changes(&found), usize::from(number) + 1);
    }
}

#[test]
fn w1_what_a_checkpoint_has_written_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    commit(&store, vec![put("gone", b"1"), put("kept", b"1")]);
    drop(store);
    // The records of the first life are still in the file.
    let store = open(folder.path()).unwrap();
    let large = vec![7; JOURNAL_BYTES_MAX];
    commit(&store, vec![Write::Delete { key: b"gone".into() }, put("large", &large)]);
    let found = open(killed(folder.path()).path()).unwrap();
    assert_eq!(get(&found, "gone"), None);
    assert_eq!(get(&found, "kept").unwrap(), b"1");
    assert_eq!(get(&found, "large").unwrap(), large);
}

#[test]
fn the_journal_is_bounded_and_a_full_one_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let value = vec![1; JOURNAL_BYTES_MAX / 7];
    for number in 0..20 {
        commit(&store, vec![put(number, &value)]);
        let journal = fs::metadata(folder.path().join("journal")).unwrap().len();
        assert!(journal <= JOURNAL_BYTES_MAX as u64, "{journal} bytes");
        let found = open(killed(folder.path()).path()).unwrap();
        assert!((0..=number).all(|number| get(&found, number).as_ref() == Some(&value)));
    }
}

/// A folder as after a kill, with two commits in the journal; the second is as long as `cut`
/// leaves it, and `acknowledged` is the mark.
struct Torn {
    folder: TempDir,
    one: usize,
    two: usize,
    journal: Vec<u8>,
    marks: [Vec<u8>; 2],
}

impl Torn {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        let read = |name| fs::read(folder.path().join(name)).unwrap();
        let used = || read("journal").iter().rposition(|byte| *byte != 0).unwrap() + 1;
        commit(&store, vec![put("one", b"1"), put("both", b"1")]);
        let (one, first_mark) = (used(), read("MARK"));
        commit(&store, vec![put("two", b"2"), put("both", b"2")]);
        let (two, second_mark) = (used(), read("MARK"));
        let (copy, journal) = (killed(folder.path()), read("journal"));
        Torn { folder: copy, one, two, journal, marks: [first_mark, second_mark] }
    }

    /// Opens a copy with this journal, in which so many commits were acknowledged.
    fn open(&self, journal: &[u8], acknowledged: usize) -> Result<RedbStore, StoreError> {
        let copy = killed(self.folder.path());
        fs::write(copy.path().join("journal"), journal).unwrap();
        fs::write(copy.path().join("MARK"), &self.marks[acknowledged - 1]).unwrap();
        open(copy.path())
    }
}

#[test]
fn w2_a_record_that_was_cut_short_is_left_out_whole_and_missed_if_it_was_acknowledged() {
    let torn = Torn::new();
    for cut in torn.one..torn.two {
        let mut journal = torn.journal.clone();
        journal[cut..].fill(0);
        let store = torn.open(&journal, 1).unwrap();
        assert_eq!(get(&store, "one").unwrap(), b"1", "cut at {cut}");
        assert_eq!(get(&store, "two"), None, "cut at {cut}");
        assert_eq!(get(&store, "both").unwrap(), b"1", "cut at {cut}");
        assert_eq!(changes(&store), 1, "cut at {cut}");
        let error = torn.open(&journal, 2).err().unwrap().to_string();
        assert!(error.contains("the acknowledged commits 2 to 2 are missing"), "{error}");
    }
    let store = torn.open(&torn.journal, 2).unwrap();
    assert_eq!((get(&store, "both").unwrap(), changes(&store)), (b"2".to_vec(), 2));
}

#[test]
fn damage_to_a_journal_that_is_needed_is_reported() {
    let torn = Torn::new();
    let mut random = Random::from_environment();
    for _ in 0..200 {
        let mut journal = torn.journal.clone();
        let place = random.below(torn.two);
        journal[place] ^= 1 << random.below(8);
        let error = torn.open(&journal, 2).err().map(|error| error.to_string());
        let is_missed = error.is_some_and(|error| error.contains("are missing"));
        assert!(is_missed, "a bit flipped at {place}; {random}");
    }
    assert!(torn.open(&[], 2).is_err());
}

#[test]
fn a_journal_that_vanished_is_missed_only_if_it_was_needed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    commit(&store, vec![put("a", b"1")]);
    let copy = killed(folder.path());
    fs::remove_file(copy.path().join("journal")).unwrap();
    // A checkpoint may have come in between.
    if let Err(error) = open(copy.path()) {
        assert!(error.to_string().contains("are missing"), "{error}");
    }
    drop(store);
    fs::remove_file(folder.path().join("journal")).unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(get(&store, "a").unwrap(), b"1");
}

#[test]
fn a_journal_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let journal = folder.path().join("journal");
    fs::remove_file(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("the journal: "), "{error}");
}

#[test]
fn when_nobody_commits_the_file_of_redb_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    commit(&store, vec![put("a", b"1")]);
    let is_written = || {
        let copy = killed(folder.path());
        fs::write(copy.path().join("journal"), []).unwrap();
        open(copy.path()).is_ok_and(|store| get(&store, "a").is_some())
    };
    // Each look takes milliseconds; the checkpoint comes after a tenth of a second.
    assert!((0..10_000).any(|_| is_written()));
}
