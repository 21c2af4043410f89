//! Versions are never used twice (K3), so a stale writer never wins.

use keyloom_engine::{Mode, Precondition, Written};
use serde_json::json;

use crate::support::{Database, Seconds, action, code};

const NOTES: &str = r#"
[collections.notes]
key = "note:{name}"
fields = { name = { type = "id", required = true } }
"#;

fn deleted_version(written: &Written) -> u64 {
    let Written::Deleted { version, .. } = written else { panic!("{written:?}") };
    *version
}

/// Creates and deletes the same document again and again while `between` moves the world.
fn check_versions_grow(mut between: impl FnMut(&Database) -> Database) {
    let mut database = Database::new(NOTES);
    let mut last = 0;
    for round in 0..6 {
        let created = database.create("notes", &json!({"name": "a"})).unwrap();
        assert!(created.version > last, "round {round}: create");
        database = between(&database);
        let any = action::put("note:a", Precondition::Any, &json!({"name": "a"}));
        let updated = database.execute("notes", any).unwrap().into_document().unwrap();
        assert!(updated.version > created.version, "round {round}: update");
        database = between(&database);
        let deleted = deleted_version(&database.delete("notes", "note:a").unwrap());
        assert!(deleted > updated.version, "round {round}: delete");
        last = deleted;
        database = between(&database);
    }
    database.assert_sound();
}

#[test]
fn versions_grow_across_delete_and_create() {
    check_versions_grow(|database| {
        database.system.pass(Seconds(1));
        database.clone()
    });
}

#[test]
fn versions_grow_while_the_clock_stands_still() {
    check_versions_grow(Database::clone);
}

#[test]
fn versions_grow_when_the_clock_steps_back() {
    check_versions_grow(|database| {
        database.system.pass(Seconds(-3600));
        database.clone()
    });
}

#[test]
fn versions_grow_when_the_clock_steps_back_between_restarts() {
    check_versions_grow(|database| {
        database.system.pass(Seconds(-3600));
        database.beside(Mode::Development)
    });
}

#[test]
fn a_writer_that_is_stale_since_before_delete_and_create_never_wins() {
    let database = Database::new(NOTES);
    let first = database.create("notes", &json!({"name": "a"})).unwrap();
    database.delete("notes", "note:a").unwrap();
    let restarted = database.beside(Mode::Development);
    restarted.system.pass(Seconds(-1));
    let second = restarted.create("notes", &json!({"name": "a"})).unwrap();
    assert!(second.version > first.version);
    for stale in [
        action::put("note:a", Precondition::Version(first.version), &json!({"name": "a"})),
        action::patch("note:a", Precondition::Version(first.version), &json!({})),
        action::delete("note:a", Precondition::Version(first.version)),
    ] {
        let refused = code(restarted.execute("notes", stale));
        assert!(refused.starts_with("version_conflict"), "{refused}");
    }
    assert_eq!(restarted.get("notes", "note:a"), Some(second));
}

#[test]
fn versions_grow_when_a_document_moves_away_and_back() {
    let database = Database::new(NOTES);
    let mut last = database.create("notes", &json!({"name": "a"})).unwrap();
    for name in ["b", "a", "b", "a"] {
        database.system.pass(Seconds(-60));
        let restarted = database.beside(Mode::Development);
        let moved = restarted.patch("notes", &last, &json!({"name": name})).unwrap();
        assert!(moved.version > last.version);
        last = moved;
    }
    assert_eq!(database.count("notes"), 1);
    database.assert_sound();
}
