//! Requests that nobody sends in good faith: a clear 4xx, and nothing happens.

use hyper::Method;
use serde_json::json;

use crate::server::{NOTES, Server};

const ALL: &str = "/v1/collections/notes/documents";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// That nothing is stored and nothing was written.
async fn nothing_happened(server: &Server) {
    let feed = server.engine.feed().await.unwrap();
    assert_eq!(feed.last.0, 0, "something was written");
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn oversized_bodies_are_refused_by_their_length_and_while_they_arrive() {
    let server = Server::start(NOTES).await;
    let large = vec![b' '; keyloom_server::limits::BODY_BYTES_MAX + 1];
    let told = server.send(Method::POST, ALL, &JSON, &large).await;
    assert_eq!(told.problem(), "413 limit_exceeded");
    let document = json!({ "data": { "id": "a", "x": "y".repeat(1 << 20) } });
    assert_eq!(server.post(ALL, &document).await.problem(), "413 limit_exceeded");
    nothing_happened(&server).await;
}

#[tokio::test]
async fn deeply_nested_and_malformed_bodies_are_refused() {
    let server = Server::start(NOTES).await;
    let deep =
        format!(r#"{{"data": {{"id": "a", "x": {}{}}}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    let bodies: [&[u8]; 9] = [
        deep.as_bytes(),
        b"",
        b"{",
        b"[]",
        b"null",
        br#"{"data": "text"}"#,
        br#"{"data": {"id": "a"}, "extra": 1}"#,
        b"{\"data\": {\"id\": \"\xFF\"}}",
        br#"{"data": {"id": "a"}} trailing"#,
    ];
    for body in bodies {
        let refused = server.send(Method::POST, ALL, &JSON, body).await;
        assert!((400..500).contains(&refused.status), "{refused:?}");
        refused.problem();
    }
    let query = format!(r#"{{"where": {{"id": {}"#, "[".repeat(100_000));
    let refused = server.send(Method::POST, "/v1/collections/notes/query", &JSON, query.as_bytes());
    assert_eq!(refused.await.problem(), "400 invalid_argument");
    nothing_happened(&server).await;
}

#[tokio::test]
async fn tricks_with_addresses_lead_nowhere() {
    let server = Server::start(NOTES).await;
    let body = json!({ "data": { "id": "a" } });
    for path in [
        "/v1/collections/notes/documents/note%00",
        "/v1/collections/notes/documents/note%3Aa%00",
        "/v1/collections/notes/documents/%FF",
        "/v1/collections/notes/documents/..",
        "/v1/collections/notes/documents/%2e%2e%2f%2e%2e",
        "/v1/collections/../collections/notes/documents/note%3Aa",
        "/v1/collections/notes%2Fdocuments/documents/note%3Aa",
        "/v1/collections/notes/documents/note%253Aa",
        "/v1/collections/notes%00/documents/note%3Aa",
        "/v1//collections/notes/documents/note%3Aa",
    ] {
        let refused = server.json(Method::PUT, path, &body).await;
        assert!((400..500).contains(&refused.status), "{path}: {refused:?}");
        refused.problem();
    }
    for parameters in [
        "id=%FF",
        "id=%00",
        "limit=-1",
        "limit=x",
        "limit=1e3",
        "nope=1",
        "id.like=x",
        "order=",
        "scan=0",
        "explain=yes",
        "after=%00",
        "limit=99999999999999999999",
    ] {
        let refused = server.get(&format!("{ALL}?{parameters}")).await;
        assert!((400..500).contains(&refused.status), "{parameters}: {refused:?}");
        refused.problem();
    }
    nothing_happened(&server).await;
}

#[tokio::test]
async fn forged_and_foreign_cursors_are_refused() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id, "rank": 1 })).await;
    }
    let page = server.get(&format!("{ALL}?rank=1&limit=1")).await.read();
    let next = page["next"].as_str().unwrap();
    let mut forged = next.as_bytes().to_vec();
    let middle = forged.len() / 2;
    forged[middle] = if forged[middle] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    for (cursor, filter) in
        [(forged.as_str(), "rank=1"), (next, "rank=2"), ("x", "rank=1"), ("", "rank=1")]
    {
        let refused = server.get(&format!("{ALL}?{filter}&limit=1&after={cursor}")).await;
        assert_eq!(refused.problem(), "400 invalid_argument", "{cursor}");
    }
    let other = Server::start(NOTES).await;
    let refused = other.get(&format!("{ALL}?rank=1&limit=1&after={next}")).await;
    assert_eq!(refused.problem(), "400 invalid_argument");
}

#[tokio::test]
async fn tricks_with_headers_lead_nowhere() {
    let server = Server::start(NOTES).await;
    let host = format!("Host: {}\r\n", server.address);
    let smuggled = format!(
        "POST {ALL} HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n0\r\n\r\n"
    );
    let twice = format!(
        "POST {ALL} HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\
         Content-Type: application/json\r\nConnection: close\r\n\r\n{{}}"
    );
    let folded = format!("GET {ALL} HTTP/1.1\r\n{host}X: a\r\n b\r\nConnection: close\r\n\r\n");
    let binary = format!("GET {ALL} HTTP/1.1\r\n{host}X: \u{1}\r\nConnection: close\r\n\r\n");
    for request in [smuggled, twice, folded, binary, "\u{16}\u{3}\u{1}nonsense\r\n\r\n".to_owned()]
    {
        let answer = server.raw(request.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    let flood = format!("GET {ALL} HTTP/1.1\r\n{host}{many}Connection: close\r\n\r\n");
    assert!(server.raw(flood.as_bytes()).await.starts_with("HTTP/1.1 431"));
    nothing_happened(&server).await;
}

#[tokio::test]
async fn a_name_that_only_points_to_this_machine_is_nobody() {
    let server = Server::start(NOTES).await;
    for host in ["evil.example", "127.0.0.1.evil.example:80"] {
        let request = format!(
            "PUT /v1/schema HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: 19\r\nConnection: close\r\n\r\n{{\"collections\": {{}}}}"
        );
        let answer = server.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
    nothing_happened(&server).await;
}

#[tokio::test]
async fn names_of_collections_chosen_to_collide_are_refused_or_apart() {
    let server = Server::start(NOTES).await;
    for name in ["notes/", "notes ", "NOTES", "notes\u{301}", "", "..", "a/b"] {
        let schema = json!({ "collections": { name: { "key": "note:{id}",
            "fields": { "id": { "type": "id", "required": true } } } } });
        let applied = server.json(Method::PUT, "/v1/schema", &schema).await;
        assert!(applied.status == 200 || applied.status == 400, "{name}: {applied:?}");
    }
    assert_eq!(server.get(ALL).await.keys().len(), 0);
}
