//! Queries over users, tags, votes and reputations, and the lists that replace the old ones.

use keyloom_engine::{Items, List};
use serde_json::{Value as Json, json};

use crate::database::{Database, ulid, value_of};

const SCHEMA: &str = include_str!("../../../../schemas/reputation.toml");

const USERS: [&str; 4] = ["JohnDoe", "ann-1", "ben-2", "eve-3"];

fn user(number: usize) -> String {
    ulid(0xA00 + number as u128)
}

fn tag(number: usize) -> String {
    ulid(0xB00 + number as u128)
}

/// Four users, two tags, and 48 votes, one each millisecond from 1000 on.
fn votes() -> Database {
    let database = Database::open(SCHEMA);
    for (number, name) in USERS.into_iter().enumerate() {
        let data = json!({"usr_key": user(number), "username": name, "display_name": name});
        database.put("users", &data);
    }
    for number in 0..2 {
        let data =
            json!({"usr_key": user(0), "tag_key": tag(number), "name": format!("tag-{number}")});
        database.put("tags", &data);
    }
    for number in 0..48 {
        let (voter, target) = (number % 4, (number / 4 + number % 4 + 1) % 4);
        if voter != target {
            database.put("votes", &json!({
                "usr_key": user(voter), "tag_key": tag(number / 4 % 2), "tar_key": user(target),
                "vote_key": ulid(0xC00 + number as u128), "value": 1, "created_at": 1000 + number,
            }));
        }
    }
    database
}

/// What a plain filter over all votes finds.
fn expected(database: &Database, holds: impl Fn(&Json) -> bool) -> Vec<Json> {
    let page = database.query("votes", &json!({"limit": 1000}));
    let all = page.items.iter().map(|item| serde_json::from_slice(&item.data()).unwrap());
    let mut found: Vec<Json> =
        all.filter(|vote| holds(vote)).map(|vote| vote["vote_key"].clone()).collect();
    found.sort_by_key(Json::to_string);
    found
}

fn keys(items: &Items) -> Vec<Json> {
    let mut found: Vec<Json> = items.iter().map(|item| value_of(item, "vote_key")).collect();
    found.sort_by_key(Json::to_string);
    found
}

#[test]
fn r01_a_name_is_found_however_it_is_written() {
    let database = votes();
    for name in ["johndoe", "JOHNDOE", "JohnDoe"] {
        let page = database.query("users", &json!({"where": {"username": name}}));
        assert_eq!(value_of(page.items.get(0).unwrap(), "username"), "JohnDoe");
        assert_eq!(page.plan.path(), "unique:username");
        assert!(page.items.get(0).unwrap().key().ends_with("usrName_johndoe_"));
    }
}

#[test]
fn r09_a_malformed_identity_in_a_query_is_an_error_and_not_an_empty_list() {
    let database = votes();
    for key in [user(0).to_lowercase(), "short".to_owned(), format!("usr_{}", user(0))] {
        let error = database.error("votes", &json!({"where": {"usr_key": key}}));
        assert!(error.contains("`usr_key`"), "{error}");
    }
}

#[test]
fn r11_votes_are_found_by_every_combination_at_the_cost_of_the_result() {
    let database = votes();
    for filter in [
        json!({"usr_key": user(1), "tag_key": tag(0)}),
        json!({"tag_key": tag(1), "tar_key": user(2)}),
        json!({"tar_key": user(3)}),
        json!({"usr_key": user(0)}),
        json!({"tag_key": tag(0)}),
    ] {
        let wanted = expected(&database, |vote| {
            filter.as_object().unwrap().iter().all(|(field, value)| vote[field] == *value)
        });
        let page = database.query("votes", &json!({"where": filter}));
        assert_eq!(keys(&page.items), wanted, "{filter}");
        assert!(!wanted.is_empty() && page.cost.keys_read == wanted.len() as u64);
        let counted = database.count("votes", &json!({"where": filter}));
        assert_eq!((counted.count, counted.cost.documents_read), (wanted.len() as u64, 0));
    }
}

#[test]
fn r11_votes_on_a_tag_after_a_time_come_newest_first() {
    let database = votes();
    let query = json!({
        "where": {"tag_key": tag(1), "created_at": {"gt": 1020}},
        "order": "-created_at", "limit": 4,
    });
    let found = database.values("votes", &query, "created_at");
    assert!(found.is_sorted_by(|one, other| one.as_i64() > other.as_i64()));
    let wanted = expected(&database, |vote| {
        vote["tag_key"] == *tag(1) && vote["created_at"].as_i64() > Some(1020)
    });
    assert_eq!(found.len(), wanted.len());
    assert_eq!(database.query("votes", &query).cost.keys_read, 5);
}

#[test]
fn r19_text_that_is_no_name_is_literal_and_matches_nothing() {
    let database = votes();
    for text in ["(", "usr_", ".*", "", "a b"] {
        let page = database.query("users", &json!({"where": {"username": text}}));
        assert_eq!((page.items.len(), page.cost.keys_read), (0, 0), "{text}");
    }
    let some = json!({"where": {"username": {"in": ["(", "ANN-1"]}}});
    assert_eq!(database.query("users", &some).items.len(), 1);
}

#[test]
fn the_best_of_a_tag_come_from_the_index_of_scores() {
    let database = votes();
    let query =
        json!({"where": {"tag_key": tag(0)}, "order": "-score", "select": ["usr_key", "score"]});
    let page = database.query("reputations", &query);
    let scores: Vec<Json> = page.items.iter().map(|item| value_of(item, "score")).collect();
    assert!(scores.len() > 1 && scores.is_sorted_by(|one, other| one.as_i64() >= other.as_i64()));
    assert!(page.plan.covering && page.cost.documents_read == 0);
}

#[test]
fn the_queries_of_the_old_system_are_served_as_lists() {
    let database = votes();
    for (pattern, path) in [
        (format!("^usr_{}_tag_{}", user(1), tag(0)), "key"),
        (format!("tag_{}_tar_{}", tag(1), user(2)), "index:tag_target"),
        (format!("tar_{}_", user(3)), "index:target"),
    ] {
        let list = List { key: Some(pattern.clone()), ..List::default() };
        let listed = database.list("votes", &list);
        assert_eq!(listed.plan.path(), path, "{pattern}");
        assert!(listed.items_length > 0 && listed.cost.keys_read == listed.items_length);
        let regex = regex::Regex::new(&pattern).unwrap();
        assert!(listed.items.iter().all(|document| regex.is_match(&document.key)));
    }
}

#[test]
fn pieces_with_a_gap_between_them_are_conditions_on_their_own_fields() {
    let database = votes();
    let key = Some(format!("^usr_{}_.*_tar_{}_", user(1), user(2)));
    let error = database.try_list("votes", &List { key, ..List::default() }).unwrap_err();
    let added = "votes:usr_key_tar_key:{usr_key}:{tar_key}:{tag_key}:{vote_key}";
    assert!(error.to_string().ends_with(added), "{error}");
}
