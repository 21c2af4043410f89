//! Two writers of one object, the second one right before the first one commits.

use keyloom_engine::{ObjectStats, OutboxAt, Precondition, Rollout, Touched};
use keyloom_key::Space;
use keyloom_store::faults::{Call, When};
use pollster::block_on;

use super::grid::{CLASSES, Grid, at, content, id, number, text};
use super::layouts::{grid as old_grid, put_oldest};
use crate::support::code;

/// Lets `other` do something before the first commit of `grid`.
fn before_commit(grid: &Grid, other: impl Fn(&Grid) + Send + Sync + 'static) {
    let beside = grid.reopened();
    grid.0.faults.reset();
    grid.0.faults.hook(When::NthOf(Call::Commit, 1), move || other(&beside));
}

#[test]
fn o08_who_named_a_version_that_is_passed_meanwhile_is_refused_and_writes_nothing() {
    let grid = Grid::new();
    let first = grid.set("a", &[(text("x"), "0")]).unwrap();
    before_commit(&grid, |other| {
        other.set_entry("a", text("y"), "other").unwrap();
    });
    let named = Precondition::Version(first.version);
    let refused = code(grid.batch("a", &[(text("x"), "1")], &[], named));
    assert!(refused.starts_with("version_conflict"), "{refused}");
    assert_eq!(grid.entries("a")["x"], "0");
    assert_eq!(grid.entries("a")["y"], "other");
}

#[test]
fn o08_who_named_no_version_writes_on_top_and_nothing_is_lost() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "0")]).unwrap();
    before_commit(&grid, |other| {
        other.set_entry("a", text("y"), "other").unwrap();
    });
    grid.set_entry("a", text("z"), "mine").unwrap();
    assert_eq!(grid.entries("a").len(), 3);
    let counted = ObjectStats { string_objects: 1, string_entries: 3, ..ObjectStats::default() };
    assert_eq!(grid.stats(), counted);
    grid.0.assert_sound();
}

#[test]
fn o08_two_creates_are_a_create_and_an_update_or_a_conflict() {
    for name in ["a", "42"] {
        let grid = Grid::new();
        let key = name.to_owned();
        before_commit(&grid, move |other| {
            other.set(&key, &[(number(1), "x")]).unwrap();
        });
        assert_eq!(grid.set(name, &[(number(2), "y")]).unwrap().kind, Touched::Updated);
        assert_eq!(grid.entries(name), [("2".to_owned(), "y".to_owned())].into());
        grid.0.assert_sound();
        let grid = Grid::new();
        let key = name.to_owned();
        before_commit(&grid, move |other| {
            other.set(&key, &[(number(1), "x")]).unwrap();
        });
        let refused = code(grid.set_if(name, &[], Precondition::Absent));
        assert!(refused.starts_with("version_conflict"), "{refused}");
    }
}

#[test]
fn o09_an_object_that_comes_and_goes_before_a_create_leaves_a_lower_version() {
    let grid = Grid::new();
    before_commit(&grid, |other| {
        other.set("a", &[]).unwrap();
        other.delete("a").unwrap();
    });
    let created = grid.set("a", &[]).unwrap();
    assert_eq!(created.kind, Touched::Created);
    let versions: Vec<u64> = grid.changes().iter().map(|change| change.version).collect();
    assert!(versions.is_sorted_by(|one, two| one < two), "{versions:?}");
    assert_eq!(grid.0.keys(Space::Tombstone).len(), 0);
}

#[test]
fn a_delete_takes_along_what_was_added_meanwhile() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "0")]).unwrap();
    before_commit(&grid, |other| {
        other.set_entry("a", text("y"), "other").unwrap();
    });
    grid.delete("a").unwrap().unwrap();
    assert_eq!(grid.0.keys(Space::Object).len(), 0);
    assert_eq!(grid.stats(), ObjectStats::default());
}

#[test]
fn o14_two_writers_of_one_partition_get_two_sequence_numbers() {
    let grid = Grid::new();
    let watched = format!(
        "{CLASSES}[classes.order.event.data_trigger.1]\n\
         on_create = [{{ class = \"order\", function = \"note\" }}]\n"
    );
    grid.0.apply(&watched).unwrap();
    before_commit(&grid, |other| {
        other.set_entry("b", number(1), "b").unwrap();
    });
    grid.set_entry("a", number(1), "a").unwrap();
    let here = OutboxAt { class: "order", partition: 3 };
    let events = block_on(grid.0.engine.outbox(here, 10)).unwrap();
    let seen: Vec<(u64, &[u8])> =
        events.iter().map(|event| (event.sequence, event.payload.as_slice())).collect();
    assert_eq!(seen, [(1, &b"b"[..]), (2, &b"a"[..])]);
}

#[test]
fn o13_a_phase_that_begins_before_a_commit_binds_it() {
    let grid = Grid::new();
    before_commit(&grid, |other| other.roll(Rollout::phase(5)).unwrap());
    assert!(code(grid.set("7", &[])).contains("phase 5"));
    assert_eq!(grid.0.keys(Space::Object).len(), 0);
}

#[test]
fn o18_rewriting_and_writing_meet_without_loss() {
    let grid = old_grid();
    put_oldest(&grid, 9, &[(1, "one"), (2, "two")]);
    before_commit(&grid, |other| {
        other.set_entry("9", number(1), "ONE").unwrap();
    });
    block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap();
    let whole = [("1", "ONE"), ("2", "two")];
    assert_eq!(grid.entries("9"), whole.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
}

#[test]
fn a_merge_answers_with_the_object_that_it_has_left_whoever_writes_behind_it() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "0"), (number(1), "1")]).unwrap();
    let beside = grid.reopened();
    grid.0.faults.reset();
    // Whoever reads the object once more finds what another has made of it.
    grid.0.faults.hook(When::NthOf(Call::Snapshot, 2), move || {
        beside.set_entry("a", text("x"), "other").unwrap();
    });
    let content = content(&[(text("y"), "2"), (number(1), "one")]);
    let (written, object) =
        block_on(grid.0.engine.merged_object(at(&id("a")), content, Precondition::Unsaid)).unwrap();
    assert_eq!((written.kind, object.version), (Touched::Updated, written.version));
    let spelled =
        object.entries.iter().map(|(key, val)| format!("{key}={}", val.data.escape_ascii()));
    assert_eq!(spelled.collect::<Vec<_>>(), ["1=one", "x=0", "y=2"]);
    let stored = grid.reopened().get("a").unwrap();
    assert_eq!(object, stored, "nobody wrote behind it after all");
}

#[test]
fn a_merge_that_is_planned_again_answers_with_what_others_wrote_before() {
    let grid = Grid::new();
    grid.set("a", &[(text("x"), "0")]).unwrap();
    before_commit(&grid, |other| {
        other.set_entry("a", text("z"), "other").unwrap();
    });
    let content = content(&[(text("y"), "2")]);
    let (_, object) =
        block_on(grid.0.engine.merged_object(at(&id("a")), content, Precondition::Unsaid)).unwrap();
    assert_eq!(object, grid.get("a").unwrap());
    assert_eq!(object.entries.len(), 3);
}

#[test]
fn o21_the_number_of_partitions_stays_if_an_object_is_created_in_that_moment() {
    let more = CLASSES.replace("partitions = 8", "partitions = 9");
    for name in ["a", "42"] {
        let grid = Grid::new();
        before_commit(&grid, move |other| {
            other.set(name, &[(number(1), "x")]).unwrap();
        });
        let refused = code(grid.0.apply(&more));
        assert!(refused.contains("classes.order.partitions: there are objects"), "{refused}");
        assert_eq!(grid.reopened().0.engine.class("order").unwrap().partitions, 8);
        grid.0.assert_sound();
    }
}

#[test]
fn o21_the_number_of_partitions_stays_for_objects_that_nobody_has_counted() {
    let more = CLASSES.replace("partitions = 8", "partitions = 9");
    let grid = old_grid();
    grid.0.apply(&more.replace("= 9", "= 10")).unwrap();
    put_oldest(&grid, 9, &[(1, "one")]);
    assert_eq!(grid.stats(), ObjectStats::default());
    let refused = code(grid.0.apply(&more.replace("= 9", "= 11")));
    assert!(refused.contains("classes.order.partitions: there are objects"), "{refused}");
    grid.delete("9").unwrap();
    grid.0.apply(&more.replace("= 9", "= 11")).unwrap();
}
