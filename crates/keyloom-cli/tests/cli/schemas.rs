//! `schema apply`, `show` and `check`, on both engines.

use serde_json::json;

use crate::program::{Database, ENGINES, keyloom, names, schema, text};

#[test]
fn a_schema_creates_the_database_and_says_what_is_new() {
    for engine in ENGINES {
        let database = Database::none();
        let url = format!("embedded:{}?engine={engine}", database.data().display());
        let line = ["schema", "apply", &schema("approvals"), "--store", &url];
        let told = keyloom(&line, b"").ok();
        assert_eq!(told, "approvals: new collection\nversion 1 is in force\n");
        let again = keyloom(&line, b"").ok();
        assert_eq!(again, "nothing to change: version 1 says the same\n");
        let manifest = std::fs::read_to_string(database.data().join("KEYLOOM")).unwrap();
        assert!(manifest.contains(&format!("engine = \"{engine}\"")), "{manifest}");
    }
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let database = Database::none();
    let told = database.run(&["schema", "apply", &schema("approvals"), "--dry-run"]).ok();
    let expected = "approvals: new collection\nnothing was changed: this was a dry run\n";
    assert_eq!(told, expected);
    assert!(!database.data().exists());

    let database = Database::new("redb", &["approvals"]);
    let before = database.state();
    let change = database.json(&["schema", "apply", &schema("stickers"), "--dry-run"]);
    assert_eq!(change["applied"], json!(false));
    let step = json!({ "change": "collection_added", "collection": "sticker_tags" });
    assert_eq!(change["steps"], json!([step]));
    assert_eq!(database.state(), before);
}

#[test]
fn a_dry_run_says_that_it_reads_no_stored_documents() {
    let database = Database::new("redb", &["approvals"]);
    database.create("approvals", r#"{"requester": "ann", "approver": "bob"}"#);
    let text = std::fs::read_to_string(schema("approvals")).unwrap();
    let text = text.replace("default = false", "default = true");
    let changed = database.file("changed.toml", text);
    let told = database.run(&["schema", "apply", &changed, "--dry-run"]).ok();
    assert!(told.contains("\nstored documents were not read: `schema apply` reads"), "{told}");
}

#[test]
fn collections_are_shown_with_their_keys_and_rules() {
    let database = Database::new("redb", &["approvals", "stickers"]);
    let shown = database.run(&["schema", "show"]).ok();
    for line in [
        "approvals\n0 documents · Requests for approval\n",
        "approval:index:requester:{requester}:{created_at desc}:{id}  ready\n",
        "unique:code      approval:code:{code} ",
        "  required, frozen, differs_from approver\n",
        "sticker_tags\n",
    ] {
        assert!(shown.contains(line), "`{line}` is not in {shown}");
    }
    let one = database.json(&["schema", "show", "sticker_tags"]);
    assert_eq!(one["collections"].as_array().unwrap().len(), 1);
    let collection = &one["collections"][0];
    assert_eq!((text(collection, "/name"), &collection["documents"]), ("sticker_tags", &json!(0)));
    assert_eq!(text(collection, "/schema/key"), "{author}#{file}#{value}");
    assert_eq!(collection["indexes"].as_array().unwrap().len(), 5);
    database.refuses(&["schema", "show", "nope"], "there is no collection `nope`");
}

#[test]
fn what_is_shown_as_a_file_can_be_applied_and_changes_nothing() {
    let database = Database::new("redb", &["approvals", "reputation", "stickers", "grid"]);
    let toml = database.run(&["schema", "show", "--toml"]).ok();
    assert!(toml.contains("[classes.order.functions.recalculate]\n"), "{toml}");
    let file = database.file("shown.toml", toml);
    let told = database.run(&["schema", "apply", &file]).ok();
    assert_eq!(told, "nothing to change: version 1 says the same\n");
}

#[test]
fn classes_are_shown_with_their_functions() {
    let database = Database::new("redb", &["grid"]);
    let shown = database.run(&["schema", "show"]).ok();
    for line in
        ["class order\n16 partitions · Orders of a shop", "recalculate  http://127.0.0.1:8081\n"]
    {
        assert!(shown.contains(line), "`{line}` is not in {shown}");
    }
    let shown = database.json(&["schema", "show"]);
    assert_eq!(shown["classes"]["order"]["partitions"], 16);
}

#[test]
fn a_database_without_collections_says_what_to_do() {
    let database = Database::none();
    let empty = database.file("empty.toml", "");
    database.run(&["schema", "apply", &empty]).ok();
    let shown = database.run(&["schema", "show"]).ok();
    assert_eq!(shown, "no collections yet: declare some with `keyloom schema apply FILE`\n");
}

#[test]
fn schemas_are_checked_without_a_database() {
    let database = Database::none();
    let files = [schema("approvals"), schema("reputation"), schema("stickers")];
    let line: Vec<&str> =
        ["schema", "check"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let told = database.run(&line).ok();
    assert!(told.contains("approvals\nat most 6 keys per document\n"), "{told}");
    assert!(told.contains("  bytes per key  keys per write\n"), "{told}");
    assert!(told.ends_with("6 collections: fine\n"), "{told}");
    let costs = database.json(&line);
    let paths = costs["collections"]["approvals"].as_array().unwrap();
    assert_eq!(text(&paths[0], "/path"), "key");
    assert!(paths.iter().all(|path| path["keys_per_document"] == json!(1)));
    assert!(!database.data().exists(), "nothing is created by looking at files");
}

#[test]
fn a_folder_of_schemas_is_applied_as_one() {
    let database = Database::none();
    let folder = format!("{}/../../schemas", env!("CARGO_MANIFEST_DIR"));
    let told = database.run(&["schema", "apply", &folder]).ok();
    assert!(told.starts_with("approvals: new collection\nreputations: new"), "{told}");
    assert!(names(&database.data()).contains(&"KEYLOOM".to_owned()));
}

#[test]
fn an_index_that_is_left_out_is_removed() {
    let database = Database::new("redb", &["stickers"]);
    database.create("sticker_tags", r#"{"author": "u1", "file": "f1", "value": "v"}"#);
    let query = ["query", "sticker_tags", "author=u1", "value.prefix=v"];
    database.run(&query).ok();
    let text = std::fs::read_to_string(schema("stickers")).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with("author_value"));
    let file = database.file("s.toml", lines.collect::<String>());
    let told = database.run(&["schema", "apply", &file]).ok();
    assert_eq!(told, "sticker_tags: removed index:author_value\nversion 2 is in force\n");
    database.refuses(&query, "no key of `sticker_tags` serves this query");
    assert!(database.run(&["check"]).ok().ends_with("all agree\n"));
}
