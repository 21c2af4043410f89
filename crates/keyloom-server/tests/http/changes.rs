//! The change feed over HTTP: events, lines, positions that are gone.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use keyloom_engine::{Options, Retention};
use keyloom_server::Config;
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::server::{Answer, Ask, NOTES, PATIENCE, Server};

/// The events of an open stream, one by one.
struct Events {
    stream: Response<Incoming>,
    text: String,
}

impl Events {
    async fn open(ask: Ask<'_>) -> Events {
        let stream = ask.open().await;
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
            let frame = timeout(PATIENCE, self.stream.body_mut().frame()).await;
            let frame = frame.expect("nothing comes, not even a beat")?.ok()?;
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

/// Follows the feed from where a path says.
async fn follow(server: &Server, path: &str) -> Events {
    Events::open(server.ask(Method::GET, path)).await
}

/// A page of the feed, a change on each line.
async fn lines(server: &Server, path: &str) -> Answer {
    server.ask(Method::GET, path).header("accept", "application/x-ndjson").send().await
}

/// Two collections with the same keys.
fn two() -> String {
    NOTES.to_owned() + &NOTES.replace("collections.notes", "collections.other")
}

#[tokio::test]
async fn a_position_behind_the_end_is_of_another_feed() {
    let server = Server::start(NOTES).await;
    for accept in ["application/x-ndjson", "text/event-stream"] {
        let ask = server.ask(Method::GET, "/v1/changes?after=7").header("accept", accept);
        let refused = ask.send().await;
        assert_eq!(refused.refusal(), "400 invalid_argument");
        assert!(refused.detail().contains("end of the feed, 0"), "{}", refused.detail());
    }
}

#[tokio::test]
async fn a_follower_hears_of_what_is_written_while_it_waits() {
    let server = Server::start(NOTES).await;
    server.create("notes", &json!({ "id": "a" })).await.ok();
    let mut events = follow(&server, "/v1/changes").await;
    let (id, change) = events.change().await;
    assert_eq!(
        (id.as_str(), &change["kind"], &change["key"]),
        ("1", &json!("created"), &json!("note:a"))
    );
    let path = "/v1/collections/notes/documents/note%3Aa";
    server.ask(Method::DELETE, path).header("if-match", "*").send().await;
    let (id, change) = events.change().await;
    assert_eq!((id.as_str(), &change["kind"]), ("2", &json!("deleted")));
}

#[tokio::test]
async fn a_follower_goes_on_where_it_stopped() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await.ok();
    }
    let again = server.ask(Method::GET, "/v1/changes?after=1").header("last-event-id", "2");
    let mut again = Events::open(again).await;
    assert_eq!(again.change().await.1["key"], "note:c");
    let mut after = follow(&server, "/v1/changes?after=1").await;
    assert_eq!(after.change().await.1["key"], "note:b");
    let mut end = follow(&server, "/v1/changes?after=end").await;
    server.create("notes", &json!({ "id": "d" })).await.ok();
    assert_eq!(end.change().await.1["key"], "note:d");
}

#[tokio::test]
async fn a_follower_of_one_collection_hears_of_no_other_and_its_beat_moves_on() {
    let config = Config { heartbeat: Duration::from_millis(20), ..Config::default() };
    let server = Server::with(&two(), Options::default(), config).await;
    let mut events = follow(&server, "/v1/changes?collection=notes").await;
    for id in ["a", "b"] {
        server.create("other", &json!({ "id": id })).await.ok();
    }
    loop {
        let beat = events.next().await.unwrap();
        assert!(beat.ends_with("\n: nothing new"), "{beat}");
        if beat.starts_with("id: 2") {
            break;
        }
    }
    let unknown = server.get("/v1/changes?collection=nope").await;
    assert_eq!(unknown.refusal(), "404 not_found");
}

#[tokio::test]
async fn lines_come_in_pages_with_the_position_that_they_reached() {
    let server = Server::start(&two()).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await.ok();
        server.create("other", &json!({ "id": id })).await.ok();
    }
    let page = async |parameters: &str| {
        let path = format!("/v1/changes?{parameters}");
        let page = lines(&server, &path).await;
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
    let large = lines(&server, "/v1/changes?limit=1001").await;
    assert_eq!(large.refusal(), "413 limit_exceeded");
    let limited = server.get("/v1/changes?limit=5").await;
    assert_eq!(limited.refusal(), "400 invalid_argument");
    let wrong = server.get("/v1/changes?after=soon").await;
    assert_eq!(wrong.refusal(), "400 invalid_argument");
}

#[tokio::test]
async fn a_position_that_is_no_longer_kept_is_gone() {
    let server = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        server.create("notes", &json!({ "id": id })).await.ok();
    }
    server.engine.trim_changes(Retention::Count(1)).await.unwrap();
    let path = "/v1/changes?after=1";
    for gone in [lines(&server, path).await, server.get(path).await] {
        assert_eq!(gone.refusal(), "410 invalid_argument");
        assert!(gone.detail().contains("position 2"), "{gone:?}");
    }
    let mut oldest = follow(&server, "/v1/changes").await;
    assert_eq!(oldest.change().await.0, "3");
}

#[tokio::test]
async fn a_server_forgets_the_changes_that_it_need_not_keep() {
    let first = Server::start(NOTES).await;
    for id in ["a", "b", "c"] {
        first.create("notes", &json!({ "id": id })).await.ok();
    }
    let config = Config { retention: Retention::Count(1), ..Config::default() };
    let second = Server::over(Arc::clone(&first.engine), config).await;
    let gone = async {
        while lines(&second, "/v1/changes?after=1").await.status != 410 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("the server never forgets");
    assert_eq!(lines(&second, "/v1/changes?after=2").await.status, 200);
}

#[tokio::test]
async fn followers_are_bounded_and_a_stop_ends_them() {
    let config = Config { readers_max: 1, ..Config::default() };
    let server = Server::configured(config).await;
    let mut events = follow(&server, "/v1/changes").await;
    let refused = server.get("/v1/changes").await;
    assert_eq!(refused.refusal(), "503 unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    server.stop().await;
    assert_eq!(events.next().await, None);
}
