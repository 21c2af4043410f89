//! Schemas as a whole: versions, dry runs, what may change and what may not.

use keyloom_engine::{Mode, SchemaStep};
use pollster::block_on;

use super::{PEOPLE, people, people_with, person};
use crate::support::{Database, code, schema};

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
