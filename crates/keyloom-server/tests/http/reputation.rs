//! Users, tags, votes and reputations through HTTP: the steps of the requirements on document keys,
//! and the rows that a client can see.

use axum::http::Method;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{Answer, REPUTATION, Server, document_path, values};

/// The example identities of the requirement.
const A: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const B: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAW";

/// Two users and a tag, by their identities.
struct Town {
    server: Server,
    ann: String,
    bob: String,
    tag: String,
}

impl Town {
    async fn new() -> Town {
        let server = Server::start(REPUTATION).await;
        let ann = identity(&server.create("users", &user("Ann")).await, "usr_key");
        let bob = identity(&server.create("users", &user("Bob")).await, "usr_key");
        let tag = server.create("tags", &json!({"usr_key": ann, "name": "Rust"})).await;
        Town { ann, bob, tag: identity(&tag, "tag_key"), server }
    }

    fn vote(&self, value: i64) -> Json {
        json!({"usr_key": self.ann, "tar_key": self.bob, "tag_key": self.tag, "value": value})
    }

    fn reputation_key(&self) -> String {
        format!("usr_{}_tag_{}", self.bob, self.tag)
    }

    /// Score and number of votes of the second user.
    async fn reputation(&self) -> (Json, Json) {
        let found = self.server.document("reputations", &self.reputation_key()).await.ok();
        (found["data"]["score"].clone(), found["data"]["votes"].clone())
    }
}

fn user(name: &str) -> Json {
    json!({"username": name, "display_name": name})
}

fn identity(created: &Answer, field: &str) -> String {
    created.ok()["data"][field].as_str().unwrap().to_owned()
}

async fn by_name(server: &Server, name: &str) -> Answer {
    server.get(&format!("/v1/collections/users/unique/username/{name}")).await
}

#[tokio::test]
async fn r01_a_user_is_found_by_any_spelling_of_his_name_and_keeps_his_own() {
    let server = Server::start(REPUTATION).await;
    let data = json!({"usr_key": A, "username": "JohnDoe", "display_name": "John"});
    let created = server.create("users", &data).await.ok();
    assert_eq!(created["key"], format!("usr_{A}_usrName_johndoe_"));
    assert_eq!(created["data"]["username"], "JohnDoe");
    for spelling in ["johndoe", "JOHNDOE", "JohnDoe"] {
        assert_eq!(by_name(&server, spelling).await.ok(), created, "{spelling}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_of_many_who_want_one_name_at_once_exactly_one_gets_it() {
    let server = Server::start(REPUTATION).await;
    for round in 0..25 {
        let mut clients = JoinSet::new();
        for name in ["Name", "name", "NAME", "nAmE"] {
            let (server, data) = (server.clone(), user(&format!("{name}-{round}")));
            clients.spawn(async move { server.create("users", &data).await });
        }
        let answers = clients.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 201);
        assert_eq!(won.len(), 1, "round {round}");
        for refused in lost {
            assert_eq!(refused.refusal(), "409 unique_violation");
            assert_eq!(refused.json()["claim"], "username");
        }
        let holder = by_name(&server, &format!("name-{round}")).await.ok();
        assert_eq!(holder["key"], won[0].ok()["key"]);
    }
    assert_eq!(server.documents("users").await, 25);
    server.assert_sound().await;
}

#[tokio::test]
async fn r04_r23_names_that_break_their_rule_are_refused_with_field_and_rule() {
    let server = Server::start(REPUTATION).await;
    let long = "a".repeat(31);
    for name in ["ab", &long, "a b", "a_b", "@ab", ""] {
        let refused = server.create("users", &user(name)).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{name}");
        assert_eq!(refused.json()["field"], "username", "{name}");
    }
    for (display_name, status) in
        [("", 422), (&*"é".repeat(51), 422), (&*"é".repeat(50), 201), ("é", 201)]
    {
        let name = format!("name-{}", display_name.chars().count());
        let data = json!({"username": name, "display_name": display_name});
        assert_eq!(server.create("users", &data).await.status, status, "{name}");
    }
    for name in ["abc", "123john", "user1-test2", &"a".repeat(30)] {
        assert_eq!(server.create("users", &user(name)).await.status, 201, "{name}");
    }
    assert_eq!(server.documents("users").await, 6);
}

#[tokio::test]
async fn r06_only_the_canonical_spelling_of_a_ulid_is_taken() {
    let server = Server::start(REPUTATION).await;
    let create = async |ulid: &str| {
        let data = json!({"usr_key": ulid, "username": "abc", "display_name": "x"});
        server.create("users", &data).await
    };
    for ulid in [
        &A.replace('Q', ""),
        &format!("{A}0"),
        &A.to_lowercase(),
        &A.replace('Q', "I"),
        &A.replace('Q', "L"),
        &A.replace('Q', "O"),
        &A.replace('Q', "U"),
        "",
        "80000000000000000000000000",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ] {
        let refused = create(ulid).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{ulid}");
    }
    assert_eq!(create("7ZZZZZZZZZZZZZZZZZZZZZZZZZ").await.status, 201);
}

#[tokio::test]
async fn r07_only_the_canonical_spelling_of_a_uuid_is_taken() {
    let server = Server::start(
        "[collections.old]\nkey = \"USR={id}\"\n\
         fields.id = { type = \"uuid\", required = true }\n",
    )
    .await;
    for uuid in [
        "67e5504410b1426f9247bb680e5",
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "67E5504410B1426F9247BB680E5FE0C8",
        "67e5504410b1126f9247bb680e5fe0c8",
        "67e5504410b1426fc247bb680e5fe0c8",
    ] {
        let refused = server.create("old", &json!({ "id": uuid })).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{uuid}");
    }
    let uuid = "67e5504410b1426f9247bb680e5fe0c8";
    let created = server.create("old", &json!({ "id": uuid })).await.ok();
    assert_eq!(created["key"], format!("USR={uuid}"));
    assert_eq!(server.document("old", &format!("USR={uuid}")).await.ok(), created);
}

#[tokio::test]
async fn r08_r09_a_key_has_to_be_the_key_of_its_data() {
    let server = Server::start(REPUTATION).await;
    let data = json!({"usr_key": A, "tag_key": B});
    for key in [
        format!("usr_{B}_tag_{A}"),
        format!("USR_{A}_TAG_{B}"),
        format!("tag_{B}_usr_{A}"),
        format!("usr_{A}"),
        format!("usr_{A}_tag_{B}_tar_{A}"),
        format!("usr_{A}_tog_{B}"),
        format!("usr_{}_tag_{B}", A.to_lowercase()),
    ] {
        let ask = server.ask(Method::PUT, document_path("reputations", &key));
        let refused = ask.json(&json!({ "data": data })).send().await;
        assert_eq!(refused.refusal(), "400 invalid_argument", "{key}");
        if key != format!("usr_{B}_tag_{A}") {
            // An error, not "not found": no document can ever have this key.
            let read = server.document("reputations", &key).await;
            assert_eq!(read.refusal(), "400 invalid_argument", "{key}");
        }
    }
    assert_eq!(server.documents("reputations").await, 0);
    let pattern = json!({"matcher": {"key": format!("^USR_{A}_TAG_{B}")}});
    let refused = server.post("/v1/collections/votes/list", &pattern).await;
    assert_eq!(refused.refusal(), "400 invalid_argument");
    let query = json!({"where": {"usr_key": A.to_lowercase()}});
    let refused = server.post("/v1/collections/votes/query", &query).await;
    assert_eq!(refused.refusal(), "400 invalid_argument");
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_reputation_that_many_create_at_once_is_one_document() {
    let town = Town::new().await;
    let path = document_path("reputations", &town.reputation_key());
    let mut clients = JoinSet::new();
    for number in 0..8 {
        let data = json!({"usr_key": town.bob, "tag_key": town.tag, "title": number.to_string()});
        let (server, path) = (town.server.clone(), path.clone());
        clients.spawn(async move {
            let ask = server.ask(Method::PUT, path).header("if-none-match", "*");
            ask.json(&json!({ "data": data })).send().await
        });
    }
    let answers = clients.join_all().await;
    let won: Vec<&Answer> = answers.iter().filter(|one| one.status == 201).collect();
    assert_eq!(won.len(), 1);
    for lost in answers.iter().filter(|one| one.status != 201) {
        assert_eq!(lost.refusal(), "412 version_conflict");
    }
    let stored = town.server.document("reputations", &town.reputation_key()).await.ok();
    assert_eq!(stored, won[0].ok());
    assert_eq!(town.server.documents("reputations").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_r15_votes_of_many_at_once_all_count() {
    let town = Town::new().await;
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let (server, vote) = (town.server.clone(), town.vote(1));
        clients.spawn(async move {
            for _ in 0..10 {
                server.create("votes", &vote).await.ok();
            }
        });
    }
    clients.join_all().await;
    assert_eq!(town.reputation().await, (json!(80), json!(80)));
    town.server.assert_sound().await;
}

#[tokio::test]
async fn r11_votes_are_found_by_every_combination_at_the_cost_of_the_result() {
    let town = Town::new().await;
    for created_at in [10, 20, 30] {
        let mut vote = town.vote(1);
        vote["created_at"] = created_at.into();
        town.server.create("votes", &vote).await.ok();
    }
    let other = json!({"usr_key": town.bob, "tar_key": town.ann, "tag_key": town.tag, "value": 1,
                       "created_at": 40});
    town.server.create("votes", &other).await.ok();
    let (ann, bob, tag) = (&town.ann, &town.bob, &town.tag);
    for (filter, found) in [
        (json!({"usr_key": ann, "tag_key": tag}), 3),
        (json!({"tag_key": tag, "tar_key": bob}), 3),
        (json!({"tar_key": ann}), 1),
        (json!({"usr_key": bob}), 1),
        (json!({"tag_key": tag, "created_at": {"gt": 10}}), 3),
    ] {
        let body = json!({ "where": filter });
        let page = town.server.question("votes", "query", &body).await;
        assert_eq!(page["items"].as_array().unwrap().len(), found, "{filter}");
        assert_eq!(page["cost"]["keys_read"], found, "{filter}");
        let counted = town.server.question("votes", "count", &body).await;
        assert_eq!(
            (&counted["count"], &counted["cost"]["documents_read"]),
            (&json!(found), &json!(0))
        );
    }
    let newest = json!({"where": {"tag_key": tag, "created_at": {"gt": 10}},
                        "order": "-created_at", "limit": 2});
    let page = town.server.question("votes", "query", &newest).await;
    assert_eq!(page["items"][0]["data"]["created_at"], 40);
    assert_eq!(page["items"][1]["data"]["created_at"], 30);
    assert_eq!(page["cost"]["keys_read"], 3);
}

#[tokio::test]
async fn the_list_queries_of_the_requirement_are_ranges() {
    let town = Town::new().await;
    for _ in 0..12 {
        town.server.create("votes", &town.vote(1)).await.ok();
    }
    let (ann, bob, tag) = (&town.ann, &town.bob, &town.tag);
    for (pattern, path) in [
        (format!("^usr_{ann}_tag_{tag}"), "key"),
        (format!("tag_{tag}_tar_{bob}"), "index:tag_target"),
        (format!("^usr_{ann}"), "key"),
    ] {
        let body = json!({"matcher": {"key": pattern}, "paginate": {"limit": 10}, "explain": true});
        let page = town.server.question("votes", "list", &body).await;
        assert_eq!((&page["items_length"], &page["cost"]["keys_read"]), (&json!(10), &json!(11)));
        assert_eq!(page["plan"]["path"], path, "{pattern}");
        let after = json!({"matcher": {"key": pattern},
                           "paginate": {"limit": 10, "startAfter": page["items"][9]["key"]}});
        let rest = town.server.question("votes", "list", &after).await;
        assert_eq!((&rest["items_length"], &rest["next"]), (&json!(2), &Json::Null), "{pattern}");
    }
}

#[tokio::test]
async fn r12_votes_that_make_no_sense_are_refused_and_leave_nothing() {
    let town = Town::new().await;
    for (field, value) in [
        ("value", json!(0)),
        ("value", json!(2)),
        ("value", json!(0.5)),
        ("tar_key", json!(town.ann)),
        ("tag_key", json!(A)),
        ("tar_key", json!(A)),
    ] {
        let mut vote = town.vote(1);
        vote[field] = value.clone();
        let refused = town.server.create("votes", &vote).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{field} {value}");
    }
    assert_eq!(town.server.documents("votes").await, 0);
    assert_eq!(town.server.documents("reputations").await, 0);
}

#[tokio::test]
async fn r13_r16_votes_are_kept_in_time_order_and_the_reputation_follows() {
    let town = Town::new().await;
    let first = town.server.create("votes", &town.vote(1)).await.ok();
    let second = town.server.create("votes", &town.vote(-1)).await.ok();
    assert_eq!(town.reputation().await, (json!(0), json!(2)));
    let page =
        town.server.question("votes", "query", &json!({"where": {"usr_key": town.ann}})).await;
    let keys = [&first, &second].map(|vote| vote["data"]["vote_key"].as_str().unwrap());
    assert_eq!(values(&page, "vote_key"), keys);
    let path = document_path("votes", first["key"].as_str().unwrap());
    let delete = town.server.ask(Method::DELETE, path).header("if-match", "*").send().await;
    assert_eq!(delete.ok()["deleted"], true);
    assert_eq!(town.reputation().await, (json!(-1), json!(1)));
    town.server.assert_sound().await;
}

#[tokio::test]
async fn r18_a_renamed_user_moves_with_his_claim_and_keeps_his_references() {
    let town = Town::new().await;
    town.server.create("votes", &town.vote(1)).await.ok();
    let bob = by_name(&town.server, "bob").await.ok();
    let (key, version) = (bob["key"].as_str().unwrap(), bob["version"].as_u64().unwrap());
    let answer = town.server.patch("users", key, version, &json!({"username": "Robert"})).await;
    let renamed = answer.ok();
    let place = answer.headers["content-location"].to_str().unwrap();
    assert_eq!(town.server.get(place).await.ok(), renamed);
    assert_eq!(town.server.document("users", key).await.status, 404);
    assert_eq!(by_name(&town.server, "bob").await.status, 404);
    assert_eq!(by_name(&town.server, "robert").await.ok(), renamed);
    town.server.create("votes", &town.vote(1)).await.ok();
    assert_eq!(town.reputation().await, (json!(2), json!(2)));
    assert_eq!(town.server.create("users", &user("BOB")).await.status, 201);
    town.server.assert_sound().await;
}

#[tokio::test]
async fn r19_text_that_is_no_name_is_literal_and_finds_nothing() {
    let town = Town::new().await;
    for text in ["(", "usr_", ".*"] {
        let query = json!({"where": {"username": text}});
        let page = town.server.question("users", "query", &query).await;
        assert_eq!(page["items"], json!([]), "{text}");
    }
}

#[tokio::test]
async fn the_best_of_a_tag_come_first() {
    let town = Town::new().await;
    town.server.create("votes", &town.vote(1)).await.ok();
    let back = json!({"usr_key": town.bob, "tar_key": town.ann, "tag_key": town.tag, "value": -1});
    town.server.create("votes", &back).await.ok();
    let query = json!({"where": {"tag_key": town.tag}, "order": "-score",
                       "select": ["usr_key", "score"], "explain": true});
    let page = town.server.question("reputations", "query", &query).await;
    assert_eq!(values(&page, "usr_key"), [town.bob.clone(), town.ann.clone()]);
    assert_eq!(page["plan"]["covering"], true);
}
