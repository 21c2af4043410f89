//! `list`: the list matcher on the command line.

use serde_json::{Value as Json, json};

use crate::program::{Database, ENGINES, text};

/// Two users, a tag, and three votes of the first for the second.
struct Votes {
    database: Database,
    voter: String,
    target: String,
    tag: String,
}

fn votes(engine: &str) -> Votes {
    let database = Database::new(engine, &["reputation"]);
    let user = |name: &str| {
        let data = json!({ "username": name, "display_name": name }).to_string();
        text(&database.create("users", &data), "/data/usr_key").to_owned()
    };
    let (voter, target) = (user("voter"), user("target"));
    let data = json!({ "usr_key": voter, "name": "cooking" }).to_string();
    let tag = text(&database.create("tags", &data), "/data/tag_key").to_owned();
    for _ in 0..3 {
        let vote = json!({ "usr_key": voter, "tag_key": tag, "tar_key": target, "value": 1 });
        database.create("votes", &vote.to_string());
    }
    Votes { database, voter, target, tag }
}

fn length(page: &Json) -> usize {
    page["items"].as_array().unwrap().len()
}

#[test]
fn j37_j38_expressions_on_keys_are_answered_from_ranges() {
    for engine in ENGINES {
        let Votes { database, voter, target, tag } = votes(engine);
        let list = |key: &str| {
            database.json(&["list", "votes", "--key", key, "--limit", "2", "--explain"])
        };
        let leading = list(&format!("^usr_{voter}_tag_{tag}_"));
        assert_eq!((text(&leading, "/plan/path"), length(&leading)), ("key", 2));
        assert_eq!(leading["cost"]["keys_read"], 3);
        let inner = list(&format!("tag_{tag}_tar_{target}_"));
        assert_eq!((text(&inner, "/plan/path"), length(&inner)), ("index:tag_target", 2));
        assert_eq!(inner["cost"]["keys_read"], 3);
    }
}

#[test]
fn a_list_is_counted_and_continued() {
    let Votes { database, voter, .. } = votes("redb");
    let key = format!("^usr_{voter}_");
    let line = ["list", "votes", "--key", &key];
    let all = database.json(&line);
    assert_eq!((&all["items_length"], &all["matches_length"]), (&json!(3), &json!(3)));
    let counted = database.json(&[&line[..], &["--count"]].concat());
    assert_eq!(counted["count"], 3);
    assert!(database.run(&[&line[..], &["--count"]].concat()).ok().starts_with("3\ncounted · key"));
    let first = database.json(&[&line[..], &["--limit", "2"]].concat());
    let last = text(&first, "/items/1/key");
    let rest = database.json(&[&line[..], &["--start-after", last]].concat());
    assert_eq!(rest["items"][0], all["items"][2]);
    assert_eq!(length(&rest), 1);
    let shown = database.run(&[&line[..], &["--limit", "2", "--explain"]].concat()).ok();
    assert!(shown.contains("2 documents · key · 3 keys read"), "{shown}");
    assert!(shown.contains("there is more: add --start-after "), "{shown}");
}

#[test]
fn r09_j22_what_no_key_can_match_is_an_error() {
    let Votes { database, .. } = votes("redb");
    let wrong = database.refuses(&["list", "votes", "--key", "^USR_"], "no key of `votes`");
    assert!(wrong.contains("keys look like usr_{usr_key}_tag_"), "{wrong}");
    database.refuses(&["list", "votes", "--key", "("], "unclosed group");
}

#[test]
fn orders_times_and_owners_need_a_key_or_a_budget() {
    let Votes { database, .. } = votes("redb");
    let later = ["list", "votes", "--created-after", "2020-01-01"];
    database.refuses(&later, "no key of `votes` serves this query");
    let scan = |more: &[&str]| {
        length(&database.json(&[&["list", "votes", "--scan", "100"][..], more].concat()))
    };
    assert_eq!(scan(&["--created-after", "2020-01-01"]), 3);
    assert_eq!(scan(&["--created-before", "2020-01-01"]), 0);
    assert_eq!(scan(&["--updated-between", "2020-01-01", "2100-01-01"]), 3);
    assert_eq!(scan(&["--owner", "nobody"]), 0);
    assert_eq!(scan(&["--description", "x"]), 0);
    assert_eq!(length(&database.json(&["list", "votes", "--order", "-keys"])), 3);
    database.refuses(&["list", "votes", "--order", "name"], "a list has no order `name`");
    database.refuses(&["list", "votes", "--created-after", "soon"], "`soon` is not a time");
}

#[test]
fn a_descending_list_by_keys_is_the_ascending_one_backwards() {
    let Votes { database, .. } = votes("redb");
    let keys = |order: &str| {
        let page = database.json(&["list", "votes", "--order", order]);
        let items = page["items"].as_array().unwrap().clone();
        items.iter().map(|item| text(item, "/key").to_owned()).collect::<Vec<_>>()
    };
    let mut backwards = keys("-keys");
    backwards.reverse();
    assert_eq!(keys("keys"), backwards);
}
