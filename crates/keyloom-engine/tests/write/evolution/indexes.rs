//! Indexes come, change and go while documents are stored.

use keyloom_engine::SchemaStep;
use keyloom_key::Space;
use pollster::block_on;
use serde_json::json;

use super::{PEOPLE, people, people_with, person, states, templates};
use crate::support::{Database, schema};

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
fn a_backfill_of_large_documents_keeps_its_commits_small_enough_for_the_store() {
    let pages = "[collections.pages]\nkey = \"page:{id}\"\n\
                  fields.id = { type = \"id\", required = true }\n\
                  fields.body = { type = \"json\" }\n";
    let database = Database::new(pages);
    for id in 0..40 {
        let page = json!({"id": id.to_string(), "body": "x".repeat(900_000)});
        database.create("pages", &page).unwrap();
    }
    let index = "indexes.all = { key = \"all:{id}\", include = [\"body\"] }\n";
    database.apply(&format!("{pages}{index}")).unwrap();
    database.assert_sound();
}
