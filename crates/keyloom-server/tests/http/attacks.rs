//! Requests that mean harm: each is answered with a clear 4xx, changes nothing, and leaves a server
//! that answers.
//!
//! Z1: After each attack all that is stored is what was stored before.

use axum::http::Method;
use keyloom_engine::Options;
use keyloom_server::Config;
use serde_json::{Value as Json, json};

use crate::server::{Answer, Ask, STICKERS, Server};

const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.text = { type = "text" }
fields.d = { type = "json" }
indexes.created = "notes:created:{@created_at desc}:{id}"
"#;

/// The largest body in these tests: small, so that one more byte is sent before the answer comes.
const BODY_BYTES_MAX: usize = 64 << 10;

const DOCUMENTS: &str = "/v1/collections/notes/documents";
const QUERY: &str = "/v1/collections/notes/query";

/// A server with five notes.
async fn notes() -> Server {
    let config = Config { body_bytes_max: BODY_BYTES_MAX, ..Config::default() };
    let server = Server::with(NOTES, Options::default(), config).await;
    for id in ["a", "b", "c", "d", "e"] {
        server.create("notes", &json!({ "id": id })).await.ok();
    }
    server
}

/// Everything that is stored.
async fn stored(server: &Server) -> Json {
    let page = server.question("notes", "query", &json!({})).await;
    json!([server.get("/v1/collections").await.ok(), page["items"]])
}

/// Sends an attack; the answer is the refusal (Z1).
async fn refused(server: &Server, ask: Ask<'_>) -> Answer {
    let before = stored(server).await;
    let answer = ask.send().await;
    assert_eq!(answer.status / 100, 4, "{:?}", answer.body);
    answer.refusal();
    assert_eq!(stored(server).await, before);
    answer
}

async fn refused_post(server: &Server, path: &str, body: impl Into<Vec<u8>>) -> Answer {
    let ask = server.ask(Method::POST, path);
    refused(server, ask.bytes("application/json", body.into())).await
}

#[tokio::test]
async fn an_oversized_body_is_refused_whether_it_tells_its_length_or_not() {
    let server = notes().await;
    let large =
        format!("{{\"data\": {{\"id\": \"x\", \"text\": \"{}\"}}}}", "x".repeat(BODY_BYTES_MAX));
    let answer = refused_post(&server, DOCUMENTS, large.clone()).await;
    assert_eq!(answer.refusal(), "413 limit_exceeded");
    let head = format!(
        "POST {DOCUMENTS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let body = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let answer = server.raw(format!("{head}{body}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(server.documents("notes").await, 5);
    // A body may be large enough for many documents, but each of them has its own limit.
    let roomy = Server::start(NOTES).await;
    let large = json!({"id": "x", "d": "y".repeat(1 << 20)});
    assert_eq!(roomy.create("notes", &large).await.refusal(), "413 limit_exceeded");
    assert_eq!(roomy.documents("notes").await, 0);
}

#[tokio::test]
async fn a_deeply_nested_body_is_refused_wherever_it_stands() {
    let server = notes().await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [65, 200, 20_000] {
        let deep = nested(depth);
        refused_post(&server, DOCUMENTS, format!(r#"{{"data": {{"id": "x", "d": {deep}}}}}"#))
            .await;
        refused_post(&server, QUERY, format!(r#"{{"where": {{"id": {deep}}}}}"#)).await;
        refused_post(&server, QUERY, deep.clone()).await;
        let patch = server.ask(Method::PATCH, format!("{DOCUMENTS}/note%3Aa"));
        let patch = patch.header("if-match", "*");
        refused(&server, patch.bytes("application/json", format!(r#"{{"d": {deep}}}"#))).await;
    }
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_refused_in_bodies_and_addresses() {
    let server = notes().await;
    refused_post(&server, DOCUMENTS, b"{\"data\": {\"id\": \"\xFF\"}}".to_vec()).await;
    refused_post(&server, DOCUMENTS, br#"{"data": {"id": "\ud800"}}"#.to_vec()).await;
    let schema = server.ask(Method::PUT, "/v1/schema").bytes("application/toml", b"\xFF".to_vec());
    refused(&server, schema).await;
    for path in ["/%FF", "?id=%FF", "?%FF=1", "/%C3%28"] {
        refused(&server, server.ask(Method::GET, format!("{DOCUMENTS}{path}"))).await;
    }
    refused(&server, server.ask(Method::GET, "/v1/collections/%FF")).await;
}

#[tokio::test]
async fn tricks_with_addresses_reach_nothing() {
    let server = notes().await;
    for path in [
        "/v1/collections/notes/documents/note%00",
        "/v1/collections/notes/documents/note%3Aa%00",
        "/v1/collections/notes%00/documents/note%3Aa",
        "/v1/collections/notes/documents?id=a%00",
        "/v1/collections/notes/documents/..",
        "/v1/collections/notes/documents/%2e%2e%2f%2e%2e",
        "/v1/collections/notes/documents/../documents/note%3Aa",
        "/v1/collections/../collections/notes/documents/note%3Aa",
        "/v1//collections/notes/documents/note%3Aa",
        "/v1/collections/notes/../notes/documents/note%3Aa",
        "/v1/collections/notes/documents/..%2Fnote%3Aa",
        "/v1/collections/%2e%2e/notes/documents/note%3Aa",
        "/v1/collections/notes%2Fdocuments/note%3Aa",
        "/v1/../healthz",
        "//healthz",
        "/v1/collections/notes/documents/note%253Aa",
        "/v1/collections/notes/documents//note%3Aa",
        "/v1/collections/NOTES/documents/note%3Aa",
        "/v1/collections/notes/documents/NOTE%3Aa",
    ] {
        refused(&server, server.ask(Method::GET, path)).await;
        refused(&server, server.ask(Method::DELETE, path).header("if-match", "*")).await;
        let put = server.ask(Method::PUT, path).header("if-match", "*");
        refused(&server, put.json(&json!({"data": {"id": "a", "text": "new"}}))).await;
    }
}

#[tokio::test]
async fn parameters_and_expressions_without_sense_or_bounds_are_refused() {
    let server = notes().await;
    for parameters in [
        "limit=99999999999999999999",
        "limit=-1",
        "limit=1e3",
        "limit=x",
        "limit=1001",
        "scan=1000001",
        "scan=0",
        "nope=1",
        "id.like=x",
        "order=",
        "explain=yes",
        "after=%00",
        "after=",
    ] {
        refused(&server, server.ask(Method::GET, format!("{DOCUMENTS}?{parameters}"))).await;
    }
    for pattern in ["(a{1000}){1000}".to_owned(), "a".repeat(1025), "^(a+)+$(".to_owned()] {
        let body = json!({"matcher": {"key": pattern}, "scan": 100}).to_string();
        refused_post(&server, "/v1/collections/notes/list", body).await;
    }
    let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let body = json!({"where": {"id": {"in": many}}}).to_string();
    assert_eq!(refused_post(&server, QUERY, body).await.refusal(), "413 limit_exceeded");
    let keys = vec!["note:a"; 1001];
    refused_post(&server, "/v1/collections/notes/get", json!({ "keys": keys }).to_string()).await;
    let delete = json!({"op": "delete", "collection": "notes", "key": "note:a", "if_version": "*"});
    let mut operations = vec![delete; 600];
    operations.push(json!({"op": "drop"}));
    let batch = json!({ "operations": operations });
    refused_post(&server, "/v1/batch", batch.to_string()).await;
}

#[tokio::test]
async fn a_body_that_is_broken_or_says_something_twice_is_refused() {
    let server = notes().await;
    for body in [
        r#"{"data": {"id": "x"}, "data": {"id": "y"}}"#,
        r#"{"data": {"id": "x", "id": "y"}}"#,
        r#"{"data": {"id": "x"}} {"data": {"id": "y"}}"#,
        r#"{"data": {"id": "x"}, "if_version": 1}"#,
        r#"{"data": [1]}"#,
        r#"{"data": {"id": "x"}} trailing"#,
        r#"{"data": {"id": "x"}, "extra": 1}"#,
        r#"{"data": null}"#,
        r#"{"data": "text"}"#,
        "{",
        "[]",
        "null",
        "",
    ] {
        let answer = refused_post(&server, DOCUMENTS, body).await;
        assert_eq!(answer.refusal(), "400 invalid_argument", "{body}");
    }
}

#[tokio::test]
async fn a_cursor_that_is_forged_or_foreign_is_refused() {
    let server = notes().await;
    let query = |after: &str| json!({"limit": 2, "after": after}).to_string();
    let page = server.question("notes", "query", &json!({"limit": 2})).await;
    let cursor = page["next"].as_str().unwrap();
    for place in 0..cursor.len() {
        let mut forged = cursor.as_bytes().to_vec();
        forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        let answer = server.ask(Method::POST, QUERY).bytes("application/json", query(&forged));
        assert_eq!(answer.send().await.refusal(), "400 invalid_argument", "place {place}");
    }
    for forged in [
        "",
        "AAAA",
        "%%%",
        "note:a",
        &cursor.chars().skip(1).collect::<String>(),
        &format!("{cursor}A"),
        &cursor.repeat(2),
    ] {
        refused_post(&server, QUERY, query(forged)).await;
    }
    // Of another query, of the same query in another order, and of another database.
    let narrowed = json!({"where": {"id": {"gt": "a"}}, "limit": 2, "after": cursor});
    refused_post(&server, QUERY, narrowed.to_string()).await;
    let reversed = json!({"order": "-id", "limit": 2, "after": cursor});
    refused_post(&server, QUERY, reversed.to_string()).await;
    let other = notes().await;
    refused_post(&other, QUERY, query(cursor)).await;
    let stickers = Server::start(STICKERS).await;
    let foreign =
        stickers.post("/v1/collections/sticker_tags/query", &json!({"after": cursor})).await;
    assert_eq!(foreign.refusal(), "400 invalid_argument");
}

#[tokio::test]
async fn collection_names_that_could_be_mixed_up_are_refused() {
    let server = notes().await;
    let apply = |name: &str| {
        let fields = json!({"id": {"type": "id", "required": true}});
        let schema = json!({"collections": {name: {"key": "{id}", "fields": fields}}});
        server.ask(Method::PUT, "/v1/schema?dry_run=true").json(&schema)
    };
    assert_eq!(apply("fine").send().await.status, 200);
    for name in [
        "",
        "a/b",
        "notes/",
        "notes ",
        "notes\u{301}",
        "..",
        "a\0b",
        "a b",
        "ä",
        "a#b",
        "%2e",
        "-a",
        &"a".repeat(200),
    ] {
        let answer = refused(&server, apply(name)).await;
        assert!(answer.detail().contains("name"), "{}", answer.detail());
    }
}

#[tokio::test]
async fn messages_that_two_readers_could_read_in_two_ways_are_refused() {
    let server = notes().await;
    let before = stored(&server).await;
    let body = r#"{"data": {"id": "x"}}"#;
    let post =
        format!("POST {DOCUMENTS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");
    let length = body.len();
    for message in [
        format!("{post}content-length: {length}\r\ncontent-length: 3\r\n\r\n{body}"),
        format!("{post}content-length: -1\r\n\r\n{body}"),
        format!("{post}content-length : {length}\r\n\r\n{body}"),
        format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"),
        format!("GET {DOCUMENTS} HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n"),
        format!("GET {DOCUMENTS}/note:a\u{1} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("{post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("GET {DOCUMENTS} HTTP/1.1\r\nhost: x\r\nx: a\r\n b\r\n\r\n"),
        format!("GET {DOCUMENTS} HTTP/1.1\r\nhost: x\r\nx: \u{1}\r\n\r\n"),
        "\0\0\0\0\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}nonsense\r\n\r\n".to_owned(),
    ] {
        let answer = server.raw(message.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{message}: {answer}");
    }
    let flood = format!("GET {DOCUMENTS} HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let answer = server.raw(flood.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(stored(&server).await, before);
}

#[tokio::test]
async fn a_name_that_only_points_to_this_machine_is_nobody() {
    let server = notes().await;
    let before = stored(&server).await;
    for host in ["evil.example", "127.0.0.1.evil.example:80"] {
        let request = format!(
            "PUT /v1/schema HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: 19\r\nConnection: close\r\n\r\n{{\"collections\": {{}}}}"
        );
        let answer = server.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
    assert_eq!(stored(&server).await, before);
}

#[tokio::test]
async fn a_request_that_was_passed_on_is_not_from_this_machine() {
    let server = notes().await;
    let check = || server.ask(Method::POST, "/v1/check").json(&json!({}));
    assert_eq!(check().send().await.status, 200);
    for header in ["forwarded", "x-forwarded-for"] {
        let passed_on = check().header(header, "for=192.0.2.1").send().await;
        assert_eq!(passed_on.refusal(), "401 unauthenticated", "{header}");
    }
}
