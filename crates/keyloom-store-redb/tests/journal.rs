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

/// A store whose commits go into the journal: the first one of a process does not.
fn begun(folder: &Path) -> RedbStore {
    let store = open(folder).unwrap();
    commit(&store, vec![put("begun", b"1")]);
    store
}

#[test]
fn commits_are_in_the_journal_before_they_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path());
    for number in 0..20 {
        commit(&store, vec![put(number, b"value"), put("last", &[number])]);
        let copy = killed(folder.path());
        let found = open(copy.path()).unwrap();
        assert_eq!(get(&found, number).unwrap(), b"value");
        assert_eq!(get(&found, "last").unwrap(), [number]);
        assert_eq!(changes(&found), usize::from(number) + 2);
    }
}

#[test]
fn w1_what_a_checkpoint_has_written_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path());
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
    let store = begun(folder.path());
    let value = vec![1; JOURNAL_BYTES_MAX / 7];
    for number in 0..20 {
        commit(&store, vec![put(number, &value)]);
        let journal = fs::metadata(folder.path().join("journal")).unwrap().len();
        assert!(journal <= JOURNAL_BYTES_MAX as u64, "{journal} bytes");
        let found = open(killed(folder.path()).path()).unwrap();
        assert!((0..=number).all(|number| get(&found, number).as_ref() == Some(&value)));
    }
}

/// A folder as after a kill, with three commits of equal length, two of them in the journal only.
struct Torn {
    folder: TempDir,
    journal: Vec<u8>,
    /// Where the records of the journal end.
    ends: [usize; 2],
    /// The mark after each of the commits.
    marks: [Vec<u8>; 3],
}

impl Torn {
    fn new() -> Self {
        // If this process was held up, there was time for a checkpoint in between.
        let is_torn = |torn: &Torn| {
            let refused = torn.open(&[], 3).err().map(|error| error.to_string());
            refused.is_some_and(|error| error.contains("commits 2 to 3 are missing"))
        };
        (0..100).map(|_| Torn::once()).find(is_torn).unwrap()
    }

    fn once() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        let read = |name| fs::read(folder.path().join(name)).unwrap();
        let steps = ["zero", "one!", "two!"].map(|key| {
            commit(&store, vec![put(key, b"1"), put("all", key.as_bytes())]);
            let end = read("journal").iter().rposition(|byte| *byte != 0).map_or(0, |it| it + 1);
            (end, read("MARK"))
        });
        let [(_, first), (one, second), (two, third)] = steps;
        let (copy, journal) = (killed(folder.path()), read("journal"));
        Torn { folder: copy, journal, ends: [one, two], marks: [first, second, third] }
    }

    /// A copy with this journal, in which so many commits were acknowledged.
    fn copy(&self, journal: &[u8], acknowledged: usize) -> TempDir {
        let copy = killed(self.folder.path());
        fs::write(copy.path().join("journal"), journal).unwrap();
        fs::write(copy.path().join("MARK"), &self.marks[acknowledged - 1]).unwrap();
        copy
    }

    fn open(&self, journal: &[u8], acknowledged: usize) -> Result<RedbStore, StoreError> {
        open(self.copy(journal, acknowledged).path())
    }
}

#[test]
fn w2_a_record_that_was_cut_short_is_left_out_whole_and_missed_if_it_was_acknowledged() {
    let torn = Torn::new();
    let [one, two] = torn.ends;
    for cut in one..two {
        let mut journal = torn.journal.clone();
        journal[cut..].fill(0);
        let store = torn.open(&journal, 2).unwrap();
        assert_eq!(get(&store, "one!").unwrap(), b"1", "cut at {cut}");
        assert_eq!(get(&store, "two!"), None, "cut at {cut}");
        assert_eq!(get(&store, "all").unwrap(), b"one!", "cut at {cut}");
        assert_eq!(changes(&store), 2, "cut at {cut}");
        let error = torn.open(&journal, 3).err().unwrap().to_string();
        assert!(error.contains("the acknowledged commits 3 to 3 are missing"), "{error}");
    }
    let store = torn.open(&torn.journal, 3).unwrap();
    assert_eq!((get(&store, "all").unwrap(), changes(&store)), (b"two!".to_vec(), 3));
}

#[test]
fn damage_to_a_journal_that_is_needed_is_reported_and_leaves_the_rest_as_it_is() {
    let torn = Torn::new();
    let mut random = Random::from_environment();
    for _ in 0..100 {
        let mut journal = torn.journal.clone();
        let place = random.below(torn.ends[1]);
        journal[place] ^= 1 << random.below(8);
        let folder = torn.copy(&journal, 3);
        let error = open(folder.path()).err().map(|error| error.to_string());
        let is_missed = error.is_some_and(|error| error.contains("are missing"));
        assert!(is_missed, "a bit flipped at {place}; {random}");
        assert!(fs::read(folder.path().join("journal")).unwrap() == journal);
        // Who has another copy of the journal can go on.
        fs::write(folder.path().join("journal"), &torn.journal).unwrap();
        let store = open(folder.path()).unwrap();
        assert_eq!((get(&store, "all").unwrap(), changes(&store)), (b"two!".to_vec(), 3));
    }
}

#[test]
fn w4_records_behind_a_damaged_one_do_not_come_back() {
    let torn = Torn::new();
    let mut journal = torn.journal.clone();
    journal[0] ^= 1;
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
fn a_journal_that_vanished_is_missed_only_if_it_was_needed() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path());
    commit(&store, vec![put("a", b"1")]);
    let copy = killed(folder.path());
    fs::remove_file(copy.path().join("journal")).unwrap();
    match open(copy.path()) {
        // A checkpoint has come in between.
        Ok(store) => assert_eq!(get(&store, "a").unwrap(), b"1"),
        Err(error) => assert!(error.to_string().contains("are missing"), "{error}"),
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
    assert!(error.contains("journal cannot be opened: "), "{error}");
}

#[test]
fn when_nobody_commits_the_file_of_redb_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path());
    commit(&store, vec![put("a", b"1")]);
    let is_written = || {
        let copy = killed(folder.path());
        fs::write(copy.path().join("journal"), []).unwrap();
        open(copy.path()).is_ok_and(|store| get(&store, "a").is_some())
    };
    // Each look takes milliseconds; the checkpoint comes after a tenth of a second.
    assert!((0..10_000).any(|_| is_written()));
}

#[cfg(unix)]
#[test]
fn a_link_to_a_journal_that_is_not_there_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path());
    commit(&store, vec![put("a", b"1")]);
    let copy = killed(folder.path());
    let [journal, elsewhere] = ["journal", "elsewhere"].map(|name| copy.path().join(name));
    fs::rename(&journal, &elsewhere).unwrap();
    std::os::unix::fs::symlink(copy.path().join("gone"), &journal).unwrap();
    let error = open(copy.path()).err().unwrap().to_string();
    assert!(error.contains("journal cannot be opened: "), "{error}");
    fs::rename(elsewhere, copy.path().join("gone")).unwrap();
    assert_eq!(get(&open(copy.path()).unwrap(), "a").unwrap(), b"1");
}
