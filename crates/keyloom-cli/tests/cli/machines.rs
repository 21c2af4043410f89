//! `--json`: one JSON document for every answer and for every error.

use serde_json::Value as Json;

use crate::program::{Database, command, keyloom, schema, text};

#[test]
fn every_answer_is_one_json_document_on_one_line() {
    let database = Database::new("redb", &["approvals"]);
    let data = r#"{"requester": "ann", "approver": "bob"}"#;
    let key = text(&database.create("approvals", data), "/key").to_owned();
    let file = schema("approvals");
    let lines: [&[&str]; 14] = [
        &["schema", "show"],
        &["schema", "check", &file],
        &["schema", "apply", &file],
        &["get", "approvals", &key],
        &["query", "approvals", "requester=ann"],
        &["count", "approvals"],
        &["exists", "approvals"],
        &["list", "approvals"],
        &["list", "approvals", "--count"],
        &["keys", "approvals"],
        &["put", "approvals", data],
        &["put", "approvals", data, "--explain"],
        &["check"],
        &["delete", "approvals", &key, "--if-version", "*"],
    ];
    for line in lines {
        let out = database.run(&[line, &["--json"]].concat()).ok();
        assert_eq!(out.lines().count(), 1, "{line:?}");
        assert!(serde_json::from_str::<Json>(&out).unwrap().is_object(), "{line:?}");
    }
}

#[test]
fn an_error_is_a_problem_document_on_the_error_output() {
    let database = Database::new("redb", &["approvals"]);
    let answer = database.run(&["query", "nope", "--json"]);
    assert_eq!(answer.out, "");
    let problem = answer.problem();
    assert_eq!(text(&problem, "/type"), "urn:keyloom:problem:not_found");
    assert_eq!((text(&problem, "/code"), problem["status"].as_u64()), ("not_found", Some(404)));
    assert_eq!(text(&problem, "/collection"), "nope");
    assert!(text(&problem, "/detail").contains("there is no collection `nope`"));
    assert!(!text(&problem, "/title").is_empty());
}

#[test]
fn a_wrong_command_line_is_a_problem_document_too() {
    let answer = keyloom(&["query", "--limit", "x", "a", "--json"], b"");
    assert_eq!(answer.code, 2);
    let problem: Json = serde_json::from_str(&answer.err).unwrap();
    assert_eq!(text(&problem, "/code"), "invalid_argument");
    assert!(text(&problem, "/detail").starts_with("invalid value 'x' for '--limit <N>'"));
}

#[test]
fn documents_come_out_as_they_went_in() {
    let database = Database::none();
    let schema = "[collections.a]\nkey = \"a:{id}\"\n[collections.a.fields]\n\
                  id = { type = \"id\", required = true }\nn = { type = \"json\" }\n";
    database.run(&["schema", "apply", &database.file("a.toml", schema)]).ok();
    let data = r#"{ "n" : [1.0, 123456789012345678901234567890, "é\u0041"],  "id":"x"}"#;
    database.run_with(&["put", "a"], data.as_bytes()).ok();
    for line in [&["get", "a", "a:x", "--json"][..], &["query", "a", "--json"], &["export", "a"]] {
        let out = database.run(line).ok();
        assert!(out.contains(&format!("\"data\":{data}")), "{out}");
    }
}

#[test]
fn help_is_for_people_and_names_every_command() {
    let help = keyloom(&["--help"], b"").ok();
    let commands = [
        "schema", "put", "get", "delete", "query", "count", "exists", "list", "keys", "replace",
        "import", "export", "changes", "check", "demo",
    ];
    for name in commands {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
        let own = keyloom(&[name, "--help"], b"").ok();
        assert!(own.contains(&format!("Usage: keyloom {name}")), "{own}");
        assert!(own.lines().all(|line| line.chars().count() <= 100), "{own}");
    }
    assert!(keyloom(&["--version"], b"").ok().starts_with("keyloom 0."));
}

#[test]
fn what_goes_into_a_pipe_is_plain_and_complete() {
    let database = Database::new("redb", &["approvals"]);
    let wish = "w".repeat(300);
    let data = format!(r#"{{"requester": "ann", "approver": "bob", "description": "{wish}"}}"#);
    database.create("approvals", &data);
    let shown = database.run(&["query", "approvals", "requester=ann"]).ok();
    assert!(shown.contains(&wish) && !shown.contains('\x1b'), "{shown}");
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    // A device that is always full.
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = command(&["schema", "check", &schema("approvals")]);
    let done = command.stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let error = String::from_utf8(done.stderr).unwrap();
    assert!(error.starts_with("keyloom: the output cannot be written: "), "{error}");
}
