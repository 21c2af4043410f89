//! Tables in memory become files in time, and what they show stays as long as it is read.

#![expect(clippy::unwrap_used, reason = "a failed test is a panic")]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, thread};

use keyloom_store::conformance::Random;
use keyloom_store::{
    Commit, Direction, KeyRange, OrderedStore, ScanOptions, Snapshot, Stored, Write,
};
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

/// How many groups there are, and how many rows of each keyspace one has.
const GROUPS: u64 = 24;
const ROWS: u8 = 4;

fn row(family: &[u8], group: u64, row: u8) -> Vec<u8> {
    [family, b"rows of a group ", &group.to_be_bytes(), &[row]].concat()
}

/// Gives all rows of a group the same number.
fn write_group(store: &FjallStore, group: u64, number: u64) {
    // Most are kept beside the engine when they are read; the others fill its tables.
    let times = if (number / GROUPS).is_multiple_of(4) { 2048 } else { 4 };
    let value = number.to_be_bytes().repeat(times);
    let rows = [DOCUMENT, INDEX_KEY].into_iter().flat_map(|family| {
        let value = &value;
        (0..ROWS).map(move |at| Write::Put { key: row(family, group, at), value: value.clone() })
    });
    let changes = vec![group.to_be_bytes().into()];
    let commit = Commit { writes: rows.collect(), changes, ..Commit::default() };
    block_on(store.commit(commit.into())).unwrap();
}

/// The number that all rows of a group have, read one by one and as lists.
fn read_group(snapshot: &dyn Snapshot, group: u64, random: &mut Random) -> u64 {
    let number = |stored: &Stored| u64::from_be_bytes(*stored.value.first_chunk().unwrap());
    let mut numbers = Vec::new();
    for family in [DOCUMENT, INDEX_KEY] {
        let keys: Vec<_> = (0..ROWS).map(|at| row(family, group, at)).collect();
        let rows = block_on(snapshot.get_many(&keys)).unwrap();
        numbers.extend(rows.iter().flatten().map(number));
        let range = KeyRange { from: row(family, group, 0), to: row(family, group, ROWS) };
        let is_forward = random.below(2) == 0;
        let direction = if is_forward { Direction::Forward } else { Direction::Reverse };
        let limit = usize::from(ROWS);
        let options = ScanOptions { direction, limit };
        let mut scan = block_on(snapshot.scan(&range, options)).unwrap();
        // At once, or in two parts.
        for count in [if random.below(2) == 0 { limit } else { 1 }, limit] {
            let entries = block_on(scan.next(count)).unwrap();
            numbers.extend(entries.iter().map(|(_, stored)| number(stored)));
        }
    }
    let first = *numbers.first().unwrap();
    assert_eq!(numbers, vec![first; 4 * usize::from(ROWS)], "group {group}");
    first
}

/// Reads until the writer is done, also from snapshots that are held for a while.
fn read_groups(store: &FjallStore, written: &AtomicU64, done: &AtomicBool, mut random: Random) {
    let mut held = VecDeque::new();
    while !done.load(Ordering::Relaxed) {
        let group = random.next_u64() % GROUPS;
        let before = written.load(Ordering::Acquire);
        let snapshot = block_on(store.snapshot()).unwrap();
        let number = read_group(&*snapshot, group, &mut random);
        assert!(number + GROUPS > before, "group {group} has {number} after {before}");
        held.push_back((snapshot, group, number));
        if held.len() > 200 {
            held.truncate(random.below(200));
        }
        for (snapshot, group, number) in held.iter().step_by(7) {
            assert_eq!(read_group(&**snapshot, *group, &mut random), *number, "group {group}");
        }
    }
}

#[test]
fn j5_readers_see_whole_groups_while_tables_are_filled_written_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallStore::open(folder.path(), Durability::Buffered).unwrap();
    (0..GROUPS).for_each(|group| write_group(&store, group, group));
    let (written, done) = (AtomicU64::new(GROUPS - 1), AtomicBool::new(false));
    let mut random = Random::from_environment();
    println!("{random}");
    thread::scope(|scope| {
        for _ in 0..2 {
            let random = Random::new(random.next_u64());
            scope.spawn(|| read_groups(&store, &written, &done, random));
        }
        let writer = scope.spawn(|| {
            // Every group has one of the last numbers; tables in memory are full five times.
            for number in GROUPS..10_000 {
                write_group(&store, number % GROUPS, number);
                written.store(number, Ordering::Release);
            }
        });
        let end = writer.join();
        done.store(true, Ordering::Relaxed);
        end.unwrap();
    });
}
