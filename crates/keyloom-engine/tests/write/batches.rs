//! Batches: one commit for all operations, or none of them.

use keyloom_engine::{Actor, Error, Operation, Precondition, Written};
use pollster::block_on;
use serde_json::json;

use crate::support::{Database, action, code, operation};

const SCHEMA: &str = r#"
[collections.people]
key = "person:{id}"
fields.id = { type = "id", required = true }
fields.email = { type = "id" }
unique.id = "person-id:{id}"
unique.email = "email:{email}"

[collections.cards]
key = "card:{id}"
fields.id = { type = "id", required = true }
fields.person = { type = "id", refers_to = "people.id" }
"#;

fn database() -> Database {
    Database::new(SCHEMA)
}

fn person(id: &str, email: &str) -> Operation {
    operation("people", action::create(&json!({"id": id, "email": email})))
}

fn card(id: &str, person: &str) -> Operation {
    operation("cards", action::create(&json!({"id": id, "person": person})))
}

fn email(id: &str, email: &str) -> Operation {
    let key = format!("person:{id}");
    operation("people", action::patch(&key, Precondition::Any, &json!({"email": email})))
}

fn gone(collection: &str, key: &str) -> Operation {
    operation(collection, action::delete(key, Precondition::Any))
}

/// A batch that is refused leaves everything as it was.
#[track_caller]
fn check_refused(database: &Database, operations: &[Operation], expected: &str) {
    let (entries, feed) = (database.entries(), database.feed());
    let refused = code(database.batch(operations));
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(database.entries(), entries);
    assert_eq!(database.feed(), feed);
}

#[test]
fn j09_a_stale_operation_stops_the_whole_batch_across_collections() {
    let database = database();
    database.batch(&[person("a", "a@x"), card("c", "a")]).unwrap();
    let stale = action::put("card:c", Precondition::Version(1), &json!({"id": "c"}));
    check_refused(
        &database,
        &[person("b", "b@x"), operation("cards", stale)],
        "version_conflict: operation 1: version conflict on `card:c`: expected version 1, stored",
    );
    database.assert_sound();
}

#[test]
fn j10_a_batch_that_creates_one_key_twice_is_refused_whole() {
    let database = database();
    check_refused(
        &database,
        &[card("x", "a"), person("a", "a@x"), person("a", "b@x")],
        "invalid_argument: operation 2: document `person:a` is written twice in one batch",
    );
}

#[test]
fn two_operations_on_one_document_are_refused_whatever_they_are() {
    let database = database();
    database.batch(&[person("a", "a@x"), person("b", "b@x")]).unwrap();
    let moved = |from: &str, to: &str| {
        let key = format!("person:{from}");
        operation("people", action::patch(&key, Precondition::Any, &json!({"id": to})))
    };
    for operations in [
        [gone("people", "person:a"), person("a", "c@x")],
        [email("a", "c@x"), email("a", "d@x")],
        [moved("a", "b"), moved("b", "a")],
        [gone("people", "person:b"), moved("a", "b")],
        [moved("a", "c"), person("c", "c@x")],
    ] {
        check_refused(&database, &operations, "invalid_argument: operation 1: document `person:");
    }
}

#[test]
fn a_batch_answers_each_operation_in_its_place() {
    let database = database();
    database.batch(&[person("a", "a@x"), person("b", "b@x")]).unwrap();
    database.faults.reset();
    let operations = [
        gone("people", "person:x"),
        person("c", "c@x"),
        gone("people", "person:b"),
        email("a", "new@x"),
    ];
    let written = database.batch(&operations).unwrap();
    let shown: Vec<String> = written
        .iter()
        .map(|written| match written {
            Written::Created(document) => format!("created {}", document.key),
            Written::Updated(document) => format!("updated {}", document.key),
            Written::Deleted { key, .. } => format!("deleted {key}"),
            Written::Absent { key } => format!("absent {key}"),
        })
        .collect();
    assert_eq!(
        shown,
        ["absent person:x", "created person:c", "deleted person:b", "updated person:a"]
    );
    assert_eq!(database.faults.counts().commits, 1);
    assert_eq!(database.faults.counts().snapshots, 1);
    assert_eq!(database.count("people"), 2);
    database.assert_sound();
}

#[test]
fn every_error_of_a_batch_names_its_operation() {
    let database = database();
    database.batch(&[person("a", "a@x")]).unwrap();
    let first = person("b", "b@x");
    for (second, expected) in [
        (operation("nobody", action::create(&json!({}))), "not_found: operation 1: there is no"),
        (card("c", ""), "rule_violation: operation 1: cards.person: type"),
        (card("c", "nobody"), "rule_violation: operation 1: cards.person: refers_to: there is no"),
        (person("c", "a@x"), "unique_violation: operation 1: email `email:a@x` is taken"),
        (person("c", "b@x"), "unique_violation: operation 1: email `email:b@x` is taken"),
        (person("a", "c@x"), "unique_violation: operation 1: key `person:a` is taken"),
        (gone("people", "nonsense"), "invalid_argument: operation 1: "),
        (email("nobody", "c@x"), "not_found: operation 1: `person:nobody` does not exist"),
        (
            operation("people", action::delete("person:a", Precondition::Unsaid)),
            "precondition_required: operation 1: `person:a` exists",
        ),
    ] {
        check_refused(&database, &[first.clone(), second.clone()], expected);
        let alone = expected.replace("operation 1: ", "");
        if !alone.contains("b@x") {
            check_refused(&database, &[second], &alone);
        }
    }
}

#[test]
fn a_batch_needs_an_operation_and_an_actor_with_a_name() {
    let database = database();
    check_refused(&database, &[], "invalid_argument: a batch needs at least one operation");
    for name in [String::new(), "x".repeat(129), "a\nb".to_owned()] {
        let batch = block_on(database.engine.batch(&Actor::User(name), &[person("a", "a@x")]));
        assert!(code(batch).starts_with("invalid_argument: a subject has 1 to 128 bytes"));
    }
    let longest = Actor::User("x".repeat(128));
    block_on(database.engine.batch(&longest, &[person("a", "a@x")])).unwrap();
}

#[test]
fn a_batch_may_refer_to_what_it_creates_itself_in_any_order() {
    let database = database();
    database.batch(&[card("c", "a"), person("a", "a@x"), card("d", "a")]).unwrap();
    assert_eq!((database.count("people"), database.count("cards")), (1, 2));
    database.assert_sound();
}

#[test]
fn a_batch_may_not_refer_to_what_it_deletes_itself() {
    let database = database();
    database.batch(&[person("a", "a@x")]).unwrap();
    for operations in
        [[gone("people", "person:a"), card("c", "a")], [card("c", "a"), gone("people", "person:a")]]
    {
        let refused = database.batch(&operations).unwrap_err();
        let Error::Batch { source, .. } = &refused else { panic!("{refused}") };
        assert!(source.to_string().starts_with("cards.person: refers_to: "), "{source}");
        assert_eq!((database.count("people"), database.count("cards")), (1, 0));
    }
}

#[test]
fn a_document_stays_editable_when_what_it_refers_to_is_gone() {
    let database = database();
    database.batch(&[person("a", "a@x"), card("c", "a")]).unwrap();
    database.delete("people", "person:a").unwrap();
    let card = database.get("cards", "card:c").unwrap();
    database.patch("cards", &card, &json!({})).unwrap();
    assert!(code(database.batch(&[self::card("d", "a")])).contains("refers_to"));
}

#[test]
fn unique_claims_are_swapped_inside_one_batch() {
    let database = database();
    database.batch(&[person("a", "a@x"), person("b", "b@x"), person("c", "c@x")]).unwrap();
    database.batch(&[email("a", "b@x"), email("b", "c@x"), email("c", "a@x")]).unwrap();
    let holder = |email: &str| database.lookup("people", "email", email).unwrap().key;
    assert_eq!(["a@x", "b@x", "c@x"].map(holder), ["person:c", "person:a", "person:b"]);
    check_refused(&database, &[email("a", "c@x")], "unique_violation: email `email:c@x` is taken");
    database.assert_sound();
}

#[test]
fn a_claim_that_a_batch_gives_up_is_free_for_another_of_its_documents() {
    let database = database();
    database.batch(&[person("a", "a@x"), person("b", "b@x")]).unwrap();
    database.batch(&[person("c", "a@x"), gone("people", "person:a")]).unwrap();
    database.batch(&[email("b", "new@x"), person("d", "b@x")]).unwrap();
    let holder = |email: &str| database.lookup("people", "email", email).unwrap().key;
    assert_eq!(["a@x", "b@x", "new@x"].map(holder), ["person:c", "person:d", "person:b"]);
    database.assert_sound();
}

#[test]
fn a_claim_of_nothing_is_no_claim() {
    let database = database();
    let without = |id: &str| operation("people", action::create(&json!({"id": id})));
    database.batch(&[without("a"), without("b")]).unwrap();
    let b = database.get("people", "person:b").unwrap();
    let b = database.patch("people", &b, &json!({"email": "b@x"})).unwrap();
    database.patch("people", &b, &json!({"email": null})).unwrap();
    assert_eq!(database.lookup("people", "email", "b@x"), None);
    database.assert_sound();
}
