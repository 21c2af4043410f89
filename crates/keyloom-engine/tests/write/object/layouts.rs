//! The older layouts: objects under 8-byte keys, entries under their length, and both beside the
//! new.

use std::sync::Arc;

use keyloom_engine::{EntryList, ObjectId, ObjectStats, Precondition, Repair, Touched};
use keyloom_key::{EntryKey, Head, ObjectKey, Space};
use keyloom_store::{Commit, OrderedStore, Write};
use pollster::block_on;
use proptest::prelude::*;

use super::grid::{Grid, at, id, number, text};
use super::lists::names;

/// The class `order` is the second one by name, and partition 3 is where all tests are.
fn keys(grid: &Grid, id: &ObjectId) -> ObjectKey {
    let class =
        grid.0.keys(Space::Tombstone).first().map(|key| Head::read(key).unwrap().0.collection);
    ObjectKey::new(class.expect("the grid was made with a grave"), 3, id)
}

fn put(grid: &Grid, writes: Vec<Write>) {
    let commit = Commit { writes, ..Commit::default() };
    block_on(grid.0.memory.commit(Arc::new(commit))).unwrap();
}

/// A grid whose class can be told from a tombstone.
pub(super) fn grid() -> Grid {
    let grid = Grid::new();
    grid.set("grave", &[]).unwrap();
    grid.delete("grave").unwrap();
    grid
}

/// An object as it was stored before there were entries: version 7, created at 5.
pub(super) fn put_oldest(grid: &Grid, number: u64, entries: &[(u32, &str)]) {
    let mut value = vec![1];
    value.extend_from_slice(&7_u64.to_be_bytes());
    value.extend_from_slice(&5_u64.to_be_bytes());
    for (key, data) in entries {
        value.extend_from_slice(&key.to_be_bytes());
        value.extend_from_slice(&(data.len() as u32 + 1).to_be_bytes());
        value.push(0);
        value.extend_from_slice(data.as_bytes());
    }
    let key = keys(grid, &ObjectId::Numeric(number)).legacy().unwrap();
    put(grid, vec![Write::Put { key, value }]);
}

/// An object whose string entries stand under their length.
fn put_by_length(grid: &Grid, id: &ObjectId, entries: &[(&str, &str)]) {
    let keys = keys(grid, id);
    let mut metadata = vec![1];
    metadata.extend_from_slice(&7_u64.to_be_bytes());
    metadata.extend_from_slice(&5_u64.to_be_bytes());
    metadata.push(2);
    metadata.extend_from_slice(&0_u32.to_be_bytes());
    metadata.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    let bytes: usize = entries.iter().map(|(_, data)| data.len()).sum();
    metadata.extend_from_slice(&(bytes as u64).to_be_bytes());
    let mut writes = vec![Write::Put { key: keys.metadata(), value: metadata }];
    for (key, data) in entries {
        let key = keys.length_entry(&text(key)).unwrap();
        writes.push(Write::Put { key, value: [b"\0", data.as_bytes()].concat() });
    }
    if let Some(key) = keys.directory() {
        writes.push(Write::Put { key, value: Vec::new() });
    }
    put(grid, writes);
}

/// Everything that a client can see of the partition.
fn seen(grid: &Grid, wanted: &[&str]) -> String {
    let mut lines = vec![names(grid, "", 3).join(" "), names(grid, "1", 3).join(" ")];
    for name in wanted {
        let object = grid.get(name).unwrap();
        lines.push(format!("{name} {object:?}"));
        for (key, _) in &object.entries {
            lines.push(format!("{key} {:?}", grid.entry(name, key)));
        }
        lines.push(format!("{:?}", grid.entry(name, &text("absent"))));
        let list = EntryList { prefix: "", limit: 2, after: None };
        let page = block_on(grid.0.engine.list_entries(at(&id(name)), list)).unwrap().unwrap();
        lines.push(format!("{:?} {:?} {:?}", page.version, page.items, page.next.is_some()));
    }
    lines.join("\n")
}

#[test]
fn o18_objects_of_all_layouts_are_read_side_by_side_and_rewriting_them_changes_nothing() {
    let grid = grid();
    put_oldest(&grid, 9, &[(1, "one"), (300, "three")]);
    put_oldest(&grid, 10, &[]);
    put_oldest(&grid, u64::MAX, &[(1, "x")]);
    put_by_length(&grid, &id("ab"), &[("z", "1"), ("aaa", "2"), ("long name", "3")]);
    put_by_length(&grid, &id("11"), &[("k", "v")]);
    grid.set("100", &[(number(1), "new"), (text("t"), "u")]).unwrap();
    grid.set("a", &[(text("t"), "u")]).unwrap();
    let all = ["10", "100", "11", "18446744073709551615", "9", "a", "ab"];
    assert_eq!(names(&grid, "", 2), all);
    assert_eq!(names(&grid, "1", 100), ["10", "100", "11", "18446744073709551615"]);
    assert_eq!(grid.entry("9", &number(300)), Some((7, Some("three".to_owned()))));
    assert_eq!(grid.entry("ab", &text("aaa")), Some((7, Some("2".to_owned()))));
    assert_eq!(grid.0.engine.tally().legacy_reads, 2);
    let before = seen(&grid, &all);
    let feed = grid.changes().len();
    let moved = block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap();
    assert_eq!(moved, 5);
    let older = grid.0.engine.tally().legacy_reads;
    assert_eq!(seen(&grid, &all), before);
    assert_eq!(grid.0.engine.tally().legacy_reads, older, "nothing is older now");
    assert_eq!(grid.changes().len(), feed);
    assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
    assert_eq!(block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap(), 0);
}

#[test]
fn o18_a_write_moves_an_old_object_and_keeps_the_rest_of_it() {
    let grid = grid();
    put_oldest(&grid, 9, &[(1, "one"), (2, "two"), (3, "three")]);
    put_by_length(&grid, &id("ab"), &[("x", "1"), ("yy", "2"), ("zzz", "3")]);
    let written = grid.batch("9", &[(number(1), "ONE")], &[number(2)], Precondition::Unsaid);
    assert_eq!(written.unwrap().kind, Touched::Updated);
    let whole = [("1", "ONE"), ("3", "three")];
    assert_eq!(grid.entries("9"), whole.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    grid.batch("ab", &[(text("x"), "one")], &[text("yy")], Precondition::Unsaid).unwrap();
    let whole = [("x", "one"), ("zzz", "3")];
    assert_eq!(grid.entries("ab"), whole.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
    assert_eq!(block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap(), 0);
    assert_eq!(names(&grid, "", 10), ["9", "ab"]);
}

#[test]
fn o18_an_old_object_is_replaced_and_deleted_like_any_other() {
    for set in [true, false] {
        let grid = grid();
        put_oldest(&grid, 9, &[(1, "one")]);
        put_by_length(&grid, &id("ab"), &[("x", "1")]);
        for name in ["9", "ab"] {
            if set {
                let written = grid.set(name, &[(text("new"), "y")]).unwrap();
                assert_eq!(written.kind, Touched::Updated);
                assert_eq!(grid.entries(name), [("new".to_owned(), "y".to_owned())].into());
            } else {
                grid.delete(name).unwrap().unwrap();
                assert_eq!(grid.get(name), None);
            }
        }
        let records = grid.0.keys(Space::Object).len();
        assert_eq!(records, if set { 5 } else { 0 });
        assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
    }
}

#[test]
fn o18_old_objects_count_once_they_were_counted() {
    let grid = grid();
    put_oldest(&grid, 9, &[(1, "one"), (2, "two")]);
    let report = grid.0.check(Repair::Yes);
    assert!(!report.problems.is_empty());
    let counted = ObjectStats { numeric_objects: 1, numeric_entries: 2, ..ObjectStats::default() };
    assert_eq!(grid.stats(), counted);
    block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap();
    assert_eq!(grid.stats(), counted);
    grid.0.assert_sound();
    grid.delete("9").unwrap();
    assert_eq!(grid.stats(), ObjectStats::default());
    grid.0.assert_sound();
}

#[test]
fn o18_rewriting_makes_its_commits_smaller_where_objects_are_large() {
    let grid = grid();
    let mebibyte = "x".repeat((1 << 20) - 1);
    // Twelve objects of four mebibytes are more than one commit holds.
    for object in 0..12 {
        let entries: Vec<(u32, &str)> = (0..4).map(|key| (key, mebibyte.as_str())).collect();
        put_oldest(&grid, object, &entries);
    }
    grid.0.faults.reset();
    assert_eq!(block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap(), 12);
    assert!(grid.0.faults.counts().commits > 2, "{:?}", grid.0.faults.counts());
    assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
    assert_eq!(grid.entry("11", &number(3)), Some((7, Some(mebibyte))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Each object is put in a layout of its own, and what is seen depends on none of them.
    #[test]
    fn o18_what_is_seen_does_not_depend_on_layouts(
        objects in prop::collection::btree_map(
            prop_oneof![0..1200_u64, any::<u64>()],
            (0..3_u8, prop::collection::btree_map("[a-c]{1,3}", "[x-z]{0,2}", 0..4)),
            1..12,
        ),
    ) {
        let (mixed, plain) = (grid(), grid());
        for (number, (layout, entries)) in &objects {
            let name = number.to_string();
            let values = entries.values().map(String::as_str);
            let numbered: Vec<(u32, &str)> = (0..).zip(values).collect();
            let named: Vec<(&str, &str)> =
                entries.iter().map(|(key, data)| (key.as_str(), data.as_str())).collect();
            let as_new: Vec<(EntryKey, &str)> = if *layout == 0 {
                put_oldest(&mixed, *number, &numbered);
                numbered.iter().map(|(key, data)| (EntryKey::Numeric(*key), *data)).collect()
            } else {
                named.iter().map(|(key, data)| (text(key), *data)).collect()
            };
            match layout {
                0 => {}
                1 => put_by_length(&mixed, &ObjectId::Numeric(*number), &named),
                _ => {
                    mixed.set(&name, &as_new).unwrap();
                }
            }
            plain.set(&name, &as_new).unwrap();
        }
        for _ in 0..2 {
            prop_assert_eq!(names(&mixed, "", 2), names(&plain, "", 100));
            prop_assert_eq!(names(&mixed, "1", 2), names(&plain, "1", 100));
            for number in objects.keys() {
                let name = number.to_string();
                prop_assert_eq!(mixed.entries(&name), plain.entries(&name));
            }
            block_on(mixed.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap();
        }
        prop_assert_eq!(mixed.0.keys(Space::LegacyObject).len(), 0);
        prop_assert_eq!(mixed.0.keys(Space::Object), plain.0.keys(Space::Object));
    }
}
