//! Queries over sticker tags: search by the beginning of a value, groups, sets, existence.

use serde_json::{Value as Json, json};

use crate::database::Database;

const SCHEMA: &str = include_str!("../../../../schemas/stickers.toml");

/// S-01.
fn stickers() -> Database {
    let database = Database::open(SCHEMA);
    for (author, file, set, value) in [
        ("u1", "f1", Some("set1"), "hello world"),
        ("u2", "f2", Some("set1"), "hello there"),
        ("u2", "f3", Some("set2"), "there it is"),
        ("u1", "f4", None, "reuse 1"),
        ("u2", "f4", None, "reuse 2"),
        ("u2", "f5", None, "setless file"),
    ] {
        let mut tag = json!({"author": author, "file": file, "value": value});
        if let Some(set) = set {
            tag["set"] = set.into();
        }
        database.put("sticker_tags", &tag);
    }
    database
}

fn files(database: &Database, query: &Json) -> Vec<Json> {
    database.values("sticker_tags", query, "file")
}

fn search(value: &str) -> Json {
    json!({"where": {"value": {"prefix": value}}, "distinct": "file"})
}

#[test]
fn s02_a_search_finds_all_or_only_own() {
    let database = stickers();
    assert_eq!(files(&database, &search("hello")), ["f2", "f1"]);
    let own = json!({"where": {"author": "u1", "value": {"prefix": "hello"}}, "distinct": "file"});
    assert_eq!(files(&database, &own), ["f1"]);
}

#[test]
fn s03_a_search_goes_by_the_beginning_of_the_value() {
    let database = stickers();
    assert!(files(&database, &search("hey")).is_empty());
    assert!(files(&database, &search("it is")).is_empty());
}

#[test]
fn s05_a_file_that_two_authors_tagged_comes_once() {
    let database = stickers();
    assert_eq!(files(&database, &search("reuse")), ["f4"]);
    let mut query = search("reuse");
    query["order"] = "-value".into();
    let page = database.query("sticker_tags", &query);
    assert_eq!(crate::database::value_of(page.items.get(0).unwrap(), "value"), "reuse 2");
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.plan.probe(), Some("index:file_value"));
    assert_eq!(database.count("sticker_tags", &search("reuse")).count, 1);
}

#[test]
fn s05_without_the_second_path_it_is_named() {
    let without =
        SCHEMA.lines().filter(|line| !line.starts_with("file_value ")).collect::<Vec<_>>();
    let without = without.join("\n");
    let database = Database::open(&without);
    let refused = database.refused("sticker_tags", &search("reuse"));
    assert_eq!(
        refused.suggest.as_deref().unwrap(),
        "sticker_tags:file_value:{file}:{value}:{author}"
    );
    database.apply(&format!("{without}\nadded = \"{}\"\n", refused.suggest.as_deref().unwrap()));
    database.query("sticker_tags", &search("reuse"));
}

#[test]
fn s06_a_file_without_a_set_is_found() {
    assert_eq!(files(&stickers(), &search("set")), ["f5"]);
}

#[test]
fn s07_tagged_in_a_set_by_anyone_or_by_one_author() {
    let database = stickers();
    let in_set = |filter: Json| json!({"where": filter, "distinct": "file"});
    assert_eq!(files(&database, &in_set(json!({"set": "set1"}))), ["f1", "f2"]);
    assert_eq!(files(&database, &in_set(json!({"set": "set1", "author": "u1"}))), ["f1"]);
    assert!(files(&database, &in_set(json!({"set": "nowhere"}))).is_empty());
}

#[test]
fn s07_groups_are_jumped_over_and_not_read() {
    let database = Database::open(SCHEMA);
    for file in 0..5 {
        for value in 0..20 {
            let (file, value) = (format!("f{file}"), format!("v{value:02}"));
            let tag = json!({"author": "u", "file": file, "value": value, "set": "s"});
            database.put("sticker_tags", &tag);
        }
    }
    let query = json!({"where": {"set": "s"}, "distinct": "file"});
    let page = database.query("sticker_tags", &query);
    assert_eq!((page.items.len(), page.cost.keys_read), (5, 5));
    let mut paged = query.clone();
    paged["limit"] = 2.into();
    assert_eq!(database.query("sticker_tags", &paged).cost.keys_read, 3);
    assert_eq!(files(&database, &paged), ["f0", "f1", "f2", "f3", "f4"]);
    paged["order"] = "-file".into();
    assert_eq!(files(&database, &paged), ["f4", "f3", "f2", "f1", "f0"]);
    let counted = database.count("sticker_tags", &query);
    assert_eq!((counted.count, counted.cost.keys_read), (5, 5));
}

#[test]
fn groups_of_several_ranges_come_once_each() {
    let database = Database::open(SCHEMA);
    for (set, file) in [("a", "f1"), ("b", "f1"), ("b", "f2"), ("a", "f3"), ("c", "f0")] {
        let value = format!("{set}{file}");
        database
            .put("sticker_tags", &json!({"author": "u", "file": file, "value": value, "set": set}));
    }
    let query = json!({"where": {"set": {"in": ["a", "b"]}}, "distinct": "file", "limit": 1});
    assert_eq!(files(&database, &query), ["f1", "f2", "f3"]);
    let union = json!({"any": [{"set": "a"}, {"set": "c"}], "distinct": "file", "limit": 1});
    assert_eq!(files(&database, &union), ["f0", "f1", "f3"]);
    let some = json!({"where": {"set": "b", "file": {"in": ["f2", "f3"]}}, "distinct": "file"});
    assert_eq!(files(&database, &some), ["f2"]);
    let from = json!({"where": {"set": "b", "file": {"gte": "f2"}}, "distinct": "file"});
    assert_eq!(files(&database, &from), ["f2"]);
}

#[test]
fn s14_queries_of_one_and_two_characters_work() {
    let database = stickers();
    assert_eq!(files(&database, &search("h")), ["f2", "f1"]);
    assert_eq!(files(&database, &search("re")), ["f4"]);
    assert_eq!(files(&database, &search("")).len(), 5);
}

#[test]
fn s15_a_page_of_a_common_beginning_reads_one_key_more_than_it_returns() {
    let database = Database::open(SCHEMA);
    for number in 0..200 {
        let value = format!("the {number}");
        database.put("sticker_tags", &json!({"author": "u", "file": "f", "value": value}));
    }
    let query = json!({"where": {"value": {"prefix": "the"}}, "limit": 50});
    assert_eq!(database.query("sticker_tags", &query).cost.keys_read, 51);
    assert_eq!(database.values("sticker_tags", &query, "value").len(), 200);
}

#[test]
fn s16_whether_anything_is_tagged_is_one_key() {
    let database = stickers();
    for (filter, expected) in [
        (json!({"set": "set1"}), true),
        (json!({"set": "set1", "author": "u2"}), true),
        (json!({"set": "set2", "author": "u1"}), false),
    ] {
        let existence = database.exists("sticker_tags", &json!({"where": filter}));
        assert_eq!(existence.exists, expected, "{filter}");
        assert_eq!(existence.cost.keys_read, u64::from(expected));
        assert_eq!(existence.cost.documents_read, 0);
    }
}

#[test]
fn s22_special_characters_are_literal() {
    let database = stickers();
    for value in ["100%", "a_b", "back\\slash", "num#ber"] {
        database.put("sticker_tags", &json!({"author": "u1", "file": "f9", "value": value}));
    }
    for (query, expected) in [("%", 0), ("_", 0), ("\\", 0), ("#", 0)] {
        assert_eq!(files(&database, &search(query)).len(), expected, "{query}");
    }
    for query in ["100%", "a_", "back\\", "num#"] {
        assert_eq!(files(&database, &search(query)), ["f9"], "{query}");
    }
}

#[test]
fn s23_what_was_written_is_found_at_once() {
    let database = stickers();
    database.put("sticker_tags", &json!({"author": "u3", "file": "f7", "value": "hello again"}));
    assert_eq!(files(&database, &search("hello a")), ["f7"]);
}

#[test]
fn documents_without_the_field_of_an_index_are_not_lost_by_it() {
    let database = stickers();
    // The indexes on `set` lack half of the documents, so they cannot list all files.
    let page = database.query("sticker_tags", &json!({"distinct": "file"}));
    assert_eq!((page.items.len(), page.plan.path().as_str()), (5, "index:file_value"));
    let error = database.error("sticker_tags", &json!({"distinct": "set"}));
    assert!(error.contains("documents without it"), "{error}");
}
