//! A schema changes while documents are stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use keyloom_engine::{Actor, Error, Mode, Precondition, Repair, SchemaStep};
use keyloom_key::{Head, Space};
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{Database, action, at_every_call, code, schema};

const PEOPLE: &str = r#"
[collections.people]
key = "person:{id}"
fields.id = { type = "id", required = true }
fields.name = { type = "text", length = { max = 20 } }
fields.age = { type = "i64" }
"#;

/// The schema of people with more lines.
fn people_with(lines: &str) -> String {
    format!("{PEOPLE}\n{lines}\n")
}

fn person(id: &str, name: &str, age: i64) -> Json {
    json!({"id": id, "name": name, "age": age})
}

/// Three people, two of whom have the same age.
fn people() -> Database {
    let database = Database::new(PEOPLE);
    for (id, name, age) in [("a", "Ann", 30), ("b", "Bob", 30), ("c", "Cyd", 40)] {
        database.create("people", &person(id, name, age)).unwrap();
    }
    database
}

fn states(database: &Database) -> Vec<String> {
    let info = block_on(database.engine.collection(&Actor::Local, "people")).unwrap();
    info.indexes.iter().map(|index| format!("{} {}", index.path, index.state)).collect()
}

fn templates(database: &Database) -> Vec<u16> {
    let mut found: Vec<u16> = database
        .entries()
        .iter()
        .map(|entry| Head::read(&entry.key).unwrap().0)
        .filter(|head| matches!(head.space, Space::Index | Space::Claim))
        .map(|head| head.template)
        .collect();
    found.dedup();
    found
}

#[test]
fn applying_a_schema_is_versioned_and_twice_is_once() {
    let database = Database::empty(Mode::Development);
    let first = database.apply(PEOPLE).unwrap();
    assert_eq!(first.version, 1);
    let added = SchemaStep::CollectionAdded { collection: "people".to_owned() };
    assert_eq!(first.steps, [added]);
    let again = database.apply(PEOPLE).unwrap();
    assert_eq!((again.version, again.steps.as_slice()), (1, &[][..]));
    let indexed = database.apply(&people_with("indexes.age = \"{age}:{id}\"")).unwrap();
    assert_eq!(indexed.version, 2);
    let back = database.beside(Mode::Development).apply(PEOPLE).unwrap();
    assert_eq!(back.version, 3);
}

#[test]
fn versions_grow_also_when_stored_documents_are_checked() {
    let database = people();
    let mut last = 1;
    for max in [19, 18, 2, 17] {
        let schema = PEOPLE.replace("max = 20", &format!("max = {max}"));
        if max == 2 {
            database.apply(&schema).unwrap_err();
            continue;
        }
        let planned = block_on(database.engine.plan_schema(&self::schema(&schema))).unwrap();
        let applied = database.apply(&schema).unwrap();
        assert!(applied.version > last && planned.version <= applied.version);
        assert_eq!(planned.steps, applied.steps);
        last = applied.version;
    }
}

#[test]
fn a_collection_that_a_schema_does_not_name_stays() {
    let database = people();
    database
        .apply(
            "[collections.other]\nkey = \"{id}\"\nfields.id = { type = \"id\", required = true }",
        )
        .unwrap();
    assert_eq!(database.engine.collections(), ["other", "people"]);
    assert_eq!(database.count("people"), 3);
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let database = people();
    let wanted = people_with("indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"")
        .replace("max = 20", "max = 19");
    database.faults.reset();
    let entries = database.entries();
    let planned = block_on(database.engine.plan_schema(&schema(&wanted))).unwrap();
    assert_eq!(database.faults.counts().commits, 0);
    assert_eq!(database.entries(), entries);
    let collection = "people".to_owned();
    let added = |path: &str| SchemaStep::PathAdded {
        collection: collection.clone(),
        path: path.to_owned(),
        backfill_documents: 3,
    };
    let rules = SchemaStep::RulesChanged { collection: collection.clone(), check_documents: 3 };
    assert_eq!(planned.steps, [added("unique:name"), added("index:age"), rules]);
    let applied = database.apply(&wanted).unwrap();
    assert_eq!(applied.steps, planned.steps);
}

#[test]
fn a_new_index_holds_the_documents_that_are_stored_already() {
    let database = people();
    let mut handled = 0;
    let wanted = people_with(
        "indexes.age = \"{age}:{id}\"\n\
         indexes.thirty = { key = \"30:{id}\", when = { age = \"30\" }, include = [\"name\"] }",
    );
    block_on(database.engine.apply_schema(&schema(&wanted), &mut |n| handled += n)).unwrap();
    assert_eq!(handled, 3);
    assert_eq!(database.keys(Space::Index).len(), 3 + 2);
    assert_eq!(states(&database), ["index:age ready", "index:thirty ready"]);
    database.assert_sound();
    database.create("people", &person("d", "Dan", 30)).unwrap();
    database.assert_sound();
}

#[test]
fn a_backfill_of_many_documents_takes_several_small_commits() {
    let database = Database::new(PEOPLE);
    for number in 0..1001 {
        database.create("people", &person(&format!("p{number}"), "x", number)).unwrap();
    }
    database.faults.reset();
    let mut pages = Vec::new();
    let wanted = schema(&people_with("indexes.age = \"{age}:{id}\""));
    block_on(database.engine.apply_schema(&wanted, &mut |n| pages.push(n))).unwrap();
    assert_eq!(pages, [200, 200, 200, 200, 200, 1]);
    assert_eq!(database.faults.counts().commits, 6 + 2, "and two of the catalog");
    database.assert_sound();
}

#[test]
fn an_index_that_is_gone_leaves_no_keys() {
    let database = people();
    let indexed = people_with("indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"");
    database.apply(&indexed).unwrap();
    let removed = database.apply(PEOPLE).unwrap();
    let gone = |path: &str| SchemaStep::PathRemoved {
        collection: "people".to_owned(),
        path: path.to_owned(),
    };
    assert_eq!(removed.steps, [gone("unique:name"), gone("index:age")]);
    assert_eq!(database.keys(Space::Index), Vec::<Vec<u8>>::new());
    assert_eq!(database.keys(Space::Claim), Vec::<Vec<u8>>::new());
    database.assert_sound();
}

#[test]
fn a_changed_index_is_built_anew_under_a_number_of_its_own() {
    let database = people();
    let mut numbers = Vec::new();
    for index in [
        "indexes.x = \"{age}:{id}\"",
        "indexes.x = \"{age desc}:{id}\"",
        "indexes.x = { key = \"{age desc}:{id}\", when = { age = \"30\" } }",
        "indexes.x = { key = \"{age desc}:{id}\", include = [\"name\"] }",
    ] {
        database.apply(&people_with(index)).unwrap();
        numbers.extend(templates(&database));
        assert_eq!(states(&database), ["index:x ready"]);
        database.assert_sound();
    }
    assert_eq!(numbers, [1, 2, 3, 4], "a number is never used again");
}

#[test]
fn an_index_is_built_anew_when_the_type_of_its_fields_changes() {
    let database = people();
    let indexed = people_with(
        "indexes.name = { key = \"{name}:{id}\" }\n\
         indexes.ann = { key = \"{id}\", when = { name = \"Ann\" } }\nunique.name = \"{name}\"",
    );
    database.apply(&indexed).unwrap();
    assert_eq!(database.lookup("people", "name", "ann"), None, "text keeps its case");
    let folded =
        indexed.replace("{ type = \"text\", length = { max = 20 } }", "{ type = \"name\" }");
    let changed = database.apply(&folded).unwrap();
    assert_eq!(changed.steps.len(), 7, "{:?}", changed.steps);
    assert_eq!(database.lookup("people", "name", "ANN").unwrap().key, "person:a");
    database.assert_sound();
}

#[test]
fn a_new_unique_claim_is_held_by_the_documents_that_are_stored_already() {
    let database = people();
    database.apply(&people_with("unique.name = \"{name}\"")).unwrap();
    assert_eq!(database.lookup("people", "name", "Bob").unwrap().key, "person:b");
    let refused = code(database.create("people", &person("d", "Bob", 1)));
    assert_eq!(refused, "unique_violation: name `Bob` is taken in `people`");
    database.assert_sound();
}

#[test]
fn a_unique_claim_that_two_documents_hold_is_named_and_can_be_settled() {
    let database = people();
    let unique = people_with("unique.age = \"age:{age}\"");
    let refused = "invalid_argument: collections.people.unique.age: two stored documents hold \
                   `age:30`: change one of them, then apply again";
    assert_eq!(code(database.apply(&unique)), refused);
    assert_eq!(code(database.apply(&unique)), refused, "again and again");
    assert_eq!(states(&database), ["unique:age building"]);
    let lookup =
        code(block_on(database.engine.lookup(&Actor::Local, "people", "age", &[json!(30)])));
    assert!(
        lookup.contains("`unique:age` would, but is still being built"),
        "not absent, but unknown: {lookup}"
    );
    let b = database.get("people", "person:b").unwrap();
    database.patch("people", &b, &json!({"age": 31})).unwrap();
    database.apply(&unique).unwrap();
    assert_eq!(states(&database), ["unique:age ready"]);
    let held = |age: i64| {
        let found = block_on(database.engine.lookup(&Actor::Local, "people", "age", &[json!(age)]))
            .unwrap();
        found.map(|document| document.key)
    };
    let expected = ["person:a", "person:b", "person:c"].map(|key| Some(key.to_owned()));
    assert_eq!([held(30), held(31), held(40)], expected);
    database.assert_sound();
}

#[test]
fn a_unique_claim_with_duplicates_can_be_given_up_again() {
    let database = people();
    database.apply(&people_with("unique.age = \"age:{age}\"")).unwrap_err();
    database.apply(PEOPLE).unwrap();
    assert_eq!(database.keys(Space::Claim), Vec::<Vec<u8>>::new());
    database.create("people", &person("d", "Dan", 30)).unwrap();
    database.assert_sound();
}

#[test]
fn a_document_never_gives_up_the_claim_of_another() {
    let any = Precondition::Any;
    for change in [
        action::patch("person:c", any, &json!({"age": 41})),
        action::patch("person:c", any, &json!({"age": null})),
        action::delete("person:c", any),
    ] {
        let database = people();
        let unique = people_with("unique.age = \"age:{age}\"");
        database.apply(&unique).unwrap_err();
        // The claim is not complete: a new document may take what an older one would hold.
        database.create("people", &person("z", "Zoe", 40)).unwrap();
        database.execute("people", change).unwrap();
        let refused = code(database.create("people", &person("y", "Yan", 40)));
        assert_eq!(refused, "unique_violation: age `age:40` is taken in `people`");
        database.delete("people", "person:b").unwrap();
        database.apply(&unique).unwrap();
        database.assert_sound();
    }
}

#[test]
fn a_document_that_moves_never_takes_the_claim_of_another() {
    let database = people();
    let unique = people_with("unique.age = \"age:{age}\"");
    database.apply(&unique).unwrap_err();
    database.create("people", &person("z", "Zoe", 40)).unwrap();
    let moved = action::patch("person:c", Precondition::Any, &json!({"id": "d"}));
    let refused = code(database.execute("people", moved));
    assert_eq!(refused, "unique_violation: age `age:40` is taken in `people`");
    let free = action::patch("person:a", Precondition::Any, &json!({"id": "e"}));
    database.execute("people", free).unwrap();
    database.delete("people", "person:b").unwrap();
    database.delete("people", "person:z").unwrap();
    database.apply(&unique).unwrap();
    database.assert_sound();
}

#[test]
fn a_claim_that_the_backfill_writes_while_its_document_goes_does_not_stay() {
    for change in [
        action::delete("person:c", Precondition::Any),
        action::patch("person:c", Precondition::Any, &json!({"age": 41})),
    ] {
        let database = people();
        let unique = people_with("unique.age = \"age:{age}\"");
        database.apply(&unique).unwrap_err();
        database.delete("people", "person:b").unwrap();
        // The change is planned before the backfill writes the claim, and committed behind it.
        let writer = database.beside(Mode::Development);
        let other = database.beside(Mode::Development);
        writer.faults.hook(When::NthOf(Call::Commit, 1), move || {
            other.apply(&unique).unwrap();
        });
        writer.execute("people", change).unwrap();
        writer.assert_sound();
    }
}

#[test]
fn duplicates_of_one_collection_do_not_hold_up_another() {
    let database = people();
    database.apply(&people_with("unique.age = \"age:{age}\"")).unwrap_err();
    let pets = PEOPLE.replace("people", "pets");
    database.apply(&pets).unwrap();
    database.create("pets", &person("a", "Ara", 1)).unwrap();
    database.apply(&format!("{pets}\nindexes.age = \"{{age}}:{{id}}\"")).unwrap();
    assert_eq!(database.keys(Space::Index).len(), 1);
}

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
fn the_key_of_a_collection_changes_only_while_it_is_empty() {
    let database = people();
    let wanted = PEOPLE.replace("person:{id}", "human:{id}");
    assert_eq!(
        code(database.apply(&wanted)),
        "invalid_argument: collections.people.key: 3 documents are stored under `person:{id}`: \
         the key of a collection changes only while it is empty"
    );
    let wanted_type =
        PEOPLE.replace("fields.id = { type = \"id\"", "fields.id = { type = \"name\"");
    assert!(code(database.apply(&wanted_type)).contains("the key of a collection changes only"));
    assert_eq!(code(database.apply(PEOPLE)), "ok");
    let empty = Database::new(PEOPLE);
    empty.apply(&wanted).unwrap();
    assert_eq!(empty.create("people", &person("a", "Ann", 1)).unwrap().key, "human:a");
}

#[test]
fn what_is_derived_begins_while_there_is_nothing_to_count() {
    let derived = r#"
        [collections.ages]
        key = "age:{age}"
        fields.age = { type = "i64", required = true }
        fields.people = { type = "i64" }
        derive = { from = "people", group = { age = "age" }, count = "people" }
    "#;
    let required = PEOPLE.replace("\"i64\" }", "\"i64\", required = true }");
    let database = Database::new(&required);
    database.create("people", &person("a", "Ann", 30)).unwrap();
    assert_eq!(
        code(database.apply(derived)),
        "invalid_argument: collections.ages.derive: `people` holds 1 documents already, which \
         nobody counted: what is derived begins while it is empty"
    );
    assert_eq!(database.engine.collections(), ["people"]);
    let database = Database::new(&required);
    database.apply(derived).unwrap();
    database.create("people", &person("a", "Ann", 30)).unwrap();
    assert_eq!(database.get("ages", "age:30").unwrap().data, br#"{"age":30,"people":1}"#);
    let refused =
        code(database.apply(&derived.replace("count = \"people\"", "sum = { people = \"age\" }")));
    assert!(refused.contains("what is derived changes only while the collection is empty"));
    database.assert_sound();
}

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

/// From the first schema to the second one, with a fault at every store call; then again without.
fn check_resumed(fresh: impl Fn() -> Database, wanted: &str) {
    for fault in [Fault::Before(NO_SPACE), Fault::After, Fault::Unwritten] {
        at_every_call(
            &fault,
            || {
                let database = fresh();
                database.faults.reset();
                database
            },
            |database| database.apply(wanted),
            |database, result| {
                // Whatever state it is in, documents can be written.
                let restarted = database.beside(Mode::Development);
                restarted.create("people", &person("x", "Xen", 99)).unwrap();
                restarted.delete("people", "person:a").unwrap();
                match result {
                    Ok(_) | Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {}
                    Err(other) => panic!("{fault:?}: {other}"),
                }
                restarted.apply(wanted).unwrap();
                let planned = block_on(restarted.engine.plan_schema(&schema(wanted))).unwrap();
                assert_eq!(planned.steps, [], "{fault:?}");
                assert!(states(&restarted).iter().all(|state| state.ends_with("ready")));
            },
        );
    }
}

#[test]
fn an_interrupted_apply_goes_on_where_it_stopped() {
    let lines = "indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"";
    check_resumed(people, &people_with(lines));
}

#[test]
fn an_interrupted_removal_goes_on_where_it_stopped() {
    let lines = "indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"";
    let fresh = || {
        let database = people();
        database.apply(&people_with(lines)).unwrap();
        database
    };
    check_resumed(fresh, &people_with("indexes.age = \"{age desc}:{id}\""));
}

#[test]
fn an_interrupted_check_of_documents_goes_on_where_it_stopped() {
    check_resumed(people, &PEOPLE.replace("max = 20", "max = 3"));
}

#[test]
fn a_schema_that_was_announced_and_never_applied_can_be_taken_back() {
    let database = people();
    let strict = PEOPLE.replace("max = 20", "max = 3");
    database.faults.reset();
    // Everything fails behind the announcement, the first commit.
    database.faults.inject(When::Every(Call::ScanNext), Fault::Before(NO_SPACE));
    database.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
    database.apply(&strict).unwrap_err();
    database.faults.reset();
    let restarted = database.beside(Mode::Development);
    let long = person("d", "Long name", 1);
    assert!(code(restarted.create("people", &long)).contains("at most 3"));
    restarted.apply(PEOPLE).unwrap();
    assert_eq!(code(restarted.create("people", &long)), "ok");
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
