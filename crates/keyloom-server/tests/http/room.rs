//! Clients that send or take slowly: they keep nobody else out, and hold no more than they may.

use std::pin::pin;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, Response};
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyloom_api::grid::SingleKeyRequest;
use keyloom_engine::Options;
use keyloom_server::Config;
use prost::Message as _;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{Answer, NOTES, PATIENCE, Server};

const ALL: &str = "/v1/collections/notes/documents";

/// A connection of HTTP/2 that lives as long as somebody waits for it.
type Driver = http2::Connection<TokioIo<TcpStream>, Full<Bytes>, TokioExecutor>;

/// A request of which only the first bytes of the body have been sent.
async fn begun(server: &Server, body: &str, sent: usize) -> TcpStream {
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST {ALL} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{}",
        body.len(),
        body.split_at(sent).0
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    slow
}

/// A note with this many bytes.
fn note(id: &str, bytes: usize) -> serde_json::Value {
    json!({ "data": { "id": id, "extra": "x".repeat(bytes) } })
}

/// Asks until it is as expected.
async fn until(server: &Server, path: &str, status: u16) -> Answer {
    let asked = async {
        loop {
            let answer = server.get(path).await;
            if answer.status == status {
                return answer;
            }
        }
    };
    timeout(PATIENCE, asked).await.expect("it never comes")
}

/// Gets something over HTTP/2 and takes one byte of the answer.
async fn stuck(server: &Server, path: &str) -> (Driver, Response<Incoming>) {
    ask_and_wait(server, Request::get(address(server, path)).body(Full::default()).unwrap()).await
}

/// Sends a request over HTTP/2, and lets the server do no more than begin with the answer.
async fn ask_and_wait(
    server: &Server,
    request: Request<Full<Bytes>>,
) -> (Driver, Response<Incoming>) {
    ask_with(server, request, 1).await
}

/// Sends a request over HTTP/2, and takes so many bytes of the answer until it is read.
async fn ask_with(
    server: &Server,
    request: Request<Full<Bytes>>,
    window: u32,
) -> (Driver, Response<Incoming>) {
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (mut sender, mut driver) = builder.handshake(stream).await.unwrap();
    let asked = pin!(sender.send_request(request));
    match select(asked, &mut driver).await {
        Either::Left((answer, _)) => {
            let answer = answer.unwrap();
            (driver, answer)
        }
        Either::Right(_) => panic!("the connection ended"),
    }
}

fn address(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

#[tokio::test]
async fn bodies_that_arrive_slowly_keep_nobody_out() {
    let server = Server::configured(Config { requests_max: 1, ..Config::default() }).await;
    let body = note("slow", 5).to_string();
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(begun(&server, &body, 5).await);
    }
    assert_eq!(server.get(ALL).await.status, 200);
    assert_eq!(server.post(ALL, &note("quick", 5)).await.status, 201);
    let mut first = slow.pop().unwrap();
    first.write_all(&body.as_bytes()[5..]).await.unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let config = Config { body_timeout: Duration::from_millis(30), ..Config::default() };
    let server = Server::configured(config).await;
    let mut slow = begun(&server, &note("slow", 5).to_string(), 5).await;
    let mut answer = String::new();
    timeout(PATIENCE, slow.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_body_arrives_whole_in_however_many_pieces() {
    let server = Server::start(NOTES).await;
    let body = note("pieces", 20_000).to_string();
    let mut slow = begun(&server, &body, 1).await;
    for piece in body.as_bytes()[1..].chunks(4_999) {
        slow.write_all(piece).await.unwrap();
        assert_eq!(server.get("/healthz").await.status, 200);
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let stored = server.document("notes", "note:pieces").await.ok();
    assert_eq!(stored["data"]["extra"].as_str().map(str::len), Some(20_000));
}

#[tokio::test]
async fn bodies_hold_no_more_than_there_is_room_for() {
    let server = Server::configured(Config { room_bytes_max: 64 << 10, ..Config::default() }).await;
    let slow = begun(&server, &note("slow", 60_000).to_string(), 50_000).await;
    let large = note("large", 20_000);
    let refused = async {
        loop {
            let answer = server.post(ALL, &large).await;
            if answer.status == 503 {
                return answer;
            }
            assert!(matches!(answer.status, 201 | 409), "{answer:?}");
        }
    };
    let refused = timeout(PATIENCE, refused).await.unwrap();
    assert_eq!(refused.refusal(), "503 unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(server.post(ALL, &note("small", 1000)).await.status, 201);
    drop(slow);
    let taken = async { while server.post(ALL, &large).await.status == 503 {} };
    timeout(PATIENCE, taken).await.unwrap();
}

#[tokio::test]
async fn answers_that_nobody_takes_hold_no_more_than_there_is_room_for() {
    let server = Server::configured(Config { room_bytes_max: 1 << 20, ..Config::default() }).await;
    server.post(ALL, &note("large", 600_000)).await.ok();
    server.post(ALL, &note("small", 600)).await.ok();
    let large = format!("{ALL}/note%3Alarge");
    let stuck = stuck(&server, &large).await;
    assert_eq!(server.get(&large).await.refusal(), "503 unavailable");
    let query = json!({ "where": { "id": "large" } });
    let page = server.post("/v1/collections/notes/query", &query).await;
    assert_eq!(page.refusal(), "503 unavailable");
    // What is small is told, and what was changed too.
    assert_eq!(server.get(&format!("{ALL}/note%3Asmall")).await.status, 200);
    assert_eq!(server.post(ALL, &note("larger", 300_000)).await.status, 201);
    drop(stuck);
    until(&server, &large, 200).await;
}

#[tokio::test]
async fn answers_of_calls_that_nobody_takes_hold_no_more_either() {
    let config = Config { room_bytes_max: 1 << 20, ..Config::default() };
    let schema = "[classes.order]\npartitions = 1\n";
    let server = Server::with(schema, Options::default(), config).await;
    let value = server.ask(Method::PUT, "/api/class/order/0/objects/1/values/2");
    assert_eq!(value.json(&json!({ "value": "x".repeat(600_000) })).send().await.status, 201);
    let call = || {
        let class = "order".to_owned();
        let (object_id, key) = (Some(1), Some(2));
        let asked = SingleKeyRequest { cls_id: class, object_id, key, ..Default::default() };
        let message = asked.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], &message].concat();
        let request = Request::post(address(&server, "/oprc.DataService/GetValue"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        request.body(Full::from(body)).unwrap()
    };
    let status = |answer: &Response<Incoming>| {
        answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    };
    let first = ask_and_wait(&server, call()).await;
    assert_eq!(status(&first.1), None);
    let refused = ask_and_wait(&server, call()).await;
    assert_eq!(status(&refused.1).as_deref(), Some("14"));
    assert!(refused.1.body().is_end_stream(), "a status in the headers is the end");
    drop(first);
    let answered = async { while status(&ask_and_wait(&server, call()).await.1).is_some() {} };
    timeout(PATIENCE, answered).await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_connection() {
    let config = Config {
        room_bytes_max: 1 << 20,
        head_timeout: Duration::from_millis(30),
        answer_timeout: Duration::from_millis(30),
        ..Config::default()
    };
    let server = Server::configured(config).await;
    server.post(ALL, &note("large", 600_000)).await.ok();
    let large = format!("{ALL}/note%3Alarge");
    let _stuck = stuck(&server, &large).await;
    until(&server, &large, 200).await;
}

#[tokio::test]
async fn a_connection_says_how_many_calls_it_takes_at_once() {
    let server = Server::start(NOTES).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The preface of HTTP/2, and no settings.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let max = keyloom_server::limits::STREAMS_MAX.to_be_bytes();
    let said = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).unwrap();
    assert_eq!(said[2..], max);
}

#[tokio::test]
async fn a_client_that_says_nothing_more_does_not_hold_up_a_stop() {
    let shutdown_timeout = Duration::from_secs(3600);
    let server = Server::configured(Config { shutdown_timeout, ..Config::default() }).await;
    let _silent = stuck(&server, "/healthz").await;
    timeout(PATIENCE, server.stop()).await.expect("it waits for somebody who is not there");
}

#[tokio::test]
async fn a_stop_waits_for_a_client_that_takes_its_answer_slowly() {
    let server = Server::start(NOTES).await;
    server.post(ALL, &note("large", 50_000)).await.ok();
    let large = Request::get(address(&server, &format!("{ALL}/note%3Alarge")));
    let (driver, answer) = ask_with(&server, large.body(Full::default()).unwrap(), 1000).await;
    let length = answer.body().size_hint().exact().unwrap();
    // All of it is said by now, and nearly nothing was taken.
    let take = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let driving = tokio::spawn(driver);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        driving.await.unwrap().unwrap();
        body
    };
    let stopped = async { tokio::join!(server.stop(), take) };
    let ((), body) = timeout(PATIENCE, stopped).await.unwrap();
    assert_eq!(body.len() as u64, length);
    assert!(length > 50_000);
}
