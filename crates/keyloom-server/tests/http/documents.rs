//! Documents through HTTP: versions, preconditions, batches, many at once (rows J-01 to J-12 and
//! J-26 to J-34).

use axum::http::Method;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{Answer, Server, document_path};

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
    assert_eq!(server.document("notes", "note:a").await.ok(), document);
}

#[tokio::test]
async fn j02_j03_an_existing_document_is_changed_only_at_its_version() {
    let server = notes().await;
    let first = put(&server, "a", "one", None).await;
    let version = &first.ok()["version"];
    let unsaid = put(&server, "a", "two", None).await;
    assert_eq!(unsaid.refusal(), (428, "precondition_required".to_owned()));
    let wrong = put(&server, "a", "two", Some(("if-match", "\"7\""))).await;
    assert_eq!(wrong.refusal(), (412, "version_conflict".to_owned()));
    assert_eq!(wrong.json()["versions"], json!({"expected": 7, "stored": version}));
    let only_new = put(&server, "a", "two", Some(("if-none-match", "*"))).await;
    assert_eq!(only_new.refusal(), (412, "version_conflict".to_owned()));
    assert_eq!(text(&server, "a").await, "one");
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
}

#[tokio::test]
async fn j05_a_key_that_is_absent_is_not_created_at_a_version() {
    let server = notes().await;
    let refused = put(&server, "a", "one", Some(("if-match", "\"7\""))).await;
    assert_eq!(refused.refusal(), (412, "version_conflict".to_owned()));
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
        assert_eq!(lost[0].refusal(), (412, "version_conflict".to_owned()));
        tag = etag(won[0]);
        assert_eq!(text(&server, "a").await, won[0].json()["data"]["text"]);
    }
}

#[tokio::test]
async fn j08_a_delete_needs_the_version_unless_there_is_nothing() {
    let server = notes().await;
    let absent = delete(&server, "a", None).await;
    assert_eq!(absent.ok()["deleted"], false);
    let created = put(&server, "a", "one", None).await;
    assert_eq!(delete(&server, "a", None).await.refusal().1, "precondition_required");
    assert_eq!(delete(&server, "a", Some("\"7\"")).await.refusal().1, "version_conflict");
    assert_eq!(text(&server, "a").await, "one");
    assert_eq!(delete(&server, "a", Some(&etag(&created))).await.ok()["deleted"], true);
    assert_eq!(server.document("notes", "note:a").await.refusal().0, 404);
    let again = put(&server, "a", "two", None).await.ok();
    assert!(again["version"].as_u64() > created.json()["version"].as_u64());
    let stale = put(&server, "a", "late", Some(("if-match", &etag(&created)))).await;
    assert_eq!(stale.refusal().1, "version_conflict");
}

#[tokio::test]
async fn j09_j10_a_batch_is_applied_whole_or_not_at_all() {
    let server = notes().await;
    put(&server, "b", "old", None).await.ok();
    let other = json!({"op": "create", "collection": "others", "data": {"id": "a"}});
    let stale = json!({"op": "put", "collection": "notes", "key": "note:b", "if_version": 7,
                       "data": {"id": "b", "text": "new"}});
    let refused = server.post("/v1/batch", &json!({"operations": [other, stale]})).await;
    assert_eq!(refused.refusal(), (412, "version_conflict".to_owned()));
    assert_eq!(refused.json()["operation"], 1);
    let twice = server.post("/v1/batch", &json!({"operations": [other, other]})).await;
    assert_eq!(twice.refusal().0 / 100, 4);
    assert_eq!(server.documents("others").await, 0);
    assert_eq!(text(&server, "b").await, "old");
    let fine = server.post("/v1/batch", &json!({"operations": [other]})).await.ok();
    assert_eq!(fine["results"][0]["key"], "other:a");
    assert_eq!(server.documents("others").await, 1);
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
    server.assert_sound().await;
}

#[tokio::test]
async fn j26_collections_do_not_leak_whatever_their_names() {
    let names = ["a", "ab", "a-b", "a_b", "documents", "query"];
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
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{:?}", answer.body);
        assert!(answer.detail().contains("`nots`"), "{}", answer.detail());
    }
}

#[tokio::test]
async fn j34_text_is_counted_in_characters() {
    let server = notes().await;
    assert_eq!(put(&server, "a", "ééééé", None).await.status, 201);
    let longer = put(&server, "b", "éééééé", None).await;
    assert_eq!(longer.refusal(), (422, "rule_violation".to_owned()));
    assert_eq!(
        (&longer.json()["field"], &longer.json()["rule"]),
        (&json!("text"), &json!("length"))
    );
}
