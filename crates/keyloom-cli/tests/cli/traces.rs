//! Traces reach a collector, and a collector that fails is nobody's problem.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver, Sender};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;

use crate::program::{Database, command};
use crate::server::Server;

const APPROVALS: &str = include_str!("../../../../schemas/approvals.toml");

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// More than the spans that may wait for the collector.
const REQUESTS: usize = 3000;

/// What a collector was sent.
struct Sent {
    request: String,
    kind: String,
    body: Vec<u8>,
}

#[test]
fn a_query_is_traced_with_its_route_and_its_plan() {
    let (address, sent) = collector();
    let mut server = Server::start_in(&[(ENDPOINT, &format!("http://{address}"))], APPROVALS, &[]);
    let documents = "/v1/collections/approvals/documents";
    let new = json!({ "data": { "requester": "somebody", "approver": "boss" } });
    let created = server.send("POST", documents, None, Some(&new));
    assert_eq!(created.status, 201, "{created:?}");
    let query = format!("{documents}?requester=somebody&order=-created_at&limit=20");
    assert_eq!(server.send("GET", &query, None, None).status, 200);
    server.terminate();
    assert_eq!(server.wait(), Some(0));

    // The end of the server waits until the collector has answered, so all has arrived.
    let sent: Vec<Sent> = sent.try_iter().collect();
    assert!(!sent.is_empty(), "nothing was sent");
    for sent in &sent {
        assert_eq!(sent.request, "POST /v1/traces");
        assert_eq!(sent.kind, "application/x-protobuf");
    }
    let all: Vec<u8> = sent.into_iter().flat_map(|sent| sent.body).collect();
    for text in [
        "GET /v1/collections/{collection}/documents",
        "index:requester",
        "ranges",
        "keys_read",
        "service.name",
        "keyloom",
    ] {
        assert!(holds(&all, text), "{text} is not in: {}", String::from_utf8_lossy(&all));
    }
    assert!(!holds(&all, "somebody"), "parameters and documents are not traced");
}

#[test]
fn a_collector_that_never_answers_holds_up_no_request() {
    // Connections are taken by the system, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let server = Server::start_in(&[(ENDPOINT, &endpoint)], APPROVALS, &[]);
    let agent = ureq::Agent::new_with_defaults();
    for _ in 0..REQUESTS {
        let mut reply = agent.get(format!("{}/healthz", server.url)).call().unwrap();
        reply.body_mut().read_to_string().unwrap();
    }
}

#[test]
fn a_server_whose_collector_is_gone_ends_with_0() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://{gone}");
    let mut server = Server::start_in(&[(ENDPOINT, &endpoint)], APPROVALS, &[]);
    assert_eq!(server.send("GET", "/healthz", None, None).status, 200);
    server.terminate();
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_collector_that_is_no_address_is_one_clear_line() {
    let data = Database::none().data().display().to_string();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    let done = serve.env(ENDPOINT, "http://no address").output().unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{error}");
    assert!(error.contains(ENDPOINT), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// A collector on this machine, and what it is sent.
fn collector() -> (SocketAddr, Receiver<Sent>) {
    let (sender, receiver) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(collect(listener, sender));
    });
    (address, receiver)
}

async fn collect(listener: TcpListener, sender: Sender<Sent>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = service_fn(|request| answer(request, sender.clone()));
        // One connection after the other: there is one sender.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    }
}

async fn answer(
    request: Request<Incoming>,
    sender: Sender<Sent>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let kind = request.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
    let line = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
    // A test that has seen enough does not listen any more.
    let _ = sender.send(Sent { request: line, kind, body });
    Ok(Response::new(Empty::new()))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
