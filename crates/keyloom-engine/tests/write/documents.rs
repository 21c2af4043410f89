//! One document: create, put, patch, delete, get.

use keyloom_engine::{Action, Actor, Document, Error, Mode, Precondition, Written};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{APPROVALS, Database, Seconds, action, code};

const NOTES: &str = r#"
[collections.notes]
key = "note:{name}"
access = { read = "public", write = "public" }

[collections.notes.fields]
name  = { type = "id", required = true }
text  = { type = "text", length = { min = 1, max = 5 } }
title = { type = "text", default = "untitled" }
id    = { type = "ulid", generate = "ulid" }
at    = { type = "millis", generate = "now" }
more  = { type = "json" }
"#;

fn notes() -> Database {
    Database::new(NOTES)
}

fn put(
    database: &Database,
    user: &str,
    precondition: Precondition,
    description: Option<&str>,
) -> Result<Written, Error> {
    let action = Action::Put {
        key: "note:a".to_owned(),
        precondition,
        data: br#"{"name":"a","text":"new"}"#.to_vec(),
        description: description.map(str::to_owned),
    };
    block_on(database.engine.execute(&Actor::User(user.to_owned()), "notes", action))
}

fn data(document: &Document) -> Json {
    serde_json::from_slice(&document.data).unwrap()
}

#[test]
fn j01_setting_an_absent_key_without_a_version_creates_it_for_the_caller() {
    let database = notes();
    let written = put(&database, "ann", Precondition::Unsaid, Some("first")).unwrap();
    let Written::Created(created) = written else { panic!("{written:?}") };
    assert_eq!(created.owner.as_deref(), Some("ann"));
    assert_eq!(created.description.as_deref(), Some("first"));
    assert_eq!(created.created_at, created.updated_at);
    assert_eq!(created.created_at, database.system.now_millis());
    assert_eq!(database.get("notes", "note:a"), Some(created));
    assert_eq!(database.count("notes"), 1);
    database.assert_sound();
}

#[test]
fn j02_setting_an_existing_key_without_a_version_is_refused() {
    let database = notes();
    let created = put(&database, "ann", Precondition::Unsaid, None).unwrap().into_document();
    let refused = code(put(&database, "ann", Precondition::Unsaid, None));
    assert!(refused.starts_with("precondition_required: `note:a` exists at version 1700"));
    let refused = code(put(&database, "ann", Precondition::Absent, None));
    assert!(refused.starts_with("version_conflict"), "{refused}");
    assert_eq!(database.get("notes", "note:a"), created);
}

#[test]
fn j03_a_wrong_version_is_a_conflict_that_carries_both() {
    let database = notes();
    let created = put(&database, "ann", Precondition::Unsaid, None).unwrap().into_document();
    let version = created.as_ref().unwrap().version;
    let refused = put(&database, "ann", Precondition::Version(version - 1), None).unwrap_err();
    let Error::VersionConflict { key, expected, stored } = &refused else { panic!("{refused}") };
    assert_eq!((key.as_str(), *expected, *stored), ("note:a", Some(version - 1), Some(version)));
    assert_eq!(
        refused.to_string(),
        format!(
            "version conflict on `note:a`: expected version {}, stored version {version}",
            version - 1
        )
    );
    assert_eq!(database.get("notes", "note:a"), created);
}

#[test]
fn j04_the_right_version_replaces_the_document_and_keeps_owner_and_creation() {
    let database = notes();
    let created = put(&database, "ann", Precondition::Unsaid, Some("first")).unwrap();
    let created = created.into_document().unwrap();
    database.system.pass(Seconds(5));
    let written = put(&database, "bob", Precondition::Version(created.version), Some("second"));
    let Written::Updated(second) = written.unwrap() else { panic!("it was there") };
    assert!(second.version > created.version);
    assert_eq!(second.owner.as_deref(), Some("ann"));
    assert_eq!(second.created_at, created.created_at);
    assert_eq!(second.updated_at, created.updated_at + 5000);
    assert_eq!(second.description.as_deref(), Some("second"));
    let third = put(&database, "bob", Precondition::Any, None).unwrap().into_document().unwrap();
    assert_eq!((third.description, third.owner.as_deref()), (None, Some("ann")));
    database.assert_sound();
}

#[test]
fn j05_setting_an_absent_key_at_a_version_creates_nothing() {
    let database = notes();
    let refused = put(&database, "ann", Precondition::Version(7), None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "version conflict on `note:a`: expected version 7, stored none"
    );
    let refused = put(&database, "ann", Precondition::Any, None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "version conflict on `note:a`: expected any version, stored none"
    );
    assert_eq!(database.entries(), []);
    assert_eq!(database.feed(), Vec::<String>::new());
}

#[test]
fn j07_of_two_writers_with_one_version_exactly_one_wins_each_round() {
    let database = notes();
    let mut version =
        put(&database, "ann", Precondition::Unsaid, None).unwrap().document().unwrap().version;
    for round in 0..1000 {
        let won: Vec<u64> = std::thread::scope(|scope| {
            let writers = ["ann", "bob"].map(|user| {
                let database = &database;
                scope.spawn(move || put(database, user, Precondition::Version(version), None))
            });
            let results = writers.map(|writer| writer.join().unwrap());
            results
                .into_iter()
                .filter_map(|result| match result {
                    Ok(written) => Some(written.document().unwrap().version),
                    Err(Error::VersionConflict { expected, stored, .. }) => {
                        assert_eq!(expected, Some(version));
                        assert!(stored > Some(version), "a loser sees the winner");
                        None
                    }
                    Err(other) => panic!("round {round}: {other}"),
                })
                .collect()
        });
        assert_eq!(won.len(), 1, "round {round}");
        version = won[0];
    }
    assert_eq!(database.get("notes", "note:a").unwrap().version, version);
    assert_eq!(database.feed().len(), 1000, "a page of the feed");
    database.assert_sound();
}

#[test]
fn j08_deleting_an_absent_document_has_no_effect_whatever_the_precondition() {
    let database = notes();
    for precondition in [Precondition::Unsaid, Precondition::Version(7), Precondition::Any] {
        let done = database.execute("notes", action::delete("note:a", precondition)).unwrap();
        assert_eq!(done, Written::Absent { key: "note:a".to_owned() });
    }
    assert_eq!(database.entries(), []);
}

#[test]
fn j08_deleting_with_a_wrong_version_or_none_leaves_the_document() {
    let database = notes();
    let created = database.create("notes", &json!({"name": "a"})).unwrap();
    let delete = |precondition| database.execute("notes", action::delete("note:a", precondition));
    assert!(code(delete(Precondition::Unsaid)).starts_with("precondition_required"));
    let wrong = Precondition::Version(created.version + 1);
    assert!(code(delete(wrong)).starts_with("version_conflict"));
    assert!(code(delete(Precondition::Absent)).starts_with("version_conflict"));
    assert_eq!(database.get("notes", "note:a"), Some(created.clone()));
    let deleted = delete(Precondition::Version(created.version)).unwrap();
    let Written::Deleted { key, version } = deleted else { panic!("{deleted:?}") };
    assert_eq!(key, "note:a");
    assert!(version > created.version);
    assert_eq!((database.get("notes", "note:a"), database.count("notes")), (None, 0));
    database.assert_sound();
}

#[test]
fn j11_get_many_keeps_the_order_with_repeated_and_missing_keys() {
    let database = notes();
    let a = database.create("notes", &json!({"name": "a"})).unwrap();
    let b = database.create("notes", &json!({"name": "b"})).unwrap();
    let keys = ["note:b", "note:x", "note:a", "note:b"];
    let found = block_on(database.engine.get_many(&Actor::Local, "notes", &keys)).unwrap();
    assert_eq!(found, [Some(b.clone()), None, Some(a), Some(b)]);
    assert_eq!(block_on(database.engine.get_many(&Actor::Local, "notes", &[])).unwrap(), []);
    let malformed =
        block_on(database.engine.get_many(&Actor::Local, "notes", &["note:a", "nota:b"]));
    assert!(code(malformed).starts_with("invalid_argument"));
}

#[test]
fn j26_collections_whose_names_begin_alike_do_not_leak_into_each_other() {
    let names = ["a", "ab", "a-b"];
    let schema: String = names
        .iter()
        .map(|name| {
            format!(
                "[collections.{name}]\nkey = \"{{id}}\"\nunique = {{ v = \"{{v}}\" }}\n\
                 indexes = {{ v = \"{{v}}:{{id}}\" }}\n[collections.{name}.fields]\n\
                 id = {{ type = \"id\", required = true }}\nv = {{ type = \"id\" }}\n"
            )
        })
        .collect();
    let database = Database::new(&schema);
    for name in names {
        // Keys and claims are the same in all three.
        database.create(name, &json!({"id": "-b", "v": "b"})).unwrap();
    }
    database.delete("a", "-b").unwrap();
    assert_eq!(names.map(|name| database.count(name)), [0, 1, 1]);
    assert_eq!(names.map(|name| database.get(name, "-b").is_some()), [false, true, true]);
    let held = names.map(|name| database.lookup(name, "v", "b").is_some());
    assert_eq!(held, [false, true, true]);
    database.assert_sound();
}

#[test]
fn j32_an_unknown_collection_is_named_together_with_those_that_exist() {
    let database = notes();
    let expected = "not_found: there is no collection `nots`; there are: notes";
    assert_eq!(code(block_on(database.engine.get(&Actor::Local, "nots", "note:a"))), expected);
    assert_eq!(
        code(block_on(database.engine.get_many(&Actor::Local, "nots", &["note:a"]))),
        expected
    );
    assert_eq!(code(block_on(database.engine.lookup(&Actor::Local, "nots", "x", &[]))), expected);
    assert_eq!(code(block_on(database.engine.collection(&Actor::Local, "nots"))), expected);
    assert_eq!(code(database.create("nots", &json!({}))), expected);
    assert_eq!(code(database.delete("nots", "note:a")), expected);
    let empty = Database::empty(Mode::Development);
    assert_eq!(
        code(empty.create("notes", &json!({}))),
        "not_found: there is no collection `notes`; there are: none yet, apply a schema first"
    );
}

#[test]
fn j34_text_is_counted_in_characters_at_the_limit_and_one_above() {
    let database = notes();
    let create = |name: &str, text: &str| {
        code(database.create("notes", &json!({"name": name, "text": text})))
    };
    for (place, text) in ["a", "abcde", "äöüßé", "日本語の字", "👍👍👍👍👍"].iter().enumerate()
    {
        assert_eq!(create(&format!("n{place}"), text), "ok", "{text}");
    }
    for text in ["abcdef", "äöüßéà", "日本語の字体", "👍👍👍👍👍👍"] {
        let expected =
            "rule_violation: notes.text: length: 6 characters, at most 5 allowed".to_owned();
        assert_eq!(create("x", text), expected, "{text}");
    }
    let empty = "rule_violation: notes.text: length: 0 characters, at least 1 needed";
    assert_eq!(create("x", ""), empty);
    assert_eq!(database.count("notes"), 5);
}

#[test]
fn a_key_that_the_caller_names_must_be_the_key_of_the_data() {
    let database = notes();
    let create = |key: &str| {
        let (key, data) = (Some(key.to_owned()), br#"{"name":"a"}"#.to_vec());
        code(database.execute("notes", Action::Create { key, data, description: None }))
    };
    assert_eq!(
        create("note:b"),
        "invalid_argument: key `note:b` is not the key of the data, which is `note:a`"
    );
    assert!(create("nota:b").starts_with("invalid_argument"));
    let put = action::put("note:b", Precondition::Unsaid, &json!({"name": "a"}));
    assert!(code(database.execute("notes", put)).contains("not the key of the data"));
    assert_eq!(database.entries(), []);
    assert_eq!(create("note:a"), "ok");
}

#[test]
fn generated_values_and_defaults_fill_what_the_caller_leaves_out() {
    let database = notes();
    let created = database.create("notes", &json!({"name": "a", "id": null})).unwrap();
    let filled = data(&created);
    assert_eq!(filled["title"], "untitled");
    assert_eq!(filled["at"], database.system.now_millis());
    assert_eq!(filled["id"].as_str().unwrap().len(), 26);
    let given = json!({"name": "b", "title": "t", "at": -5, "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    assert_eq!(data(&database.create("notes", &given).unwrap()), given);
}

#[test]
fn generated_values_are_kept_when_a_replacement_leaves_them_out() {
    let database = notes();
    let before = data(&database.create("notes", &json!({"name": "a", "title": "t"})).unwrap());
    database.system.pass(Seconds(5));
    let put = action::put("note:a", Precondition::Any, &json!({"name": "a", "at": null}));
    let after = database.execute("notes", put).unwrap().into_document().unwrap();
    let after = data(&after);
    assert_eq!((&after["id"], &after["at"]), (&before["id"], &before["at"]));
    assert_eq!(after["title"], "untitled", "a default is for what is left out");
}

#[test]
fn the_data_is_stored_byte_by_byte_as_it_came_and_what_is_added_stands_behind() {
    let database = Database::new(
        "[collections.raw]\nkey = \"{id}\"\n[collections.raw.fields]\n\
         id = { type = \"id\", required = true }\nn = { type = \"number\" }\n\
         d = { type = \"i64\", default = 7 }\n",
    );
    let raw = br#" {"n" : 1.10e2 , "id":"\u0061"}  "#;
    let created = block_on(database.engine.create(&Actor::Local, "raw", raw)).unwrap();
    assert_eq!(created.key, "a");
    let text = String::from_utf8(created.data.clone()).unwrap();
    assert_eq!(text, r#"{"n" : 1.10e2 , "id":"\u0061","d":7}"#);
    assert_eq!(database.get("raw", "a"), Some(created));
}

#[test]
fn a_patch_merges_and_keeps_what_it_does_not_name() {
    let database = notes();
    let more = json!({"x": {"y": 1, "z": [1, 2]}, "w": 1});
    let created =
        database.create("notes", &json!({"name": "a", "text": "t", "more": more})).unwrap();
    let patch = json!({"text": null, "title": "new", "more": {"x": {"y": null, "q": 2}}});
    let patched = database.patch("notes", &created, &patch).unwrap();
    let found = data(&patched);
    assert_eq!(found["more"], json!({"x": {"z": [1, 2], "q": 2}, "w": 1}));
    assert_eq!((found["title"].as_str(), found.get("text")), (Some("new"), None));
    assert_eq!(found["id"], data(&created)["id"]);
    let kept = database.patch("notes", &patched, &json!({"title": null, "id": null})).unwrap();
    assert_eq!(data(&kept)["title"], "untitled");
    assert_eq!(data(&kept)["id"], data(&created)["id"]);
}

#[test]
fn a_patch_needs_a_document_a_precondition_and_an_object() {
    let database = notes();
    let patch = |precondition, patch: &Json| {
        code(database.execute("notes", action::patch("note:a", precondition, patch)))
    };
    let missing = "not_found: `note:a` does not exist in `notes`";
    assert_eq!(patch(Precondition::Any, &json!({})), missing);
    let created = database.create("notes", &json!({"name": "a"})).unwrap();
    assert!(patch(Precondition::Unsaid, &json!({})).starts_with("precondition_required"));
    assert!(patch(Precondition::Version(1), &json!({})).starts_with("version_conflict"));
    assert!(patch(Precondition::Any, &json!([1])).contains("expected a JSON object"));
    assert!(patch(Precondition::Any, &json!({"nme": 1})).contains("notes.nme: unknown"));
    assert_eq!(database.get("notes", "note:a"), Some(created));
}

#[test]
fn a_patch_keeps_the_description_and_the_owner() {
    let database = notes();
    let created = put(&database, "ann", Precondition::Unsaid, Some("why")).unwrap();
    let patched =
        database.patch("notes", created.document().unwrap(), &json!({"text": "x"})).unwrap();
    assert_eq!(patched.description.as_deref(), Some("why"));
    assert_eq!(patched.owner.as_deref(), Some("ann"));
}

#[test]
fn an_update_that_changes_the_key_moves_the_document_in_one_commit() {
    let database = notes();
    let created = database.create("notes", &json!({"name": "a"})).unwrap();
    database.faults.reset();
    let moved = database.patch("notes", &created, &json!({"name": "b"})).unwrap();
    assert_eq!(database.faults.counts().commits, 1);
    assert_eq!(moved.key, "note:b");
    assert!(moved.version > created.version);
    assert_eq!(moved.created_at, created.created_at);
    assert_eq!(database.get("notes", "note:a"), None);
    assert_eq!(database.get("notes", "note:b"), Some(moved));
    assert_eq!(
        database.feed(),
        ["created notes note:a", "deleted notes note:a", "created notes note:b"]
    );
    assert_eq!(database.count("notes"), 1);
    database.assert_sound();
}

#[test]
fn a_document_cannot_move_onto_another_one() {
    let database = notes();
    let a = database.create("notes", &json!({"name": "a"})).unwrap();
    let b = database.create("notes", &json!({"name": "b"})).unwrap();
    database.faults.reset();
    let refused = code(database.patch("notes", &a, &json!({"name": "b"})));
    assert_eq!(refused, "unique_violation: key `note:b` is taken in `notes`");
    assert_eq!(database.faults.counts().commits, 1, "nothing is gained by trying again");
    assert_eq!(database.get("notes", "note:a"), Some(a));
    assert_eq!(database.get("notes", "note:b"), Some(b));
    database.assert_sound();
}

#[test]
fn the_store_is_left_alone_until_a_document_is_valid() {
    let database = Database::new(APPROVALS);
    database.faults.reset();
    for data in [json!({}), json!([]), json!({"requester": 1, "approver": "b"})] {
        assert!(database.create("approvals", &data).is_err());
    }
    assert_eq!(database.faults.counts().calls(), 0);
}
