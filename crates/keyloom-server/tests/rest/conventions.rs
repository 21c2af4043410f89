//! What HTTP expects of a server.

use hyper::Method;
use serde_json::json;

use crate::server::{NOTES, Server};
use keyloom_server::Config;

const A: &str = "/v1/collections/notes/documents/note%3Aa";
const ALL: &str = "/v1/collections/notes/documents";

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await;
    let shown = server.get(A).await;
    let etag = shown.header("etag").to_owned();
    for tag in [etag.clone(), format!("\"1\", W/{etag}"), "*".to_owned()] {
        let same = server.send(Method::GET, A, &[("if-none-match", &tag)], b"").await;
        assert_eq!((same.status, same.body.len()), (304, 0), "{tag}");
        assert_eq!(same.header("etag"), etag);
    }
    let other = server.send(Method::GET, A, &[("if-none-match", "\"1\"")], b"").await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await;
    let (get, head) = (server.get(A).await, server.send(Method::HEAD, A, &[], b"").await);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.body.len().to_string());
    assert_eq!(server.send(Method::HEAD, "/nothing", &[], b"").await.status, 404);
}

#[tokio::test]
async fn methods_are_told_and_others_are_refused_with_them() {
    let server = Server::start(NOTES).await;
    let options = server.send(Method::OPTIONS, A, &[], b"").await;
    assert_eq!(options.status, 204);
    assert_eq!(options.header("allow"), "GET, PUT, PATCH, DELETE, HEAD, OPTIONS");
    let refused = server.send(Method::DELETE, ALL, &[], b"").await;
    assert_eq!(refused.problem(), "405 invalid_argument");
    assert_eq!(refused.header("allow"), "GET, POST, HEAD, OPTIONS");
    assert_eq!(server.get("/v1/nothing").await.problem(), "404 not_found");
}

#[tokio::test]
async fn types_are_negotiated_both_ways() {
    let server = Server::start(NOTES).await;
    let html = server.send(Method::GET, ALL, &[("accept", "text/html")], b"").await;
    assert_eq!(html.problem(), "406 invalid_argument");
    let any = server.send(Method::GET, ALL, &[("accept", "text/html, */*;q=0.1")], b"").await;
    assert_eq!((any.status, any.header("content-type")), (200, "application/json"));
    let body = br#"{"data": {"id": "a"}}"#;
    for media in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let refused = server.send(Method::POST, ALL, &[("content-type", media)], body).await;
        assert_eq!(refused.problem(), "415 invalid_argument", "{media}");
    }
    let charset = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(server.send(Method::POST, ALL, &charset, body).await.status, 201);
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
        assert_eq!(found.read(), created.read(), "{}", created.header("location"));
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_takes_it_and_small_ones_are_not() {
    let server = Server::start(NOTES).await;
    for number in 0..40 {
        server.create("notes", &json!({ "id": format!("note-{number}") })).await;
    }
    let gzip = [("accept-encoding", "gzip")];
    let packed = server.send(Method::GET, ALL, &gzip, b"").await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() * 2 < server.get(ALL).await.body.len());
    let small = server.send(Method::GET, "/v1/collections", &gzip, b"").await;
    assert_eq!(small.header("content-encoding"), "");
}

#[tokio::test]
async fn pages_of_other_origins_ask_only_if_they_are_allowed() {
    let origin = ("origin", "https://app.example");
    let asked = ("access-control-request-method", "PUT");
    let closed = Server::start(NOTES).await;
    let answer = closed.send(Method::GET, ALL, &[origin], b"").await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let cors_origins = vec!["https://app.example".to_owned()];
    let open = Server::with(NOTES, Config { cors_origins, ..Config::default() }).await;
    let preflight = open.send(Method::OPTIONS, A, &[origin, asked], b"").await;
    assert_eq!(preflight.header("access-control-allow-origin"), "https://app.example");
    assert!(preflight.header("access-control-allow-methods").contains("PUT"));
    let foreign = [("origin", "https://evil.example"), asked];
    let foreign = open.send(Method::OPTIONS, A, &foreign, b"").await;
    assert_eq!(foreign.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn a_request_has_the_id_that_it_came_with_or_one_of_its_own() {
    let server = Server::start(NOTES).await;
    let named = server.send(Method::GET, ALL, &[("x-request-id", "abc-1")], b"").await;
    assert_eq!(named.header("x-request-id"), "abc-1");
    let (one, other) = (server.get(ALL).await, server.get("/nothing").await);
    assert!(!one.header("x-request-id").is_empty());
    assert_ne!(one.header("x-request-id"), other.header("x-request-id"));
    let long = "x".repeat(129);
    let long = server.send(Method::GET, ALL, &[("x-request-id", &long)], b"").await;
    assert!(long.header("x-request-id").len() < 129);
}

#[tokio::test]
async fn the_description_of_the_api_is_served_with_a_page_to_read_it() {
    let server = Server::start(NOTES).await;
    let document = server.get("/openapi.json").await.read();
    assert_eq!(document["openapi"], "3.1.0");
    let put = &document["paths"]["/v1/collections/{collection}/documents/{key}"]["put"];
    assert!(put["responses"]["428"].is_object(), "{put}");
    let page = server.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
}
