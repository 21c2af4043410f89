//! What `check` finds of objects, and what it mends.

use std::sync::Arc;

use keyloom_engine::{ObjectId, Repair};
use keyloom_key::{Head, ObjectKey, Space, StoredKey};
use keyloom_store::{Commit, OrderedStore, Write};
use pollster::block_on;

use super::grid::{Grid, id, number, text};

/// Two objects and a grave.
fn grid() -> Grid {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "1"), (number(1), "22")]).unwrap();
    grid.set("42", &[(number(1), "333")]).unwrap();
    grid.set("gone", &[]).unwrap();
    grid.delete("gone").unwrap();
    grid
}

fn class_of(grid: &Grid) -> u16 {
    Head::read(&grid.0.keys(Space::Tombstone)[0]).unwrap().0.collection
}

fn keys(grid: &Grid, id: &ObjectId) -> ObjectKey {
    ObjectKey::new(class_of(grid), 3, id)
}

fn write(grid: &Grid, writes: Vec<Write>) {
    let commit = Commit { writes, ..Commit::default() };
    block_on(grid.0.memory.commit(Arc::new(commit))).unwrap();
}

/// Damages a grid, and compares what the check says, what a repair leaves, and what clients see.
#[track_caller]
fn check(damage: impl Fn(&Grid) -> Vec<Write>, expected: &[&str], left: &[&str]) {
    let grid = grid();
    grid.0.assert_sound();
    let before = (grid.get("a"), grid.get("42"), grid.stats());
    write(&grid, damage(&grid));
    let report = |repair| {
        let report = grid.0.check(repair);
        let problems = report.problems.into_iter();
        problems.map(|it| format!("{} {}: {}", it.path, it.key, it.what)).collect::<Vec<_>>()
    };
    assert_eq!(report(Repair::No), expected);
    assert_eq!(report(Repair::Yes), expected);
    assert_eq!(report(Repair::No), left);
    if left.is_empty() {
        assert_eq!((grid.get("a"), grid.get("42"), grid.stats()), before);
    }
}

#[test]
fn a_sound_grid_has_no_problems_and_its_objects_are_counted() {
    let report = grid().0.check(Repair::No);
    assert_eq!((report.problems, report.objects), (vec![], 2));
}

#[test]
fn metadata_that_miscounts_is_mended() {
    let miscount = |grid: &Grid| {
        let key = keys(grid, &id("a")).metadata();
        let stored = grid.0.entries().into_iter().find(|entry| entry.key == key).unwrap();
        let mut value = stored.stored.value;
        *value.last_mut().unwrap() += 1;
        vec![Write::Put { key, value }]
    };
    check(miscount, &["metadata a: it does not count what is there"], &[]);
}

#[test]
fn the_directory_is_mended_both_ways() {
    let missing = |grid: &Grid| {
        vec![Write::Delete { key: keys(grid, &ObjectId::Numeric(42)).directory().unwrap() }]
    };
    check(missing, &["directory 42: it is missing"], &[]);
    let orphan = |grid: &Grid| {
        let key = keys(grid, &ObjectId::Numeric(7)).directory().unwrap();
        vec![Write::Put { key, value: Vec::new() }]
    };
    check(orphan, &["directory 7: its object is absent"], &[]);
}

#[test]
fn a_grave_beside_its_object_is_removed() {
    let grave = |grid: &Grid| {
        let value = [&[1][..], &9_u64.to_be_bytes()].concat();
        vec![Write::Put { key: keys(grid, &id("a")).tombstone(), value }]
    };
    check(grave, &["tombstone a: its object exists"], &[]);
}

#[test]
fn counters_are_mended() {
    let miscount = |grid: &Grid| {
        let counters = grid.0.keys(Space::Counter);
        vec![Write::Add { key: counters[0].clone(), delta: 5 }]
    };
    let grid = grid();
    let key = grid.0.keys(Space::Counter)[0].escape_ascii().to_string();
    let problem = format!("counter {key}: it is not the number of what it counts");
    check(miscount, &[&problem], &[]);
}

#[test]
fn entries_without_metadata_are_reported_and_left_alone() {
    let orphan = |grid: &Grid| {
        let key = keys(grid, &id("lost")).entry(&number(1));
        vec![Write::Put { key, value: vec![0, 1] }]
    };
    let problem = ["entry lost: it has no metadata"];
    check(orphan, &problem, &problem);
}

#[test]
fn keys_that_are_none_are_reported() {
    let damaged = |grid: &Grid| {
        let mut key = keys(grid, &id("a")).metadata();
        key.push(9);
        assert!(StoredKey::read(&key).is_err());
        vec![Write::Put { key, value: vec![0] }]
    };
    let grid = grid();
    let mut key = keys(&grid, &id("a")).metadata();
    key.push(9);
    let problem = format!("key {}: it is damaged", key.escape_ascii());
    check(damaged, &[&problem], &[&problem]);
}
