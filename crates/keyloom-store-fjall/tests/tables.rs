//! Tables in memory become files in time.

use std::path::Path;
use std::{fs, thread};

use keyloom_store::{Commit, OrderedStore, Write};
use keyloom_store_fjall::{Durability, FjallStore};

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
        pollster::block_on(store.commit(commit.into())).unwrap();
    }
    let mut looks = 0;
    while tables(folder.path()) == before {
        looks += 1;
        assert!(looks < 2_000_000, "no table was written");
        thread::yield_now();
    }
    let snapshot = pollster::block_on(store.snapshot()).unwrap();
    for number in 0..31_u8 {
        let stored = pollster::block_on(snapshot.get(&[number])).unwrap().unwrap();
        assert!(stored.value == vec![number; 2 << 20], "{number}");
    }
}
