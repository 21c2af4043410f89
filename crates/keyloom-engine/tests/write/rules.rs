//! The rules that a schema states, each by an example that breaks it and one that does not.

use serde_json::{Value as Json, json};

use crate::support::{Database, code};

const SCHEMA: &str = r#"
[collections.all]
key = "{id}"

[collections.all.fields]
id     = { type = "id", required = true }
ulid   = { type = "ulid" }
uuid   = { type = "uuid" }
name   = { type = "name" }
text   = { type = "text", pattern = "a+|b" }
at     = { type = "millis" }
count  = { type = "u64" }
sum    = { type = "i64", values = [-1, 1] }
flag   = { type = "bool" }
number = { type = "number" }
any    = { type = "json" }
tags   = { type = "text[]", elements = { min = 1, max = 2 }, length = { max = 3 } }
scores = { type = "number[]", elements = { max = 3 } }
days   = { type = "enum[]", values = ["mon", "tue"] }
one    = { type = "id", differs_from = "other" }
other  = { type = "id" }
fixed  = { type = "text", frozen = true }

[collections.all.fields.state]
type = "enum"
values = ["open", "busy", "done", "lost"]
default = "open"
transitions = { open = ["busy", "lost"], busy = ["open", "done"], lost = ["lost"] }

[collections.all.freeze]
when = { state = ["done", "lost"], flag = "true" }
except = ["number"]
"#;

/// What happens when a document with these members is created.
#[track_caller]
fn check(members: &Json, expected: &str) {
    let database = Database::new(SCHEMA);
    let mut data = json!({"id": "a"});
    data.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    assert_eq!(code(database.create("all", &data)), expected, "{members}");
    assert_eq!(database.count("all"), u64::from(expected == "ok"));
}

/// What happens when a document with the first members gets the second ones.
#[track_caller]
fn check_change(before: &Json, patch: &Json, expected: &str) {
    let database = Database::new(SCHEMA);
    let mut data = json!({"id": "a"});
    data.as_object_mut().unwrap().extend(before.as_object().unwrap().clone());
    let created = database.create("all", &data).unwrap();
    let patched = database.patch("all", &created, patch);
    let unchanged = database.get("all", "a") == Some(created);
    assert_eq!(code(patched), expected, "{patch}");
    assert_eq!(unchanged, expected != "ok");
    database.assert_sound();
}

#[test]
fn a_field_that_is_required_must_be_there_and_not_null() {
    let database = Database::new(SCHEMA);
    for data in [json!({}), json!({"id": null})] {
        let expected = "rule_violation: all.id: required: it is missing";
        assert_eq!(code(database.create("all", &data)), expected);
    }
}

#[test]
fn a_field_that_the_schema_does_not_know_is_refused() {
    check(&json!({"nme": 1}), "rule_violation: all.nme: unknown: the schema has no such field");
    check(&json!({"ID": "a"}), "rule_violation: all.ID: unknown: the schema has no such field");
}

#[test]
fn values_of_the_wrong_type_are_refused_with_what_was_found() {
    let whole = "is not a whole number of 64 bits";
    for (field, value, detail) in [
        ("id", json!(1), "1 is not text".to_owned()),
        ("text", json!(["a"]), "[\"a\"] is not text".to_owned()),
        ("at", json!("7"), format!("\"7\" {whole}")),
        ("at", json!(1.5), format!("1.5 {whole}")),
        ("sum", json!(9_223_372_036_854_775_808_u64), format!("9223372036854775808 {whole}")),
        ("count", json!(-1), "-1 is not a whole number from 0 to 2^64 - 1".to_owned()),
        ("flag", json!("true"), "\"true\" is not true or false".to_owned()),
        ("flag", json!(0), "0 is not true or false".to_owned()),
        ("number", json!("1"), "\"1\" is not a number".to_owned()),
        ("scores", json!([1, "2"]), "\"2\" is not a number".to_owned()),
        ("scores", json!(1), "1 is not an array".to_owned()),
        ("tags", json!("a"), "\"a\" is not an array".to_owned()),
        ("tags", json!({}), "{} is not an array".to_owned()),
        ("tags", json!([1]), "1 is not text".to_owned()),
        ("days", json!(["sun"]), "\"sun\" is not one of the words mon, tue".to_owned()),
        (
            "state",
            json!("OPEN"),
            "\"OPEN\" is not one of the words open, busy, done, lost".to_owned(),
        ),
    ] {
        let expected = format!("rule_violation: all.{field}: type: {detail}");
        check(&json!({ field: value }), &expected);
    }
}

#[test]
fn values_of_the_right_type_are_taken_up_to_the_ends_of_their_range() {
    for members in [
        json!({"at": i64::MIN, "count": u64::MAX, "sum": -1}),
        json!({"at": i64::MAX, "count": 0, "sum": 1}),
        json!({"flag": true, "number": -1.5e300, "any": {"x": [null]}, "scores": []}),
        json!({"tags": ["a", "bcd"], "days": ["tue", "mon", "tue"], "scores": [1, 2.5]}),
        json!({"ulid": "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "name": "User-1"}),
        json!({"uuid": "67e5504410b1426f9247bb680e5fe0c8", "text": "aaa"}),
        json!({"ulid": null, "tags": null, "state": null}),
    ] {
        check(&members, "ok");
    }
}

#[test]
fn a_long_value_is_cut_in_the_message() {
    let database = Database::new(SCHEMA);
    let long = "é".repeat(5000);
    let refused = code(database.create("all", &json!({"id": "a", "at": long})));
    assert!(refused.chars().count() < 150 && refused.contains('…'), "{refused}");
}

#[test]
fn a_pattern_must_match_the_whole_text() {
    check(&json!({"text": "b"}), "ok");
    for text in ["ab", "ba", "", "aab"] {
        let expected = "rule_violation: all.text: pattern: it does not match a+|b";
        check(&json!({ "text": text }), expected);
    }
}

#[test]
fn only_listed_values_are_taken() {
    let expected = "rule_violation: all.sum: values: 0 is not one of -1, 1";
    check(&json!({"sum": 0}), expected);
}

#[test]
fn arrays_are_bounded_and_so_are_the_texts_in_them() {
    let elements = "rule_violation: all.tags: elements:";
    check(&json!({"tags": []}), &format!("{elements} 0 elements, at least 1 needed"));
    check(&json!({"tags": ["a", "b", "c"]}), &format!("{elements} 3 elements, at most 2 allowed"));
    let scores = "rule_violation: all.scores: elements: 4 elements, at most 3 allowed";
    check(&json!({"scores": [1, 2, 3, 4]}), scores);
    let length = "rule_violation: all.tags: length: 4 characters, at most 3 allowed";
    check(&json!({"tags": ["a", "bcde"]}), length);
}

#[test]
fn a_field_must_differ_from_another_one() {
    check(&json!({"one": "x", "other": "y"}), "ok");
    check(&json!({"one": "x"}), "ok");
    let expected = "rule_violation: all.one: differs_from: it is the same as `other`";
    check(&json!({"one": "x", "other": "x"}), expected);
    check_change(&json!({"one": "x", "other": "y"}), &json!({"other": "x"}), expected);
}

#[test]
fn a_frozen_field_never_changes_appears_or_vanishes() {
    let expected = "rule_violation: all.fixed: frozen: it never changes after create";
    check_change(&json!({"fixed": "a"}), &json!({"fixed": "b"}), expected);
    check_change(&json!({"fixed": "a"}), &json!({"fixed": null}), expected);
    check_change(&json!({}), &json!({"fixed": "a"}), expected);
    check_change(&json!({"fixed": "a"}), &json!({"fixed": "a", "number": 1}), "ok");
}

#[test]
fn only_listed_transitions_are_made() {
    let rule = "rule_violation: all.state: transitions:";
    check_change(&json!({}), &json!({"state": "busy"}), "ok");
    check_change(&json!({"state": "busy"}), &json!({"state": "done"}), "ok");
    check_change(&json!({"state": "busy"}), &json!({"number": 1}), "ok");
    let expected = format!("{rule} `open` may become busy, lost, not `done`");
    check_change(&json!({}), &json!({"state": "done"}), &expected);
    let expected = format!("{rule} `done` is final, it cannot become `open`");
    check_change(&json!({"state": "done"}), &json!({"state": "open"}), &expected);
    let expected = format!("{rule} `lost` may become lost, not `open`");
    check_change(&json!({"state": "lost"}), &json!({"state": null}), &expected);
}

#[test]
fn a_frozen_document_changes_only_where_the_schema_says() {
    let frozen = json!({"state": "done", "flag": true, "text": "a"});
    check_change(&frozen, &json!({"number": 7}), "ok");
    let rule = "freeze: the document is final, only these may change: number";
    for (field, patch) in [
        ("text", json!({"text": "b"})),
        ("text", json!({"text": null, "number": 1})),
        ("flag", json!({"flag": false})),
        ("any", json!({"any": 1})),
        ("id", json!({"id": "b"})),
    ] {
        check_change(&frozen, &patch, &format!("rule_violation: all.{field}: {rule}"));
    }
}

#[test]
fn a_document_is_frozen_by_all_conditions_together_as_they_were_before() {
    check_change(&json!({"state": "done", "text": "a"}), &json!({"text": "b"}), "ok");
    check_change(&json!({"state": "busy", "flag": true}), &json!({"state": "done"}), "ok");
    check_change(
        &json!({"state": "done", "flag": false}),
        &json!({"flag": true, "text": "b"}),
        "ok",
    );
}

#[test]
fn names_are_compared_as_keys_hold_them_and_kept_as_they_were_written() {
    let database = Database::new(
        "[collections.n]\nkey = \"{name}\"\n\
         fields.name = { type = \"name\", required = true, frozen = true }\n",
    );
    let created = database.create("n", &json!({"name": "JohnDoe"})).unwrap();
    assert_eq!(created.key, "johndoe");
    assert_eq!(created.data, br#"{"name":"JohnDoe"}"#);
    let respelled = database.patch("n", &created, &json!({"name": "JOHNDOE"})).unwrap();
    assert_eq!((respelled.key.as_str(), respelled.version > created.version), ("johndoe", true));
    assert!(code(database.patch("n", &respelled, &json!({"name": "john"}))).contains("frozen"));
}
