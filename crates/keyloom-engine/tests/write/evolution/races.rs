//! Others write documents and schemas while a schema is applied.

use std::sync::atomic::{AtomicBool, Ordering};

use keyloom_engine::{Mode, Precondition, Repair};
use keyloom_key::Space;
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use serde_json::json;

use super::{PEOPLE, people, people_with, person, states};
use crate::support::{Database, action, code};

#[test]
fn an_index_is_complete_when_documents_appear_while_it_is_declared() {
    let lines = "indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"";
    let database = Database::new(PEOPLE);
    database.faults.reset();
    let other = database.beside(Mode::Development);
    // The collection was empty when the schema was planned, and no longer is when it is stored.
    database.faults.hook(When::NthOf(Call::Commit, 1), move || {
        other.create("people", &person("a", "Ann", 30)).unwrap();
    });
    let changed = database.apply(&people_with(lines)).unwrap();
    assert_eq!(database.keys(Space::Index).len(), 1, "{changed:?}");
    assert_eq!(database.lookup("people", "name", "Ann").unwrap().key, "person:a");
    database.assert_sound();
}

#[test]
fn a_key_does_not_change_under_a_document_that_appears_meanwhile() {
    let database = Database::new(PEOPLE);
    database.faults.reset();
    let other = database.beside(Mode::Development);
    database.faults.hook(When::NthOf(Call::Commit, 1), move || {
        other.create("people", &person("a", "Ann", 30)).unwrap();
    });
    let refused = code(database.apply(&PEOPLE.replace("person:{id}", "human:{id}")));
    assert!(refused.contains("1 documents are stored under"), "{refused}");
    assert!(database.get("people", "person:a").is_some());
    database.assert_sound();
}

#[test]
fn two_schemas_that_are_applied_at_once_are_both_in_force() {
    let other_schema = PEOPLE.replace("people", "pets");
    for snapshot in 1.. {
        let database = Database::empty(Mode::Development);
        database.faults.reset();
        let (other, schema) = (database.beside(Mode::Development), other_schema.clone());
        database.faults.hook(When::NthOf(Call::Snapshot, snapshot), move || {
            other.apply(&schema).unwrap();
        });
        database.apply(PEOPLE).unwrap();
        if database.faults.counts().snapshots < snapshot {
            assert!(snapshot > 2, "all of them were tried");
            return;
        }
        let after = database.beside(Mode::Development);
        assert_eq!(after.engine.collections(), ["people", "pets"], "snapshot {snapshot}");
        for collection in ["people", "pets"] {
            after.create(collection, &person("a", "Ann", 1)).unwrap();
        }
        after.assert_sound();
    }
}

#[test]
fn two_schemas_that_are_applied_while_documents_are_checked_are_both_in_force() {
    let strict = PEOPLE.replace("max = 20", "max = 3");
    for snapshot in 1.. {
        let database = people();
        let other = database.beside(Mode::Development);
        database.faults.reset();
        database.faults.hook(When::NthOf(Call::Snapshot, snapshot), move || {
            other.apply(&PEOPLE.replace("people", "pets")).unwrap();
        });
        database.apply(&strict).unwrap();
        if database.faults.counts().snapshots < snapshot {
            assert!(snapshot > 5, "all of them were tried");
            return;
        }
        let after = database.beside(Mode::Development);
        assert_eq!(after.engine.collections(), ["people", "pets"], "snapshot {snapshot}");
        let refused = code(after.create("people", &person("d", "Dora", 1)));
        assert!(refused.contains("at most 3"), "snapshot {snapshot}: {refused}");
    }
}

#[test]
fn an_index_that_another_adds_meanwhile_is_ready_only_when_it_is_complete() {
    let first = people_with("indexes.age = \"{age}:{id}\"");
    let both = people_with("indexes.age = \"{age}:{id}\"\nindexes.name = \"{name}:{id}\"");
    for commit in 1..=3 {
        let database = people();
        database.faults.reset();
        let (other, wanted) = (database.beside(Mode::Development), both.clone());
        // The other one declares its index and gets no further.
        other.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
        database.faults.hook(When::NthOf(Call::Commit, commit), move || {
            other.apply(&wanted).unwrap_err();
        });
        database.apply(&first).unwrap();
        database.faults.reset();
        let ready = states(&database.beside(Mode::Development));
        let ready = ready.iter().any(|state| state == "index:name ready");
        assert!(!ready || database.check(Repair::No).problems.is_empty(), "commit {commit}");
        database.apply(&both).unwrap();
        database.assert_sound();
    }
}

#[test]
fn an_index_that_another_removes_meanwhile_leaves_no_keys() {
    let lines = "indexes.age = \"{age}:{id}\"\nindexes.name = \"{name}:{id}\"";
    for commit in 1..=4 {
        let database = people();
        database.apply(&people_with(lines)).unwrap();
        database.faults.reset();
        let other = database.beside(Mode::Development);
        other.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
        database.faults.hook(When::NthOf(Call::Commit, commit), move || {
            let _ = other.apply(PEOPLE);
        });
        let _ = database.apply(&people_with("indexes.name = \"{name}:{id}\""));
        database.faults.reset();
        database.apply(PEOPLE).unwrap();
        assert_eq!(database.keys(Space::Index), Vec::<Vec<u8>>::new(), "commit {commit}");
    }
}

#[test]
fn documents_that_change_while_an_index_is_built_are_in_it_as_they_are() {
    let database = Database::new(PEOPLE);
    for number in 0..2000 {
        database.create("people", &person(&format!("p{number}"), "x", number)).unwrap();
    }
    let lines = "indexes.age = \"{age}:{id}\"\nunique.age = \"age:{age}\"";
    let built = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let applied = database.apply(&people_with(lines));
            built.store(true, Ordering::SeqCst);
            applied.unwrap();
        });
        for writer in 0..3_i64 {
            let (database, built) = (&database, &built);
            scope.spawn(move || {
                let any = Precondition::Any;
                let mut round = 0;
                while !built.load(Ordering::SeqCst) || round < 50 {
                    let number = (round * 37 + writer * 11) % 2000;
                    let key = format!("person:p{number}");
                    let age = 10_000 * (writer + 1) + round;
                    let change = match round % 3 {
                        0 => action::patch(&key, any, &json!({ "age": age })),
                        1 => action::delete(&key, any),
                        _ => action::create(&person(&format!("w{writer}-{round}"), "x", age)),
                    };
                    let done = code(database.execute("people", change));
                    assert!(done == "ok" || done.starts_with("not_found"), "{done}");
                    round += 1;
                }
            });
        }
    });
    let states = states(&database);
    assert_eq!(states, ["unique:age ready", "index:age ready"]);
    assert_eq!(database.keys(Space::Index).len() as u64, database.count("people"));
    database.assert_sound();
}

#[test]
fn an_engine_that_knows_an_older_schema_writes_by_the_newer_one() {
    let database = people();
    let older = database.beside(Mode::Development);
    database.apply(&people_with("indexes.age = \"{age}:{id}\"")).unwrap();
    older.create("people", &person("d", "Dan", 50)).unwrap();
    let a = older.get("people", "person:a").unwrap();
    older.patch("people", &a, &json!({"age": 31})).unwrap();
    older.delete("people", "person:b").unwrap();
    assert_eq!(database.keys(Space::Index).len(), 3);
    database.assert_sound();
}
