//! Sticker tags: the whole set of an author's values for a file is replaced as one.

use std::collections::BTreeSet;

use keyloom_engine::{Actor, Error, SetReplacement, Written};
use keyloom_key::{Head, Kind, Space, Template, Value};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{Database, STICKERS, at_every_call, code, every_fault};

fn stickers() -> Database {
    Database::new(STICKERS)
}

fn member(author: &str, file: &str, value: &str) -> Vec<u8> {
    json!({"author": author, "file": file, "value": value}).to_string().into_bytes()
}

fn replace(
    database: &Database,
    (author, file): (&str, &str),
    values: &[String],
) -> Result<Vec<Written>, Error> {
    let documents: Vec<Vec<u8>> = values.iter().map(|value| member(author, file, value)).collect();
    let leading = [json!(author), json!(file)];
    let replacement = SetReplacement {
        collection: "sticker_tags",
        set: "values",
        leading: &leading,
        documents: &documents,
    };
    block_on(database.engine.replace_set(&Actor::Local, &replacement))
}

/// The values that are stored for an author and a file, read from the keys of the documents.
fn stored(database: &Database, (author, file): (&str, &str)) -> BTreeSet<String> {
    let kind = |field: &str| Some(if field == "value" { Kind::Text } else { Kind::Id });
    let template = Template::compile("{author}#{file}#{value}", &kind).unwrap();
    let place = [Value::Text(author.to_owned()), Value::Text(file.to_owned())];
    let documents = database.keys(Space::Document).into_iter();
    let documents = documents.map(|key| template.unpack(&key[Head::BYTES..]).unwrap());
    documents.filter(|values| values.starts_with(&place)).map(|v| v[2].to_string()).collect()
}

fn values(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|place| format!("{name} {place}")).collect()
}

fn set(values: &[String]) -> BTreeSet<String> {
    values.iter().cloned().collect()
}

const PLACE: (&str, &str) = ("u1", "f1");

#[test]
fn s10_a_replaced_set_is_the_old_one_or_the_new_one_whatever_store_call_fails() {
    let (old, new) = (values("old", 25), values("new", 25));
    for fault in every_fault() {
        let fresh = || {
            let database = stickers();
            replace(&database, PLACE, &old).unwrap();
            database
        };
        at_every_call(
            &fault,
            fresh,
            |database| replace(database, PLACE, &new),
            |database, result| {
                let found = stored(database, PLACE);
                assert_eq!(database.count("sticker_tags"), 25, "{fault:?}");
                match result {
                    Ok(written) => {
                        assert_eq!((written.len(), &found), (50, &set(&new)), "{fault:?}");
                    }
                    Err(Error::Unavailable(_)) => assert_eq!(found, set(&old), "{fault:?}"),
                    Err(Error::OutcomeUnknown(_)) => {
                        assert!(found == set(&old) || found == set(&new), "{fault:?}: {found:?}");
                    }
                    Err(other) => panic!("{fault:?}: {other}"),
                }
            },
        );
    }
}

#[test]
fn s10_of_two_replacements_at_once_one_whole_set_remains() {
    let database = stickers();
    for round in 0..100 {
        let sets = ["left", "right"].map(|name| values(&format!("{name} {round}"), 25));
        std::thread::scope(|scope| {
            for set in &sets {
                let database = &database;
                scope.spawn(move || replace(database, PLACE, set).unwrap());
            }
        });
        let found = stored(&database, PLACE);
        assert!(sets.iter().any(|wanted| set(wanted) == found), "round {round}: {found:?}");
        assert_eq!(database.count("sticker_tags"), 25);
    }
    database.assert_sound();
}

#[test]
fn s10_a_reader_beside_replacements_sees_one_whole_set_each_time() {
    let database = stickers();
    let sets = ["left", "right"].map(|name| values(name, 10));
    replace(&database, PLACE, &sets[0]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..300 {
                replace(&database, PLACE, &sets[round % 2]).unwrap();
            }
        });
        while !writer.is_finished() {
            let found = stored(&database, PLACE);
            assert!(sets.iter().any(|wanted| set(wanted) == found), "{found:?}");
        }
    });
}

#[test]
fn s10_a_document_that_is_added_beside_a_replacement_is_gone_or_stands_behind_it() {
    let database = stickers();
    for round in 0..100 {
        let wanted = values(&format!("set {round}"), 3);
        let added = format!("added {round}");
        std::thread::scope(|scope| {
            let database = &database;
            scope.spawn(|| replace(database, PLACE, &wanted).unwrap());
            let data = json!({"author": "u1", "file": "f1", "value": added});
            scope.spawn(move || database.create("sticker_tags", &data).unwrap());
        });
        let found = stored(&database, PLACE);
        let mut with_added = set(&wanted);
        with_added.insert(added);
        assert!(found == set(&wanted) || found == with_added, "round {round}: {found:?}");
    }
    database.assert_sound();
}

#[test]
fn s11_a_set_of_none_or_too_many_values_is_refused_and_the_old_one_stays() {
    let database = stickers();
    let old = values("old", 3);
    replace(&database, PLACE, &old).unwrap();
    let entries = database.entries();
    let refused = |count: usize| code(replace(&database, PLACE, &values("new", count)));
    let rule = "rule_violation: sticker_tags.values: sets:";
    assert_eq!(refused(0), format!("{rule} 0 documents, a set has 1 to 50"));
    assert_eq!(refused(51), format!("{rule} 51 documents, a set has 1 to 50"));
    assert_eq!(refused(1001), "limit_exceeded: operations of a batch: 1001, at most 1000 allowed");
    assert_eq!(database.entries(), entries);
    assert_eq!(refused(50), "ok");
}

#[test]
fn s12_repeated_values_are_stored_once() {
    let database = stickers();
    let twice = ["hello", "there", "hello"].map(str::to_owned);
    assert_eq!(replace(&database, PLACE, &twice).unwrap().len(), 2);
    assert_eq!(stored(&database, PLACE), set(&twice));
    let many: Vec<String> = (0..100).map(|place| format!("value {}", place % 50)).collect();
    assert_eq!(code(replace(&database, PLACE, &many)), "ok", "fifty different ones");
    database.assert_sound();
}

#[test]
fn one_key_with_two_different_data_is_no_repetition() {
    let database = stickers();
    let leading = [json!("u1"), json!("f1")];
    let data = |set: &str| {
        json!({"author": "u1", "file": "f1", "value": "x", "set": set}).to_string().into_bytes()
    };
    let documents = [data("s1"), data("s2")];
    let replacement = SetReplacement {
        collection: "sticker_tags",
        set: "values",
        leading: &leading,
        documents: &documents,
    };
    let refused = code(block_on(database.engine.replace_set(&Actor::Local, &replacement)));
    assert_eq!(
        refused,
        "invalid_argument: operation 1: `u1#f1#x` stands twice in the set with different data"
    );
    assert_eq!(database.entries(), []);
}

#[test]
fn what_is_drawn_for_a_document_does_not_tell_repetitions_apart() {
    let database = Database::new(
        "[collections.sticker_tags]\nkey = \"{author}#{file}#{value}\"\n\
         fields.author = { type = \"id\", required = true }\n\
         fields.file = { type = \"id\", required = true }\n\
         fields.value = { type = \"text\", required = true, length = { max = 9 } }\n\
         fields.id = { type = \"ulid\", generate = \"ulid\" }\n\
         sets.values = { by = [\"author\", \"file\"], max = 2 }\n",
    );
    let twice = ["x", "x"].map(str::to_owned);
    assert_eq!(replace(&database, PLACE, &twice).unwrap().len(), 1);
    assert_eq!(replace(&database, PLACE, &twice).unwrap(), [], "the drawn value is kept");
}

#[test]
fn what_a_set_keeps_is_not_written_again() {
    let database = stickers();
    replace(&database, PLACE, &values("v", 3)).unwrap();
    let kept = database.get("sticker_tags", "u1#f1#v 1").unwrap();
    database.faults.reset();
    assert_eq!(replace(&database, PLACE, &values("v", 3)).unwrap(), []);
    assert_eq!(database.faults.counts().commits, 0);
    let written = replace(&database, PLACE, &["v 1".to_owned(), "new".to_owned()]).unwrap();
    let deleted = written.iter().filter(|w| matches!(w, Written::Deleted { .. })).count();
    let created = written.iter().filter(|w| matches!(w, Written::Created(_))).count();
    assert_eq!((deleted, created), (2, 1));
    assert_eq!(database.get("sticker_tags", "u1#f1#v 1"), Some(kept));
    database.assert_sound();
}

#[test]
fn a_replacement_touches_no_other_set() {
    let database = stickers();
    for place in [("u1", "f1"), ("u1", "f10"), ("u10", "f1"), ("u", "f1")] {
        replace(&database, place, &["same".to_owned()]).unwrap();
    }
    replace(&database, PLACE, &["new".to_owned()]).unwrap();
    assert_eq!(stored(&database, PLACE), set(&["new".to_owned()]));
    assert_eq!(database.count("sticker_tags"), 4);
    database.assert_sound();
}

#[test]
fn s17_a_separator_inside_an_id_never_makes_two_keys_meet() {
    let database = stickers();
    let create = |author: &str, file: &str| {
        let data = json!({"author": author, "file": file, "value": "v"});
        database.create("sticker_tags", &data).unwrap()
    };
    let (one, other) = (create("a#b", "c"), create("a", "b#c"));
    assert_eq!((one.key.as_str(), other.key.as_str()), ("a%23b#c#v", "a#b%23c#v"));
    assert_eq!(database.get("sticker_tags", &one.key), Some(one));
    assert_eq!(database.get("sticker_tags", &other.key), Some(other));
    replace(&database, ("a#b", "c"), &["new".to_owned()]).unwrap();
    assert_eq!(stored(&database, ("a", "b#c")), set(&["v".to_owned()]));
    database.assert_sound();
}

#[test]
fn s23_what_is_written_is_found_at_once() {
    let database = stickers();
    for round in 0..50 {
        let value = format!("value {round}");
        replace(&database, PLACE, std::slice::from_ref(&value)).unwrap();
        assert!(database.get("sticker_tags", &format!("u1#f1#{value}")).is_some());
        assert_eq!(database.keys(Space::Index).len(), 3, "value, author_value, file_value");
    }
}

#[test]
fn a_replacement_that_makes_no_sense_is_refused_by_name() {
    let database = stickers();
    let run = |collection: &str, set: &str, leading: &[Json], document: Vec<u8>| {
        let documents = [document];
        let replacement = SetReplacement { collection, set, leading, documents: &documents };
        code(block_on(database.engine.replace_set(&Actor::Local, &replacement)))
    };
    let place = [json!("u1"), json!("f1")];
    let good = member("u1", "f1", "v");
    let tags = "sticker_tags";
    assert!(run("tags", "values", &place, good.clone()).starts_with("not_found: there is no"));
    for (actual, expected) in [
        (run(tags, "value", &place, good.clone()), "`sticker_tags` has no set `value`"),
        (run(tags, "values", &place[..1], good.clone()), "set `values` is named by author, file"),
        (run(tags, "values", &[json!("u1"), json!(7)], good), "`file`: 7 is not an id"),
        (
            run(tags, "values", &place, member("u2", "f1", "v")),
            "operation 0: the document does not belong to the set that is replaced",
        ),
        (run(tags, "values", &place, b"{".to_vec()), "operation 0: data: EOF while parsing"),
    ] {
        assert!(actual.starts_with(&format!("invalid_argument: {expected}")), "{actual}");
    }
    let broken = run(tags, "values", &place, member("u1", "f1", ""));
    assert!(broken.starts_with("rule_violation: operation 0: sticker_tags.value: length: 0"));
    assert_eq!(database.entries(), []);
}

#[test]
fn a_member_whose_key_a_default_completes_is_the_stored_one() {
    let database = Database::new(
        r#"
        [collections.notes]
        key = "note:{author}:{file}:{lang}"
        sets = { of_author = { by = ["author"], max = 10 } }
        fields.author = { type = "id", required = true }
        fields.file = { type = "id", required = true }
        fields.lang = { type = "enum", values = ["en", "de"], default = "en" }
        fields.text = { type = "id", required = true, frozen = true }
        "#,
    );
    let note = |text: &str| json!({"author": "ann", "file": "f", "text": text});
    let created = database.create_as("ann", "notes", &note("old")).unwrap();
    let replaced = |text: &str| {
        let (leading, documents) = ([json!("ann")], [note(text).to_string().into_bytes()]);
        let (collection, set) = ("notes", "of_author");
        let replacement =
            SetReplacement { collection, set, leading: &leading, documents: &documents };
        block_on(database.engine.replace_set(&Actor::Local, &replacement))
    };
    let refused = code(replaced("new"));
    assert!(refused.contains("notes.text: frozen"), "{refused}");
    assert_eq!(replaced("old").unwrap(), []);
    assert_eq!(database.get("notes", &created.key).unwrap(), created);
    assert_eq!(created.owner.as_deref(), Some("ann"));
    database.assert_sound();
}
