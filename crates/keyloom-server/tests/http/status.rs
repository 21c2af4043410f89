//! Health, readiness, metrics, collections and the schema.

use axum::http::Method;
use serde_json::json;

use crate::server::{NOTES, Server};

#[tokio::test]
async fn health_and_readiness_are_told() {
    let server = Server::start(NOTES).await;
    assert_eq!(server.get("/healthz").await.ok()["status"], "ok");
    let ready = server.get("/readyz").await.ok();
    assert_eq!(ready, json!({ "status": "ready", "building": [] }));
}

#[tokio::test]
async fn metrics_count_requests_commits_and_refused_queries() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a", "rank": 1 })).await.ok();
    server.get("/v1/collections/notes/documents?rank=1").await;
    server.get("/v1/collections/notes/documents?text=x").await;
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "keyloom_requests_total{route=\"/v1/collections/{collection}/documents\",\
         method=\"POST\",status=\"201\"} 1",
        "keyloom_requests_total{route=\"/v1/collections/{collection}/documents\",\
         method=\"GET\",status=\"400\"} 1",
        "keyloom_request_seconds_count{route=\"/v1/collections/{collection}/documents\"} 3",
        "keyloom_queries_refused_total 1",
        "keyloom_query_keys_per_result_sum 1.0",
        "keyloom_documents{collection=\"notes\",format=\"note:{id}\"} 1",
        "keyloom_feed_position 1",
        "keyloom_feed_lag 0",
        "keyloom_commit_conflicts_total 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(text.matches("# EOF").count(), 1);
}

#[tokio::test]
async fn collections_are_listed_and_shown() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await.ok();
    assert_eq!(server.get("/v1/collections").await.ok(), json!({ "collections": ["notes"] }));
    let shown = server.get("/v1/collections/notes").await.ok();
    assert_eq!(shown["formats"], json!([{ "template": "note:{id}", "documents": 1 }]));
    let states = shown["indexes"].as_array().unwrap().iter();
    assert!(states.clone().all(|index| index["state"] == "ready"), "{shown}");
    assert_eq!(shown["schema"]["key"], "note:{id}");
}

#[tokio::test]
async fn a_schema_is_planned_applied_and_refused() {
    let server = Server::start(NOTES).await;
    let apply = async |path: &str, media: &'static str, body: &'static str| {
        server.ask(Method::PUT, path).bytes(media, body).send().await
    };
    let toml = "application/toml";
    let more = "[collections.more]\nkey = \"{id}\"\n\
          [collections.more.fields]\nid = { type = \"id\", required = true }\n";
    let planned = apply("/v1/schema?dry_run=true", toml, more).await.ok();
    assert_eq!(
        (&planned["applied"], &planned["steps"][0]["change"]),
        (&json!(false), &json!("collection_added"))
    );
    assert_eq!(server.get("/v1/collections/more").await.status, 404);
    let applied = apply("/v1/schema", toml, more).await.ok();
    assert_eq!(applied["applied"], true);
    assert_eq!(server.get("/v1/collections/more").await.status, 200);
    let again = apply("/v1/schema", "application/json", r#"{"collections": {}}"#).await;
    assert_eq!(again.ok()["steps"], json!([]));
    let wrong = apply("/v1/schema", toml, "[collections.x]\nkey = 7\n").await;
    assert_eq!(wrong.refusal(), "400 invalid_argument");
    let text = apply("/v1/schema", "text/plain", more).await;
    assert_eq!(text.refusal(), "415 invalid_argument");
}

#[tokio::test]
async fn a_check_compares_everything() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await.ok();
    let report = server.post("/v1/check", &json!({})).await.ok();
    assert_eq!((&report["documents"], &report["problems"]), (&json!(1), &json!([])));
}
