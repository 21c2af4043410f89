//! The list matcher and pages through HTTP (rows J-15 to J-24, J-37 to J-39).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Method;
use keyloom_engine::{Options, RealSystem, System};
use keyloom_server::Config;
use serde_json::{Value as Json, json};

use crate::server::{Server, document_path};

const NOTES: &str = r#"
[collections.notes]
key = "{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.text = { type = "text" }
indexes.created = "notes:created:{@created_at desc}:{id}"
"#;

/// A clock that a test sets; everything else is real.
struct Clock {
    millis: AtomicU64,
}

#[async_trait]
impl System for Clock {
    fn now_micros(&self) -> u64 {
        self.millis.load(Ordering::SeqCst) * 1000
    }

    fn random(&self, bytes: &mut [u8]) {
        RealSystem.random(bytes);
    }

    async fn sleep(&self, duration: Duration) {
        RealSystem.sleep(duration).await;
    }
}

/// Notes with these ids, created at these times.
async fn notes(notes: &[(&str, u64)]) -> Server {
    let clock = Arc::new(Clock { millis: AtomicU64::new(0) });
    let options = Options { system: Arc::clone(&clock) as _, ..Options::default() };
    let server = Server::with(NOTES, options, Config::default()).await;
    for (id, time) in notes {
        clock.millis.store(*time, Ordering::SeqCst);
        server.create("notes", &json!({ "id": id })).await.ok();
    }
    server
}

/// Ten notes, created at 1000, 1010, …, 1090.
async fn ten() -> Server {
    let ids: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let times = (0..10).map(|number| 1000 + 10 * number);
    notes(&ids.iter().map(String::as_str).zip(times).collect::<Vec<_>>()).await
}

async fn list(server: &Server, body: Json) -> Json {
    server.question("notes", "list", &body).await
}

async fn keys(server: &Server, body: Json) -> Vec<String> {
    keys_of(&list(server, body).await)
}

fn keys_of(page: &Json) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn j15_a_count_is_of_all_matches_whatever_the_limit() {
    let ids: Vec<String> = (0..11).map(|number| format!("a{number}")).collect();
    let mut all: Vec<(&str, u64)> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    all.push(("b", 1));
    let server = notes(&all).await;
    let body = json!({"matcher": {"key": "^a"}, "paginate": {"limit": 10}, "count": true});
    let page = list(&server, body).await;
    assert_eq!((&page["items_length"], &page["matches_length"]), (&json!(10), &json!(11)));
    assert_eq!((&page["items_page"], &page["matches_pages"]), (&json!(0), &json!(2)));
    let counted =
        server.question("notes", "count", &json!({"where": {"id": {"prefix": "a"}}})).await;
    assert_eq!(counted["count"], 11);
}

#[tokio::test]
async fn j16_a_list_without_order_is_in_key_order() {
    let server = notes(&[("c", 1), ("a", 2), ("b", 3)]).await;
    assert_eq!(keys(&server, json!({})).await, ["a", "b", "c"]);
    let newest = json!({"order": {"desc": true, "field": "created_at"}});
    assert_eq!(keys(&server, newest).await, ["b", "a", "c"]);
}

#[tokio::test]
async fn j17_documents_of_one_time_come_in_one_order_on_all_pages() {
    let server = notes(&[("b", 5), ("c", 5), ("a", 5)]).await;
    let order = json!({"desc": true, "field": "created_at"});
    let whole = keys(&server, json!({ "order": order })).await;
    let (mut found, mut after) = (Vec::new(), Json::Null);
    for _ in 0..3 {
        let paginate = json!({"limit": 1, "startAfter": after});
        let page = list(&server, json!({"order": order, "paginate": paginate})).await;
        found.extend(keys_of(&page));
        after = page["next"].clone();
    }
    assert_eq!((&found, after), (&whole, Json::Null));
    assert_eq!(found.len(), 3);
}

#[tokio::test]
async fn j18_times_after_before_between_and_equal() {
    let server = ten().await;
    let between = |start: u64, end: u64| {
        let times = json!({"start": start, "end": end});
        json!({"matcher": "between", "timestamps": times})
    };
    for (matcher, count) in [
        (json!({"matcher": "greaterThan", "timestamp": 1040}), 5),
        (json!({"matcher": "lessThan", "timestamp": 1040}), 4),
        (between(1040, 1080), 5),
        (json!({"matcher": "equal", "timestamp": 1040}), 1),
        (between(1080, 1040), 0),
    ] {
        let page = list(&server, json!({"matcher": {"createdAt": matcher}})).await;
        assert_eq!(page["items_length"], count, "{matcher}");
    }
}

#[tokio::test]
async fn j19_j20_all_matchers_together_are_the_intersection() {
    let server = notes(&[("a1", 10), ("a2", 20), ("b1", 30)]).await;
    for (id, description) in [("a3", "red"), ("a4", "green"), ("b2", "red")] {
        let path = document_path("notes", id);
        let body = json!({"data": {"id": id}, "description": description});
        server.ask(Method::PUT, path).json(&body).send().await.ok();
    }
    let body = json!({"matcher": {"key": "^a", "description": "^re"}, "scan": 100});
    assert_eq!(keys(&server, body).await, ["a3"]);
    let any = json!({"matcher": {"description": ".*"}, "scan": 100});
    assert_eq!(keys(&server, any).await, ["a3", "a4", "b2"]);
    let timed = json!({"matcher": {"key": "^a",
                       "createdAt": {"matcher": "lessThan", "timestamp": 20}}, "scan": 100});
    assert_eq!(keys(&server, timed).await, ["a1"]);
}

#[tokio::test]
async fn j21_an_expression_matches_anywhere_unless_it_is_anchored_and_case_counts() {
    let server = notes(&[("usr_A1", 1), ("x_usr_A1", 1)]).await;
    let by_key = |pattern: &str| json!({"matcher": {"key": pattern}, "scan": 100});
    assert_eq!(keys(&server, by_key("usr_A")).await, ["usr_A1", "x_usr_A1"]);
    assert_eq!(keys(&server, by_key("^usr_A")).await, ["usr_A1"]);
    assert!(keys(&server, by_key("^usr_a")).await.is_empty());
}

#[tokio::test]
async fn j22_a_broken_expression_is_a_clear_error() {
    let server = notes(&[("a(b", 1), ("a.b", 1), ("axb", 1)]).await;
    let broken = json!({"matcher": {"key": "("}});
    let refused = server.post("/v1/collections/notes/list", &broken).await;
    assert_eq!(refused.refusal(), (400, "invalid_argument".to_owned()));
    assert!(refused.detail().contains("unclosed group"), "{}", refused.detail());
    assert_eq!(keys(&server, json!({"matcher": {"key": r"^a\(b$"}})).await, ["a(b"]);
    assert_eq!(keys(&server, json!({"matcher": {"key": r"^a\.b$"}})).await, ["a.b"]);
}

#[tokio::test]
async fn j24_a_page_goes_on_where_it_stood_although_the_document_is_gone() {
    let server = ten().await;
    let query = |after: &Json| json!({"limit": 4, "after": after});
    let page = server.question("notes", "query", &query(&Json::Null)).await;
    assert_eq!(keys_of(&page), ["n0", "n1", "n2", "n3"]);
    let path = document_path("notes", "n3");
    server.ask(Method::DELETE, path).header("if-match", "*").send().await.ok();
    let page = server.question("notes", "query", &query(&page["next"])).await;
    assert_eq!(keys_of(&page), ["n4", "n5", "n6", "n7"]);
    let after = json!({"paginate": {"startAfter": "n3", "limit": 4}});
    assert_eq!(keys(&server, after).await, ["n4", "n5", "n6", "n7"]);
}

#[tokio::test]
async fn j37_j38_a_page_reads_one_key_more_than_it_returns_or_is_refused() {
    let server = ten().await;
    let anchored = json!({"matcher": {"key": "^n"}, "paginate": {"limit": 5}});
    let page = list(&server, anchored).await;
    assert_eq!((&page["items_length"], &page["cost"]["keys_read"]), (&json!(5), &json!(6)));
    let refused =
        server.post("/v1/collections/notes/list", &json!({"matcher": {"key": "5"}})).await;
    assert_eq!(refused.refusal(), (400, "no_index".to_owned()));
    let by_update = json!({"order": {"field": "updated_at"}});
    let refused = server.post("/v1/collections/notes/list", &by_update).await;
    assert_eq!(refused.refusal(), (400, "no_index".to_owned()));
    let suggest = &refused.json()["suggest"];
    assert_eq!(suggest["collection"], "notes");
    assert_eq!(
        (&suggest["backfill_documents"], &suggest["keys_per_write"]),
        (&json!(10), &json!(1))
    );
    // The template that is suggested serves the list once it is added.
    let index = suggest["index"].as_str().unwrap();
    let schema = format!("{NOTES}indexes.added = \"{index}\"\n");
    let applied =
        server.ask(Method::PUT, "/v1/schema").bytes("application/toml", schema).send().await;
    assert_eq!(applied.ok()["applied"], true);
    assert_eq!(list(&server, by_update).await["items_length"], 10);
}

#[tokio::test]
async fn j39_a_list_without_a_limit_is_a_page_and_a_cursor() {
    let server = notes(&[]).await;
    let create = |number| {
        let data = json!({"id": format!("n{number:04}"), "text": "x".repeat(1024)});
        json!({"op": "create", "collection": "notes", "data": data})
    };
    let operations: Vec<Json> = (0..250).map(create).collect();
    server.post("/v1/batch", &json!({ "operations": operations })).await.ok();
    let (mut sizes, mut after) = (Vec::new(), Json::Null);
    loop {
        let page = list(&server, json!({"paginate": {"startAfter": after}})).await;
        sizes.push(page["items"].as_array().unwrap().len());
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
}
