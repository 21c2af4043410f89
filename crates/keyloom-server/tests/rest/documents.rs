//! Documents over HTTP: rows J-01 to J-12, J-32, J-34.

use hyper::Method;
use serde_json::json;

use crate::server::{NOTES, Server};

const A: &str = "/v1/collections/notes/documents/note%3Aa";
const ALL: &str = "/v1/collections/notes/documents";

fn body(id: &str, rank: i64) -> serde_json::Value {
    json!({ "data": { "id": id, "rank": rank } })
}

fn version(document: &serde_json::Value) -> String {
    format!("\"{}\"", document["version"])
}

#[tokio::test]
async fn j01_an_absent_key_is_created_without_a_version() {
    let server = Server::start(NOTES).await;
    let created = server.json(Method::PUT, A, &body("a", 1)).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), A);
    let document = created.read();
    assert_eq!(created.header("etag"), version(&document));
    assert_eq!(document["created_at"], document["updated_at"]);
    assert_eq!(server.get(A).await.body, created.body);
}

#[tokio::test]
async fn j02_j03_j05_a_change_without_the_right_version_is_refused_and_changes_nothing() {
    let server = Server::start(NOTES).await;
    let absent = server.json_with(Method::PUT, A, &[("if-match", "\"7\"")], &body("a", 1)).await;
    assert_eq!(absent.problem(), "412 version_conflict");
    assert_eq!(absent.read()["versions"], json!({ "expected": 7, "stored": null }));
    assert_eq!(server.get(A).await.problem(), "404 not_found");
    let stored = server.create("notes", &json!({ "id": "a", "rank": 1 })).await;
    let unsaid = server.json(Method::PUT, A, &body("a", 2)).await;
    assert_eq!(unsaid.problem(), "428 precondition_required");
    let wrong = server.json_with(Method::PUT, A, &[("if-match", "\"7\"")], &body("a", 2)).await;
    assert_eq!(wrong.problem(), "412 version_conflict");
    assert_eq!(wrong.read()["versions"], json!({ "expected": 7, "stored": stored["version"] }));
    let only_new = [("if-none-match", "*")];
    let taken = server.json_with(Method::PUT, A, &only_new, &body("a", 2)).await;
    assert_eq!(taken.problem(), "412 version_conflict");
    assert_eq!(server.get(A).await.read(), stored);
}

#[tokio::test]
async fn j04_the_right_version_replaces_data_and_description() {
    let server = Server::start(NOTES).await;
    let described = json!({ "data": { "id": "a" }, "description": "old" });
    let first = server.json(Method::PUT, A, &described).await.read();
    let etag = version(&first);
    let second = server.json_with(Method::PUT, A, &[("if-match", &etag)], &body("a", 2)).await;
    assert_eq!(second.status, 200);
    let second = second.read();
    assert!(second["version"].as_u64() > first["version"].as_u64());
    assert_eq!(second["created_at"], first["created_at"]);
    assert_eq!(second["description"], json!(null));
    assert_eq!(second["data"]["rank"], 2);
    let overwritten = server.json_with(Method::PUT, A, &[("if-match", "*")], &body("a", 3)).await;
    assert_eq!(overwritten.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn j07_of_two_writers_with_one_version_exactly_one_wins_each_round() {
    let server = Server::start(NOTES).await;
    let mut stored = server.create("notes", &json!({ "id": "a" })).await;
    for round in 0..200 {
        let etag = version(&stored);
        let (even, odd) = (body("a", round), body("a", -round));
        let headers = [("if-match", etag.as_str())];
        let one = server.json_with(Method::PUT, A, &headers, &even);
        let other = server.json_with(Method::PUT, A, &headers, &odd);
        let (one, other) = tokio::join!(one, other);
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "round {round}");
        stored = server.get(A).await.read();
    }
}

#[tokio::test]
async fn j08_a_delete_of_nothing_is_fine_and_one_without_the_version_is_refused() {
    let server = Server::start(NOTES).await;
    let absent = server.send(Method::DELETE, A, &[], b"").await;
    assert_eq!(absent.read(), json!({ "key": "note:a", "deleted": false }));
    let stored = server.create("notes", &json!({ "id": "a" })).await;
    let unsaid = server.send(Method::DELETE, A, &[], b"").await;
    assert_eq!(unsaid.problem(), "428 precondition_required");
    let wrong = server.send(Method::DELETE, A, &[("if-match", "\"1\"")], b"").await;
    assert_eq!(wrong.problem(), "412 version_conflict");
    assert_eq!(server.get(A).await.status, 200);
    let etag = version(&stored);
    let gone = server.send(Method::DELETE, A, &[("if-match", &etag)], b"").await.read();
    assert_eq!(gone["deleted"], true);
    assert!(gone["version"].as_u64() > stored["version"].as_u64());
    assert_eq!(server.get(A).await.problem(), "404 not_found");
}

#[tokio::test]
async fn j09_j10_a_batch_happens_whole_or_not_and_the_error_names_the_operation() {
    let schema = format!(
        "{NOTES}\n[collections.b]\nkey = \"b:{{id}}\"\n\
         access = {{ read = \"public\", write = \"public\" }}\n\
         [collections.b.fields]\nid = {{ type = \"id\", required = true }}\n"
    );
    let server = Server::start(&schema).await;
    server.create("b", &json!({ "id": "x" })).await;
    let fine = json!({ "op": "create", "collection": "notes", "data": { "id": "a" } });
    let stale = json!({ "op": "delete", "collection": "b", "key": "b:x", "if_version": 7 });
    let refused = server.post("/v1/batch", &json!({ "operations": [fine, stale] })).await;
    assert_eq!(refused.problem(), "412 version_conflict");
    assert_eq!(refused.read()["operation"], 1);
    assert_eq!(server.get(A).await.status, 404);
    let twice = server.post("/v1/batch", &json!({ "operations": [fine, fine] })).await;
    assert!(twice.status == 400 || twice.status == 409, "{twice:?}");
    assert_eq!(server.get(A).await.status, 404);
    let star = json!({ "op": "delete", "collection": "b", "key": "b:x", "if_version": "*" });
    let done = server.post("/v1/batch", &json!({ "operations": [fine, star] })).await.read();
    assert_eq!(done["results"][0]["outcome"], "created");
    assert_eq!(done["results"][0]["document"]["key"], "note:a");
    assert_eq!(done["results"][1]["outcome"], "deleted");
    let patch = json!({ "op": "patch", "collection": "notes", "key": "note:a",
                        "data": { "rank": 9 }, "if_version": "*" });
    let plan = server.post("/v1/batch?explain=true", &json!({ "operations": [patch] })).await;
    assert_eq!(plan.read()["deletes"][0]["key"], "rank:0:a");
}

#[tokio::test]
async fn j11_many_are_got_in_order_with_null_for_what_is_absent() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await;
    let keys = json!({ "keys": ["note:b", "note:a", "note:a"] });
    let found = server.post("/v1/collections/notes/get", &keys).await.read();
    let items = found["items"].as_array().unwrap();
    assert_eq!(items[0], json!(null));
    assert_eq!(items[1]["key"], "note:a");
    assert_eq!(items[1], items[2]);
    let many: Vec<String> = (0..1001).map(|number| format!("note:{number}")).collect();
    let refused = server.post("/v1/collections/notes/get", &json!({ "keys": many })).await;
    assert_eq!(refused.problem(), "413 limit_exceeded");
    assert_eq!(refused.read()["max"], 1000);
}

#[tokio::test]
async fn j12_a_delete_by_filter_is_bounded_and_says_whether_more_remain() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c", "d", "e"] {
        server.create("notes", &json!({ "id": id, "rank": 7 })).await;
    }
    server.create("notes", &json!({ "id": "f", "rank": 8 })).await;
    let filter = json!({ "where": { "rank": 7 }, "limit": 3 });
    let path = "/v1/collections/notes/delete";
    let first = server.post(path, &filter).await.read();
    assert_eq!((first["deleted"].as_u64(), first["more"].as_bool()), (Some(3), Some(true)));
    let second = server.post(path, &filter).await.read();
    assert_eq!((second["deleted"].as_u64(), second["more"].as_bool()), (Some(2), Some(false)));
    assert_eq!(server.get(ALL).await.keys(), ["note:f"]);
    let unserved = server.post(path, &json!({ "where": { "text": "x" } })).await;
    assert_eq!(unserved.problem(), "400 no_index");
}

#[tokio::test]
async fn a_patch_merges_and_moves_the_document_when_its_key_changes() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a", "rank": 1, "text": "x" })).await;
    let any = [("if-match", "*")];
    let patched =
        server.json_with(Method::PATCH, A, &any, &json!({ "text": null, "rank": 5 })).await;
    assert_eq!(patched.read()["data"], json!({ "id": "a", "rank": 5 }));
    let merge = [("if-match", "*"), ("content-type", "application/merge-patch+json")];
    let moved = server.send(Method::PATCH, A, &merge, br#"{"id": "b"}"#).await;
    assert_eq!(moved.status, 200);
    assert_eq!(moved.header("content-location"), "/v1/collections/notes/documents/note%3Ab");
    assert_eq!(server.get(A).await.status, 404);
    let absent = server.json_with(Method::PATCH, A, &any, &json!({})).await;
    assert!(absent.status == 404 || absent.status == 412, "{absent:?}");
}

#[tokio::test]
async fn j32_an_unknown_collection_is_named() {
    let server = Server::start(NOTES).await;
    let get = server.get("/v1/collections/nope/documents/x").await;
    let query = server.get("/v1/collections/nope/documents").await;
    let create = server.post("/v1/collections/nope/documents", &body("a", 1)).await;
    let show = server.get("/v1/collections/nope").await;
    for answer in [get, query, create, show] {
        assert_eq!(answer.problem(), "404 not_found");
        assert_eq!(answer.read()["collection"], "nope");
    }
}

#[tokio::test]
async fn j34_text_is_bounded_in_characters() {
    let server = Server::start(NOTES).await;
    let long = json!({ "data": { "id": "a", "text": "é".repeat(11) } });
    assert_eq!(server.post(ALL, &long).await.problem(), "422 rule_violation");
    let data = json!({ "id": "a", "text": "é".repeat(10) });
    assert_eq!(server.create("notes", &data).await["data"]["text"], "é".repeat(10));
}

#[tokio::test]
async fn a_document_is_found_by_its_unique_claim_and_taken_claims_are_named() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a", "code": "x y/z" })).await;
    let path = "/v1/collections/notes/unique/code/x%20y%2Fz";
    let found = server.get(path).await;
    assert!(found.status == 200 || found.status == 400, "{found:?}");
    let taken = server.post(ALL, &json!({ "data": { "id": "b", "code": "x y/z" } })).await;
    assert_eq!(taken.problem(), "409 unique_violation");
    assert_eq!(taken.read()["claim"], "code");
    let absent = server.get("/v1/collections/notes/unique/code/none").await;
    assert_eq!(absent.problem(), "404 not_found");
    let unknown = server.get("/v1/collections/notes/unique/name/none").await;
    assert_eq!(unknown.problem(), "400 invalid_argument");
}

#[tokio::test]
async fn stored_bytes_come_back_as_they_were_sent() {
    let server = Server::start(NOTES).await;
    let data =
        r#"{ "id" : "a", "rank":1,  "extra": {"big": 123456789012345678901234567890, "f": 1.0} }"#;
    let sent = format!(r#"{{"data": {data}}}"#);
    let json = [("content-type", "application/json")];
    let created = server.send(Method::POST, ALL, &json, sent.as_bytes()).await;
    assert_eq!(created.status, 201);
    for path in [A, ALL] {
        let body = server.get(path).await.body;
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains(r#""big": 123456789012345678901234567890, "f": 1.0"#), "{text}");
    }
}

#[tokio::test]
async fn a_set_is_replaced_whole() {
    let stickers = include_str!("../../../../schemas/stickers.toml");
    let server = Server::start(stickers).await;
    let path = "/v1/collections/sticker_tags/sets/values/u1/f1";
    let set = |values: &[&str]| {
        let documents: Vec<_> = values
            .iter()
            .map(|value| json!({ "author": "u1", "file": "f1", "value": value }))
            .collect();
        json!({ "documents": documents })
    };
    assert_eq!(server.json(Method::PUT, path, &set(&["one", "two"])).await.status, 200);
    let swapped = server.json(Method::PUT, path, &set(&["two", "three"])).await.read();
    assert!(swapped["results"].as_array().unwrap().iter().any(|one| one["outcome"] == "deleted"));
    let keys = server.get("/v1/collections/sticker_tags/keys").await.read();
    assert_eq!(keys["keys"], json!(["u1#f1#three", "u1#f1#two"]));
    assert_eq!(server.json(Method::PUT, path, &set(&[])).await.problem(), "422 rule_violation");
}
