//! Damaged files of a fjall store are reported, and so is a folder that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyloom_store::conformance::damage::damaged_files_are_reported_or_do_no_harm;
use keyloom_store::{Commit, OrderedStore, Position, StoreError, Write};
use keyloom_store_fjall::{Durability, FjallStore};

fn open(folder: &Path) -> Result<Arc<dyn OrderedStore>, StoreError> {
    Ok(Arc::new(FjallStore::open(folder, Durability::Durable)?))
}

#[test]
fn damage_to_journals_is_reported_or_does_no_harm() {
    damaged_files_are_reported_or_do_no_harm(open, 0, 400);
}

#[test]
fn damage_to_tables_is_reported_or_does_no_harm() {
    damaged_files_are_reported_or_do_no_harm(open, 100 << 20, 150);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.flat_map(below).collect()
}

#[test]
fn a_keyspace_that_is_not_whole_is_refused_and_fjall_deletes_none() {
    // The names of the others, documents, keys, changes: each without `current`, or as a whole.
    for keyspace in ["0", "1", "2", "3"] {
        for removed in [format!("{keyspace}/current"), keyspace.to_owned()] {
            let folder = tempfile::tempdir().unwrap();
            write(&*open(folder.path()).unwrap(), "a");
            let removed = folder.path().join("data.fjall/keyspaces").join(removed);
            match removed.is_dir() {
                true => fs::remove_dir_all(&removed).unwrap(),
                false => fs::remove_file(&removed).unwrap(),
            }
            let left: Vec<_> =
                files(folder.path()).into_iter().filter(|it| !it.ends_with("lock")).collect();
            let error = open(folder.path()).err().unwrap();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains("is missing"), "{error}");
            assert!(left.iter().all(|file| file.exists()), "{}", removed.display());
        }
    }
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
    fs::write(folder.path().join("KEYLOOM"), "engine = \"redb\"\nformat = 1\n").unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("holds a redb store, opened as fjall: use ?engine=redb"), "{error}");
}

#[test]
fn a_folder_from_before_the_journal_is_refused_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("KEYLOOM"), "engine = \"fjall\"\nformat = 2\n").unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("has the format 2"), "{error}");
    assert!(error.contains("export it with the Keyloom that wrote it"), "{error}");
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let [data, unfinished] = ["data.fjall", "data.fjall.new"].map(|name| folder.path().join(name));
    fs::rename(&data, &unfinished).unwrap();
    let store = open(folder.path()).unwrap();
    write(&*store, "a");
    assert!(data.exists() && !unfinished.exists());
}

#[test]
fn data_that_vanished_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    write(&*open(folder.path()).unwrap(), "a");
    let data = folder.path().join("data.fjall");
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
fn j2_a_journal_that_lost_its_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for key in ["a", "b", "c"] {
        write(&*open(folder.path()).unwrap(), key);
    }
    fs::remove_file(folder.path().join("journal/3")).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("the acknowledged commits 3 to 3 are missing"), "{error}");
    // Without the mark, the loss is accepted.
    fs::remove_file(folder.path().join("MARK")).unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(pollster::block_on(store.changes(Position::default(), 9)).unwrap().len(), 2);
}

#[test]
fn a_store_changes_its_durability_between_opens() {
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Buffered, Durability::Durable, Durability::Buffered] {
        let store = FjallStore::open(folder.path(), durability).unwrap();
        write(&store, "a");
    }
    let store = open(folder.path()).unwrap();
    assert_eq!(pollster::block_on(store.changes(Position::default(), 9)).unwrap().len(), 3);
}
