//! Rules change while documents are stored that may contradict them.

use std::sync::{Arc, Mutex};

use keyloom_engine::{Actor, Mode, SchemaStep};
use keyloom_store::faults::{Call, When};
use pollster::block_on;

use super::{PEOPLE, people, people_with, person};
use crate::support::{Database, code};

#[test]
fn rules_that_a_stored_document_contradicts_are_refused_and_nothing_changes() {
    for (wanted, broken) in [
        (PEOPLE.replace("max = 20", "max = 2"), "people.name: length: 3 characters, at most 2"),
        (PEOPLE.replace("\"i64\"", "\"bool\""), "people.age: type: 30 is not true or false"),
        (
            PEOPLE.replace("fields.age = { type = \"i64\" }", ""),
            "people.age: unknown: the schema has no such field",
        ),
        (people_with("fields.new = { type = \"id\", required = true }"), "people.new: required"),
        (PEOPLE.replace("\"i64\"", "\"i64\", values = [30]"), "people.age: values: 40 is not one"),
    ] {
        let database = people();
        let info = |database: &Database| {
            block_on(database.engine.collection(&Actor::Local, "people")).unwrap()
        };
        let (entries, before) = (database.entries(), info(&database));
        let refused = code(database.apply(&wanted));
        let at = "invalid_argument: collections.people: the stored document `person:";
        assert!(refused.starts_with(at), "{refused}");
        assert!(refused.contains(&format!("` contradicts it: {broken}")), "{refused}");
        assert_eq!(database.entries(), entries);
        assert_eq!(info(&database), before);
        database.create("people", &person("d", "Long enough", 7)).unwrap();
        database.assert_sound();
    }
}

#[test]
fn rules_that_all_stored_documents_obey_are_put_in_force() {
    let database = people();
    let wanted = PEOPLE.replace("max = 20", "max = 3");
    let changed = database.apply(&wanted).unwrap();
    let rules = SchemaStep::RulesChanged { collection: "people".to_owned(), check_documents: 3 };
    assert_eq!(changed.steps, [rules]);
    let refused = code(database.create("people", &person("d", "Dora", 1)));
    assert!(refused.contains("4 characters, at most 3 allowed"), "{refused}");
}

#[test]
fn writers_obey_the_new_rules_while_stored_documents_are_checked_against_them() {
    let database = people();
    let late = database.beside(Mode::Development);
    let results = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&results);
    // The first commit announces the rules; the scan behind it checks the documents.
    database.faults.hook(When::NthOf(Call::ScanNext, 1), move || {
        let create = |id: &str, name: &str| code(late.create("people", &person(id, name, 1)));
        seen.lock().unwrap().extend([create("x", "Long name"), create("y", "Yan")]);
    });
    database.apply(&PEOPLE.replace("max = 20", "max = 3")).unwrap();
    let results = results.lock().unwrap();
    assert_eq!(results[0], "rule_violation: people.name: length: 9 characters, at most 3 allowed");
    assert_eq!(results[1], "ok");
    database.assert_sound();
}

#[test]
fn one_account_per_owner_is_asked_of_stored_documents_only_where_it_is_in_force() {
    for (rule, mode, expected) in [
        ("production", Mode::Development, "ok"),
        ("production", Mode::Production, "invalid_argument: collections.people.unique"),
        ("always", Mode::Development, "invalid_argument: collections.people.unique"),
    ] {
        let database = Database::in_mode(mode, PEOPLE);
        for id in ["a", "b"] {
            database.create_as("ann", "people", &person(id, "Ann", 1)).unwrap();
        }
        let applied = code(database.apply(&people_with(&format!("one_per_owner = \"{rule}\""))));
        assert!(applied.starts_with(expected), "{rule} {mode:?}: {applied}");
    }
}

#[test]
fn one_account_per_owner_is_asked_again_when_it_comes_into_force() {
    let rule = |word: &str| people_with(&format!("one_per_owner = \"{word}\""));
    let database = Database::new(&rule("production"));
    let first = database.create_as("ann", "people", &person("a", "Ann", 1)).unwrap();
    database.create_as("ann", "people", &person("b", "Ann", 1)).unwrap();
    let refused = code(database.apply(&rule("always")));
    assert!(refused.contains("two stored documents hold `ann`"), "{refused}");
    database.delete("people", &first.key).unwrap();
    database.apply(&rule("always")).unwrap();
    let refused = code(database.create_as("ann", "people", &person("c", "Ann", 1)));
    assert_eq!(refused, "unique_violation: one_per_owner `ann` is taken in `people`");
    database.assert_sound();
}
