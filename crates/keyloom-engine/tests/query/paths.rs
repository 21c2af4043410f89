//! What the kinds of components and indexes serve: arrays, prefixes, shards, times, owners.

use keyloom_engine::Actor;
use keyloom_engine::schema::Schema;
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::database::{Database, read_query, value_of};

const SCHEMA: &str = r#"
[collections.notes]
key = "note:{id}"

[collections.notes.fields]
id    = { type = "u64", required = true }
kind  = { type = "enum", values = ["a", "b", "c"], default = "a" }
title = { type = "text", required = true, length = { max = 40 } }
tags  = { type = "text[]", length = { max = 10 }, elements = { max = 5 } }
at    = { type = "millis", required = true }
body  = { type = "json" }

[collections.notes.indexes]
tags   = "tags:{tags[]}:{id}"
search = "search:{title prefix 3}:{title}:{id}"
short  = "short:{kind}:{title prefix 3}:{id}"
spread = "spread:{id shard 4}:{at}:{id}"
owner  = "owner:{@owner}:{@created_at desc}:{id}"
"#;

fn notes(documents: &[Json]) -> Database {
    let database = Database::open(SCHEMA);
    for (id, document) in documents.iter().enumerate() {
        let mut document = document.clone();
        document["id"] = id.into();
        for (field, value) in [("title", json!("title")), ("at", json!(0))] {
            if document.get(field).is_none() {
                document[field] = value;
            }
        }
        database.put("notes", &document);
    }
    database
}

fn ids(database: &Database, query: &Json) -> Vec<u64> {
    let ids = database.values("notes", query, "id");
    ids.iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn an_element_of_an_array_is_found_by_its_key() {
    let database = notes(&[
        json!({"tags": ["red", "blue"]}),
        json!({"tags": ["redish"]}),
        json!({"tags": []}),
        json!({}),
        json!({"tags": ["blue", "red", "red"]}),
    ]);
    let red = json!({"where": {"tags": "red"}});
    assert_eq!(ids(&database, &red), [0, 4]);
    assert_eq!(database.query("notes", &red).cost.keys_read, 2);
}

#[test]
fn several_elements_bring_a_document_once() {
    let database = notes(&[
        json!({"tags": ["x", "y"]}),
        json!({"tags": ["y"]}),
        json!({"tags": ["z"]}),
        json!({"tags": ["x"]}),
    ]);
    let query = json!({"where": {"tags": {"in": ["x", "y"]}}, "limit": 1});
    assert_eq!(ids(&database, &query), [0, 1, 3]);
    assert_eq!(database.count("notes", &query).count, 3);
}

#[test]
fn a_range_of_elements_brings_a_document_at_its_first_key_in_the_range() {
    let database = notes(&[
        json!({"tags": ["ab", "ac", "b"]}),
        json!({"tags": ["ad", "aa"]}),
        json!({"tags": ["b"]}),
        json!({"tags": ["ac", "ad"]}),
    ]);
    for limit in 1..5 {
        let query = json!({"where": {"tags": {"prefix": "a"}}, "limit": limit});
        assert_eq!(ids(&database, &query), [1, 0, 3], "limit {limit}");
        assert_eq!(database.count("notes", &query).count, 3);
    }
}

#[test]
fn an_order_by_an_array_is_an_error() {
    let error = notes(&[]).error("notes", &json!({"order": "tags"}));
    assert!(error.contains("an array has no place"), "{error}");
}

#[test]
fn a_beginning_longer_than_the_prefix_component_goes_on_in_the_whole_one() {
    let titles = ["hello", "help", "he", "hero", "hel", "hell"];
    let documents: Vec<Json> = titles.iter().map(|title| json!({"title": title})).collect();
    let database = notes(&documents);
    for (prefix, expected) in
        [("hell", &[5, 0][..]), ("hel", &[4, 5, 0, 1]), ("he", &[2, 4, 5, 0, 1, 3]), ("hx", &[])]
    {
        let query = json!({"where": {"title": {"prefix": prefix}}});
        assert_eq!(ids(&database, &query), expected, "{prefix}");
        let page = database.query("notes", &query);
        assert_eq!(page.cost.keys_read, expected.len() as u64);
    }
    assert_eq!(ids(&database, &json!({"where": {"title": "hel"}})), [4]);
    assert_eq!(ids(&database, &json!({"where": {"title": {"in": ["he", "hello"]}}})), [2, 0]);
}

#[test]
fn a_cut_component_alone_serves_only_what_it_can_decide() {
    let database =
        notes(&[json!({"title": "he"}), json!({"title": "hello"}), json!({"title": "help"})]);
    let ask = |title: Json| json!({"where": {"kind": "a", "title": title}});
    assert_eq!(ids(&database, &ask(json!("he"))), [0]);
    assert_eq!(ids(&database, &ask(json!({"prefix": "hel"}))), [1, 2]);
    assert_eq!(database.query("notes", &ask(json!("he"))).plan.path(), "index:short");
    for title in [json!("hel"), json!("hello"), json!({"prefix": "hell"}), json!({"gt": "hello"})] {
        let refused = database.refused("notes", &ask(title));
        assert_eq!(refused.suggest.as_deref().unwrap(), "notes:kind_title:{kind}:{title}:{id}");
    }
}

#[test]
fn buckets_are_merged_back_into_one_order() {
    let documents: Vec<Json> = (0..40).map(|n| json!({"at": (n * 7) % 40})).collect();
    let database = notes(&documents);
    for (order, descending) in [("at", false), ("-at", true)] {
        let query = json!({"order": order, "limit": 6});
        let mut expected: Vec<i64> = (0..40).collect();
        if descending {
            expected.reverse();
        }
        let found = database.values("notes", &query, "at");
        assert_eq!(found, expected.iter().map(|at| json!(at)).collect::<Vec<_>>());
        let page = database.query("notes", &query);
        assert_eq!((page.plan.ranges().len(), page.plan.keys_read_max), (4, 10));
    }
    let range = json!({"where": {"at": {"gte": 10, "lt": 20}}, "order": "at"});
    assert_eq!(database.values("notes", &range, "at").len(), 10);
}

#[test]
fn the_owner_and_the_time_of_creation_are_asked_for_like_fields() {
    let database = Database::open(SCHEMA);
    for id in 0..6_u64 {
        database.clock.set(100 + id);
        let owner = Actor::User(["ann", "ben"][id as usize % 2].to_owned());
        database.put_as(&owner, "notes", &json!({"id": id, "title": "t", "at": 0}), None);
    }
    database.put("notes", &json!({"id": 9, "title": "t", "at": 0}));
    let query = json!({"where": {"@owner": "ann"}, "order": "-@created_at"});
    assert_eq!(ids(&database, &query), [4, 2, 0]);
    let query = json!({"where": {"@owner": "ann", "@created_at": {"lte": 102}}});
    assert_eq!(ids(&database, &query), [2, 0]);
    let query =
        json!({"where": {"@owner": "ben"}, "select": ["@owner", "@created_at"], "limit": 1});
    let page = database.query("notes", &query);
    assert!(page.plan.covering);
    assert_eq!(*page.items.get(0).unwrap().data(), *br#"{"@owner":"ben","@created_at":105}"#);
    let error = database.error("notes", &json!({"order": "@owner"}));
    assert!(error.contains("documents without it"), "{error}");
}

#[test]
fn a_field_that_no_key_can_hold_is_not_asked_for_but_selected() {
    let database = notes(&[json!({"body": {"deep": [1, 2]}})]);
    let error = database.error("notes", &json!({"where": {"body": 1}}));
    assert!(error.contains("`body` has a type that no key can hold"), "{error}");
    let page = database.query("notes", &json!({"select": ["body"]}));
    assert_eq!(value_of(page.items.get(0).unwrap(), "body"), json!({"deep": [1, 2]}));
}

#[test]
fn a_page_of_large_documents_ends_at_its_bytes_and_goes_on() {
    let large = "x".repeat(900_000);
    let documents: Vec<Json> = (0..20).map(|_| json!({"body": large})).collect();
    let database = notes(&documents);
    let page = database.query("notes", &json!({"limit": 100}));
    assert_eq!(page.items.len(), 9);
    assert_eq!(ids(&database, &json!({"limit": 100})), (0..20).collect::<Vec<u64>>());
    let scanned = json!({"where": {"kind": "a"}, "scan": 1000, "limit": 100, "order": "id"});
    assert_eq!(ids(&database, &scanned).len(), 20);
}

#[test]
fn several_points_are_looked_up_at_once() {
    let documents: Vec<Json> = (0..10).map(|_| json!({})).collect();
    let database = notes(&documents);
    let query = json!({"where": {"id": {"in": [7, 3, 99, 5]}}, "limit": 2});
    assert_eq!(ids(&database, &query), [3, 5, 7]);
    let all = json!({"where": {"id": {"in": [7, 3, 99, 5]}}, "order": "-id"});
    assert_eq!(ids(&database, &all), [7, 5, 3]);
    let page = database.query("notes", &all);
    assert_eq!((page.cost.keys_read, page.plan.keys_read_max), (4, 4));
}

#[test]
fn an_index_that_is_still_built_is_named_and_not_read() {
    let database = notes(&[json!({"at": 1}), json!({"at": 2})]);
    let schema = Schema::from_toml(&format!("{SCHEMA}\nat = \"at:{{kind}}:{{at}}:{{id}}\"\n"));
    let schema = schema.unwrap();
    database.store.reset();
    // The first commit declares the index, the second one fills it.
    database.store.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
    block_on(database.engine.apply_schema(&schema, &mut |_| {})).unwrap_err();
    let query = json!({"where": {"kind": "a"}, "order": "at"});
    let refused = database.refused("notes", &query);
    assert_eq!(refused.reason, "`index:at` would, but is still being built");
    database.store.reset();
    block_on(database.engine.apply_schema(&schema, &mut |_| {})).unwrap();
    assert_eq!(ids(&database, &query), [0, 1]);
}

#[test]
fn the_keys_of_a_union_that_asks_for_a_document_key_are_named() {
    let database = notes(&[
        json!({"tags": ["red"], "kind": "b"}),
        json!({"tags": ["red"], "kind": "c"}),
        json!({"kind": "b"}),
    ]);
    let union = json!({"where": {"kind": {"in": ["b", "c"]}},
        "any": [{"tags": "red", "id": 1}, {"kind": "b", "title": "title"}]});
    let mut schema = SCHEMA.to_owned();
    for (name, suggested) in [
        ("by_tag", "notes:kind_tags:{kind}:{tags[]}:{id}"),
        ("by_title", "notes:kind_title:{kind}:{title}:{id}"),
    ] {
        let refused = database.refused("notes", &union);
        assert_eq!(refused.suggest.as_deref().unwrap(), suggested);
        schema.push_str(&format!("{name} = \"{suggested}\"\n"));
        database.apply(&schema);
    }
    assert_eq!(ids(&database, &union), [0, 1, 2]);
}

#[test]
fn whether_there_is_any_group_is_told_by_the_ranges_of_the_groups() {
    let groups = r#"
by_tag   = "kt:{tags[]}:{kind}:{title}:{id}"
by_title = "tk:{title}:{kind}:{title}:{id}"
"#;
    let database = Database::open(&format!("{SCHEMA}{groups}"));
    let union = json!({"any": [{"tags": "red"}, {"title": "title"}], "distinct": "kind"});
    assert!(database.query("notes", &union).items.is_empty());
    assert!(!database.exists("notes", &union).exists);
    let note = json!({"id": 7, "kind": "b", "title": "title", "at": 0});
    database.put("notes", &note);
    let existence = database.exists("notes", &union);
    assert!(existence.exists, "{}", existence.plan);
    assert_eq!(existence.cost.keys_read, 1);
}

#[test]
fn the_condition_of_a_partial_index_names_values_as_toml_has_them() {
    for (when, wanted, other) in [
        ("level = 7", json!({"level": 7}), json!({"level": 8})),
        ("level = [7, -1]", json!({"level": {"in": [-1, 7]}}), json!({"level": {"in": [7, 8]}})),
        ("done = true", json!({"done": true}), json!({"done": false})),
        ("done = \"true\"", json!({"done": true}), json!({"done": false})),
    ] {
        let database = Database::open(&format!(
            r#"
[collections.tasks]
key = "task:{{id}}"

[collections.tasks.fields]
id    = {{ type = "u64", required = true }}
level = {{ type = "i64", required = true }}
done  = {{ type = "bool", required = true }}

[collections.tasks.indexes]
some = {{ key = "some:{{id}}", when = {{ {when} }} }}
"#
        ));
        for (id, level, done) in [(1, 7, true), (2, 8, false), (3, -1, true)] {
            database.put("tasks", &json!({"id": id, "level": level, "done": done}));
        }
        let page = database.query("tasks", &json!({"where": wanted}));
        assert!(!page.items.is_empty() && page.plan.path().contains("some"), "{}", page.plan);
        database.refused("tasks", &json!({"where": other}));
    }
}

#[test]
fn alternatives_are_bounded_and_those_of_one_field_need_one_key() {
    let database = Database::open(
        r#"
        [collections.notes]
        key = "note:{id}"
        [collections.notes.fields]
        id = { type = "u64", required = true }
        at = { type = "millis", required = true }
        "#,
    );
    let any = |count: u64| -> Json {
        let alternatives: Vec<Json> = (0..count).map(|at| json!({"at": at})).collect();
        json!({"any": alternatives})
    };
    let refused = database.refused("notes", &any(128));
    assert_eq!(refused.suggest.as_deref().unwrap(), "notes:at:{at}:{id}");
    let error = database.error("notes", &any(129));
    assert!(error.contains("alternatives of `any`") && error.contains("128"), "{error}");
}

/// Eight documents, each in a group of its own.
fn groups() -> Database {
    let database = Database::open(
        r#"
        [collections.notes]
        key = "s:{id}"
        [collections.notes.fields]
        id = { type = "id", required = true }
        g  = { type = "id", required = true }
        f  = { type = "i64", required = true }
        [collections.notes.indexes]
        g = "s:g:{g}:{id}"
        "#,
    );
    for number in 1..=8 {
        let (id, group) = (number.to_string(), format!("g{number}"));
        database.put("notes", &json!({"id": id, "g": group, "f": number}));
    }
    database
}

#[test]
fn a_scan_that_looks_up_keys_in_vain_goes_on_behind_them() {
    let database = groups();
    let behind = json!({
        "where": {"g": {"in": ["a1", "a2", "a3", "g8"]}, "id": "8", "f": 8}, "scan": 3
    });
    assert_eq!(database.values("notes", &behind, "id"), ["8"]);
    let groups = json!({"in": ["g1", "x1", "x2", "x3", "g8"]});
    let between = json!({
        "where": {"g": groups, "id": {"in": ["1", "8"]}, "f": {"gte": 0}}, "scan": 2
    });
    assert_eq!(database.values("notes", &between, "id"), ["1", "8"]);
    let asked = read_query(&behind);
    let exists = block_on(database.engine.exists(&Actor::Local, "notes", &asked));
    let count = block_on(database.engine.count(&Actor::Local, "notes", &asked));
    for error in [exists.unwrap_err().to_string(), count.unwrap_err().to_string()] {
        assert!(error.contains("is not at the end") && error.contains('3'), "{error}");
    }
    let absent = json!({"where": {"g": {"in": ["a1", "a2"]}, "id": "8", "f": 8}, "scan": 2});
    assert!(!database.exists("notes", &absent).exists);
    assert_eq!(database.count("notes", &absent).count, 0);
}

#[test]
fn a_scan_of_exactly_its_budget_is_answered_and_one_key_less_is_refused() {
    let database = groups();
    let all = |scan: u64, f: i64| json!({"where": {"f": f}, "scan": scan});
    assert_eq!(database.count("notes", &all(8, 8)).count, 1);
    assert!(database.exists("notes", &all(8, 8)).exists);
    assert!(!database.exists("notes", &all(8, 9)).exists);
    for query in [all(7, 8), all(7, 9)] {
        let counted = block_on(database.engine.count(&Actor::Local, "notes", &read_query(&query)));
        assert!(counted.unwrap_err().to_string().contains("is not at the end"));
    }
    let merged = |scan: u64| {
        json!({
            "where": {"g": {"in": ["g1", "g2", "g3", "g4"]}, "f": {"gte": 0}},
            "order": "id", "scan": scan
        })
    };
    let error = database.error("notes", &merged(4));
    assert!(error.contains("scan = 4 is too little"), "{error}");
    assert_eq!(database.values("notes", &merged(5), "id"), ["1", "2", "3", "4"]);
}

#[test]
fn an_array_that_two_places_ask_for_is_refused_and_not_taken_for_one_element() {
    let database = notes(&[json!({"tags": ["a", "b"]})]);
    for query in [json!({"where": {"tags": "a"}}), json!({"any": [{"tags": "b"}]})] {
        assert_eq!(ids(&database, &query), [0]);
    }
    let both = json!({"where": {"tags": "a"}, "any": [{"tags": "b"}]});
    let error = database.error("notes", &both);
    assert!(error.contains("the array `tags` is asked for in `where` and in `any`"), "{error}");
}
