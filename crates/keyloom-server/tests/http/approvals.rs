//! Approvals through HTTP: the acceptance criteria of the requirement, one test each, and the rows
//! about approvals that a client can see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use keyloom_engine::{Options, RealSystem, System};
use keyloom_server::Config;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{APPROVALS, Answer, Server, document_path, values};

/// The time of the first request of a test.
const START: i64 = 1_700_000_000_000;

/// Requests for approval by these people, one second apart, all asked of `boss`.
async fn requests(requesters: &[&str]) -> Server {
    let server = Server::start(APPROVALS).await;
    for (second, requester) in (0..).zip(requesters) {
        let data = request(requester, "boss", START + second * 1000);
        server.create("approvals", &data).await.ok();
    }
    server
}

fn request(requester: &str, approver: &str, created_at: i64) -> Json {
    json!({"requester": requester, "approver": approver, "created_at": created_at})
}

/// The list of one person, newest first.
fn list(field: &str, person: &str) -> Json {
    json!({"where": {field: person}, "order": "-created_at", "limit": 20, "explain": true})
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap()
}

fn created_at(page: &Json) -> Vec<i64> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["data"]["created_at"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn ac1_a_saved_request_has_its_record_both_index_keys_and_its_code() {
    let server = Server::start(APPROVALS).await;
    let answer = server.create("approvals", &request("u1", "u2", START)).await;
    assert_eq!(answer.status, 201);
    let document = answer.ok();
    let (id, code) = (text(&document["data"]["id"]), text(&document["data"]["code"]));
    assert_eq!(document["key"], format!("approval:record:{id}"));
    let inverted = 9_999_999_999_999 - START;
    for (path, key) in [
        ("key", format!("approval:record:{id}")),
        ("requester", format!("approval:index:requester:u1:{inverted:013}:{id}")),
        ("approver", format!("approval:index:approver:u2:{inverted:013}:{id}")),
        ("code", format!("approval:code:{code}")),
    ] {
        assert_eq!(server.keys("approvals", path).await, [key], "{path}");
    }
}

#[tokio::test]
async fn ac1_what_is_refused_leaves_none_of_its_keys() {
    let server = requests(&["u1"]).await;
    let held = server.question("approvals", "query", &json!({})).await;
    let mut second = request("u1", "u2", START);
    second["code"] = held["items"][0]["data"]["code"].clone();
    let refused = server.create("approvals", &second).await;
    assert_eq!(refused.refusal(), "409 unique_violation");
    assert_eq!(refused.json()["claim"], "code");
    for path in ["key", "requester", "approver", "code"] {
        assert_eq!(server.keys("approvals", path).await.len(), 1, "{path}");
    }
}

#[tokio::test]
async fn ac2_the_list_of_a_requester_reads_his_keys_and_no_others() {
    let server = requests(&["u1", "u2", "u1", "u3", "u10", "u1"]).await;
    let page = server.question("approvals", "query", &list("requester", "u1")).await;
    assert_eq!(created_at(&page), [START + 5000, START + 2000, START]);
    assert_eq!(page["cost"], json!({"keys_read": 3, "documents_read": 3, "ranges": 1}));
    assert_eq!(page["plan"]["path"], "index:requester");
    let from = text(&page["plan"]["ranges"][0]["from"]);
    assert!(from.starts_with("approval:index:requester:u1:"), "{from}");
}

#[tokio::test]
async fn ac3_the_list_of_an_approver_reads_his_keys_and_no_others() {
    let server = requests(&["u1", "u2"]).await;
    server.create("approvals", &request("u1", "other", START)).await.ok();
    let page = server.question("approvals", "query", &list("approver", "boss")).await;
    assert_eq!(values(&page, "requester"), ["u2", "u1"]);
    assert_eq!(page["cost"]["keys_read"], 2);
    assert_eq!(page["plan"]["path"], "index:approver");
}

#[tokio::test]
async fn ac4_the_order_of_the_keys_is_newest_first() {
    let server = Server::start(APPROVALS).await;
    for offset in [3, 1, 2, -4] {
        server.create("approvals", &request("u1", "u2", START + offset)).await.ok();
    }
    let keys = server.keys("approvals", "requester").await;
    let inverted = |key: &String| key.split(':').nth(4).unwrap().parse::<i64>().unwrap();
    let times: Vec<i64> = keys.iter().map(|key| 9_999_999_999_999 - inverted(key)).collect();
    assert_eq!(times, [START + 3, START + 2, START + 1, START - 4]);
    let page = server.question("approvals", "query", &list("requester", "u1")).await;
    assert_eq!(created_at(&page), times);
    assert_eq!(page["plan"]["direction"], "forward");
}

#[tokio::test]
async fn ac5_p02_p04_a_request_is_found_by_its_code_with_two_reads() {
    let server = requests(&["u1", "u2"]).await;
    let page = server.question("approvals", "query", &list("requester", "u2")).await;
    let code = text(&page["items"][0]["data"]["code"]);
    let characters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
    let rest = code.strip_prefix("A-").unwrap();
    assert!(rest.len() == 6 && rest.chars().all(|one| characters.contains(one)), "{code}");
    let found = server.get(&format!("/v1/collections/approvals/unique/code/{code}")).await;
    assert_eq!(found.ok(), page["items"][0]);
    let by_code = json!({"where": {"code": code}, "explain": true});
    let page = server.question("approvals", "query", &by_code).await;
    assert_eq!(page["cost"], json!({"keys_read": 1, "documents_read": 1, "ranges": 1}));
    assert_eq!(page["plan"]["path"], "unique:code");
    let unknown = server.get("/v1/collections/approvals/unique/code/A-000000").await;
    assert_eq!(unknown.refusal(), "404 not_found");
    let empty = server.get("/v1/collections/approvals/unique/code/").await;
    assert_eq!(empty.refusal(), "404 not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn ac6_requests_of_many_at_once_do_not_hinder_each_other() {
    let server = Server::start(APPROVALS).await;
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let server = server.clone();
        // All of one person and one time: the worst case for a key that all would share.
        clients.spawn(async move {
            for _ in 0..25 {
                let created = server.create("approvals", &request("u1", "u2", START)).await;
                assert_eq!(created.status, 201, "{:?}", created.body);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(server.documents("approvals").await, 200);
    assert_eq!(server.keys("approvals", "requester").await.len(), 200);
    server.assert_sound().await;
}

#[tokio::test]
async fn ac7_p10_a_decision_changes_the_record_and_leaves_its_keys() {
    let server = requests(&["u1", "u1", "u1"]).await;
    let before = server.question("approvals", "query", &list("requester", "u1")).await;
    let keys = server.keys("approvals", "requester").await;
    assert_eq!(server.keys("approvals", "pending").await.len(), 3);
    let decided = decide(&server, &before["items"][1], "approved").await;
    assert_eq!(decided.status, 200);
    assert_eq!(server.keys("approvals", "requester").await, keys);
    assert_eq!(server.keys("approvals", "pending").await.len(), 2);
    let after = server.question("approvals", "query", &list("requester", "u1")).await;
    assert_eq!(after["items"][1], decided.ok());
    assert_eq!(after["items"][1]["data"]["status"], "approved");
    assert_eq!(values(&after, "id"), values(&before, "id"));
    server.assert_sound().await;
}

#[tokio::test]
async fn ac8_p02_a_request_is_found_by_its_full_id_with_one_read() {
    let server = requests(&["u1", "u2"]).await;
    let page = server.question("approvals", "query", &list("requester", "u1")).await;
    let (found, id) = (&page["items"][0], text(&page["items"][0]["data"]["id"]));
    assert_eq!(id.len(), 26);
    let answer = server.document("approvals", &format!("approval:record:{id}")).await;
    assert_eq!(&answer.ok(), found);
    let by_id = server.question("approvals", "query", &json!({"where": {"id": id}})).await;
    assert_eq!(by_id["cost"], json!({"keys_read": 1, "documents_read": 0, "ranges": 1}));
    let absent = server.document("approvals", "approval:record:01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    assert_eq!(absent.refusal(), "404 not_found");
}

#[tokio::test]
async fn ac9_p05_a_page_costs_the_same_among_many_requests() {
    let server = Server::start(APPROVALS).await;
    let cost = async |server: &Server| {
        let page = server.question("approvals", "query", &list("requester", "me")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), 20);
        let next = json!({"where": {"requester": "me"}, "order": "-created_at", "limit": 20,
                          "after": page["next"]});
        let rest = server.question("approvals", "query", &next).await;
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (10, &Json::Null));
        (page["cost"].clone(), rest["cost"].clone())
    };
    fill(&server, "me", 30).await;
    let alone = cost(&server).await;
    for other in 0..10 {
        fill(&server, &format!("other-{other}"), 1000).await;
    }
    assert_eq!(cost(&server).await, alone);
    assert_eq!(alone.0["keys_read"], 21);
    assert_eq!(alone.1["keys_read"], 10);
}

/// Requests of one person, in one commit.
async fn fill(server: &Server, requester: &str, count: i64) {
    let create = |number| {
        let data = request(requester, "boss", START + number);
        json!({"op": "create", "collection": "approvals", "data": data})
    };
    let operations: Vec<Json> = (0..count).map(create).collect();
    server.post("/v1/batch", &json!({ "operations": operations })).await.ok();
}

/// Sets the status of a request as it was read.
async fn decide(server: &Server, document: &Json, status: &str) -> Answer {
    let version = document["version"].as_u64().unwrap();
    let patch = json!({"status": status, "decided_at": START});
    server.patch("approvals", text(&document["key"]), version, &patch).await
}

/// Draws so few codes that creates collide; everything else is real.
struct FewCodes {
    /// How many characters a code may have in each of its six places.
    characters: u8,
}

#[async_trait]
impl System for FewCodes {
    fn now_micros(&self) -> u64 {
        RealSystem.now_micros()
    }

    fn random(&self, bytes: &mut [u8]) {
        RealSystem.random(bytes);
        // Six bytes are a code; an identity takes more.
        if bytes.len() == 6 {
            bytes.iter_mut().for_each(|byte| *byte %= self.characters);
        }
    }

    async fn sleep(&self, duration: Duration) {
        RealSystem.sleep(duration).await;
    }
}

async fn with_few_codes(characters: u8) -> Server {
    let options = Options { system: Arc::new(FewCodes { characters }), ..Options::default() };
    Server::with(APPROVALS, options, Config::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn p03_codes_that_collide_at_once_are_drawn_again_until_each_is_unique() {
    // 3^6 codes for 100 requests: some collide, five times in a row practically none.
    let server = with_few_codes(3).await;
    let mut clients = JoinSet::new();
    for _ in 0..10 {
        let server = server.clone();
        clients.spawn(async move {
            let mut codes = Vec::new();
            for _ in 0..10 {
                let created = server.create("approvals", &request("u1", "u2", START)).await.ok();
                codes.push(text(&created["data"]["code"]).to_owned());
            }
            codes
        });
    }
    let codes: BTreeSet<String> = clients.join_all().await.into_iter().flatten().collect();
    assert_eq!(codes.len(), 100);
    assert_eq!(server.keys("approvals", "code").await.len(), 100);
    server.assert_sound().await;
}

#[tokio::test]
async fn p03_a_code_that_is_taken_five_times_in_a_row_is_a_clear_error_and_stores_nothing() {
    let server = with_few_codes(1).await;
    let first = server.create("approvals", &request("u1", "u2", START)).await.ok();
    assert_eq!(first["data"]["code"], "A-222222");
    let refused = server.create("approvals", &request("u1", "u2", START)).await;
    assert_eq!(refused.refusal(), "422 rule_violation");
    assert!(refused.detail().contains("5 generated codes in a row"), "{}", refused.detail());
    assert_eq!(server.documents("approvals").await, 1);
    server.assert_sound().await;
}

#[tokio::test]
async fn p06_p07_asked_or_asking_is_one_list_with_each_request_once() {
    let server = Server::start(APPROVALS).await;
    for (requester, approver, second) in
        [("me", "a", 1), ("a", "me", 2), ("me1", "a", 3), ("a", "m", 4), ("me", "b", 5)]
    {
        let data = request(requester, approver, START + second);
        server.create("approvals", &data).await.ok();
    }
    let query = json!({"any": [{"requester": "me"}, {"approver": "me"}], "order": "-created_at"});
    let page = server.question("approvals", "query", &query).await;
    assert_eq!(created_at(&page), [START + 5, START + 2, START + 1]);
    let counted = server.question("approvals", "count", &query).await;
    assert_eq!(counted["count"], 3);
}

#[tokio::test]
async fn p08_a_status_is_served_by_an_index_and_a_wrong_word_lists_the_words() {
    let server = requests(&["u1", "u2"]).await;
    let page = server.get("/v1/collections/approvals/documents?status=pending&limit=1").await.ok();
    assert_eq!((page["cost"]["keys_read"].clone(), page["next"].is_string()), (json!(2), true));
    let wrong = server.get("/v1/collections/approvals/documents?status=open").await;
    assert_eq!(wrong.refusal(), "400 invalid_argument");
    assert!(wrong.detail().contains("pending, approved, denied, canceled"), "{}", wrong.detail());
}

#[tokio::test]
async fn p13_p15_a_decision_is_final_but_for_the_flags_of_delivery() {
    let server = requests(&["u1"]).await;
    let pending = server.question("approvals", "query", &json!({})).await["items"][0].clone();
    let decided = decide(&server, &pending, "denied").await.ok();
    let again = decide(&server, &decided, "approved").await;
    assert_eq!(again.refusal(), "422 rule_violation");
    let (key, version) = (text(&decided["key"]), decided["version"].as_u64().unwrap());
    for patch in [json!({"requester": "u9"}), json!({"comment": "later"})] {
        let refused = server.patch("approvals", key, version, &patch).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{patch}");
    }
    assert_eq!(server.document("approvals", key).await.ok(), decided);
    let flag = json!({"requester_notified": true});
    let notified = server.patch("approvals", key, version, &flag).await.ok();
    assert_eq!(notified["data"]["requester_notified"], true);
    assert_eq!(notified["data"]["status"], "denied");
}

#[tokio::test]
async fn p18_pending_requests_that_are_old_cost_what_they_are() {
    let server = requests(&["u1", "u2", "u3", "u4"]).await;
    let page = server.question("approvals", "query", &json!({})).await;
    decide(&server, &page["items"][0], "canceled").await.ok();
    let old = json!({"where": {"status": "pending", "created_at": {"lt": START + 2500}},
                     "order": "created_at"});
    let page = server.question("approvals", "query", &old).await;
    assert_eq!(values(&page, "requester"), ["u2", "u3"]);
    assert_eq!(page["cost"]["keys_read"], 2);
}

#[tokio::test]
async fn p22_times_before_1970_and_after_2286_are_in_order() {
    let server = Server::start(APPROVALS).await;
    let times = [-1, 0, START, START, 9_999_999_999_999, 10_000_000_000_000];
    for time in times {
        server.create("approvals", &request("u1", "u2", time)).await.ok();
    }
    let page = server.question("approvals", "query", &list("requester", "u1")).await;
    assert!(created_at(&page).iter().rev().eq(&times), "{:?}", created_at(&page));
}

#[tokio::test]
async fn a_request_can_be_read_at_the_location_of_its_creation() {
    let server = Server::start(APPROVALS).await;
    let created = server.create("approvals", &request("u1", "u2", START)).await;
    let location = created.headers["location"].to_str().unwrap();
    assert_eq!(server.get(location).await.ok(), created.ok());
    let written = document_path("approvals", text(&created.json()["key"]));
    assert_eq!(server.get(&written).await.ok(), created.ok());
}
