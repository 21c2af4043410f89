//! One object: set, merge, delete, entries, batches.

use std::sync::Arc;

use keyloom_engine::{
    EntryBatch, ObjectAt, ObjectStats, Partition, Precondition, Touched, Val, ValKind,
};
use pollster::block_on;

use super::grid::{Grid, at, content, id, number, text};
use crate::support::code;

#[test]
fn o05_set_replaces_and_merge_keeps_what_is_not_named() {
    let grid = Grid::new();
    let created = grid.set("a", &[(number(1), "one"), (text("Name"), "x")]).unwrap();
    assert_eq!((created.kind, created.partition), (Touched::Created, 3));
    let merged = grid.merge("a", &[(text("city"), "y")]).unwrap();
    assert_eq!(merged.kind, Touched::Updated);
    assert!(merged.version > created.version);
    let whole = [("1", "one"), ("city", "y"), ("name", "x")];
    assert_eq!(grid.entries("a"), whole.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    grid.set("a", &[(text("only"), "z")]).unwrap();
    assert_eq!(grid.entries("a"), [("only".to_owned(), "z".to_owned())].into());
    assert_eq!(
        grid.stats(),
        ObjectStats { string_objects: 1, string_entries: 1, ..ObjectStats::default() }
    );
}

#[test]
fn o01_a_number_and_its_decimal_spelling_are_the_same_object() {
    let grid = Grid::new();
    grid.set("42", &[(number(1), "x")]).unwrap();
    let numeric = keyloom_engine::ObjectId::Numeric(42);
    let found = block_on(grid.0.engine.object(at(&numeric))).unwrap().unwrap();
    assert_eq!(found.entries, [(number(1), Val::bytes("x"))]);
    assert_eq!(grid.stats().numeric_objects, 1);
}

#[test]
fn o06_what_is_written_under_a_key_is_read_under_every_spelling_of_it() {
    let grid = Grid::new();
    grid.set_entry("A", text("Profile.e\u{301}mail"), "x").unwrap();
    let (_, found) = grid.entry("a", &text("profile.\u{e9}mail")).unwrap();
    assert_eq!(found.as_deref(), Some("x"));
    assert!(grid.delete_entry("a", text("PROFILE.e\u{301}MAIL")).unwrap().is_some());
    assert_eq!(grid.entry("a", &text("profile.\u{e9}mail")).unwrap().1, None);
}

#[test]
fn o07_a_batch_is_one_commit_and_one_version_step() {
    let grid = Grid::new();
    let first = grid.set("a", &[(text("x"), "1"), (text("y"), "2"), (number(7), "3")]).unwrap();
    grid.0.faults.reset();
    let set = [(text("x"), "one"), (text("z"), "new")];
    let delete = [text("y"), number(7), text("absent")];
    let second = grid.batch("a", &set, &delete, Precondition::Version(first.version)).unwrap();
    assert_eq!(grid.0.faults.counts().commits, 1);
    assert!(second.version > first.version);
    let whole = [("x", "one"), ("z", "new")];
    assert_eq!(grid.entries("a"), whole.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(grid.changes().len(), 2);
}

#[test]
fn o07_a_large_batch_finds_its_entries_wherever_they_lie_in_the_object() {
    let names: Vec<String> = (0..100).map(|place| format!("e{place:02}")).collect();
    let old: Vec<_> = names.iter().map(|name| (text(name), "old")).collect();
    for step in [1, 2, 3, 11] {
        let grid = Grid::new();
        grid.set("a", &old).unwrap();
        let mut expected = grid.entries("a");
        let named: Vec<_> = names.iter().step_by(step).take(9).collect();
        let (deleted, updated) = named.split_last().unwrap();
        let mut set: Vec<_> = updated.iter().map(|name| (text(name), "new")).collect();
        set.push((text("e00x"), "new"));
        grid.batch("a", &set, &[text(deleted), text("f")], Precondition::Unsaid).unwrap();
        expected.remove(*deleted);
        expected.extend(set.iter().map(|(key, value)| (key.to_string(), (*value).to_owned())));
        assert_eq!(grid.entries("a"), expected, "every {step}");
        assert_eq!(grid.stats().string_entries, 100, "every {step}");
    }
}

#[test]
fn o07_a_wrong_expected_version_is_refused_and_nothing_applied() {
    let grid = Grid::new();
    let first = grid.set("a", &[(text("x"), "1")]).unwrap();
    let stored = grid.0.entries();
    for (name, precondition) in [
        ("a", Precondition::Version(first.version + 1)),
        ("a", Precondition::Absent),
        ("b", Precondition::Version(first.version)),
    ] {
        let refused = grid.batch(name, &[(text("x"), "2")], &[text("x2")], precondition);
        assert!(code(refused).starts_with("version_conflict"), "{name} {precondition:?}");
    }
    let refused = grid.set_if("b", &[], Precondition::Any);
    let absent = "version_conflict: version conflict on `b`: expected any version, stored none";
    assert_eq!(code(refused), absent);
    assert_eq!(grid.0.entries(), stored);
}

#[test]
fn o08_of_a_hundred_writers_with_one_expected_version_one_succeeds() {
    let grid = Grid::new();
    let first = grid.set("a", &[(text("x"), "0")]).unwrap();
    let start = Arc::new(std::sync::Barrier::new(100));
    let writers: Vec<_> = (0..100)
        .map(|writer| {
            let (grid, start) = (grid.clone(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let value = writer.to_string();
                let precondition = Precondition::Version(first.version);
                let written = grid.batch("a", &[(text("x"), &value)], &[], precondition);
                (value, code(written))
            })
        })
        .collect();
    let ended: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let (won, lost): (Vec<_>, Vec<_>) = ended.into_iter().partition(|(_, code)| code == "ok");
    assert_eq!(won.len(), 1);
    assert!(lost.iter().all(|(_, code)| code.starts_with("version_conflict")), "{lost:?}");
    assert_eq!(grid.entries("a")["x"], won[0].0);
}

#[test]
fn o08_writers_without_an_expected_version_all_succeed_one_after_the_other() {
    let grid = Grid::new();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let grid = grid.clone();
            std::thread::spawn(move || {
                for step in 0..20 {
                    grid.set_entry("a", number(writer * 100 + step), "x").unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(grid.entries("a").len(), 160);
    assert_eq!(grid.stats().numeric_entries, 160);
}

#[test]
fn o09_a_deleted_object_can_be_created_again_with_a_higher_version() {
    let grid = Grid::new();
    for name in ["a", "42"] {
        let first = grid.set(name, &[(number(1), "x"), (text("t"), "y")]).unwrap();
        let deleted = grid.delete(name).unwrap().unwrap();
        assert_eq!(deleted.kind, Touched::Deleted);
        assert!(deleted.version > first.version);
        assert_eq!(grid.get(name), None);
        assert_eq!(grid.entry(name, &number(1)), None);
        assert_eq!(grid.delete(name).unwrap(), None);
        // Not even a clock that was set back gives an old version again.
        grid.0.system.pass(crate::support::Seconds(-60));
        let again = grid.reopened().set(name, &[(number(2), "z")]).unwrap();
        assert_eq!(again.kind, Touched::Created);
        assert!(again.version > deleted.version);
        assert_eq!(grid.entries(name), [("2".to_owned(), "z".to_owned())].into());
    }
}

#[test]
fn a_deleted_object_leaves_its_tombstone_and_nothing_else() {
    let grid = Grid::new();
    for name in ["a", "42"] {
        grid.set(name, &[(number(1), "x"), (text("t"), "y")]).unwrap();
        grid.delete(name).unwrap();
    }
    let kept: Vec<u8> = grid.0.entries().iter().map(|entry| entry.key[0]).collect();
    assert_eq!(kept, [5, 5, 6, 6, 6, 6]);
    assert_eq!(grid.stats(), ObjectStats::default());
}

#[test]
fn an_entry_is_set_into_an_absent_object_and_deleted_from_a_present_one_only() {
    let grid = Grid::new();
    assert_eq!(grid.delete_entry("a", text("x")).unwrap(), None);
    let created = grid.set_entry("a", text("x"), "1").unwrap();
    assert_eq!(created.kind, Touched::Created);
    let stored = grid.0.entries();
    assert_eq!(grid.delete_entry("a", text("y")).unwrap(), None);
    assert_eq!(grid.0.entries(), stored);
    let deleted = grid.delete_entry("a", text("x")).unwrap().unwrap();
    assert_eq!(deleted.kind, Touched::Updated);
    assert_eq!(grid.entry("a", &text("x")), Some((deleted.version, None)));
}

#[test]
fn a_value_costs_one_read_and_setting_it_one_read_and_one_commit() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "1")]).unwrap();
    grid.0.faults.reset();
    grid.entry("a", &text("x")).unwrap();
    let counts = grid.0.faults.counts();
    assert_eq!((counts.snapshots, counts.get_manys, counts.commits), (1, 1, 0));
    assert_eq!(counts.calls(), 2);
    grid.0.faults.reset();
    grid.set_entry("a", text("x"), "2").unwrap();
    let counts = grid.0.faults.counts();
    assert_eq!((counts.snapshots, counts.get_manys, counts.commits), (1, 1, 1));
    assert_eq!(counts.calls(), 3);
}

#[test]
fn many_entries_are_read_in_the_order_in_which_they_are_asked_for() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "1"), (number(2), "2")]).unwrap();
    let keys = [number(2), text("absent"), text("x")];
    let read = block_on(grid.0.engine.entries(at(&id("a")), &keys)).unwrap().unwrap();
    assert_eq!(read.values, [Some(Val::bytes("2")), None, Some(Val::bytes("1"))]);
    assert_eq!(block_on(grid.0.engine.entries(at(&id("b")), &keys)).unwrap(), None);
}

#[test]
fn the_kind_of_a_value_is_kept() {
    let grid = Grid::new();
    let map = Val { kind: ValKind::CrdtMap, data: vec![0, 1, 255] };
    let (engine, a) = (&grid.0.engine, id("a"));
    block_on(engine.set_entry(at(&a), number(1), map.clone(), Precondition::Unsaid)).unwrap();
    assert_eq!(block_on(engine.entry(at(&a), &number(1))).unwrap().unwrap().1, Some(map));
}

#[test]
fn o21_auto_is_the_partition_that_follows_from_the_identity() {
    let grid = Grid::new();
    let ord = id("ord_2025_09_12345");
    let auto = ObjectAt { class: "order", partition: Partition::Auto, id: &ord };
    let written =
        block_on(grid.0.engine.set_object(auto, content(&[]), Precondition::Unsaid)).unwrap();
    assert_eq!(written.partition, ord.partition(8));
    let number = Partition::Number(u32::from(written.partition));
    let named = ObjectAt { partition: number, ..auto };
    assert!(block_on(grid.0.engine.object(named)).unwrap().is_some());
    assert_eq!(grid.0.engine.partition(auto).unwrap(), written.partition);
}

#[test]
fn what_does_not_exist_is_named() {
    let grid = Grid::new();
    let a = id("a");
    let class = ObjectAt { class: "nobody", ..at(&a) };
    assert_eq!(
        code(block_on(grid.0.engine.object(class))),
        "not_found: there is no class `nobody`; there are: log, order"
    );
    for partition in [8, 65_536, u32::MAX] {
        let far = ObjectAt { partition: Partition::Number(partition), ..at(&a) };
        assert_eq!(
            code(block_on(grid.0.engine.object(far))),
            format!(
                "invalid_argument: class `order` has no partition {partition}: there are 0 to 7"
            )
        );
    }
}

#[test]
fn limits_refuse_before_anything_is_written() {
    let grid = Grid::new();
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(
        code(grid.set_entry("a", text("k"), &large)),
        "limit_exceeded: bytes of entry `k`: 1048577, at most 1048576 allowed"
    );
    let a = id("a");
    let many = EntryBatch { delete: (0..1001).map(number).collect(), ..EntryBatch::default() };
    let many = block_on(grid.0.engine.batch_entries(at(&a), many, Precondition::Unsaid));
    assert_eq!(code(many), "limit_exceeded: entries of a batch: 1001, at most 1000 allowed");
    let entries: Vec<_> = (0..10_000).map(|key| (number(key), "")).collect();
    grid.set("a", &entries).unwrap();
    assert_eq!(
        code(grid.set_entry("a", text("one more"), "")),
        "limit_exceeded: entries of an object: 10001, at most 10000 allowed"
    );
    let both = grid.batch("a", &[(text("k"), "1")], &[text("k")], Precondition::Unsaid);
    assert_eq!(code(both), "invalid_argument: entry `k` is set and deleted in one batch");
}

#[test]
fn an_object_holds_no_more_bytes_than_one_commit_can_replace() {
    let grid = Grid::new();
    let value = "x".repeat(1 << 20);
    for key in 0..16 {
        grid.set_entry("a", number(key), &value).unwrap();
    }
    let refused = code(grid.set_entry("a", number(16), "x"));
    assert!(refused.starts_with("limit_exceeded: bytes of an object: 16777217"), "{refused}");
    grid.set_entry("a", number(0), "").unwrap();
    grid.set_entry("a", number(16), "x").unwrap();
}

#[test]
fn the_feed_says_what_was_touched_and_an_unchanged_value_was_not() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "1"), (number(7), "2")]).unwrap();
    grid.batch("a", &[(text("x"), "1"), (number(7), "3")], &[], Precondition::Unsaid).unwrap();
    grid.delete("a").unwrap();
    let lines: Vec<String> = grid
        .changes()
        .into_iter()
        .map(|change| {
            assert_eq!((change.class.as_str(), change.partition), ("order", 3));
            let entry = |it: &keyloom_engine::EntryStep| format!(" {:?} {}", it.kind, it.key);
            let entries: String = change.entries.iter().map(entry).collect();
            format!("{:?} {}{entries}", change.kind, change.id)
        })
        .collect();
    assert_eq!(
        lines,
        ["Created a Created 7 Created x", "Updated a Updated 7", "Deleted a Deleted 7 Deleted x"]
    );
}

#[test]
fn changes_of_objects_are_kept_as_long_as_their_age_allows() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.0.system.pass(crate::support::Seconds(100));
    grid.set("b", &[]).unwrap();
    let kept = keyloom_engine::Retention::Age(std::time::Duration::from_secs(50));
    block_on(grid.0.engine.trim_changes(kept)).unwrap();
    let feed = block_on(grid.0.engine.feed()).unwrap();
    assert_eq!((feed.trimmed.0, feed.last.0), (1, 2));
}

#[test]
fn a_batch_that_sets_nothing_does_not_create_an_object() {
    let grid = Grid::new();
    let stored = grid.0.entries();
    for delete in [vec![text("x"), number(1)], Vec::new()] {
        let refused = code(grid.batch("a", &[], &delete, Precondition::Unsaid));
        assert_eq!(refused, "not_found: `a` does not exist in `order`");
    }
    assert_eq!(grid.0.entries(), stored);
    grid.set("a", &[(text("x"), "1"), (text("y"), "2")]).unwrap();
    grid.batch("a", &[], &[text("x"), text("z")], Precondition::Any).unwrap();
    assert_eq!(grid.entries("a"), [("y".to_owned(), "2".to_owned())].into());
}
