//! Documents through HTTP: versions, preconditions, batches, many at once (rows J-01 to J-12 and
//! J-26 to J-34; those about several callers are shown with the command line).

use axum::http::Method;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{Answer, NOTES as FIELDS, Server, document_path};

const DOCUMENTS: &str = "/v1/collections/notes/documents";
const A: &str = "/v1/collections/notes/documents/note%3Aa";

/// A collection in which anybody may do anything.
const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.text = { type = "text", length = { max = 5 } }
"#;

/// Another one.
const OTHERS: &str = r#"
[collections.others]
key = "other:{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
"#;

async fn notes() -> Server {
    Server::start(&[NOTES, OTHERS].concat()).await
}

/// Puts a note with a precondition: the name of the header and its value.
async fn put(
    server: &Server,
    id: &str,
    text: &str,
    condition: Option<(&'static str, &str)>,
) -> Answer {
    let ask = server.ask(Method::PUT, document_path("notes", &format!("note:{id}")));
    let ask = condition.into_iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    ask.json(&json!({"data": {"id": id, "text": text}})).send().await
}

async fn delete(server: &Server, id: &str, condition: Option<&str>) -> Answer {
    let ask = server.ask(Method::DELETE, document_path("notes", &format!("note:{id}")));
    condition.into_iter().fold(ask, |ask, value| ask.header("if-match", value)).send().await
}

async fn text(server: &Server, id: &str) -> Json {
    server.document("notes", &format!("note:{id}")).await.ok()["data"]["text"].clone()
}

fn etag(answer: &Answer) -> String {
    answer.headers["etag"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn j01_a_key_that_is_absent_is_created_without_a_version() {
    let server = notes().await;
    let created = put(&server, "a", "one", None).await;
    assert_eq!(created.status, 201);
    let document = created.ok();
    assert_eq!(document["key"], "note:a");
    assert_eq!(document["created_at"], document["updated_at"]);
    assert_eq!(etag(&created), format!("\"{}\"", document["version"]));
    assert_eq!(created.header("location"), A);
    let found = server.get(A).await;
    assert_eq!((found.status, found.body), (200, created.body));
}

#[tokio::test]
async fn j02_j03_an_existing_document_is_changed_only_at_its_version() {
    let server = notes().await;
    let first = put(&server, "a", "one", None).await;
    let version = &first.ok()["version"];
    let unsaid = put(&server, "a", "two", None).await;
    assert_eq!(unsaid.refusal(), "428 precondition_required");
    let wrong = put(&server, "a", "two", Some(("if-match", "\"7\""))).await;
    assert_eq!(wrong.refusal(), "412 version_conflict");
    assert_eq!(wrong.json()["versions"], json!({"expected": 7, "stored": version}));
    let only_new = put(&server, "a", "two", Some(("if-none-match", "*"))).await;
    assert_eq!(only_new.refusal(), "412 version_conflict");
    assert_eq!(server.get(A).await.body, first.body);
}

#[tokio::test]
async fn j04_a_change_keeps_the_time_of_creation_and_replaces_the_description() {
    let server = notes().await;
    let path = document_path("notes", "note:a");
    let body = json!({"data": {"id": "a"}, "description": "mine"});
    let first = server.ask(Method::PUT, path.clone()).json(&body).send().await;
    assert_eq!(first.ok()["description"], "mine");
    let second = put(&server, "a", "two", Some(("if-match", &etag(&first)))).await.ok();
    assert!(second["version"].as_u64() > first.json()["version"].as_u64());
    assert_eq!(second["created_at"], first.json()["created_at"]);
    assert_eq!(second["description"], Json::Null);
    assert_eq!(second["data"]["text"], "two");
    let whatever = put(&server, "a", "three", Some(("if-match", "*"))).await;
    assert_eq!((whatever.status, text(&server, "a").await), (200, json!("three")));
}

#[tokio::test]
async fn j01_j04_a_document_keeps_its_owner_and_its_time_whoever_else_may_change_it() {
    let server = Server::start(&NOTES.replace("write = \"public\"", "write = \"managed\"")).await;
    let root = server.token(None, &json!({"subject": "root", "role": "admin"})).await;
    let ann = server.token(Some(&root), &json!({"subject": "ann"})).await;
    let body = |text: &str| json!({"data": {"id": "a", "text": text}});
    let create = server.ask(Method::PUT, A).token(&ann).json(&body("one"));
    let first = create.send().await;
    assert_eq!((first.status, &first.json()["owner"]), (201, &json!("ann")));
    let change = server.ask(Method::PUT, A).token(&root).header("if-match", &etag(&first));
    let second = change.json(&body("two")).send().await.ok();
    assert_eq!((&second["data"]["text"], &second["owner"]), (&json!("two"), &json!("ann")));
    assert_eq!(second["created_at"], first.json()["created_at"]);
}

#[tokio::test]
async fn j05_a_key_that_is_absent_is_not_created_at_a_version() {
    let server = notes().await;
    let refused = put(&server, "a", "one", Some(("if-match", "\"7\""))).await;
    assert_eq!(refused.refusal(), "412 version_conflict");
    assert_eq!(refused.json()["versions"], json!({"expected": 7, "stored": null}));
    let refused = put(&server, "a", "one", Some(("if-match", "*"))).await;
    assert_eq!(refused.refusal(), "412 version_conflict");
    assert!(refused.json()["detail"].as_str().unwrap().contains("expected any version"));
    assert_eq!(server.get(A).await.refusal(), "404 not_found");
    assert_eq!(server.documents("notes").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn j07_of_two_writers_with_one_version_exactly_one_wins_each_of_1000_rounds() {
    let server = notes().await;
    let mut tag = etag(&put(&server, "a", "0", None).await);
    for round in 0..1000 {
        let mut writers = JoinSet::new();
        for name in ["left", "right"] {
            let (server, tag) = (server.clone(), tag.clone());
            writers.spawn(async move { put(&server, "a", name, Some(("if-match", &tag))).await });
        }
        let answers = writers.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 200);
        assert_eq!((won.len(), lost.len()), (1, 1), "round {round}");
        assert_eq!(lost[0].refusal(), "412 version_conflict");
        tag = etag(won[0]);
        assert_eq!(text(&server, "a").await, won[0].json()["data"]["text"]);
    }
}

#[tokio::test]
async fn j08_a_delete_needs_the_version_unless_there_is_nothing() {
    let server = notes().await;
    let absent = delete(&server, "a", None).await;
    assert_eq!(absent.ok(), json!({"key": "note:a", "deleted": false}));
    let created = put(&server, "a", "one", None).await;
    assert_eq!(delete(&server, "a", None).await.refusal(), "428 precondition_required");
    let wrong = delete(&server, "a", Some("\"7\"")).await;
    assert_eq!(wrong.refusal(), "412 version_conflict");
    assert_eq!(text(&server, "a").await, "one");
    let gone = delete(&server, "a", Some(&etag(&created))).await.ok();
    assert_eq!(gone["deleted"], true);
    assert!(gone["version"].as_u64() > created.json()["version"].as_u64());
    assert_eq!(server.get(A).await.refusal(), "404 not_found");
    let again = put(&server, "a", "two", None).await.ok();
    assert!(again["version"].as_u64() > gone["version"].as_u64());
    let stale = put(&server, "a", "late", Some(("if-match", &etag(&created)))).await;
    assert_eq!(stale.refusal(), "412 version_conflict");
}

#[tokio::test]
async fn j09_j10_a_batch_is_applied_whole_or_not_at_all() {
    let server = notes().await;
    put(&server, "b", "old", None).await.ok();
    let other = json!({"op": "create", "collection": "others", "data": {"id": "a"}});
    let stale = json!({"op": "put", "collection": "notes", "key": "note:b", "if_version": 7,
                       "data": {"id": "b", "text": "new"}});
    let refused = server.post("/v1/batch", &json!({"operations": [other, stale]})).await;
    assert_eq!(refused.refusal(), "412 version_conflict");
    assert_eq!(refused.json()["operation"], 1);
    let twice = server.post("/v1/batch", &json!({"operations": [other, other]})).await;
    assert_eq!(twice.refusal(), "400 invalid_argument");
    assert_eq!(server.documents("others").await, 0);
    assert_eq!(text(&server, "b").await, "old");
    let delete = json!({"op": "delete", "collection": "notes", "key": "note:b", "if_version": "*"});
    let fine = server.post("/v1/batch", &json!({"operations": [other, delete]})).await.ok();
    assert_eq!(
        (&fine["results"][0]["outcome"], &fine["results"][0]["key"]),
        (&json!("created"), &json!("other:a"))
    );
    assert_eq!(fine["results"][0]["document"], server.document("others", "other:a").await.ok());
    assert_eq!(fine["results"][1]["outcome"], "deleted");
    assert_eq!((server.documents("others").await, server.documents("notes").await), (1, 0));
}

#[tokio::test]
async fn the_plan_of_a_batch_lists_every_key_and_writes_none() {
    let server = Server::start(FIELDS).await;
    let created = server.create("notes", &json!({"id": "a"})).await;
    let patch = json!({"op": "patch", "collection": "notes", "key": "note:a",
                       "data": {"rank": 9}, "if_version": "*"});
    let operations = json!({"operations": [patch]});
    let plan = server.post("/v1/batch?explain=true", &operations).await.ok();
    assert_eq!(plan["deletes"][0]["key"], "rank:0:a");
    let puts = plan["puts"].as_array().unwrap();
    assert!(puts.iter().any(|put| put["key"] == "rank:9:a"), "{plan}");
    assert_eq!(server.get(A).await.body, created.body);
}

#[tokio::test]
async fn j11_many_documents_come_in_the_order_of_their_keys_and_what_is_absent_in_its_place() {
    let server = notes().await;
    for id in ["a", "b"] {
        put(&server, id, id, None).await.ok();
    }
    let keys = json!({"keys": ["note:b", "note:x", "note:a", "note:b"]});
    let found = server.post("/v1/collections/notes/get", &keys).await.ok();
    let texts: Vec<Json> =
        (0..4).map(|place| found["items"][place]["data"]["text"].clone()).collect();
    assert_eq!(texts, [json!("b"), Json::Null, json!("a"), json!("b")]);
    assert_eq!(found["items"][1], Json::Null);
    let many: Vec<String> = (0..1001).map(|number| format!("note:{number}")).collect();
    let refused = server.post("/v1/collections/notes/get", &json!({ "keys": many })).await;
    assert_eq!(refused.refusal(), "413 limit_exceeded");
    assert_eq!(refused.json()["max"], 1000);
}

#[tokio::test]
async fn j12_a_delete_by_filter_deletes_what_the_filter_finds() {
    let server = notes().await;
    for id in ["a1", "a2", "a3", "b1"] {
        put(&server, id, "x", None).await.ok();
    }
    let filter = json!({"where": {"id": {"prefix": "a"}}, "limit": 2});
    let done = server.post("/v1/collections/notes/delete", &filter).await.ok();
    assert_eq!((&done["deleted"], &done["more"]), (&json!(2), &json!(true)));
    let done = server.post("/v1/collections/notes/delete", &filter).await.ok();
    assert_eq!((&done["deleted"], &done["more"]), (&json!(1), &json!(false)));
    assert_eq!(server.keys("notes", "key").await, ["note:b1"]);
    let unserved = json!({"where": {"text": "x"}});
    let refused = server.post("/v1/collections/notes/delete", &unserved).await;
    assert_eq!(refused.refusal(), "400 no_index");
    // What was forgotten does not mean everything.
    for nothing in [json!({}), json!({"where": {}, "any": []}), json!({"limit": 1})] {
        let refused = server.post("/v1/collections/notes/delete", &nothing).await;
        assert_eq!(refused.refusal(), "400 invalid_argument");
    }
    let all = json!({"any": [{}]});
    let done = server.post("/v1/collections/notes/delete", &all).await.ok();
    assert_eq!((&done["deleted"], &done["more"]), (&json!(1), &json!(false)));
    server.assert_sound().await;
}

#[tokio::test]
async fn a_patch_merges_and_moves_the_document_when_its_key_changes() {
    let server = Server::start(FIELDS).await;
    server.create("notes", &json!({"id": "a", "rank": 1, "text": "x"})).await.ok();
    let patch = || server.ask(Method::PATCH, A).header("if-match", "*");
    let patched = patch().json(&json!({"text": null, "rank": 5})).send().await;
    assert_eq!(patched.ok()["data"], json!({"id": "a", "rank": 5}));
    let moved = patch().bytes("application/merge-patch+json", r#"{"id": "b"}"#).send().await;
    assert_eq!(moved.status, 200);
    assert_eq!(moved.header("content-location"), "/v1/collections/notes/documents/note%3Ab");
    assert_eq!(server.get(A).await.refusal(), "404 not_found");
    assert_eq!(patch().json(&json!({})).send().await.refusal(), "404 not_found");
}

#[tokio::test]
async fn a_document_is_found_by_its_unique_claim_and_taken_claims_are_named() {
    let server = Server::start(FIELDS).await;
    let created = server.create("notes", &json!({"id": "a", "code": "x y/z"})).await.ok();
    let found = server.get("/v1/collections/notes/unique/code/x%20y%2Fz").await;
    assert_eq!(found.ok(), created);
    let taken = server.create("notes", &json!({"id": "b", "code": "x y/z"})).await;
    assert_eq!(taken.refusal(), "409 unique_violation");
    assert_eq!(taken.json()["claim"], "code");
    let absent = server.get("/v1/collections/notes/unique/code/none").await;
    assert_eq!(absent.refusal(), "404 not_found");
    let unknown = server.get("/v1/collections/notes/unique/name/none").await;
    assert_eq!(unknown.refusal(), "400 invalid_argument");
}

#[tokio::test]
async fn stored_bytes_come_back_as_they_were_sent() {
    let server = Server::start(FIELDS).await;
    let extra = r#"{"big": 123456789012345678901234567890,  "f": 1.0}"#;
    let sent = format!(r#"{{"data": {{ "id" : "a", "rank":1,  "extra": {extra} }}}}"#);
    let create = server.ask(Method::POST, DOCUMENTS).bytes("application/json", sent.clone());
    assert_eq!(create.send().await.status, 201);
    let list = server.post("/v1/collections/notes/list", &json!({})).await;
    let keys = json!({"keys": ["note:a"]});
    let many = server.post("/v1/collections/notes/get", &keys).await;
    let operation = format!(
        r#"{{"op": "put", "collection": "notes", "key": "note:a", "if_version": "*", {}"#,
        sent.strip_prefix('{').unwrap()
    );
    let batch = server.ask(Method::POST, "/v1/batch");
    let batch = batch.bytes("application/json", format!(r#"{{"operations": [{operation}]}}"#));
    let answers =
        [server.get(A).await, server.get(DOCUMENTS).await, list, many, batch.send().await];
    for answer in answers {
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.contains(extra), "{text}");
    }
}

#[tokio::test]
async fn j26_collections_do_not_leak_whatever_their_names() {
    let names = ["a", "A", "ab", "a-b", "a_b", "documents", "query"];
    let other = |name: &str| OTHERS.replace("others", name).replace("other:{id}", "{id}");
    let server = Server::start(&names.map(other).concat()).await;
    for name in names {
        server.create(name, &json!({"id": format!("b{name}")})).await.ok();
        server.create(name, &json!({"id": "same"})).await.ok();
    }
    for name in names {
        let page = server.question(name, "query", &json!({})).await;
        let items = page["items"].as_array().unwrap();
        let keys: Vec<&str> = items.iter().map(|item| item["key"].as_str().unwrap()).collect();
        assert_eq!(keys, [format!("b{name}").as_str(), "same"], "{name}");
    }
}

#[tokio::test]
async fn j27_a_full_collection_refuses_or_evicts_as_its_schema_says() {
    let schema = |full: &str| {
        let age = r#"indexes.age = "{@created_at}:{id}""#;
        format!("{NOTES}{age}\ncapacity = {{ max = 2, {full} }}\n")
    };
    let refusing = Server::start(&schema("full = \"refuse\"")).await;
    let evicting = Server::start(&schema("full = \"evict\", by = \"age\"")).await;
    for (server, status) in [(&refusing, 422), (&evicting, 201)] {
        for (id, expected) in [("a", 201), ("b", 201), ("c", status), ("d", status)] {
            assert_eq!(server.create("notes", &json!({"id": id})).await.status, expected, "{id}");
        }
    }
    assert_eq!(refusing.keys("notes", "key").await, ["note:a", "note:b"]);
    assert_eq!(evicting.keys("notes", "key").await, ["note:c", "note:d"]);
    let feed = evicting.ask(Method::GET, "/v1/changes").header("accept", "application/x-ndjson");
    let feed = String::from_utf8(feed.send().await.body.to_vec()).unwrap();
    let changes: Vec<(Json, Json)> = feed
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap())
        .map(|change| (change["kind"].clone(), change["key"].clone()))
        .collect();
    let told = [
        ("created", "note:a"),
        ("created", "note:b"),
        ("created", "note:c"),
        ("deleted", "note:a"),
        ("created", "note:d"),
        ("deleted", "note:b"),
    ];
    assert_eq!(changes, told.map(|(kind, key)| (json!(kind), json!(key))));
}

#[tokio::test]
async fn j32_an_unknown_collection_is_named_whatever_is_asked_of_it() {
    let server = notes().await;
    let answers = [
        server.get("/v1/collections/nots").await,
        server.document("nots", "note:a").await,
        server.get("/v1/collections/nots/documents").await,
        server.create("nots", &json!({"id": "a"})).await,
        server.post("/v1/collections/nots/query", &json!({})).await,
        server.post("/v1/collections/nots/list", &json!({})).await,
        server.post("/v1/collections/nots/count", &json!({})).await,
        server.post("/v1/collections/nots/get", &json!({"keys": []})).await,
        server.get("/v1/collections/nots/keys").await,
    ];
    for answer in answers {
        assert_eq!(answer.refusal(), "404 not_found", "{:?}", answer.body);
        assert_eq!(answer.json()["collection"], "nots");
        assert!(answer.detail().contains("`nots`"), "{}", answer.detail());
    }
}

#[tokio::test]
async fn j34_text_is_counted_in_characters() {
    let server = notes().await;
    assert_eq!(put(&server, "a", "ééééé", None).await.status, 201);
    let longer = put(&server, "b", "éééééé", None).await;
    assert_eq!(longer.refusal(), "422 rule_violation");
    assert_eq!(
        (&longer.json()["field"], &longer.json()["rule"]),
        (&json!("text"), &json!("length"))
    );
}
