//! Unique claims come while documents are stored that may contradict them.

use keyloom_engine::{Actor, Mode, Precondition};
use keyloom_key::Space;
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;
use serde_json::json;

use super::{PEOPLE, people, people_with, person, states};
use crate::support::{Database, action, code};

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
    let third = code(database.create("people", &person("d", "Dan", 30)));
    assert_eq!(third, "unique_violation: age `age:30` is taken in `people`");
    assert_eq!(states(&database), ["unique:age building"]);
    let lookup =
        code(block_on(database.engine.lookup(&Actor::Local, "people", "age", &[json!(30)])));
    assert_eq!(
        lookup,
        "no_index: no key serves this query (`unique:age` would, but is still being built); apply \
         the schema again",
        "not absent, but unknown"
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

/// Declares a claim, and ends before stored documents have theirs.
fn interrupted(database: &Database, schema: &str) {
    database.faults.reset();
    database.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
    database.apply(schema).unwrap_err();
    database.faults.reset();
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
        interrupted(&database, &unique);
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
    interrupted(&database, &unique);
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
