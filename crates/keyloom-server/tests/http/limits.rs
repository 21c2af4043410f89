//! Load and limits: nobody waits without end, and nobody takes everything.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use futures_util::future::join_all;
use keyloom_server::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{Answer, NOTES, PATIENCE, Server};

const ALL: &str = "/v1/collections/notes/documents";

/// Asks until the server refuses.
async fn until_refused(server: &Server) -> Answer {
    let refused = async {
        loop {
            let answer = server.get(ALL).await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    timeout(PATIENCE, refused).await.expect("nothing is refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_more_than_there_are_places_is_told_to_come_back() {
    let server = filled(Config { requests_max: 1, ..Config::default() }).await;
    let scan = async || server.get(&format!("{ALL}?text=x&scan=100000")).await;
    let answers = join_all((0..32).map(|_| scan())).await;
    let (done, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 200);
    assert!(!done.is_empty() && !refused.is_empty(), "{} done", done.len());
    for refused in refused {
        assert_eq!(refused.refusal(), "503 unavailable");
        assert_eq!(refused.header("retry-after"), "1");
    }
    assert_eq!(scan().await.status, 200);
}

#[tokio::test]
async fn how_the_server_is_is_told_although_there_is_no_place() {
    let server = Server::configured(Config { requests_max: 0, ..Config::default() }).await;
    assert_eq!(server.get(ALL).await.refusal(), "503 unavailable");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_arrive_is_given_up() {
    let config = Config { head_timeout: Duration::from_millis(30), ..Config::default() };
    let server = Server::configured(config).await;
    for begun in [&b"GET / HTTP/1.1\r\nHost: loc"[..], b"", b"PRI"] {
        assert_eq!(timeout(PATIENCE, server.raw(begun)).await.unwrap(), "");
    }
    // Nor is a connection kept that has only agreed on HTTP/2.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    timeout(PATIENCE, server.raw(preface)).await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_told_and_closed() {
    let server = Server::configured(Config { connections_max: 1, ..Config::default() }).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let request = format!("GET {ALL} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    first.write_all(request.as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    first.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let refused = server.raw(request.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
}

#[tokio::test]
async fn a_caller_who_asks_too_often_is_told() {
    let rate_limit = NonZeroU32::new(5);
    let server = Server::configured(Config { rate_limit, ..Config::default() }).await;
    for _ in 0..5 {
        assert_eq!(server.get(ALL).await.status, 200);
    }
    // On a slow machine he may earn another request or two in between.
    let refused = until_refused(&server).await;
    assert_eq!(refused.refusal(), "429 rate_limited");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(server.get("/healthz").await.status, 200);
}

/// A server with 20,000 notes, which nobody reads in no time.
async fn filled(config: Config) -> Server {
    let server = Server::configured(config).await;
    for batch in 0..40 {
        let operations: Vec<_> = (0..500)
            .map(|number| keyloom_engine::Operation {
                collection: "notes".to_owned(),
                action: keyloom_engine::Action::Create {
                    key: None,
                    data: json!({ "id": format!("{batch}-{number}") }).to_string().into_bytes(),
                    description: None,
                },
            })
            .collect();
        server.engine.batch(&keyloom_engine::Actor::Local, &operations).await.unwrap();
    }
    server
}

#[tokio::test]
async fn a_deadline_ends_a_long_read_and_says_so() {
    let server = filled(Config { deadline: Duration::ZERO, ..Config::default() }).await;
    let scan = server.get(&format!("{ALL}?text=x&scan=100000")).await;
    assert_eq!(scan.refusal(), "503 unavailable");
    assert_eq!(scan.header("retry-after"), "1");
}

#[tokio::test]
async fn work_that_reads_everything_has_a_deadline_of_its_own() {
    let schema = format!("{NOTES}text = \"text:{{text}}:{{id}}\"\n");
    let apply = async |server: &Server| {
        let ask = server.ask(Method::PUT, "/v1/schema");
        ask.bytes("application/toml", schema.clone()).send().await
    };
    let check = async |server: &Server| server.post("/v1/check", &json!({})).await;
    let patient = filled(Config { deadline: Duration::ZERO, ..Config::default() }).await;
    assert_eq!(apply(&patient).await.ok()["applied"], true);
    assert_eq!(check(&patient).await.ok()["documents"], 20_000);
    let hasty = filled(Config { long_deadline: Duration::ZERO, ..Config::default() }).await;
    assert_eq!(apply(&hasty).await.refusal(), "503 outcome_unknown");
    assert_eq!(check(&hasty).await.refusal(), "503 outcome_unknown");
}

#[tokio::test]
async fn a_stop_lets_requests_finish_and_refuses_new_ones() {
    let server = Server::start(NOTES).await;
    let address = server.address;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let body = json!({ "data": { "id": "late" } }).to_string();
    let (head, tail) = body.split_at(5);
    let request = format!(
        "POST {ALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{head}",
        body.len()
    );
    slow.write_all(request.as_bytes()).await.unwrap();
    // The request is begun once another one, sent later, is answered.
    assert_eq!(server.get("/healthz").await.status, 200);
    let engine = Arc::clone(&server.engine);
    let stopping = tokio::spawn(async move { server.stop().await });
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    slow.write_all(tail.as_bytes()).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    stopping.await.unwrap();
    let found = engine.get(&keyloom_engine::Actor::Local, "notes", "note:late").await.unwrap();
    assert!(found.is_some());
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tokens() {
    let server = Server::start(NOTES).await;
    let service = Arc::new(keyloom_server::Service::new(Arc::clone(&server.engine)));
    let listen = "0.0.0.0:0".parse().unwrap();
    let refused = keyloom_server::bind(service, Config { listen, ..Config::default() }).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("keyloom token create"), "{error}");
    assert_eq!(server.get(ALL).await.status, 200);
}
