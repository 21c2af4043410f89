//! The change feed over HTTP: events, lines, positions that are gone.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use keyloom_engine::{Position, Retention};
use keyloom_server::Config;
use serde_json::{Value as Json, json};
use std::time::Duration;

use crate::server::{NOTES, Server};

const LINES: (&str, &str) = ("accept", "application/x-ndjson");

/// The events of an open stream, one by one.
struct Events {
    stream: Response<Incoming>,
    text: String,
}

impl Events {
    async fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Events {
        let stream = server.open(Method::GET, path, headers, b"").await;
        assert_eq!(stream.status(), 200);
        assert_eq!(stream.headers()["content-type"], "text/event-stream");
        let mut events = Events { stream, text: String::new() };
        assert_eq!(events.next().await.unwrap(), "retry: 1000\n: connected");
        events
    }

    /// The next event as text; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return Some(event);
            }
            let frame = self.stream.body_mut().frame().await?.ok()?;
            let bytes = frame.into_data().unwrap_or_default();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next change, with its id.
    async fn change(&mut self) -> (String, Json) {
        let event = self.next().await.unwrap();
        let (id, data) = event.split_once("\ndata: ").unwrap_or_else(|| panic!("{event}"));
        (id.trim_start_matches("id: ").to_owned(), serde_json::from_str(data).unwrap())
    }
}

fn two() -> String {
    NOTES.to_owned() + &NOTES.replace("collections.notes", "collections.other")
}

#[tokio::test]
async fn a_follower_hears_of_what_is_written_while_it_waits() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await;
    let mut events = Events::open(&server, "/v1/changes", &[]).await;
    let (id, change) = events.change().await;
    assert_eq!(
        (id.as_str(), &change["kind"], &change["key"]),
        ("1", &json!("created"), &json!("note:a"))
    );
    let path = "/v1/collections/notes/documents/note%3Aa";
    server.send(Method::DELETE, path, &[("if-match", "*")], b"").await;
    let (id, change) = events.change().await;
    assert_eq!((id.as_str(), &change["kind"]), ("2", &json!("deleted")));
}

#[tokio::test]
async fn a_follower_goes_on_where_it_stopped() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await;
    }
    let mut again = Events::open(&server, "/v1/changes?after=1", &[("last-event-id", "2")]).await;
    assert_eq!(again.change().await.1["key"], "note:c");
    let mut after = Events::open(&server, "/v1/changes?after=1", &[]).await;
    assert_eq!(after.change().await.1["key"], "note:b");
    let mut end = Events::open(&server, "/v1/changes?after=end", &[]).await;
    server.create("notes", &json!({ "id": "d" })).await;
    assert_eq!(end.change().await.1["key"], "note:d");
}

#[tokio::test]
async fn a_follower_of_one_collection_hears_of_no_other_and_its_beat_moves_on() {
    let config = Config { heartbeat: Duration::from_millis(20), ..Config::default() };
    let server = Server::with(&two(), config).await;
    let mut events = Events::open(&server, "/v1/changes?collection=notes", &[]).await;
    for id in ["a", "b"] {
        server.create("other", &json!({ "id": id })).await;
    }
    loop {
        let beat = events.next().await.unwrap();
        assert!(beat.ends_with("\n: nothing new"), "{beat}");
        if beat.starts_with("id: 2") {
            break;
        }
    }
    let unknown = server.get("/v1/changes?collection=nope").await;
    assert_eq!(unknown.problem(), "404 not_found");
}

#[tokio::test]
async fn lines_come_in_pages_with_the_position_that_they_reached() {
    let server = Server::start(&two()).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await;
        server.create("other", &json!({ "id": id })).await;
    }
    let page = async |parameters: &str| {
        let path = format!("/v1/changes?{parameters}");
        let page = server.send(Method::GET, &path, &[LINES], b"").await;
        assert_eq!(page.header("content-type"), "application/x-ndjson");
        let text = String::from_utf8(page.body.to_vec()).unwrap();
        let keys: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Json>(line).unwrap()["key"].as_str().unwrap().into())
            .collect();
        (keys, page.header("keyloom-position").to_owned())
    };
    let expected = (vec!["note:a".to_owned(), "note:b".to_owned()], "3".to_owned());
    assert_eq!(page("collection=notes&limit=2").await, expected);
    assert_eq!(page("collection=notes&after=3").await, (vec!["note:c".to_owned()], "6".to_owned()));
    assert_eq!(page("after=6").await, (Vec::new(), "6".to_owned()));
    let large = server.send(Method::GET, "/v1/changes?limit=1001", &[LINES], b"").await;
    assert_eq!(large.problem(), "413 limit_exceeded");
    let limited = server.get("/v1/changes?limit=5").await;
    assert_eq!(limited.problem(), "400 invalid_argument");
    let wrong = server.get("/v1/changes?after=soon").await;
    assert_eq!(wrong.problem(), "400 invalid_argument");
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_gone() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await;
    }
    server.engine.trim_changes(Retention::Count(1)).await.unwrap();
    for headers in [&[LINES][..], &[]] {
        let gone = server.send(Method::GET, "/v1/changes?after=1", headers, b"").await;
        assert_eq!(gone.problem(), "410 invalid_argument");
        assert!(gone.read()["detail"].as_str().unwrap().contains("position 2"), "{gone:?}");
    }
    let mut oldest = Events::open(&server, "/v1/changes", &[]).await;
    assert_eq!(oldest.change().await.0, "3");
}

#[tokio::test]
async fn followers_are_bounded_and_a_stop_ends_them() {
    let config = Config { readers_max: 1, ..Config::default() };
    let server = Server::with(NOTES, config).await;
    let mut events = Events::open(&server, "/v1/changes", &[]).await;
    let refused = server.get("/v1/changes").await;
    assert_eq!(refused.problem(), "503 unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    server.stop().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stops_and_starts_misses_nothing_and_sees_versions_grow() {
    const WRITES: u64 = 50_000;
    let server = std::sync::Arc::new(Server::start(NOTES).await);
    let writer = {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move {
            let mut number = 0;
            while number < WRITES {
                let operations: Vec<Json> = (number..number + 500)
                    .map(|number| {
                        json!({ "op": "put", "collection": "notes",
                        "key": format!("note:{}", number % 997),
                        "data": { "id": (number % 997).to_string() }, "if_version": "*" })
                    })
                    .filter(|_| number >= 1000)
                    .collect();
                let operations = if operations.is_empty() {
                    (number..number + 500)
                        .filter(|number| *number < 997)
                        .map(|number| {
                            json!({ "op": "create", "collection": "notes",
                            "data": { "id": number.to_string() } })
                        })
                        .collect()
                } else {
                    operations
                };
                let done = server.post("/v1/batch", &json!({ "operations": operations })).await;
                assert_eq!(done.status, 200, "{done:?}");
                number += 500;
            }
        })
    };
    let (mut position, mut versions) = (0_u64, std::collections::HashMap::new());
    let mut seed = 7_u64;
    loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut left = seed >> 54;
        let path = format!("/v1/changes?after={position}");
        let mut events = Events::open(&server, &path, &[]).await;
        let end = server.engine.feed().await.unwrap().last;
        while left > 0 && Position(position) < end {
            let (id, change) = events.change().await;
            let id: u64 = id.parse().unwrap();
            assert_eq!(id, position + 1, "a change is missing");
            position = id;
            let version = change["version"].as_u64().unwrap();
            let before = versions.insert(change["key"].as_str().unwrap().to_owned(), version);
            assert!(before.is_none_or(|before| before < version), "{change}");
            left -= 1;
        }
        if writer.is_finished() && Position(position) == server.engine.feed().await.unwrap().last {
            break;
        }
    }
    writer.await.unwrap();
    assert_eq!(versions.len(), 997);
    assert!(position >= WRITES - 1000, "{position}");
}
