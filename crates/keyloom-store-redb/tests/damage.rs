//! Damaged files of a redb store are reported, and so is a folder that cannot be used.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use keyloom_store::conformance::damage::damaged_files_are_reported_or_do_no_harm;
use keyloom_store::{Commit, OrderedStore, Position, StoreError, Write};
use keyloom_store_redb::{RedbStore, VERIFY_BYTES_MAX};

fn open(folder: &Path) -> Result<Arc<dyn OrderedStore>, StoreError> {
    Ok(Arc::new(RedbStore::open(folder)?))
}

#[test]
fn e2_damage_to_a_small_store_is_reported_or_does_no_harm() {
    damaged_files_are_reported_or_do_no_harm(open, 0, 400);
}

fn write(store: &dyn OrderedStore, key: &str) {
    let writes = vec![Write::Put { key: key.into(), value: b"1".into() }];
    let commit = Commit { writes, changes: vec![key.into()], ..Commit::default() };
    pollster::block_on(store.commit(commit.into())).expect("the commit succeeds");
}

#[test]
fn a_folder_is_used_by_one_at_a_time_and_a_snapshot_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    write(&*store, "a");
    let snapshot = pollster::block_on(store.snapshot()).unwrap();
    drop(store);
    let error = open(folder.path()).err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(pollster::block_on(snapshot.get(b"a")).unwrap().is_some());
    drop(snapshot);
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_of_another_engine_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("KEYLOOM"), "engine = \"fjall\"\nformat = 1\n").unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("holds a fjall store, opened as redb: use ?engine=fjall"), "{error}");
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let [data, unfinished] = ["data.redb", "data.redb.new"].map(|name| folder.path().join(name));
    fs::rename(&data, &unfinished).unwrap();
    let store = open(folder.path()).unwrap();
    write(&*store, "a");
    assert!(data.exists() && !unfinished.exists());
}

#[test]
fn data_that_vanished_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    write(&*open(folder.path()).unwrap(), "a");
    let data = folder.path().join("data.redb");
    fs::rename(&data, folder.path().join("elsewhere")).unwrap();
    let error = open(folder.path()).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let expected = "the acknowledged commits 1 to 1 are missing";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_path_below_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = open(&file.join("store")).err().unwrap();
    assert!(matches!(error, StoreError::Folder { .. }), "{error}");
}

#[test]
fn e2_verify_reads_a_store_without_changing_it() {
    let folder = tempfile::tempdir().unwrap();
    write(&*open(folder.path()).unwrap(), "a");
    let data = folder.path().join("data.redb");
    let before = fs::read(&data).unwrap();
    RedbStore::verify(folder.path()).unwrap();
    assert!(fs::read(&data).unwrap() == before, "verify has written to the file");
    // Pages that are not in use any more hold the name of the table, too.
    let is_name = |place: &usize| before[*place..].starts_with(b"rows");
    let places: Vec<_> = (0..before.len()).filter(is_name).collect();
    let mut damaged = before;
    for place in places {
        damaged[place] ^= 1;
    }
    fs::write(&data, &damaged).unwrap();
    let error = RedbStore::verify(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(fs::read(&data).unwrap() == damaged, "verify has repaired the file");
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let data = folder.path().join("data.redb");
    // Too large to be verified first.
    fs::File::create(&data).unwrap().set_len(VERIFY_BYTES_MAX + 1).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains(&data.display().to_string()), "{error}");
}

#[test]
fn e3_readers_keep_their_state_while_the_file_is_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    write(&*store, "a");
    let snapshot = pollster::block_on(store.snapshot()).unwrap();
    for _ in 0..50 {
        write(&*store, "a");
    }
    let old = pollster::block_on(snapshot.get(b"a")).unwrap().unwrap();
    let new = pollster::block_on(store.snapshot()).unwrap();
    let new = pollster::block_on(new.get(b"a")).unwrap().unwrap();
    assert_eq!(old.stamp.0 + 50, new.stamp.0);
    assert_eq!(pollster::block_on(store.changes(Position(50), 9)).unwrap().len(), 1);
}
