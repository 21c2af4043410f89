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
use serde_json::{Value as Json, json};

use crate::program::{Database, command};
use crate::server::Server;

const APPROVALS: &str = include_str!("../../../../schemas/approvals.toml");

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The spans that may wait for the collector, and more than these.
const WAITING: usize = 2048;
const REQUESTS: usize = 3000;

const DROPPED: &str = "keyloom_trace_spans_dropped_total";

/// What a collector was sent.
struct Sent {
    request: String,
    kind: String,
    body: Vec<u8>,
}

#[test]
fn a_query_is_traced_with_its_route_and_its_plan() {
    let (address, sent) = collector();
    let server = Server::start_in(&[(ENDPOINT, &format!("http://{address}"))], APPROVALS, &[]);
    let documents = "/v1/collections/approvals/documents";
    let new = json!({ "data": { "requester": "somebody", "approver": "boss" } });
    let created = server.send("POST", documents, None, Some(&new));
    assert_eq!(created.status, 201, "{created:?}");
    let query = format!("{documents}?requester=somebody&order=-created_at&limit=20");
    assert_eq!(server.send("GET", &query, None, None).status, 200);
    let all = everything(server, &sent);
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
fn every_read_is_traced_with_its_path() {
    const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.code = { type = "text", length = { max = 9 } }
fields.a = { type = "i64" }
fields.b = { type = "i64" }
fields.c = { type = "i64" }
unique.code = "code:{code}"
indexes.counted = "a:{a}:{id}"
indexes.probed = "b:{b}:{id}"
indexes.emptied = "c:{c}:{id}"
"#;
    let (address, sent) = collector();
    let server = Server::start_in(&[(ENDPOINT, &format!("http://{address}"))], NOTES, &[]);
    let post = |path: &str, body: &Json| {
        let path = format!("/v1/collections/notes/{path}");
        let reply = server.send("POST", &path, None, Some(body));
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    };
    post("documents", &json!({"data": {"id": "x", "code": "k", "a": 1, "b": 1, "c": 1}}));
    post("count", &json!({"where": {"a": 1}}));
    post("exists", &json!({"where": {"b": 1}}));
    let lookup = server.send("GET", "/v1/collections/notes/unique/code/k", None, None);
    assert_eq!(lookup.status, 200);
    let get = server.send("GET", "/v1/collections/notes/documents/note:x", None, None);
    assert_eq!(get.status, 200);
    post("delete", &json!({"where": {"c": 1}}));

    let all = everything(server, &sent);
    // A field of text in OpenTelemetry's protobuf: its name, and its value with its length.
    let plan = |path: &str| {
        let length = u8::try_from(path.len()).unwrap();
        [b"\x0a\x04plan\x12", &[length + 2, 0x0a, length][..], path.as_bytes()].concat()
    };
    for path in ["index:counted", "index:probed", "unique:code", "key", "index:emptied"] {
        let field = plan(path);
        let found = all.windows(field.len()).any(|window| window == field);
        assert!(found, "{path} is not in: {}", String::from_utf8_lossy(&all));
    }
}

#[test]
fn a_request_is_a_part_of_the_trace_that_it_names() {
    let (address, sent) = collector();
    let server = Server::start_in(&[(ENDPOINT, &format!("http://{address}"))], APPROVALS, &[]);
    let health = |parent: &str| {
        let headers = [("traceparent", parent)];
        assert_eq!(server.send_with(("GET", "/healthz"), None, &headers, None).status, 200);
    };
    health("00-0123456789abcdef0123456789abcdef-1122334455667788-01");
    // Whoever asks does not keep this one, and what is no parent is ignored.
    health("00-fedcba9876543210fedcba9876543210-8877665544332211-00");
    for nonsense in ["", "00-0123", "no parent at all", "00-00000000000000000000000000000000-0-01"]
    {
        health(nonsense);
    }

    let all = everything(server, &sent);
    let count = |bytes: &[u8]| all.windows(bytes.len()).filter(|window| *window == bytes).count();
    let trace = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128.to_be_bytes();
    assert_eq!(count(&trace), 1);
    assert_eq!(count(&0x1122_3344_5566_7788_u64.to_be_bytes()), 1, "the span of the caller");
    let unwanted = 0xfedc_ba98_7654_3210_fedc_ba98_7654_3210_u128.to_be_bytes();
    assert_eq!(count(&unwanted), 0);
    assert_eq!(count(b"GET /healthz"), 5);
}

#[test]
fn a_collector_that_never_answers_holds_up_no_request_and_costs_spans_that_are_counted() {
    // Connections are taken by the system, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let server = Server::start_in(&[(ENDPOINT, &endpoint)], APPROVALS, &[]);
    let agent = ureq::Agent::new_with_defaults();
    let get = |path: &str| {
        let mut reply = agent.get(format!("{}{path}", server.url)).call().unwrap();
        reply.body_mut().read_to_string().unwrap()
    };
    for _ in 0..REQUESTS {
        get("/healthz");
    }
    let metrics = get("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(DROPPED));
    // What the queue has no place for, and perhaps a batch that was given up meanwhile.
    let dropped: usize = line.unwrap_or_else(|| panic!("{metrics}")).trim().parse().unwrap();
    assert!((REQUESTS - WAITING..=REQUESTS).contains(&dropped), "{dropped}");
}

#[test]
fn a_server_whose_collector_never_answers_still_ends_with_0() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut server = Server::start_in(&[(ENDPOINT, &endpoint)], APPROVALS, &[]);
    assert_eq!(server.send("GET", "/healthz", None, None).status, 200);
    server.terminate();
    // Without an end to its patience, the server would wait here for ever.
    assert_eq!(server.wait(), Some(0));
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

/// Ends a server; the answer is all that it has sent to its collector.
fn everything(mut server: Server, sent: &Receiver<Sent>) -> Vec<u8> {
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    // The end of the server waits until the collector has answered, so all has arrived.
    let sent: Vec<Sent> = sent.try_iter().collect();
    assert!(!sent.is_empty(), "nothing was sent");
    for sent in &sent {
        assert_eq!(sent.request, "POST /v1/traces");
        assert_eq!(sent.kind, "application/x-protobuf");
    }
    sent.into_iter().flat_map(|sent| sent.body).collect()
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
