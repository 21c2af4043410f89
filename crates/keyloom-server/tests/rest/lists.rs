//! Queries, counts and the list matcher over HTTP: rows J-15 to J-26, J-38, J-39.

use serde_json::{Value as Json, json};

use crate::server::{NOTES, Server};

const ALL: &str = "/v1/collections/notes/documents";
const LIST: &str = "/v1/collections/notes/list";
const QUERY: &str = "/v1/collections/notes/query";

async fn notes(count: usize) -> Server {
    let server = Server::start(NOTES).await;
    for number in 0..count {
        let data = json!({ "id": format!("n{number:02}"), "rank": number % 3 });
        server.create("notes", &data).await;
    }
    server
}

#[tokio::test]
async fn j15_a_count_is_not_bounded_by_the_page() {
    let server = notes(11).await;
    let all = json!({ "where": {}, "limit": 10 });
    let counted = server.post("/v1/collections/notes/count", &all).await.read();
    assert_eq!(
        (counted["count"].as_u64(), counted["cost"]["keys_read"].as_u64()),
        (Some(11), Some(1))
    );
    let page =
        server.post(LIST, &json!({ "paginate": { "limit": 10 }, "count": true })).await.read();
    assert_eq!(page["items_length"], 10);
    assert_eq!(
        (page["matches_length"].as_u64(), page["matches_pages"].as_u64()),
        (Some(11), Some(2))
    );
    let none = json!({ "where": { "rank": 9 } });
    let exists = server.post("/v1/collections/notes/exists", &none).await;
    assert_eq!(exists.read()["exists"], false);
}

#[tokio::test]
async fn j16_without_an_order_keys_come_in_key_order_and_pages_add_up() {
    let server = notes(7).await;
    let expected: Vec<String> = (0..7).map(|number| format!("note:n{number:02}")).collect();
    assert_eq!(server.get(ALL).await.keys(), expected);
    let mut found = Vec::new();
    let mut path = format!("{ALL}?limit=3");
    loop {
        let page = server.get(&path).await;
        found.extend(page.keys());
        let Some(next) = page.read()["next"].as_str().map(str::to_owned) else { break };
        path = format!("{ALL}?limit=3&after={next}");
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn j17_the_newest_come_first_and_the_same_on_every_page() {
    let server = notes(6).await;
    let newest = json!({ "order": "-@created_at", "limit": 6 });
    let all = server.post(QUERY, &newest).await.keys();
    let first = server.post(QUERY, &json!({ "order": "-@created_at", "limit": 4 })).await;
    let next = first.read()["next"].clone();
    let rest = json!({ "order": "-@created_at", "limit": 4, "after": next });
    let rest = server.post(QUERY, &rest).await.keys();
    assert_eq!([first.keys(), rest].concat(), all);
}

#[tokio::test]
async fn j18_times_are_matched_after_before_between_and_equal() {
    let schema = "[collections.t]\nkey = \"t:{id}\"\n\
                  access = { read = \"public\", write = \"public\" }\n[collections.t.fields]\n\
                  id = { type = \"id\", required = true }\n\
                  at = { type = \"millis\", required = true }\n\
                  [collections.t.indexes]\nat = \"at:{at}:{id}\"\n";
    let server = Server::start(schema).await;
    for time in 0..10 {
        server.create("t", &json!({ "id": format!("t{time}"), "at": time })).await;
    }
    let count = async |test: Json| {
        let body = json!({ "where": { "at": test } });
        server.post("/v1/collections/t/count", &body).await.read()["count"].as_u64().unwrap()
    };
    assert_eq!(count(json!({ "gt": 4 })).await, 5);
    assert_eq!(count(json!({ "lt": 4 })).await, 4);
    assert_eq!(count(json!({ "gte": 4, "lte": 8 })).await, 5);
    assert_eq!(count(json!(4)).await, 1);
    assert_eq!(count(json!({ "gte": 8, "lte": 4 })).await, 0);
    let now = server.get("/v1/collections/t/documents/t%3At4").await.read();
    let created = now["created_at"].as_u64().unwrap();
    let matcher = |times: Json| json!({ "matcher": { "createdAt": times }, "scan": 1000 });
    let list = async |times: Json| {
        let answer = server.post("/v1/collections/t/list", &matcher(times)).await;
        answer.read()["items_length"].as_u64().unwrap()
    };
    assert!(list(json!({ "matcher": "equal", "timestamp": created })).await >= 1);
    assert_eq!(list(json!({ "matcher": "greaterThan", "timestamp": created + 60_000 })).await, 0);
    assert_eq!(list(json!({ "matcher": "lessThan", "timestamp": 1 })).await, 0);
    let between = json!({ "matcher": "between", "timestamps": { "start": 9, "end": 4 } });
    assert_eq!(list(between).await, 0);
}

#[tokio::test]
async fn j19_j20_all_that_a_matcher_says_holds_together() {
    let server = Server::start(NOTES).await;
    for (id, description) in
        [("a1", Some("red door")), ("a2", Some("blue")), ("b1", Some("red")), ("a3", None)]
    {
        let body = json!({ "data": { "id": id }, "description": description });
        assert_eq!(server.post(ALL, &body).await.status, 201);
    }
    let both = json!({ "matcher": { "key": "^note:a", "description": "red" }, "scan": 1000 });
    assert_eq!(server.post(LIST, &both).await.keys(), ["note:a1"]);
    let any = json!({ "matcher": { "description": "" }, "scan": 1000 });
    assert_eq!(server.post(LIST, &any).await.read()["items_length"], 3);
    let refused = server.post(LIST, &json!({ "matcher": { "description": "red" } })).await;
    assert_eq!(refused.problem(), "400 no_index");
}

#[tokio::test]
async fn j21_j22_j38_expressions_are_anchored_literal_or_refused() {
    let server = notes(3).await;
    let list = async |key: &str| server.post(LIST, &json!({ "matcher": { "key": key } })).await;
    assert_eq!(list("^note:n01").await.keys(), ["note:n01"]);
    assert_eq!(list("^NOTE:").await.problem(), "400 invalid_argument");
    assert_eq!(list("(").await.problem(), "400 invalid_argument");
    let infix = list("01$").await;
    assert!(infix.status == 400 || infix.keys() == ["note:n01"], "{infix:?}");
}

#[tokio::test]
async fn j24_a_cursor_survives_the_document_that_it_stands_on() {
    let server = notes(6).await;
    let first = server.get(&format!("{ALL}?limit=3")).await;
    let next = first.read()["next"].as_str().unwrap().to_owned();
    let path = format!("{ALL}/note%3An02");
    let any = [("if-match", "*")];
    assert_eq!(server.send(hyper::Method::DELETE, &path, &any, b"").await.status, 200);
    let rest = server.get(&format!("{ALL}?limit=3&after={next}")).await.keys();
    assert_eq!(rest, ["note:n03", "note:n04", "note:n05"]);
    let after = json!({ "paginate": { "startAfter": "note:n02", "limit": 2 } });
    assert_eq!(server.post(LIST, &after).await.keys(), ["note:n03", "note:n04"]);
}

#[tokio::test]
async fn j26_collections_whose_names_are_alike_do_not_leak() {
    let one = |name: &str| {
        format!(
            "[collections.{name}]\nkey = \"{{id}}\"\n\
             access = {{ read = \"public\", write = \"public\" }}\n[collections.{name}.fields]\n\
             id = {{ type = \"id\", required = true }}\n"
        )
    };
    let names = ["a", "ab", "a-b"];
    let server = Server::start(&names.map(one).concat()).await;
    for name in names {
        server.create(name, &json!({ "id": format!("in-{name}") })).await;
    }
    for name in names {
        let found = server.get(&format!("/v1/collections/{name}/documents")).await.keys();
        assert_eq!(found, [format!("in-{name}")]);
    }
}

#[tokio::test]
async fn j39_an_answer_without_a_limit_is_a_page_with_a_cursor() {
    let server = notes(0).await;
    for batch in 0..3 {
        let operations: Vec<Json> = (0..100)
            .map(|number| {
                json!({ "op": "create", "collection": "notes", "data": {
                "id": format!("{batch}-{number:03}"), "code": format!("{batch}-{number}") } })
            })
            .collect();
        let done = server.post("/v1/batch", &json!({ "operations": operations })).await;
        assert_eq!(done.status, 200, "{done:?}");
    }
    let page = server.get(ALL).await;
    assert_eq!(page.keys().len(), 100);
    assert!(page.read()["next"].is_string());
    let large = server.get(&format!("{ALL}?limit=1001")).await;
    assert_eq!(large.problem(), "413 limit_exceeded");
}

#[tokio::test]
async fn a_query_tells_its_cost_and_its_plan_in_both_spellings() {
    let server = notes(9).await;
    let by_parameters = format!("{ALL}?rank=1&rank.in=1,2&limit=2&explain=true&select=id");
    let by_parameters = server.get(&by_parameters).await;
    let page = by_parameters.read();
    assert_eq!(page["items"][0], json!({ "key": "note:n01", "data": { "id": "n01" } }));
    assert_eq!(page["plan"]["path"], "index:rank");
    assert!(page["cost"]["keys_read"].as_u64().unwrap() <= 3, "{page}");
    let body = json!({ "where": { "rank": 1 }, "limit": 2, "select": ["id"], "explain": true });
    assert_eq!(server.post(QUERY, &body).await.keys(), by_parameters.keys());
    let refused = server.get(&format!("{ALL}?text.prefix=x")).await;
    assert_eq!(refused.problem(), "400 no_index");
    let suggest = &refused.read()["suggest"];
    assert_eq!(suggest["collection"], "notes");
    assert_eq!(suggest["backfill_documents"], 9);
    assert!(suggest["index"].as_str().unwrap().contains("{text}"), "{suggest}");
}
