//! Bad input: each a clear error that names what is wrong, exit code 1, and nothing changed.

use serde_json::json;

use crate::program::{Database, schema, text};

fn everything() -> Database {
    Database::new("redb", &["approvals", "reputation", "stickers"])
}

#[test]
fn malformed_schemas_are_refused_with_the_place() {
    let database = everything();
    let cases = [
        ("[collections.a]\nkey = \n", "line 2, column 7"),
        ("[collections.a]\nkey = \"{id}\"\nindices = {}\n", "indices"),
        ("[collections.a]\nfields = {}\n", "missing field `key`"),
        ("collections = 7\n", "line 1"),
        ("\u{0}", "line 1"),
    ];
    for (text, words) in cases {
        let file = database.file("bad.toml", text);
        let error = database.refuses(&["schema", "apply", &file], words);
        assert!(error.starts_with(&format!("keyloom: {file}: ")), "{error}");
        database.refuses(&["schema", "check", &file], words);
    }
    let file = database.file("bad.toml", b"key = \"\xFF\"");
    database.refuses(&["schema", "apply", &file], "it is not UTF-8 text");
    let file = database.file("bad.json", "{\"collections\": [}");
    database.refuses(&["schema", "apply", &file], "line 1, column");
    let file = database.file("huge.toml", vec![b'#'; (1 << 20) + 1]);
    database.refuses(&["schema", "apply", &file], "is longer than 1,048,576 bytes");
}

#[test]
fn templates_that_cannot_work_are_refused_before_a_database_exists() {
    let fields = "[collections.a.fields]\nid = { type = \"ulid\" }\nx = { type = \"text\" }\n\
                  y = { type = \"text\" }\n";
    let cases = [
        ("a:{x}{y}:{id}", "a:{x}{y}:{id}"),
        ("a:{nope}:{id}", "nope"),
        ("a:{id", "{id"),
        ("a:{id sideways}", "sideways"),
    ];
    for (template, words) in cases {
        let database = Database::none();
        let text = format!("[collections.a]\nkey = \"{template}\"\n{fields}");
        let file = database.file("bad.toml", text);
        database.run(&["schema", "check", &file]).refused(words);
        database.run(&["schema", "apply", &file]).refused(words);
        assert!(!database.data().exists(), "{template}");
    }
}

#[test]
fn a_schema_that_contradicts_stored_documents_is_refused() {
    let database = everything();
    let request = r#"{"requester": "ann", "approver": "bob", "description": "a long wish"}"#;
    database.create("approvals", request);
    database.create("approvals", request);
    let original = std::fs::read_to_string(schema("approvals")).unwrap();
    let cases = [
        ("length = { max = 1000 }", "length = { max = 3 }", "approvals.description: length"),
        (
            "comment     = { type = \"text\"",
            "comment     = { required = true, type = \"text\"",
            "comment",
        ),
        (
            "code = \"approval:code:{code}\"",
            "code = \"approval:for:{requester}\"",
            "two stored documents hold",
        ),
        ("key = \"approval:record:{id}\"", "key = \"approval:{id}\"", "2 documents are stored"),
    ];
    for (from, to, words) in cases {
        assert!(original.contains(from), "{from}");
        let before = database.run(&["export", "approvals"]).ok();
        let file = database.file("changed.toml", original.replace(from, to));
        database.run(&["schema", "apply", &file]).refused(words);
        assert_eq!(database.run(&["export", "approvals"]).ok(), before);
        // The old schema is in force, alone, and complete.
        database.run(&["schema", "apply", &schema("approvals")]).ok();
        assert!(database.run(&["check"]).ok().ends_with("all agree\n"));
        let served = database.json(&["count", "approvals", "requester=ann"]);
        assert_eq!(served["count"], 2);
    }
}

#[test]
fn documents_that_are_no_documents_are_refused() {
    let database = everything();
    let put = |data: &str, words: &str| {
        database.refuses_input(&["put", "sticker_tags", "-"], data.as_bytes(), words)
    };
    put("", "standard input is empty");
    put("nonsense", "data: expected ident at line 1");
    put("{\"author\": \"u1\", ", "EOF");
    put("[1, 2]", "object");
    put("\"text\"", "object");
    let deep = format!("{{\"x\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    put(&deep, "nesting of data: 65, at most 64 allowed");
    let deeper = format!("{{\"x\": {}", "[".repeat(500_000));
    put(&deeper, "nesting of data");
    let huge = format!("{{\"x\": \"{}\"}}", "y".repeat(1 << 20));
    put(&huge, "standard input is longer than 1,048,576 bytes");
    let file = database.file("latin1.json", b"{\"author\": \"\xFF\"}");
    database.refuses(&["put", "sticker_tags", &file], "not UTF-8");
}

#[test]
fn documents_that_break_rules_are_refused_with_field_and_rule() {
    let database = everything();
    let put = |collection: &str, data: serde_json::Value, words: &str| {
        database.refuses(&["put", collection, &data.to_string()], words)
    };
    let sticker = |member: &str, value: serde_json::Value| {
        let mut data = json!({ "author": "u1", "file": "f1", "value": "v" });
        data[member] = value;
        data
    };
    put("sticker_tags", json!({ "author": "u1", "file": "f1" }), "sticker_tags.value: required");
    put("sticker_tags", sticker("value", json!(7)), "sticker_tags.value: type");
    put("sticker_tags", sticker("value", json!("")), "sticker_tags.value: length");
    put("sticker_tags", sticker("value", json!("x".repeat(101))), "sticker_tags.value: length");
    put("sticker_tags", sticker("colour", json!("red")), "sticker_tags.colour: unknown");
    let same = json!({ "requester": "ann", "approver": "ann" });
    put("approvals", same, "approvals.requester: differs_from");
    let word = json!({ "requester": "ann", "approver": "bob", "status": "open" });
    put("approvals", word, "approvals.status");
    let ulid = json!({ "requester": "ann", "approver": "bob", "id": "not-a-ulid" });
    put("approvals", ulid, "approvals.id: type");
    put("users", json!({ "username": "a b", "display_name": "x" }), "users.username");
    put("users", json!({ "username": "abc", "display_name": "x".repeat(51) }), "display_name");
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    put("tags", json!({ "usr_key": unknown, "name": "cooking" }), "tags.usr_key: refers_to");
    let line = ["put", "sticker_tags", "{}", "--json"];
    let problem = database.run(&line).problem();
    assert_eq!((text(&problem, "/code"), &problem["status"]), ("rule_violation", &json!(422)));
    assert_eq!((text(&problem, "/field"), text(&problem, "/rule")), ("author", "required"));
}

#[test]
fn keys_that_are_no_keys_are_refused() {
    let database = everything();
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for bad in ["01ARZ3NDEKTSV4RRFFQ69G5FA", "80000000000000000000000000", &id.to_lowercase()] {
        let key = format!("approval:record:{bad}");
        let place = "expected id (ulid) at character 16 of a key of approval:record:{id}";
        database.refuses(&["get", "approvals", &key], place);
        database.refuses(&["delete", "approvals", &key, "--if-version", "*"], place);
        let words = format!("`id`: \"{bad}\" is not a ULID");
        database.refuses(&["query", "approvals", &format!("id={bad}")], &words);
    }
    let other = ["put", "sticker_tags", r#"{"author": "a", "file": "b", "value": "c"}"#];
    let words = "key `a#b#d` is not the key of the data, which is `a#b#c`";
    database.refuses(&[&other[..], &["--key", "a#b#d"]].concat(), words);
    let words = "expected \"approval:record:\" at character 0";
    database.refuses(&["get", "approvals", &format!("USR_{id}")], words);
    database.refuses(&["get", "approvals", &format!("approval:record:{id}")], "does not exist");
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let database = everything();
    let query = |line: &[&str], words: &str| {
        database.refuses(&[&["query", "approvals"][..], line].concat(), words)
    };
    let unknown = query(&["colour=red"], "colour");
    assert!(unknown.contains("requester"), "the fields are listed: {unknown}");
    query(&["requester"], "`requester` is no condition");
    query(&["requester.like=x"], "`requester` has no operator `like`");
    query(&["created_at.gt=soon"], "`soon` is not a time");
    query(&["requester_notified=maybe"], "`maybe` is not true or false");
    query(&["requester=ann", "--order", "colour"], "colour");
    query(&["requester=ann", "--order", "-"], "an order is a field");
    query(&["requester=ann", "--select", "colour"], "colour");
    query(&["requester=ann", "--limit", "1000000"], "at most 1000 allowed");
    query(&["comment=x", "--scan", "100000000"], "at most 1000000 allowed");
    query(&["--any", ""], "an empty --any");
    for line in
        [&["query", "nope"][..], &["count", "nope"], &["get", "nope", "k"], &["keys", "nope"]]
    {
        database.refuses(line, "there is no collection `nope`; there are: approvals");
    }
}

#[test]
fn cursors_of_other_queries_and_damaged_ones_are_refused() {
    let database = everything();
    for number in 0..3 {
        let request = json!({ "requester": "ann", "approver": "bob", "created_at": number });
        database.create("approvals", &request.to_string());
    }
    let own = ["query", "approvals", "requester=ann", "--limit", "1"];
    let page = database.json(&own);
    let cursor = text(&page, "/next");
    database.run(&[&own[..], &["--after", cursor]].concat()).ok();
    let others = [
        ["query", "approvals", "requester=bob", "--after", cursor],
        ["query", "approvals", "approver=bob", "--after", cursor],
        ["query", "sticker_tags", "value.prefix=a", "--after", cursor],
    ];
    for line in others {
        database.refuses(&line, "cursor");
    }
    let damaged = cursor.replace(cursor.get(20..24).unwrap(), "AAAA");
    for cursor in ["x", "AAAA", "", "ä", &damaged, &cursor.repeat(2)] {
        database.refuses(&[&own[..], &["--after", cursor]].concat(), "cursor");
    }
    let newest = ["query", "approvals", "requester=ann", "--order", "created_at"];
    database.refuses(&[&newest[..], &["--after", cursor]].concat(), "cursor");
}

#[test]
fn command_lines_that_make_no_sense_end_with_2() {
    let database = everything();
    database.run(&[]).misused("Usage");
    database.run(&["frobnicate"]).misused("unrecognized subcommand");
    database.run(&["get", "approvals"]).misused("required");
    database.run(&["query", "approvals", "--limit", "many"]).misused("invalid value 'many'");
    database.run(&["put", "approvals", "{}", "--if-version", "3"]).misused("--key");
    database.run(&["put", "approvals", "{}", "--patch"]).misused("--key");
    let line = ["delete", "approvals", "k", "--if-version", "new"];
    database.run(&line).misused("a version is a number, or * for whatever is there");
    database.run(&["schema", "apply"]).misused("FILE");
    database.run(&["get", "approvals", "k", "--store", "memory:"]).misused("cannot be used with");
}
