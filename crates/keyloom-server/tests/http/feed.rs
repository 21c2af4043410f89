//! The change feed through HTTP: readers that come and go see everything, in order, once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Method;
use http_body_util::BodyExt;
use keyloom_store::conformance::Random;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::server::Server;

const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.place = { type = "u64" }
"#;

const WRITERS: usize = 2;
const BATCHES: usize = 50;
const BATCH: usize = 500;
const CHANGES: usize = WRITERS * BATCHES * BATCH;

/// A reader that has not heard of all changes by then has missed some: without this it would wait
/// for them for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// The versions that each document went through.
type History = BTreeMap<String, Vec<u64>>;

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_stop_and_start_at_random_see_every_change_of_every_document_in_order() {
    let server = Server::start(NOTES).await;
    let mut random = Random::from_environment();
    println!("replay with {random}");
    let mut readers = JoinSet::new();
    let (events, lines) = (Random::new(random.next_u64()), Random::new(random.next_u64()));
    readers.spawn(timeout(PATIENCE, read_events(server.clone(), events)));
    readers.spawn(timeout(PATIENCE, read_lines(server.clone(), lines)));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(server.clone(), writer, Random::new(random.next_u64())));
    }
    let written: History = writers.join_all().await.into_iter().flatten().collect();
    assert_eq!(written.values().map(Vec::len).sum::<usize>(), CHANGES);
    for seen in readers.join_all().await {
        assert_eq!(seen.expect("a reader waits for changes that never come"), written);
    }
}

/// Creates, changes and deletes random documents of its own in batches; the answer is what was
/// acknowledged.
async fn write(server: Server, writer: usize, mut random: Random) -> History {
    let (mut history, mut alive) = (History::new(), BTreeSet::new());
    for _ in 0..BATCHES {
        let start = random.below(1000);
        let operations: Vec<Json> = (start..start + BATCH)
            .map(|place| {
                let id = format!("{writer}-{}", place % 1000);
                let mut operation = json!({"collection": "notes", "key": format!("note:{id}")});
                if alive.insert(id.clone()) {
                    operation["op"] = "create".into();
                    operation["data"] = json!({ "id": id });
                } else {
                    operation["if_version"] = "*".into();
                    operation["op"] = "delete".into();
                    if random.below(4) > 0 {
                        operation["op"] = "put".into();
                        operation["data"] = json!({"id": id, "place": place});
                    } else {
                        alive.remove(&id);
                    }
                }
                operation
            })
            .collect();
        let answer = server.post("/v1/batch", &json!({ "operations": operations })).await.ok();
        for result in answer["results"].as_array().unwrap() {
            remember(&mut history, result);
        }
    }
    history
}

/// Follows server-sent events, and drops the connection after a random number of them.
async fn read_events(server: Server, mut random: Random) -> History {
    let (mut history, mut seen, mut last): (_, _, Option<String>) = (History::new(), 0, None);
    while seen < CHANGES {
        let ask = server.ask(Method::GET, "/v1/changes");
        let ask = ask.header("accept", "text/event-stream");
        let ask = match &last {
            Some(id) => ask.header("last-event-id", id),
            None => ask,
        };
        let mut body = ask.open().await.into_body();
        let (mut buffer, stop) = (Vec::new(), seen + 1 + random.below(3000));
        while seen < stop.min(CHANGES) {
            let frame = body.frame().await.expect("the feed goes on").unwrap();
            buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(event) = next_event(&mut buffer) {
                // What comes behind the stop is lost with the connection.
                if let (Some(change), true) = (event.change, seen < stop) {
                    remember(&mut history, &change);
                    seen += 1;
                    assert_eq!(event.id, Some(seen.to_string()), "one id behind the other");
                    last = event.id;
                }
            }
        }
    }
    history
}

struct Event {
    id: Option<String>,
    change: Option<Json>,
}

/// Takes one whole event from the front of what has arrived.
fn next_event(buffer: &mut Vec<u8>) -> Option<Event> {
    let end = buffer.windows(2).position(|two| two == b"\n\n")?;
    let event: Vec<u8> = buffer.drain(..end + 2).collect();
    let event = String::from_utf8(event).unwrap();
    let field = |name: &str| {
        event.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
    };
    assert_eq!(field("event:"), None, "{event}");
    let change = field("data:").map(|data| serde_json::from_str(&data).unwrap());
    Some(Event { id: field("id:"), change })
}

/// Asks for pages of random length, each behind the last change of the page before.
async fn read_lines(server: Server, mut random: Random) -> History {
    let (mut history, mut seen, mut after) = (History::new(), 0, 0);
    while seen < CHANGES {
        let limit = 1 + random.below(1000);
        let ask = server.ask(Method::GET, format!("/v1/changes?after={after}&limit={limit}"));
        let page = ask.header("accept", "application/x-ndjson").send().await;
        assert_eq!(page.status, 200, "{:?}", page.body);
        let lines = page.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for line in lines {
            let change: Json = serde_json::from_slice(line).unwrap();
            remember(&mut history, &change);
            seen += 1;
            after = change["position"].as_u64().unwrap();
        }
        // An empty page is the end of the feed for now: let the writers go on.
        tokio::task::yield_now().await;
    }
    history
}

fn remember(history: &mut History, change: &Json) {
    let key = change["key"].as_str().unwrap().to_owned();
    history.entry(key).or_default().push(change["version"].as_u64().unwrap());
}
