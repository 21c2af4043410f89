//! Text of the command line becomes what its field holds, for every type.

use serde_json::{Value as Json, json};

use crate::program::{Database, text};

/// A collection with a field and an index of every type that can stand in a key.
const SCHEMA: &str = r#"
[collections.things]
key = "thing:{id}"

[collections.things.fields]
id     = { type = "u64", required = true }
ulid   = { type = "ulid" }
uuid   = { type = "uuid" }
name   = { type = "name" }
label  = { type = "id" }
title  = { type = "text", length = { max = 50 } }
at     = { type = "millis" }
level  = { type = "i64" }
open   = { type = "bool", default = false }
kind   = { type = "enum", values = ["big", "small"] }
tags   = { type = "text[]", length = { max = 20 } }
weight = { type = "number" }

[collections.things.unique]
level = "level:{level}:{at}"

[collections.things.indexes]
ulid  = "ulid:{ulid}:{id}"
uuid  = "uuid:{uuid}:{id}"
name  = "name:{name}:{id}"
label = "label:{label}:{id}"
title = "title:{title}:{id}"
at    = "at:{at desc}:{id}"
open  = "open:{open}:{id}"
kind  = "kind:{kind}:{id}"
tags  = "tags:{tags[]}:{id}"
"#;

const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const UUID: &str = "67e5504410b1426f9247bb680e5fe0c8";

fn things() -> Database {
    let database = Database::none();
    database.run(&["schema", "apply", &database.file("things.toml", SCHEMA)]).ok();
    let first = json!({
        "id": 7, "ulid": ULID, "uuid": UUID, "name": "John-Doe", "label": "a=b",
        "title": "it is, really", "at": -5, "level": -3, "open": true, "kind": "big",
        "tags": ["red", "round"], "weight": 0.5,
    });
    let second = json!({
        "id": 10, "name": "jane", "label": "c", "title": "other", "at": 86_400_000, "level": 4,
        "open": false, "kind": "small", "tags": ["round"], "weight": 2,
    });
    database.run_with(&["import", "things"], format!("{first}\n{second}\n").as_bytes()).ok();
    database
}

fn ids(page: &Json) -> Vec<u64> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| item["data"]["id"].as_u64().unwrap()).collect()
}

#[test]
fn a_condition_is_read_by_the_type_of_its_field() {
    let database = things();
    let cases: [(&str, &[u64]); 20] = [
        ("id=7", &[7]),
        ("id.gt=7", &[10]),
        ("id.in=10,7", &[7, 10]),
        ("ulid=01ARZ3NDEKTSV4RRFFQ69G5FAV", &[7]),
        ("uuid=67e5504410b1426f9247bb680e5fe0c8", &[7]),
        ("name=JOHN-doe", &[7]),
        ("name.prefix=J", &[10, 7]),
        ("label=a=b", &[7]),
        ("title=it is, really", &[7]),
        ("title.prefix=it is,", &[7]),
        (r#"title.in=["it is, really","nothing"]"#, &[7]),
        ("at=-5", &[7]),
        ("at.lte=1969-12-31T23:59:59.995Z", &[7]),
        ("at.gt=1969-12-31 23:59:59.995", &[10]),
        ("at=1970-01-02", &[10]),
        ("open=true", &[7]),
        ("open.in=false,true", &[10, 7]),
        ("kind=small", &[10]),
        ("tags=round", &[7, 10]),
        ("tags.prefix=re", &[7]),
    ];
    for (condition, expected) in cases {
        let mut found = ids(&database.json(&["query", "things", condition]));
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{condition}");
    }
}

#[test]
fn a_value_that_does_not_fit_its_type_is_refused_with_what_would() {
    let database = things();
    let cases = [
        ("id=-1", "`id`: `-1` is not a number from 0 on"),
        ("id=seven", "`id`: `seven` is not a number from 0 on"),
        ("at=soon", "`at`: `soon` is not a time: write milliseconds, 2026-11-15"),
        ("level=1.5", "`level`: `1.5` is not a whole number"),
        ("open=yes", "`open`: `yes` is not true or false"),
        ("weight=heavy", "`weight`: `heavy` is not a number"),
        ("kind=medium", "big"),
        ("ulid=01", "is not a ULID"),
        ("uuid=67e55044-10b1-426f-9247-bb680e5fe0c8", "UUID"),
    ];
    for (condition, words) in cases {
        database.refuses(&["query", "things", condition], words);
    }
}

#[test]
fn a_claim_of_several_values_is_looked_up_by_their_types() {
    let database = things();
    let found = database.json(&["get", "things", "--unique", "level", "4", "1970-01-02"]);
    assert_eq!(text(&found, "/key"), "thing:10");
    let absent = ["get", "things", "--unique", "level", "4", "1970-01-03"];
    database.refuses(&absent, "`level 4 1970-01-03` does not exist in `things`");
    let wrong = ["get", "things", "--unique", "level", "four", "0"];
    database.refuses(&wrong, "`level`: `four` is not a whole number");
}

#[test]
fn numbers_are_ordered_as_numbers_and_times_shown_as_times() {
    let database = things();
    assert_eq!(ids(&database.json(&["query", "things"])), [7, 10]);
    assert_eq!(ids(&database.json(&["query", "things", "--order", "-id"])), [10, 7]);
    let shown = database.run(&["query", "things", "--select", "at,weight,tags"]).ok();
    let rows: Vec<&str> = shown.lines().skip(1).take(2).collect();
    let first = r#"thing:7   1969-12-31 23:59:59.995  0.5     ["red","round"]"#;
    let second = r#"thing:10  1970-01-02 00:00:00      2       ["round"]"#;
    assert_eq!(rows, [first, second]);
}

#[test]
fn the_number_of_groups_is_counted() {
    let database = things();
    let line = ["count", "things", "--distinct", "open"];
    assert_eq!(database.json(&line)["count"], 2);
}
