//! `put`, `get`, `delete`, `replace` and `changes`, on both engines.

use serde_json::json;

use crate::program::{Database, ENGINES, schema, text};

const WISH: &str = r#"{"requester": "ann", "approver": "bob", "description": "a plant"}"#;

#[test]
fn a_document_is_created_from_an_argument_a_file_or_the_input_and_shown() {
    for engine in ENGINES {
        let database = Database::new(engine, &["approvals"]);
        let file = database.file("wish.json", WISH);
        database.run(&["put", "approvals", &file]).ok();
        database.run_with(&["put", "approvals", "-"], WISH.as_bytes()).ok();
        database.run_with(&["put", "approvals"], WISH.as_bytes()).ok();
        let created = database.create("approvals", WISH);
        let key = text(&created, "/key");
        assert!(key.starts_with("approval:record:"), "{key}");
        assert_eq!(created["owner"], json!(null));
        assert_eq!(created["data"]["status"], "pending");
        assert_eq!(database.json(&["get", "approvals", key]), created);
        assert_eq!(database.json(&["count", "approvals"])["count"], 4);
    }
}

#[test]
fn a_document_is_shown_to_people_line_by_line() {
    let database = Database::new("redb", &["approvals"]);
    let created = database.create("approvals", WISH);
    let key = text(&created, "/key");
    let shown = database.run(&["get", "approvals", key]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], key);
    assert!(lines[1].starts_with(&format!("version {} · created 2", created["version"])));
    assert!(shown.contains("  requester           ann\n"), "{shown}");
    assert!(shown.contains("  description         a plant\n"), "{shown}");
}

#[test]
fn a_document_is_found_by_its_unique_claim() {
    for engine in ENGINES {
        let database = Database::new(engine, &["approvals"]);
        let created = database.create("approvals", WISH);
        let code = text(&created, "/data/code");
        assert_eq!(database.json(&["get", "approvals", "--unique", "code", code]), created);
        let words = "`code A-222222` does not exist in `approvals`";
        database.refuses(&["get", "approvals", "--unique", "code", "A-222222"], words);
        let two = ["get", "approvals", "--unique", "code", code, "more"];
        database.refuses(&two, "claim `code` takes 1 values: code");
        database.refuses(&["get", "approvals", "--unique", "name", "x"], "no unique claim `name`");
    }
}

#[test]
fn j02_j03_j04_a_replacement_names_the_version_it_is_based_on() {
    for engine in ENGINES {
        let database = Database::new(engine, &["stickers"]);
        let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
        let created = database.create("sticker_tags", data);
        let version = created["version"].to_string();
        let put = ["put", "sticker_tags", data, "--key", "u1#f1#v"];
        let words = format!("`u1#f1#v` exists at version {version}: name the version");
        database.refuses(&put, &words);
        let stale = [&put[..], &["--if-version", "7"]].concat();
        let words = format!("expected version 7, stored version {version}");
        database.refuses(&stale, &words);
        let problem = database.run(&[&stale[..], &["--json"]].concat()).problem();
        assert_eq!(
            (text(&problem, "/code"), &problem["status"]),
            ("version_conflict", &json!(412))
        );
        let versions = json!({ "expected": 7, "stored": created["version"] });
        assert_eq!(problem["versions"], versions);

        let right = [&put[..], &["--if-version", &version, "--description", "seen"]].concat();
        let updated = database.json(&right);
        assert!(updated["version"].as_u64() > created["version"].as_u64());
        assert_eq!(updated["created_at"], created["created_at"]);
        assert_eq!(updated["description"], "seen");
        let cleared = database.json(&[&put[..], &["--if-version", "*"]].concat());
        assert_eq!(cleared["description"], json!(null));
    }
}

#[test]
fn a_patch_changes_only_what_it_names() {
    for engine in ENGINES {
        let database = Database::new(engine, &["approvals"]);
        let created = database.create("approvals", WISH);
        let (key, version) = (text(&created, "/key"), created["version"].to_string());
        let patch = r#"{"status": "approved", "comment": "fine"}"#;
        let line = ["put", "approvals", patch, "--key", key, "--patch", "--if-version", &version];
        let patched = database.json(&line);
        assert_eq!(patched["data"]["status"], "approved");
        assert_eq!(patched["data"]["requester"], "ann");
        database.refuses(&line, "version conflict");
    }
}

#[test]
fn j08_deleting_what_is_not_there_has_no_effect_and_what_is_there_needs_a_version() {
    for engine in ENGINES {
        let database = Database::new(engine, &["stickers"]);
        let before = database.state();
        let absent = database.run(&["delete", "sticker_tags", "u1#f1#v"]).ok();
        assert_eq!(absent, "there is no u1#f1#v: nothing to delete\n");
        assert_eq!(database.state(), before);

        let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
        let version = database.create("sticker_tags", data)["version"].to_string();
        database.refuses(&["delete", "sticker_tags", "u1#f1#v"], "name the version");
        let stale = ["delete", "sticker_tags", "u1#f1#v", "--if-version", "1"];
        database.refuses(&stale, "version conflict");
        let right = ["delete", "sticker_tags", "u1#f1#v", "--if-version", &version];
        let deleted = database.json(&right);
        assert_eq!((&deleted["deleted"], text(&deleted, "/key")), (&json!(true), "u1#f1#v"));
        database.refuses(&["get", "sticker_tags", "u1#f1#v"], "`u1#f1#v` does not exist");
        let again = database.create("sticker_tags", data);
        assert!(again["version"].as_u64() > deleted["version"].as_u64());
    }
}

#[test]
fn explain_of_a_write_lists_every_key_and_writes_nothing() {
    let database = Database::new("redb", &["approvals"]);
    let before = database.state();
    let plan = database.json(&["put", "approvals", WISH, "--explain"]);
    let roles: Vec<&str> =
        plan["puts"].as_array().unwrap().iter().map(|key| text(key, "/role")).collect();
    let expected = [
        "document",
        "index:approver",
        "index:pending",
        "index:requester",
        "index:status",
        "unique:code",
        "counter",
    ];
    assert_eq!(roles, expected);
    assert_eq!((&plan["deletes"], &plan["changes"]), (&json!([]), &json!(1)));
    let shown = database.run(&["put", "approvals", WISH, "--explain"]).ok();
    assert!(shown.contains("put  index:requester  approval:index:requester:ann:"), "{shown}");
    assert!(shown.contains("7 keys put, 0 deleted"), "{shown}");
    assert_eq!(database.state(), before);
}

#[test]
fn a_document_belongs_to_whom_it_was_written_for() {
    let database = Database::new("redb", &["approvals"]);
    let created = database.json(&["put", "approvals", WISH, "--as", "ann"]);
    assert_eq!(created["owner"], "ann");
    // For somebody else there is no such document, and nothing is written in her name.
    let key = created["key"].as_str().unwrap();
    database.run(&["get", "approvals", key, "--as", "bob"]).ok();
    database.run(&["get", "approvals", key, "--as", "carl"]).refused("does not exist");
    database.run(&["put", "approvals", WISH, "--as", "carl"]).refused("must be yours");
}

#[test]
fn r03_an_identity_has_one_account_in_production() {
    let database = Database::new("redb", &["reputation"]);
    let user = |name: &str| format!(r#"{{"username": "{name}", "display_name": "x"}}"#);
    let put = |name: &str, more: &[&str]| {
        database.run(&[&["put", "users", &user(name), "--as", "carl"][..], more].concat())
    };
    put("first", &["--production"]).ok();
    let before = database.state();
    put("second", &["--production"]).refused("taken in `users`");
    assert_eq!(database.state(), before);
    put("second", &[]).ok();
}

#[test]
fn r18_a_renamed_user_moves_and_the_old_name_is_free() {
    for engine in ENGINES {
        let database = Database::new(engine, &["reputation"]);
        let ann = r#"{"username": "Ann", "display_name": "Ann A."}"#;
        let created = database.create("users", ann);
        let old = text(&created, "/key");
        let rename = r#"{"username": "Anna"}"#;
        let line = ["put", "users", rename, "--key", old, "--patch", "--if-version", "*"];
        let told = database.run(&line).ok();
        assert!(told.starts_with(&format!("updated {old} → usr_")), "{told}");
        let found = database.json(&["get", "users", "--unique", "username", "ANNA"]);
        assert_eq!(found["data"]["usr_key"], created["data"]["usr_key"]);
        assert!(text(&found, "/key").ends_with("usrName_anna_"));
        database.create("users", ann);
        let taken = ["put", "users", r#"{"username": "anna", "display_name": "x"}"#];
        database.refuses(&taken, "username `usrName_anna` is taken in `users`");
    }
}

#[test]
fn s10_s11_s12_a_set_is_replaced_as_a_whole() {
    for engine in ENGINES {
        let database = Database::new(engine, &["stickers"]);
        let line =
            |value: &str| format!("{{\"author\":\"u1\",\"file\":\"f1\",\"value\":\"{value}\"}}\n");
        let replace = |values: &[&str]| {
            let lines: String = values.iter().map(|value| line(value)).collect();
            let file = database.file("set.ndjson", lines);
            database.run(&["replace", "sticker_tags", "values", "u1", "f1", "--from", &file])
        };
        let told = replace(&["a", "b", "b"]).ok();
        assert_eq!(told, "2 documents written, 0 documents deleted, in one commit\n");
        let told = replace(&["b", "c"]).ok();
        assert_eq!(told, "1 document written, 1 document deleted, in one commit\n");
        let before = database.state();
        replace(&[]).refused("a set has 1 to 50");
        let many: Vec<String> = (0..51).map(|number| number.to_string()).collect();
        replace(&many.iter().map(String::as_str).collect::<Vec<_>>()).refused("a set has 1 to 50");
        assert_eq!(database.state(), before);
        let keys = database.json(&["keys", "sticker_tags"]);
        assert_eq!(keys["keys"], json!(["u1#f1#b", "u1#f1#c"]));
    }
}

#[test]
fn changes_are_told_in_order_and_from_a_position_on() {
    for engine in ENGINES {
        let database = Database::new(engine, &["stickers"]);
        let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
        database.create("sticker_tags", data);
        database.run(&["delete", "sticker_tags", "u1#f1#v", "--if-version", "*"]).ok();
        let lines = database.run(&["changes", "--json"]).ok();
        let changes: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = changes.iter().map(|change| text(change, "/kind")).collect();
        assert_eq!(kinds, ["created", "deleted"]);
        assert!(changes.iter().all(|change| text(change, "/key") == "u1#f1#v"));
        let first = changes[0]["position"].to_string();
        let rest = database.run(&["changes", "--after", &first, "--json"]).ok();
        assert_eq!(rest.lines().collect::<Vec<_>>(), [lines.lines().nth(1).unwrap()]);
        assert_eq!(database.run(&["changes", "--after", "end", "--json"]).ok(), "");
        database.run(&["changes", "--after", "999"]).refused("behind the end of the feed");
        database.run(&["changes", "--after", "last"]).refused("nor `end`");
        let table = database.run(&["changes", "--limit", "1"]).ok();
        assert!(table.contains("created  sticker_tags  u1#f1#v"), "{table}");
        assert!(table.contains(&format!("there may be more: add --after {first}")), "{table}");
    }
}

#[test]
fn a_check_finds_documents_and_keys_in_agreement() {
    for engine in ENGINES {
        let database = Database::new(engine, &["approvals", "stickers"]);
        database.create("approvals", WISH);
        let report = database.json(&["check", "--repair"]);
        assert_eq!((&report["documents"], &report["problems"]), (&json!(1), &json!([])));
        let told = database.run(&["check"]).ok();
        assert!(told.starts_with("checked 1 document and ") && told.ends_with("all agree\n"));
    }
}

#[test]
fn a_check_tells_of_missing_and_left_over_keys_and_mends_them() {
    let database = Database::new("redb", &["stickers"]);
    database.create("sticker_tags", r#"{"author": "u1", "file": "f1", "value": "v"}"#);
    // The key of the index `value` is moved behind the engine's back.
    let tail = b"\x02v\0\x02f1\0\x02u1\0";
    database.damage(|key| {
        let head = key.strip_suffix(tail)?;
        Some([head, b"\x02w\0\x02f1\0\x02u1\0"].concat())
    });
    let answer = database.run(&["check"]);
    assert!(answer.out.starts_with("sticker_tags: index:value "), "{}", answer.out);
    assert!(answer.out.contains("#v#f1#u1") && answer.out.contains("#w#f1#u1"), "{}", answer.out);
    answer.refused("2 problems found; `keyloom check --repair` mends keys");
    let repaired = database.json(&["check", "--repair"]);
    assert_eq!((&repaired["repaired"], repaired["documents"].as_u64()), (&json!(2), Some(1)));
    assert!(database.run(&["check"]).ok().ends_with("all agree\n"));
    let found = database.json(&["query", "sticker_tags", "value.prefix=v"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_change_of_the_schema_keeps_documents_in_agreement_with_their_keys() {
    let database = Database::new("redb", &["approvals"]);
    database.create("approvals", WISH);
    let text = std::fs::read_to_string(schema("approvals")).unwrap();
    let more = "[collections.approvals.indexes]\n\
                wish = \"approvals:wish:{description prefix 8}:{id}\"\n";
    let text = text.replace("[collections.approvals.indexes]\n", more);
    let file = database.file("approvals.toml", text);
    let told = database.run(&["schema", "apply", &file]).ok();
    assert!(told.contains("approvals: new index:wish (1 stored document)"), "{told}");
    let found = database.json(&["query", "approvals", "description.prefix=a pl", "--explain"]);
    assert_eq!(found["plan"]["path"], "index:wish");
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert!(database.run(&["check"]).ok().ends_with("all agree\n"));
}
