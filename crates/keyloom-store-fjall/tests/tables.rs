//! Tables in memory become files in time, and what they show stays as long as it is read.

#![expect(clippy::unwrap_used, reason = "a failed test is a panic")]

use std::path::Path;
use std::{fs, thread};

use keyloom_store::{Commit, OrderedStore, Snapshot, Write};
use keyloom_store_fjall::{Durability, FjallStore};
use pollster::block_on;

/// How many files with tables there are.
fn tables(folder: &Path) -> usize {
    let keyspaces = fs::read_dir(folder.join("data.fjall/keyspaces")).into_iter().flatten();
    let tables = keyspaces.filter_map(|keyspace| Some(keyspace.ok()?.path().join("tables")));
    tables.filter_map(|tables| Some(fs::read_dir(tables).ok()?.count())).sum()
}

#[test]
fn j3_a_table_in_memory_is_written_before_fjall_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    let before = tables(folder.path());
    // 62 MiB are full for the store; fjall would wait for 64.
    for number in 0..31_u8 {
        let writes = vec![Write::Put { key: vec![number], value: vec![number; 2 << 20] }];
        let commit = Commit { writes, ..Commit::default() };
        block_on(store.commit(commit.into())).unwrap();
    }
    let mut looks = 0;
    while tables(folder.path()) == before {
        looks += 1;
        assert!(looks < 2_000_000, "no table was written");
        thread::yield_now();
    }
    let snapshot = block_on(store.snapshot()).unwrap();
    for number in 0..31_u8 {
        let stored = block_on(snapshot.get(&[number])).unwrap().unwrap();
        assert!(stored.value == vec![number; 2 << 20], "{number}");
    }
}

const DOCUMENT: &[u8] = &[0x02];
const INDEX_KEY: &[u8] = &[0x04];

/// Writes a number into each keyspace: into one row again and again, and as a change.
fn commit(store: &FjallStore, number: u64, bytes: usize) {
    let value = number.to_be_bytes().repeat(bytes / 8);
    let put = |key: &[u8]| Write::Put { key: key.into(), value: value.clone() };
    let writes = vec![put(DOCUMENT), put(INDEX_KEY)];
    let changes = vec![number.to_be_bytes().into()];
    block_on(store.commit(Commit { writes, changes, ..Commit::default() }.into())).unwrap();
}

#[test]
fn j5_snapshots_of_every_age_keep_what_they_show_while_tables_are_written_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    let mut snapshots = vec![block_on(store.snapshot()).unwrap()];
    // Many small commits are shown by one view, and each of the large ones by one of its own.
    for number in 1..600 {
        commit(&store, number, if number % 4 == 0 { 1 << 20 } else { 1 << 10 });
        if number < 8 || number % 50 < 3 {
            snapshots.push(block_on(store.snapshot()).unwrap());
        }
    }
    let seen = |snapshot: &dyn Snapshot, key| {
        let stored = block_on(snapshot.get(key)).unwrap();
        stored.map(|stored| u64::from_be_bytes(*stored.value.first_chunk().unwrap()))
    };
    let numbers = (0..8).chain((8..600).filter(|number| number % 50 < 3));
    for (number, snapshot) in numbers.zip(&snapshots) {
        let expected = (number > 0).then_some(number);
        let found = [DOCUMENT, INDEX_KEY].map(|key| seen(&**snapshot, key));
        assert_eq!(found, [expected; 2], "after commit {number}");
    }
}

/// How many states of its tables fjall keeps, of the keyspace that has most.
fn states(folder: &Path) -> usize {
    let keyspaces = fs::read_dir(folder.join("data.fjall/keyspaces")).unwrap();
    let states = keyspaces.map(|keyspace| {
        let files = fs::read_dir(keyspace.unwrap().path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.strip_prefix('v').is_some_and(|v| v.parse::<u64>().is_ok()))
            .count()
    });
    states.max().unwrap()
}

#[test]
fn j5_what_nobody_reads_any_more_is_let_go_however_large_commits_are() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    // Each fills a table in memory by half, and few of them make a group.
    for number in 1..32 {
        commit(&store, number, 15 << 20);
    }
    assert!(states(folder.path()) < 8);
}
