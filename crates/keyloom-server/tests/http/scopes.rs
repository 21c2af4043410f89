//! What a token is not for, it does not do: on every operation that the server describes.
//!
//! P1: The operations come from the server's own OpenAPI document, which has every route. One that
//!     is not in the table here fails the test.
//! P2: Each request succeeds with the right token, so that the refusals are about the token.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::Method;
use keyloom_engine::Options;
use keyloom_server::Config;
use serde_json::{Value as Json, json};

use crate::server::{Answer, Clock, Server};

const NOTES: &str = r#"
[collections.notes]
key = "{group}#{id}"
access = { read = "public", write = "public" }
fields.group = { type = "id", required = true }
fields.id = { type = "id", required = true }
fields.code = { type = "text", length = { max = 9 } }
unique.code = "code:{code}"
sets.all = { by = ["group"], max = 9 }

[collections.others]
key = "{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }

[classes.things]
partitions = 1
functions.tell = { url = "http://127.0.0.1:1" }
"#;

/// What nobody may hear of whose token is not for it.
const SECRET: &str = "hidden";

/// What may say that there is nothing to work on.
const ABSENT: [&str; 3] = ["invocationResult", "replay", "deleteDeadLetter"];

/// The rights that an operation needs in the collection or the class that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// None: the answer has what the token is for.
    Nothing,
    Read,
    Write,
    Both,
    /// It is for administrators whose token is for everything.
    Admin,
}

/// What an operation needs, and the body that it takes.
fn expected(operation: &str) -> (Need, Json) {
    let data = json!({"group": "g", "id": "new"});
    let any = json!({"where": {"group": "g"}});
    let scopes = json!({"subject": "eve", "scopes": {"notes": ["read"]}});
    let schema = json!({"collections": {}});
    let create = json!({"op": "create", "collection": "notes", "data": data});
    match operation {
        "health" | "readiness" | "listCollections" | "changes" => (Need::Nothing, Json::Null),
        "showCollection" | "queryDocuments" | "getDocument" | "lookup" | "listKeys" => {
            (Need::Read, Json::Null)
        }
        "query" | "count" | "exists" => (Need::Read, any),
        "list" => (Need::Read, json!({})),
        "getMany" => (Need::Read, json!({"keys": ["g#a"]})),
        "createDocument" => (Need::Write, json!({ "data": data })),
        "putDocument" => (Need::Write, json!({"data": {"group": "g", "id": "a"}})),
        "patchDocument" => (Need::Write, json!({"code": "changed"})),
        "deleteDocument" => (Need::Write, Json::Null),
        "replaceSet" => (Need::Write, json!({"documents": [data]})),
        "batch" => (Need::Write, json!({"operations": [create]})),
        "deleteMany" => (Need::Both, any),
        "metrics" | "listTokens" | "revokeToken" => (Need::Admin, Json::Null),
        "applySchema" => (Need::Admin, schema),
        "createToken" => (Need::Admin, scopes),
        "check" => (Need::Admin, json!({})),
        "capabilities" | "getRollout" | "listClasses" => (Need::Nothing, Json::Null),
        "getObject" | "getValue" | "getBatchValue" | "getClass" | "objectHash" => {
            (Need::Read, Json::Null)
        }
        "deleteObject" | "deleteValue" | "deleteBatchValue" => (Need::Write, Json::Null),
        "setObject" | "mergeObject" => (Need::Write, json!({"entries": {"1": 2}})),
        "setValue" | "setBatchValue" => (Need::Write, json!(2)),
        "batchValues" => (Need::Write, json!({"values": {"1": 2}})),
        "putClass" => (Need::Admin, json!({"partitions": 1})),
        "rewriteClass" => (Need::Admin, json!({})),
        "deleteDeadLetters" | "deleteDeadLetter" => (Need::Admin, Json::Null),
        "setRollout" => (Need::Admin, json!({"phase": 0})),
        "listObjects" | "listValues" | "invocationResult" | "deadLetters" => {
            (Need::Read, Json::Null)
        }
        "invokeFunction" | "invokeOnObject" | "replay" => (Need::Write, json!({})),
        new => panic!("P1: what may a token of another scope do with `{new}`?"),
    }
}

#[tokio::test]
async fn a_token_does_on_no_operation_what_it_is_not_for() {
    let document = Server::start(NOTES).await.get("/openapi.json").await.ok();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = method.to_ascii_uppercase().parse().unwrap();
            let id = operation["operationId"].as_str().unwrap();
            check(id, &method, &path_of(path)).await;
        }
    }
}

/// An operation on the one note or the one object that there is.
fn path_of(path: &str) -> String {
    let id = if path.starts_with("/v1") { "01ARZ3NDEKTSV4RRFFQ69G5FAV" } else { "42" };
    let places = [
        ("{collection}", "notes"),
        ("{key}", "g%23a"),
        ("{name}", "code"),
        ("{values}", SECRET),
        ("{set}", "all"),
        ("{leading}", "g"),
        ("{class}", "things"),
        ("{partition}", "0"),
        ("{field}", "1"),
        ("{function}", "tell"),
        ("{invocation}", "none"),
        ("{sequence}", "1"),
        ("{id}", id),
    ];
    let path = places.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "{path}: what is this part?");
    path
}

async fn check(operation: &str, method: &Method, path: &str) {
    let (need, body) = expected(operation);
    let server = Server::start(NOTES).await;
    let root = server.token(None, &json!({"subject": "root", "role": "admin"})).await;
    let create = server.ask(Method::POST, "/v1/collections/notes/documents").token(&root);
    let note = json!({"data": {"group": "g", "id": "a", "code": SECRET}});
    create.json(&note).send().await.ok();
    let rollout = server.ask(Method::PUT, "/api/rollout").token(&root);
    rollout.json(&json!({"phase": 3})).send().await.ok();
    let create = server.ask(Method::PUT, "/api/class/things/0/objects/42").token(&root);
    let object = json!({"entries": {"1": 1}, "entries_str": {"batch": 1}});
    create.json(&object).send().await.ok();
    let ask = async |token: &str| -> Answer {
        let ask = server.ask(method.clone(), path).token(token);
        let ask = match method.as_str() {
            "PUT" | "PATCH" | "DELETE" => ask.header("if-match", "*"),
            _ => ask,
        };
        let ask = match operation {
            "changes" => ask.header("accept", "application/x-ndjson"),
            _ => ask,
        };
        let ask = if body.is_null() { ask } else { ask.json(&body) };
        ask.send().await
    };
    for (role, scopes) in [
        ("user", json!({"others": ["read", "write"]})),
        ("admin", json!({"others": ["read", "write"]})),
        ("user", json!({"notes": ["read"], "things": ["read"]})),
        ("user", json!({"notes": ["write"], "things": ["write"]})),
        ("admin", json!({"notes": ["read", "write"], "things": ["read", "write"]})),
    ] {
        let subject = json!({"subject": "ann", "role": role, "scopes": scopes});
        let token = server.token(Some(&root), &subject).await;
        let rights = scopes["notes"].as_array().cloned().unwrap_or_default();
        let has = |right: &str| rights.contains(&json!(right));
        let enough = match need {
            Need::Nothing => true,
            Need::Read => has("read"),
            Need::Write => has("write"),
            Need::Both => has("read") && has("write"),
            Need::Admin => false,
        };
        // What is allowed is shown at the end: it may change what the others ask for.
        if enough && need != Need::Nothing {
            continue;
        }
        let before = server.engine.feed().await.unwrap();
        let answer = ask(&token).await;
        let at = format!("{operation} with {subject}: {answer:?}");
        if enough {
            assert_eq!(answer.status, 200, "{at}");
        } else {
            assert_eq!(answer.refusal(), "403 forbidden", "{at}");
        }
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!text.contains(SECRET), "{at}");
        assert!(!enough || has("read") || !text.contains("g#a"), "{at}");
        assert_eq!(server.engine.feed().await.unwrap(), before, "{at}");
    }
    // P2
    let rights = match need {
        Need::Read => json!(["read"]),
        Need::Write => json!(["write"]),
        _ => json!(["read", "write"]),
    };
    let subject = json!({"subject": "ann", "scopes": {"notes": rights, "things": rights}});
    let right = server.token(Some(&root), &subject).await;
    let answer = ask(if need == Need::Admin { &root } else { &right }).await;
    // There is no result and no dead letter, which only he may know who may have them.
    let is_none = answer.status == 404 && ABSENT.contains(&operation);
    assert!(is_none || matches!(answer.status, 200 | 201), "{operation}: {answer:?}");
}

#[tokio::test]
async fn a_token_hears_only_of_collections_and_changes_that_it_is_for() {
    let server = Server::start(NOTES).await;
    let root = server.token(None, &json!({"subject": "root", "role": "admin"})).await;
    let create = |collection: &str, data: Json| {
        let path = format!("/v1/collections/{collection}/documents");
        server.ask(Method::POST, path).token(&root).json(&json!({ "data": data })).send()
    };
    create("notes", json!({"group": "g", "id": "a"})).await.ok();
    create("others", json!({"id": "b"})).await.ok();
    for (collection, key) in [("notes", "g#a"), ("others", "b")] {
        let subject = json!({"subject": "ann", "scopes": {collection: ["read"]}});
        let token = server.token(Some(&root), &subject).await;
        let names = server.ask(Method::GET, "/v1/collections").token(&token).send().await;
        assert_eq!(names.ok(), json!({"collections": [collection]}));
        let feed = server.ask(Method::GET, "/v1/changes").token(&token);
        let feed = feed.header("accept", "application/x-ndjson").send().await;
        let feed = String::from_utf8(feed.body.to_vec()).unwrap();
        assert_eq!(feed.lines().count(), 1, "{feed}");
        assert!(feed.contains(&format!("\"key\":\"{key}\"")), "{feed}");
    }
}

#[tokio::test]
async fn a_feed_does_not_tell_which_collections_there_are() {
    let server = Server::start(NOTES).await;
    let root = server.token(None, &json!({"subject": "root", "role": "admin"})).await;
    let ask = async |token: &str, name: &str| {
        let feed = server.ask(Method::GET, format!("/v1/changes?collection={name}")).token(token);
        feed.header("accept", "application/x-ndjson").send().await
    };
    let subject = json!({"subject": "ann", "scopes": {"things": ["read"], "ghost": ["read"],
        "others": ["write"]}});
    let token = server.token(Some(&root), &subject).await;
    assert_eq!(ask(&token, "things").await.status, 200, "classes have changes, too");
    let mut details = BTreeSet::new();
    for name in ["notes", "others", "none"] {
        let refused = ask(&token, name).await;
        assert_eq!(refused.refusal(), "403 forbidden", "{name}");
        details.insert(refused.detail().replace(name, "…"));
    }
    assert_eq!(details.len(), 1, "{details:?}");
    assert!(details.first().unwrap().contains("not for reading"), "{details:?}");
    let ghost = ask(&token, "ghost").await;
    assert_eq!(ghost.refusal(), "404 not_found");
    assert!(!ghost.detail().contains("notes") && !ghost.detail().contains("others"), "{ghost:?}");
    assert!(ask(&root, "ghost").await.detail().contains("notes"));
}

#[tokio::test]
async fn once_the_last_token_is_revoked_the_local_caller_is_the_administrator_again() {
    let server = Server::start(NOTES).await;
    let check = async || server.post("/v1/check", &json!({})).await;
    assert_eq!(check().await.status, 200);
    let root = server.token(None, &json!({"subject": "root", "role": "admin"})).await;
    assert_eq!(check().await.refusal(), "401 unauthenticated");
    let tokens = server.ask(Method::GET, "/v1/tokens").token(&root).send().await.ok();
    let id = tokens["items"][0]["id"].as_str().unwrap();
    let revoke = || server.ask(Method::DELETE, format!("/v1/tokens/{id}")).token(&root).send();
    assert_eq!(revoke().await.ok()["revoked"], true);
    assert_eq!(revoke().await.refusal(), "401 unauthenticated", "with the next request");
    assert_eq!(check().await.status, 200);
}

#[tokio::test]
async fn a_token_that_is_expired_cut_off_or_changed_is_refused_in_one_way() {
    let clock = Arc::new(Clock::default());
    clock.set(1000);
    let options = Options { system: Arc::clone(&clock) as _, ..Options::default() };
    let server = Server::with(NOTES, options, Config::default()).await;
    let token = server.token(None, &json!({"subject": "ann", "expires_at": 2000})).await;
    let ask =
        async |token: &str| server.ask(Method::GET, "/v1/collections").token(token).send().await;
    assert_eq!(ask(&token).await.status, 200);
    let cut = token.split_at(token.len() - 1).0;
    let first = cut.replacen('_', "-", 1);
    let middle = token.len() - 10;
    let mut other = token.clone().into_bytes();
    other[middle] = if other[middle] == b'A' { b'B' } else { b'A' };
    let other = String::from_utf8(other).unwrap();
    let mut details = BTreeSet::new();
    for wrong in [cut, &first, &other, "", "nonsense"] {
        let refused = ask(wrong).await;
        assert_eq!(refused.refusal(), "401 unauthenticated", "{wrong}");
        details.insert(refused.detail());
    }
    clock.set(2000);
    let expired = ask(&token).await;
    assert_eq!(expired.refusal(), "401 unauthenticated");
    details.insert(expired.detail());
    assert_eq!(details.len(), 1, "{details:?}");
}
