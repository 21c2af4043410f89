//! Queries, counts, the list matcher and pages through HTTP (rows J-15 to J-24, J-37 to J-39).

use std::sync::Arc;

use axum::http::Method;
use keyloom_engine::{Action, Actor, Operation, Options};
use keyloom_server::Config;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::server::{Answer, Clock, NOTES as RANKED, Server, document_path, keys as keys_of};

const DOCUMENTS: &str = "/v1/collections/notes/documents";
const LIST: &str = "/v1/collections/notes/list";

const NOTES: &str = r#"
[collections.notes]
key = "{id}"
access = { read = "public", write = "public" }
fields.id = { type = "id", required = true }
fields.text = { type = "text" }
indexes.created = "notes:created:{@created_at desc}:{id}"
"#;

/// Votes as their keys are in the requirement, with ids that a test can read.
const VOTES: &str = r#"
[collections.votes]
key = "usr_{usr}_tag_{tag}_tar_{tar}_key_{vote}"
access = { read = "public", write = "public" }
fields.usr = { type = "name", required = true }
fields.tag = { type = "name", required = true }
fields.tar = { type = "name", required = true }
fields.vote = { type = "name", required = true }
indexes.tag_target = "tag_{tag}_tar_{tar}_usr_{usr}_key_{vote}"
"#;

/// Notes with these ids, created at these times.
async fn notes(notes: &[(&str, u64)]) -> Server {
    let clock = Arc::new(Clock::default());
    let options = Options { system: Arc::clone(&clock) as _, ..Options::default() };
    let server = Server::with(NOTES, options, Config::default()).await;
    for (id, time) in notes {
        clock.set(*time);
        server.create("notes", &json!({ "id": id })).await.ok();
    }
    server
}

/// Notes `n00`, `n01`, … with ranks 0, 1, 2, 0, ….
async fn ranked(count: usize) -> Server {
    let server = Server::start(RANKED).await;
    for number in 0..count {
        let data = json!({"id": format!("n{number:02}"), "rank": number % 3});
        server.create("notes", &data).await.ok();
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
    // All of a collection are counted with one key, however many there are and whatever the limit.
    let all = server.question("notes", "count", &json!({"where": {}, "limit": 10})).await;
    assert_eq!((&all["count"], &all["cost"]["keys_read"]), (&json!(12), &json!(1)));
    for (prefix, exists) in [("b", true), ("c", false)] {
        let body = json!({"where": {"id": {"prefix": prefix}}});
        assert_eq!(server.question("notes", "exists", &body).await["exists"], exists);
    }
}

#[tokio::test]
async fn j16_a_list_without_order_is_in_key_order() {
    let server = notes(&[("c", 1), ("a", 2), ("b", 3)]).await;
    assert_eq!(keys(&server, json!({})).await, ["a", "b", "c"]);
    let newest = json!({"order": {"desc": true, "field": "created_at"}});
    assert_eq!(keys(&server, newest).await, ["b", "a", "c"]);
}

#[tokio::test]
async fn j16_pages_by_address_add_up_to_all_in_key_order() {
    let server = ranked(7).await;
    let expected: Vec<String> = (0..7).map(|number| format!("note:n{number:02}")).collect();
    assert_eq!(server.get(DOCUMENTS).await.keys(), expected);
    let (mut found, mut path) = (Vec::new(), format!("{DOCUMENTS}?limit=3"));
    loop {
        let page = server.get(&path).await;
        found.push(page.keys());
        let Some(next) = page.json()["next"].as_str().map(str::to_owned) else { break };
        path = format!("{DOCUMENTS}?limit=3&after={next}");
    }
    assert_eq!(found, [&expected[..3], &expected[3..6], &expected[6..]]);
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
    let query = |after: Json| json!({"order": "-@created_at", "limit": 2, "after": after});
    let first = server.question("notes", "query", &query(Json::Null)).await;
    let second = server.question("notes", "query", &query(first["next"].clone())).await;
    assert_eq!([keys_of(&first), keys_of(&second)].concat(), whole);
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
async fn j18_times_in_fields_after_before_between_and_equal() {
    let fields = "fields.at = { type = \"millis\" }\nindexes.at = \"at:{at}:{id}\"\n";
    let server = Server::start(&[NOTES, fields].concat()).await;
    for time in 0..10 {
        server.create("notes", &json!({"id": format!("t{time}"), "at": time})).await.ok();
    }
    for (test, count) in [
        (json!({"gt": 4}), 5),
        (json!({"lt": 4}), 4),
        (json!({"gte": 4, "lte": 8}), 5),
        (json!(4), 1),
        (json!({"gte": 8, "lte": 4}), 0),
    ] {
        let counted = server.question("notes", "count", &json!({"where": {"at": test}})).await;
        assert_eq!(counted["count"], count, "{test}");
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
    let unserved = json!({"matcher": {"description": "red"}});
    let refused = server.post(LIST, &unserved).await;
    assert_eq!(refused.refusal(), "400 no_index");
}

#[tokio::test]
async fn j19_an_owner_is_one_more_condition() {
    let server = Server::start(NOTES).await;
    for (owner, ids) in [("ann", ["a1", "b1"]), ("bob", ["a2", "b2"])] {
        let create = |id| json!({"op": "create", "collection": "notes", "data": {"id": id}});
        let body = json!({"operations": ids.map(create), "owner": owner});
        server.post("/v1/batch", &body).await.ok();
    }
    let body = json!({"matcher": {"key": "^a"}, "owner": "ann", "scan": 100});
    assert_eq!(keys(&server, body).await, ["a1"]);
    assert_eq!(keys(&server, json!({"owner": "bob", "scan": 100})).await, ["a2", "b2"]);
    let early = json!({"matcher": "lessThan", "timestamp": 1});
    let both = json!({"matcher": {"key": "^a", "createdAt": early}, "owner": "ann", "scan": 100});
    assert!(keys(&server, both).await.is_empty());
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
async fn j22_an_expression_that_is_broken_or_can_match_no_key_is_a_clear_error() {
    let server = notes(&[("a(b", 1), ("a.b", 1), ("axb", 1)]).await;
    let broken = json!({"matcher": {"key": "("}});
    let refused = server.post(LIST, &broken).await;
    assert_eq!(refused.refusal(), "400 invalid_argument");
    assert!(refused.detail().contains("unclosed group"), "{}", refused.detail());
    assert_eq!(keys(&server, json!({"matcher": {"key": r"^a\(b$"}})).await, ["a(b"]);
    assert_eq!(keys(&server, json!({"matcher": {"key": r"^a\.b$"}})).await, ["a.b"]);
    let ranked = ranked(1).await;
    let wrong = ranked.post(LIST, &json!({"matcher": {"key": "^NOTE:"}})).await;
    assert_eq!(wrong.refusal(), "400 invalid_argument");
    assert!(wrong.detail().contains("note:{id}"), "{}", wrong.detail());
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
    for infix in ["5", "5$"] {
        let refused = server.post(LIST, &json!({"matcher": {"key": infix}})).await;
        assert_eq!(refused.refusal(), "400 no_index", "{infix}");
    }
    let by_update = json!({"order": {"field": "updated_at"}});
    let refused = server.post(LIST, &by_update).await;
    assert_eq!(refused.refusal(), "400 no_index");
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

/// How many votes there are. `KEYLOOM_DOCUMENTS` makes a quick run.
fn crowd() -> usize {
    std::env::var("KEYLOOM_DOCUMENTS").map_or(1_000_000, |text| text.parse().unwrap())
}

#[tokio::test]
async fn j37_j38_20_hits_among_1_000_000_keys_cost_what_they_are() {
    let server = Server::start(VOTES).await;
    let vote = |number: usize| {
        // 20 of them are of tag `yyy`.
        let tag = if number.is_multiple_of(crowd() / 20) { "yyy" } else { "zzz" };
        let data = json!({"usr": "xxx", "tag": tag, "tar": "uuu", "vote": format!("{number:07}")});
        let data = data.to_string().into_bytes();
        let action = Action::Create { key: None, data, description: None };
        Operation { collection: "votes".to_owned(), action }
    };
    // Only the questions go through the socket.
    for batch in 0..crowd() / 1000 {
        let operations: Vec<Operation> = (batch * 1000..(batch + 1) * 1000).map(vote).collect();
        server.engine.batch(&Actor::Local, &operations).await.unwrap();
    }
    let list = async |key: &str, limit: usize| {
        let body = json!({"matcher": {"key": key}, "paginate": {"limit": limit}, "explain": true});
        server.question("votes", "list", &body).await
    };
    for (key, path) in [("^usr_xxx_tag_yyy_", "key"), ("tag_yyy_tar_uuu_", "index:tag_target")] {
        let page = list(key, 10).await;
        assert_eq!((&page["items_length"], &page["plan"]["path"]), (&json!(10), &json!(path)));
        assert_eq!(page["cost"]["keys_read"], 11, "{key}");
        assert_eq!(list(key, 100).await["items_length"], 20, "{key}");
    }
}

#[tokio::test]
async fn j39_a_list_of_10_000_without_a_limit_is_a_page_and_a_cursor() {
    let server = notes(&[]).await;
    let create = |number| {
        let data = json!({"id": format!("n{number:05}"), "text": "x".repeat(1024)});
        json!({"op": "create", "collection": "notes", "data": data})
    };
    for batch in 0..20 {
        let operations: Vec<Json> = (batch * 500..(batch + 1) * 500).map(create).collect();
        server.post("/v1/batch", &json!({ "operations": operations })).await.ok();
    }
    let first = server.get(DOCUMENTS).await;
    assert_eq!(first.keys().len(), 100);
    assert!(first.json()["next"].is_string());
    let (mut sizes, mut after) = (Vec::new(), Json::Null);
    loop {
        let page = list(&server, json!({"paginate": {"startAfter": after}})).await;
        sizes.push(page["items"].as_array().unwrap().len());
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [100; 100]);
    let large = server.get(&format!("{DOCUMENTS}?limit=1001")).await;
    assert_eq!(large.refusal(), "413 limit_exceeded");
}

#[tokio::test]
async fn a_query_tells_its_cost_and_its_plan_in_both_spellings() {
    let server = ranked(9).await;
    let parameters = "rank=1&rank.in=1,2&limit=2&explain=true&select=id";
    let by_address = server.get(&format!("{DOCUMENTS}?{parameters}")).await;
    let page = by_address.ok();
    assert_eq!(page["items"][0], json!({"key": "note:n01", "data": {"id": "n01"}}));
    assert_eq!(page["plan"]["path"], "index:rank");
    assert_eq!(page["cost"], json!({"keys_read": 3, "documents_read": 0, "ranges": 1}));
    let body = json!({"where": {"rank": 1}, "limit": 2, "select": ["id"], "explain": true});
    let by_body = server.question("notes", "query", &body).await;
    assert_eq!((&by_body["items"], &by_body["plan"]), (&page["items"], &page["plan"]));
    let refused = server.get(&format!("{DOCUMENTS}?text.prefix=x")).await;
    assert_eq!(refused.refusal(), "400 no_index");
    let suggest = &refused.json()["suggest"];
    assert_eq!(suggest["collection"], "notes");
    assert_eq!(suggest["backfill_documents"], 9);
    assert!(suggest["index"].as_str().unwrap().contains("{text}"), "{suggest}");
}

/// The bytes of an answer are those that serde writes for its type.
#[track_caller]
fn assert_spelt<T: Serialize + DeserializeOwned>(answer: &Answer) {
    let value: T = serde_json::from_slice(&answer.body).unwrap();
    let spelt = serde_json::to_string(&value).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.body), spelt);
}

#[tokio::test]
async fn pages_that_are_spliced_are_spelt_like_all_other_answers() {
    let server = ranked(3).await;
    for body in [json!({}), json!({"limit": 2, "explain": true}), json!({"select": ["id"]})] {
        let page = server.post("/v1/collections/notes/query", &body).await;
        assert_spelt::<keyloom_api::Page>(&page);
    }
    let one = json!({"limit": 1});
    for body in [json!({}), json!({"paginate": one, "count": true, "explain": true})] {
        assert_spelt::<keyloom_api::ListPage>(&server.post(LIST, &body).await);
    }
}
