//! The command line over HTTP: the same commands, the same answers.

use serde_json::Value as Json;

use crate::program::{Answer, keyloom};
use crate::server::Server;

const APPROVALS: &str = include_str!("../../../../schemas/approvals.toml");
const STICKERS: &str = include_str!("../../../../schemas/stickers.toml");

fn wish(requester: &str, description: &str) -> String {
    let data = serde_json::json!({
        "requester": requester, "approver": "boss", "description": description
    });
    data.to_string()
}

#[test]
fn every_question_has_the_same_answer_from_a_server_and_from_its_folder() {
    let mut server = Server::start(APPROVALS);
    let mut code = String::new();
    for (requester, what) in [("ann", "a plant"), ("ann", "a lamp"), ("bob", "a chair")] {
        let put = ["put", "approvals", &wish(requester, what), "--json", "--description", what];
        let created: Json = serde_json::from_str(&server.run(&put).ok()).unwrap();
        code = created["data"]["code"].as_str().unwrap().to_owned();
    }
    let lines: Vec<Vec<&str>> = vec![
        vec!["schema", "show"],
        vec!["schema", "show", "--toml"],
        vec!["get", "approvals", "--unique", "code", &code],
        vec!["query", "approvals", "requester=ann", "--order", "-created_at", "--explain"],
        vec!["query", "approvals", "status.in=pending,denied", "--limit", "2", "--explain"],
        vec!["query", "approvals", "--any", "requester=ann", "--any", "approver=boss"],
        vec!["query", "approvals", "--any", "requester=ann", "--any", "approver=boss", "--explain"],
        vec!["query", "approvals", "created_at.gt=1", "created_at.gt=2"],
        vec!["query", "approvals", "requester=ann", "--select", "approver"],
        vec!["query", "approvals", "comment=x", "--scan", "100", "--explain"],
        vec!["count", "approvals", "requester=ann", "--explain"],
        vec!["exists", "approvals", "requester=zoe"],
        vec!["list", "approvals", "--key", "^approval:record:", "--order", "-keys", "--explain"],
        vec!["list", "approvals", "--description", "^a", "--scan", "100", "--count"],
        vec!["keys", "approvals", "--index", "requester"],
        vec!["export", "approvals"],
        vec!["changes"],
        vec!["check"],
        vec!["get", "approvals", "approval:record:01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        vec!["get", "nothing", "x"],
        vec!["query", "approvals", "comment.prefix=urgent"],
        vec!["put", "approvals", "{\"requester\": 7}"],
        vec!["delete", "approvals", "nonsense"],
    ];
    let over_http: Vec<(Answer, Answer)> = lines
        .iter()
        .map(|line| (server.run(line), server.run(&[line, &["--json"][..]].concat())))
        .collect();
    server.stop();
    let data = server.data();
    for (line, (text, json)) in lines.iter().zip(over_http) {
        let local = keyloom(&[line, &["--data", &data][..]].concat(), b"");
        assert_eq!((text.code, text.out, text.err), (local.code, local.out, local.err), "{line:?}");
        if line.contains(&"--toml") {
            continue;
        }
        let local = keyloom(&[line, &["--data", &data, "--json"][..]].concat(), b"");
        assert_eq!((json.code, json.out, json.err), (local.code, local.out, local.err), "{line:?}");
    }
}

#[test]
fn without_a_token_an_export_does_not_pass_for_a_backup() {
    let server = Server::start(APPROVALS);
    server.run(&["put", "approvals", &wish("ann", "a plant"), "--as", "ann"]).ok();
    assert_eq!(server.run(&["export", "approvals"]).ok().lines().count(), 1);
    let made = server.run(&["token", "create", "root", "--admin"]).ok();
    let token = server.file("token", &made);
    server.run(&["export", "approvals"]).refused("no token was sent");
    let all = server.run(&["export", "approvals", "--token-file", &token]).ok();
    assert_eq!(all.lines().count(), 1);
}

#[test]
fn the_rules_for_production_are_those_of_the_server() {
    let server = Server::start(APPROVALS);
    let line = ["put", "approvals", &wish("ann", "a plant"), "--production"];
    assert!(server.run(&line).err.contains("keyloom serve --production"));
}

#[test]
fn documents_are_written_over_http_as_they_are_in_a_folder() {
    let server = Server::start(APPROVALS);
    let created = server.run(&["put", "approvals", &wish("ann", "a plant"), "--json"]).ok();
    let created: Json = serde_json::from_str(&created).unwrap();
    let key = created["key"].as_str().unwrap();
    let version = created["version"].to_string();
    let planned = server.run(&["put", "approvals", &wish("ann", "x"), "--explain"]).ok();
    assert!(planned.contains("nothing was written"), "{planned}");
    let patch = ["put", "approvals", r#"{"comment": "soon"}"#, "--key", key, "--patch"];
    server.run(&patch).refused("exists at version");
    let stale = [&patch[..], &["--if-version", "7"]].concat();
    server.run(&stale).refused("version conflict");
    let right = [&patch[..], &["--if-version", &version]].concat();
    assert!(server.run(&right).ok().starts_with(&format!("updated {key}\n")));
    server.run(&["put", "approvals", &wish("ann", "b"), "--as", "eve"]).refused("must be yours");
    let deleted = server.run(&["delete", "approvals", key, "--if-version", "*"]).ok();
    assert_eq!(deleted, format!("deleted {key}\n"));
    let again = server.run(&["delete", "approvals", key]).ok();
    assert_eq!(again, format!("there is no {key}: nothing to delete\n"));
}

#[test]
fn sets_are_replaced_and_schemas_applied_over_http() {
    let server = Server::start(STICKERS);
    let replace = |values: &[&str]| {
        let lines: Vec<String> = values
            .iter()
            .map(|value| format!(r#"{{"author":"a#b","file":"f/1","value":"{value}"}}"#))
            .collect();
        let from = lines.join("\n");
        server.run(&["replace", "sticker_tags", "values", "a#b", "f/1", "--from", &from])
    };
    assert!(replace(&["one", "two"]).ok().starts_with("2 documents written, 0 documents deleted"));
    assert!(replace(&["two", "six"]).ok().starts_with("1 document written, 1 document deleted"));
    let file = server.file("more.toml", APPROVALS);
    let dry = server.run(&["schema", "apply", &file, "--dry-run"]).ok();
    assert!(dry.ends_with("nothing was changed: this was a dry run\n"), "{dry}");
    server.run(&["count", "approvals"]).refused("there is no collection `approvals`");
    assert!(server.run(&["schema", "apply", &file]).ok().starts_with("approvals: new collection"));
    assert!(server.run(&["count", "approvals"]).ok().starts_with("0\n"));
}

#[test]
fn what_is_exported_from_one_server_is_imported_into_another_with_its_owners() {
    let source = Server::start(APPROVALS);
    for owner in ["ann", "bob"] {
        source.run(&["put", "approvals", &wish(owner, "x"), "--as", owner]).ok();
    }
    let exported = source.run(&["export", "approvals"]).ok();
    let target = Server::start(APPROVALS);
    let file = target.file("export.ndjson", &exported);
    let imported = target.run(&["import", "approvals", &file, "--json"]).ok();
    assert_eq!(imported, "{\"imported\":2}\n");
    let owners = |lines: &str| -> Vec<(String, String)> {
        let documents = lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        documents.map(|d| (d["key"].to_string(), d["owner"].to_string())).collect()
    };
    let arrived = target.run(&["export", "approvals"]).ok();
    assert_eq!(owners(&arrived), owners(&exported));
    // The second time stops at its first line, and says how to go on.
    let again = target.run(&["import", "approvals", &file]).refused("line 1");
    assert!(again.contains("is taken") && again.contains("0 documents imported"), "{again}");
    assert!(target.run(&["check"]).ok().contains("all agree"));
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let told = keyloom(&["count", "approvals", "--url", &url], b"").refused("no server answers at");
    assert!(told.contains(&url) && told.contains("keyloom serve") && told.contains("--data DIR"));
    keyloom(&["count", "a", "--url", "nonsense"], b"").misused("--url nonsense");
    keyloom(&["count", "a", "--url", &url, "--data", "d"], b"").misused("--data");
}
