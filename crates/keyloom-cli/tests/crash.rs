//! The program is killed while 32 connections write to it: what it acknowledged is there when it is
//! back, and what it did not acknowledge can be tried again.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test is a panic")]

mod killable;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value as Json, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use killable::Program;

const SCHEMA: &str = r#"
[collections.notes]
key = "note:{id}"
fields.id = { type = "id", required = true }
fields.writer = { type = "u64", required = true }
indexes.writer = "notes:writer:{writer}:{id}"
"#;

const CONNECTIONS: usize = 32;

/// The program is killed when it has acknowledged so many writes, three times.
const ACKNOWLEDGED: usize = 600;
const ROUNDS: usize = 3;

/// A connection of its own to a program.
struct Connection {
    client: Client<HttpConnector, Full<Bytes>>,
    address: String,
}

/// What a writer knows of what it wrote: ids with versions, and the one that was not answered.
#[derive(Default)]
struct Written {
    acknowledged: Vec<(String, u64)>,
    in_doubt: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn k3_what_was_acknowledged_survives_a_kill_under_load_from_32_connections() {
    for store in ["engine=redb", "engine=fjall"] {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for round in 0..ROUNDS {
            let program = Program::start(folder.path(), store, SCHEMA);
            all.extend(write_until_killed(program, round).await);
        }
        let program = Program::start(folder.path(), store, SCHEMA);
        let expected: usize = all.iter().map(Written::documents).sum();
        let mut readers = JoinSet::new();
        for written in all {
            readers.spawn(check(Connection::to(&program), written));
        }
        readers.join_all().await;
        let connection = Connection::to(&program);
        let info = connection.ask("GET", "/v1/collections/notes", &Json::Null).await.unwrap();
        assert_eq!(info.1["documents"], expected, "a retried create is no duplicate");
        let report = connection.ask("POST", "/v1/check", &json!({})).await.unwrap();
        assert_eq!(report.1["problems"], json!([]));
    }
}

/// Writes from all connections and kills the program in the middle of it.
async fn write_until_killed(program: Program, round: usize) -> Vec<Written> {
    let (count, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut writers = JoinSet::new();
    for writer in 0..CONNECTIONS {
        let (connection, count, enough) =
            (Connection::to(&program), Arc::clone(&count), Arc::clone(&enough));
        writers.spawn(async move {
            let mut written = Written::default();
            loop {
                let id = format!("{round}-{writer}-{}", written.acknowledged.len());
                let Some((status, answer)) = connection.create(&id).await else {
                    written.in_doubt = Some(id);
                    return written;
                };
                assert_eq!(status, StatusCode::CREATED, "{answer}");
                written.acknowledged.push((id, answer["version"].as_u64().unwrap()));
                if count.fetch_add(1, Ordering::SeqCst) + 1 == ACKNOWLEDGED {
                    enough.notify_one();
                }
            }
        });
    }
    enough.notified().await;
    drop(program);
    writers.join_all().await
}

/// Looks for what was acknowledged, and creates all of it again.
async fn check(connection: Connection, written: Written) {
    for (id, version) in &written.acknowledged {
        let path = format!("/v1/collections/notes/documents/note:{id}");
        let (status, found) = connection.ask("GET", &path, &Json::Null).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{id} is lost: {found}");
        assert_eq!(found["version"], *version, "{id}");
        let (status, refused) = connection.create(id).await.unwrap();
        assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{id}");
        assert_eq!(refused["code"], "version_conflict");
    }
    if let Some(id) = written.in_doubt {
        // It happened or it did not; after the retry it did, once.
        let (status, _) = connection.create(&id).await.unwrap();
        assert!(matches!(status, StatusCode::CREATED | StatusCode::PRECONDITION_FAILED));
    }
}

impl Written {
    /// How many documents there are once what is in doubt was tried again.
    fn documents(&self) -> usize {
        self.acknowledged.len() + usize::from(self.in_doubt.is_some())
    }
}

impl Connection {
    fn to(program: &Program) -> Connection {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Connection { client, address: program.address.clone() }
    }

    /// Creates a note; `None` if the connection broke before the answer.
    async fn create(&self, id: &str) -> Option<(StatusCode, Json)> {
        let writer: u64 = id.split('-').nth(1).unwrap().parse().unwrap();
        let body = json!({"data": {"id": id, "writer": writer}});
        self.ask("PUT", &format!("/v1/collections/notes/documents/note:{id}"), &body).await
    }

    async fn ask(&self, method: &str, path: &str, body: &Json) -> Option<(StatusCode, Json)> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json");
        if method == "PUT" {
            request = request.header("if-none-match", "*");
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.client.request(request.body(body.into()).unwrap()).await.ok()?;
        let status = response.status();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap()))
    }
}
