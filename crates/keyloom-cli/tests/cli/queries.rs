//! `query`, `count`, `exists` and `keys`, on both engines.

use serde_json::{Value as Json, json};

use crate::program::{Database, ENGINES, column, text};

/// Five requests of ann, one minute apart, the last one the newest; and one by bob to ann.
fn approvals(engine: &str) -> Database {
    let database = Database::new(engine, &["approvals"]);
    let mut lines = String::new();
    for minute in 1..=5 {
        let request = json!({
            "requester": "ann", "approver": "bob", "description": format!("wish {minute}"),
            "created_at": minute * 60_000, "code": format!("A-22222{}", minute + 1),
        });
        lines += &format!("{request}\n");
    }
    let other = json!({
        "requester": "bob", "approver": "ann", "description": "other", "created_at": 150_000,
        "status": "approved",
    });
    lines += &other.to_string();
    database.run_with(&["import", "approvals", "-"], lines.as_bytes()).ok();
    database
}

/// The base data of the sticker behaviours (S-01).
fn stickers(engine: &str) -> Database {
    let database = Database::new(engine, &["stickers"]);
    let rows = [
        ("u1", "f1", "hello world", Some("set1")),
        ("u2", "f2", "hello there", Some("set1")),
        ("u2", "f3", "there it is", Some("set2")),
        ("u1", "f4", "reuse 1", None),
        ("u2", "f4", "reuse 2", None),
        ("u2", "f5", "setless file", None),
    ];
    let mut lines = String::new();
    for (author, file, value, set) in rows {
        let mut row = json!({ "author": author, "file": file, "value": value });
        if let Some(set) = set {
            row["set"] = json!(set);
        }
        lines += &format!("{row}\n");
    }
    database.run_with(&["import", "sticker_tags"], lines.as_bytes()).ok();
    database
}

fn cost(answer: &Json) -> (u64, u64, u64) {
    let member = |name: &str| answer["cost"][name].as_u64().unwrap();
    (member("keys_read"), member("documents_read"), member("ranges"))
}

#[test]
fn the_newest_of_one_requester_come_with_plan_and_cost() {
    for engine in ENGINES {
        let database = approvals(engine);
        let line =
            ["query", "approvals", "requester=ann", "--order", "-created_at", "--limit", "2"];
        let page = database.json(&[&line[..], &["--explain"]].concat());
        assert_eq!(column(&page, "description"), ["wish 5", "wish 4"]);
        assert_eq!(cost(&page), (3, 2, 1));
        assert_eq!(
            page["plan"],
            json!({
                "path": "index:requester",
                "ranges": [{
                    "from": "approval:index:requester:ann:",
                    "to": "approval:index:requester:ann:*",
                }],
                "direction": "forward",
                "covering": false,
                "keys_read_max": 3,
            })
        );
        assert_eq!(database.json(&line).get("plan"), None);
    }
}

#[test]
fn people_see_a_table_and_one_line_of_cost() {
    let database = approvals("redb");
    let line = ["query", "approvals", "requester=ann", "--select", "description,created_at"];
    let shown = database.run(&[&line[..], &["--limit", "2", "--explain"]].concat()).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("plan  index:requester  approval:index:requester:ann: .. "));
    assert!(lines[1].starts_with("key ") && lines[1].ends_with("description  created_at"));
    assert!(lines[2].ends_with("  wish 5       1970-01-01 00:05:00"), "{shown}");
    assert_eq!(lines[4], "2 documents · index:requester · 3 keys read, 2 documents read · 1 range");
    assert!(lines[5].starts_with("there is more: add --after "), "{shown}");
    assert_eq!(lines.len(), 6);
}

#[test]
fn pages_follow_each_other_without_gap_or_repetition() {
    for engine in ENGINES {
        let database = approvals(engine);
        let mut found = Vec::new();
        let mut after = None::<String>;
        loop {
            let mut line = vec!["query", "approvals", "requester=ann", "--limit", "2"];
            line.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
            let page = database.json(&line);
            found.extend(column(&page, "description"));
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(found, ["wish 5", "wish 4", "wish 3", "wish 2", "wish 1"]);
    }
}

#[test]
fn p06_two_groups_make_one_merged_list() {
    for engine in ENGINES {
        let database = approvals(engine);
        let groups = ["--any", "requester=ann", "--any", "approver=ann"];
        let line = [&["query", "approvals"][..], &groups, &["--order", "-created_at"]].concat();
        let found = column(&database.json(&line), "description");
        assert_eq!(found, ["wish 5", "wish 4", "wish 3", "other", "wish 2", "wish 1"]);
        let plan = database.run(&[&line[..], &["--explain"]].concat()).ok();
        for path in ["requester", "approver"] {
            let range = format!("index:{path}  approval:index:{path}:ann:");
            assert!(plan.contains(&range), "{plan}");
        }
    }
}

#[test]
fn times_are_taken_as_people_write_them_and_bounds_hold_together() {
    let database = approvals("redb");
    let bounds = ["created_at.gte=1970-01-01T00:02:00Z", "created_at.lt=240000"];
    let line = [&["query", "approvals", "requester=ann"][..], &bounds].concat();
    assert_eq!(column(&database.json(&line), "description"), ["wish 3", "wish 2"]);
}

#[test]
fn p08_a_list_of_words_is_one_query_and_a_wrong_word_lists_the_right_ones() {
    let database = approvals("redb");
    let line = ["count", "approvals", "status.in=pending,approved"];
    assert_eq!(database.json(&line)["count"], 6);
    let words = database.refuses(&["query", "approvals", "status=open"], "pending");
    assert!(words.contains("approved") && words.contains("denied"), "{words}");
}

#[test]
fn s02_s05_s16_stickers_are_found_by_prefix_once_each() {
    for engine in ENGINES {
        let database = stickers(engine);
        let files = |line: &[&str]| column(&database.json(line), "file");
        let mut all = files(&["query", "sticker_tags", "value.prefix=hello"]);
        all.sort();
        assert_eq!(all, ["f1", "f2"]);
        assert_eq!(files(&["query", "sticker_tags", "author=u1", "value.prefix=hello"]), ["f1"]);
        let reuse = ["query", "sticker_tags", "value.prefix=reuse"];
        assert_eq!(files(&reuse).len(), 2);
        assert_eq!(files(&[&reuse[..], &["--distinct", "file"]].concat()), ["f4"]);
        let exists = database.json(&["exists", "sticker_tags", "set=set1", "author=u1"]);
        assert_eq!((&exists["exists"], cost(&exists).0), (&json!(true), 1));
        let exists = database.json(&["exists", "sticker_tags", "set=set9"]);
        assert_eq!(exists["exists"], json!(false));
    }
}

#[test]
fn people_are_told_how_many_and_whether_any() {
    let database = stickers("redb");
    let counted = database.run(&["count", "sticker_tags", "value.prefix=hello"]).ok();
    let line = "counted · index:value · 2 keys read, 0 documents read · 1 range";
    assert_eq!(counted, format!("2\n{line}\n"));
    let exists = database.run(&["exists", "sticker_tags", "set=set1", "--explain"]).ok();
    assert!(exists.starts_with("plan  index:set  set#set1# .. set#set1#*"), "{exists}");
    assert!(exists.contains("\nyes\nlooked · index:set · 1 key read"), "{exists}");
    let all = database.run(&["count", "sticker_tags", "--explain"]).ok();
    assert!(all.contains("\n6\ncounted · counter · 1 key read"), "{all}");
}

#[test]
fn a_selection_that_the_index_holds_reads_no_document() {
    let database = stickers("redb");
    let line = ["query", "sticker_tags", "value.prefix=hello", "--select", "file,author"];
    let page = database.json(&[&line[..], &["--explain"]].concat());
    assert_eq!(cost(&page), (2, 0, 1));
    assert_eq!(page["plan"]["covering"], json!(true));
    assert_eq!(page["items"][0]["data"], json!({ "file": "f2", "author": "u2" }));
    assert_eq!(page["items"][0].get("version"), None);
}

#[test]
fn a_query_without_a_key_is_refused_with_the_lines_to_add() {
    for engine in ENGINES {
        let database = approvals(engine);
        let line = ["query", "approvals", "comment.prefix=x"];
        let error = database.refuses(&line, "no key of `approvals` serves this query");
        let paste = "    [collections.approvals.indexes]\n    comment = \"approvals:comment:";
        assert!(error.contains(paste), "{error}");
        let cost = "It would index 6 stored documents, and add 1 key to each write.";
        assert!(error.contains(cost), "{error}");
        let problem = database.run(&[&line[..], &["--json"]].concat()).problem();
        assert_eq!(text(&problem, "/code"), "no_index");
        assert_eq!(problem["suggest"]["backfill_documents"], 6);
        assert!(text(&problem, "/suggest/index").contains("{comment "), "{problem}");
    }
}

#[test]
fn the_suggested_index_serves_the_query_once_it_is_applied() {
    for condition in ["decided_at.gte=0", "comment.prefix=x", "description=wish 1"] {
        let database = approvals("redb");
        let line = ["query", "approvals", condition];
        let error = database.refuses(&line, "Add this to the schema");
        let head = "[collections.approvals.indexes]";
        let paste = error.lines().skip_while(|line| line.trim() != head).nth(1).unwrap();
        let schema = std::fs::read_to_string(crate::program::schema("approvals")).unwrap();
        let schema = schema.replace(head, &format!("{head}\n{paste}"));
        database.run(&["schema", "apply", &database.file("s.toml", schema)]).ok();
        database.run(&line).ok();
    }
}

#[test]
fn a_scan_has_a_budget_and_says_that_it_was_one() {
    let database = approvals("redb");
    let line = ["query", "approvals", "description.prefix=wish", "--scan", "3", "--explain"];
    let page = database.json(&line);
    assert_eq!(page["plan"]["scan"]["budget"], 3);
    assert_eq!(cost(&page).0, 3);
    let shown = database.run(&line).ok();
    assert!(shown.contains("scan, filtered by description begins with \"wish\""), "{shown}");
    assert!(shown.contains("3 documents · key · a scan · 3 keys read"), "{shown}");
}

#[test]
fn keys_are_shown_as_text_by_path_and_prefix_and_in_pages() {
    for engine in ENGINES {
        let database = stickers(engine);
        let keys = database.run(&["keys", "sticker_tags", "--prefix", "u1#"]).ok();
        let expected = "u1#f1#hello world\nu1#f4#reuse 1\n\
                        2 keys · key · 2 keys read, 0 documents read · 1 range\n";
        assert_eq!(keys, expected);
        let line = ["keys", "sticker_tags", "--index", "value", "--prefix", "#hello"];
        let first = database.json(&[&line[..], &["--limit", "1"]].concat());
        assert_eq!(first["keys"], json!(["#hello there#f2#u2"]));
        let next = text(&first, "/next");
        let second = database.json(&[&line[..], &["--limit", "1", "--after", next]].concat());
        assert_eq!(second["keys"], json!(["#hello world#f1#u1"]));
        assert_eq!(second["next"], json!(null));
        let unknown = ["keys", "sticker_tags", "--index", "nope"];
        database.refuses(&unknown, "index:value");
    }
}

#[test]
fn what_is_stored_never_controls_the_terminal() {
    let database = Database::new("redb", &["approvals"]);
    let evil = r#"{"requester": "ann", "approver": "bob", "description": "\u001b[2Jgone\n"}"#;
    let key = text(&database.create("approvals", evil), "/key").to_owned();
    for line in [&["query", "approvals", "requester=ann"][..], &["get", "approvals", &key]] {
        let shown = database.run(line).ok();
        assert!(shown.contains("\\u{1b}[2Jgone\\n"), "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
    }
}
