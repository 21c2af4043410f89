//! What HTTP expects of a server.

use axum::http::Method;
use serde_json::json;

use crate::server::{NOTES, Server};
use keyloom_server::Config;

const A: &str = "/v1/collections/notes/documents/note%3Aa";
const ALL: &str = "/v1/collections/notes/documents";

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await.ok();
    let shown = server.get(A).await;
    let etag = shown.header("etag").to_owned();
    for tag in [etag.clone(), format!("\"1\", W/{etag}"), "*".to_owned()] {
        let same = server.ask(Method::GET, A).header("if-none-match", &tag).send().await;
        assert_eq!((same.status, same.body.len()), (304, 0), "{tag}");
        assert_eq!(same.header("etag"), etag);
    }
    let other = server.ask(Method::GET, A).header("if-none-match", "\"1\"").send().await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await.ok();
    let (get, head) = (server.get(A).await, server.ask(Method::HEAD, A).send().await);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.body.len().to_string());
    assert_eq!(server.ask(Method::HEAD, "/nothing").send().await.status, 404);
}

#[tokio::test]
async fn methods_are_told_and_others_are_refused_with_them() {
    let server = Server::start(NOTES).await;
    let options = server.ask(Method::OPTIONS, A).send().await;
    assert_eq!(options.status, 204);
    assert_eq!(options.header("allow"), "GET, PUT, PATCH, DELETE, HEAD, OPTIONS");
    let refused = server.ask(Method::DELETE, ALL).send().await;
    assert_eq!(refused.refusal(), "405 invalid_argument");
    assert_eq!(refused.header("allow"), "GET, POST, HEAD, OPTIONS");
    assert_eq!(server.get("/v1/nothing").await.refusal(), "404 not_found");
}

#[tokio::test]
async fn types_are_negotiated_both_ways() {
    let server = Server::start(NOTES).await;
    let html = server.ask(Method::GET, ALL).header("accept", "text/html").send().await;
    assert_eq!(html.refusal(), "406 invalid_argument");
    let any = server.ask(Method::GET, ALL).header("accept", "text/html, */*;q=0.1").send().await;
    assert_eq!((any.status, any.header("content-type")), (200, "application/json"));
    let body = r#"{"data": {"id": "a"}}"#;
    for media in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let refused = server.ask(Method::POST, ALL).bytes(media, body).send().await;
        assert_eq!(refused.refusal(), "415 invalid_argument", "{media}");
    }
    let charset = server.ask(Method::POST, ALL).bytes("application/json; charset=utf-8", body);
    assert_eq!(charset.send().await.status, 201);
}

#[tokio::test]
async fn keys_with_separators_travel_through_addresses() {
    let schema = "[collections.k]\nkey = \"{a}#{b}:{c}\"\n\
                  access = { read = \"public\", write = \"public\" }\n[collections.k.fields]\n\
                  a = { type = \"id\", required = true }\n\
                  b = { type = \"text\", required = true, length = { max = 9 } }\n\
                  c = { type = \"text\", required = true, length = { max = 9 } }\n";
    let server = Server::start(schema).await;
    for (a, b, c) in [("u/1", "x y", "é"), ("u", "a:b", "c/d"), ("u", "100%", "?&=")] {
        let path = "/v1/collections/k/documents";
        let created = server.post(path, &json!({ "data": { "a": a, "b": b, "c": c } })).await;
        assert_eq!(created.status, 201, "{created:?}");
        let found = server.get(created.header("location")).await;
        assert_eq!(found.ok(), created.ok(), "{}", created.header("location"));
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_takes_it_and_small_ones_are_not() {
    let server = Server::start(NOTES).await;
    for number in 0..40 {
        server.create("notes", &json!({ "id": format!("note-{number}") })).await.ok();
    }
    let packed = async |path: &str| {
        server.ask(Method::GET, path).header("accept-encoding", "gzip").send().await
    };
    let large = packed(ALL).await;
    assert_eq!(large.header("content-encoding"), "gzip");
    assert!(large.body.len() * 2 < server.get(ALL).await.body.len());
    let small = packed("/v1/collections").await;
    assert_eq!(small.header("content-encoding"), "");
}

#[tokio::test]
async fn pages_of_other_origins_ask_only_if_they_are_allowed() {
    let closed = Server::start(NOTES).await;
    let (friend, foe) = ("https://app.example", "https://evil.example");
    let answer = closed.ask(Method::GET, ALL).header("origin", friend).send().await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let cors_origins = vec![friend.to_owned()];
    let open = Server::configured(Config { cors_origins, ..Config::default() }).await;
    let preflight = async |origin: &str| {
        let ask = open.ask(Method::OPTIONS, A).header("origin", origin);
        ask.header("access-control-request-method", "PUT").send().await
    };
    let allowed = preflight(friend).await;
    assert_eq!(allowed.header("access-control-allow-origin"), friend);
    assert!(allowed.header("access-control-allow-methods").contains("PUT"));
    assert_eq!(preflight(foe).await.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn a_request_has_the_id_that_it_came_with_or_one_of_its_own() {
    let server = Server::start(NOTES).await;
    let named = server.ask(Method::GET, ALL).header("x-request-id", "abc-1").send().await;
    assert_eq!(named.header("x-request-id"), "abc-1");
    let (one, other) = (server.get(ALL).await, server.get("/nothing").await);
    assert!(!one.header("x-request-id").is_empty());
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
    let long = "x".repeat(129);
    let long = server.ask(Method::GET, ALL).header("x-request-id", &long).send().await;
    assert!(long.header("x-request-id").len() < 129);
}

#[tokio::test]
async fn the_description_of_the_api_is_served_with_a_page_to_read_it() {
    let server = Server::start(NOTES).await;
    let document = server.get("/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    let put = &document["paths"]["/v1/collections/{collection}/documents/{key}"]["put"];
    assert!(put["responses"]["428"].is_object(), "{put}");
    let page = server.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
}
