//! Sticker tags through HTTP: the steps of the requirement, and the rows that a client can see.

use axum::http::Method;
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use crate::server::{Answer, STICKERS, Server, values};

/// S-01.
async fn stickers() -> Server {
    let server = Server::start(STICKERS).await;
    for (author, file, set, value) in [
        ("u1", "f1", Some("set1"), "hello world"),
        ("u2", "f2", Some("set1"), "hello there"),
        ("u2", "f3", Some("set2"), "there it is"),
        ("u1", "f4", None, "reuse 1"),
        ("u2", "f4", None, "reuse 2"),
        ("u2", "f5", None, "setless file"),
    ] {
        let mut tag = json!({"author": author, "file": file, "value": value});
        if let Some(set) = set {
            tag["set"] = set.into();
        }
        server.create("sticker_tags", &tag).await.ok();
    }
    server
}

/// The files with a value that begins so, each once, in the order of their names.
async fn search(server: &Server, filter: Json) -> Vec<String> {
    let query = json!({"where": filter, "distinct": "file"});
    let page = server.question("sticker_tags", "query", &query).await;
    let mut files = values(&page, "file");
    files.sort();
    files
}

fn begins(value: &str) -> Json {
    json!({"value": {"prefix": value}})
}

/// Gives a file these values, and no others.
async fn store(server: &Server, author: &str, file: &str, values: &[String]) -> Answer {
    let tag = |value| json!({"author": author, "file": file, "value": value});
    let documents: Vec<Json> = values.iter().map(tag).collect();
    let path = format!("/v1/collections/sticker_tags/sets/values/{author}/{file}");
    server.ask(Method::PUT, path).json(&json!({ "documents": documents })).send().await
}

/// The values that an author gave to a file.
async fn stored(server: &Server, author: &str, file: &str) -> Vec<String> {
    let query = json!({"where": {"author": author, "file": file}, "limit": 1000});
    values(&server.question("sticker_tags", "query", &query).await, "value")
}

fn numbered(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name} {number:02}")).collect()
}

#[tokio::test]
async fn s02_a_search_finds_all_or_only_own() {
    let server = stickers().await;
    assert_eq!(search(&server, begins("hello")).await, ["f1", "f2"]);
    let own = json!({"author": "u1", "value": {"prefix": "hello"}});
    assert_eq!(search(&server, own).await, ["f1"]);
}

#[tokio::test]
async fn s02_a_search_can_be_an_address() {
    let server = stickers().await;
    let address = "/v1/collections/sticker_tags/documents?value.prefix=hello+t&distinct=file";
    assert_eq!(values(&server.get(address).await.ok(), "file"), ["f2"]);
}

#[tokio::test]
async fn s03_s14_a_search_goes_by_the_beginning_of_the_value_however_short() {
    let server = stickers().await;
    for (text, files) in [
        ("hey", &[][..]),
        ("it is", &[]),
        ("h", &["f1", "f2"]),
        ("re", &["f4"]),
        ("", &["f1", "f2", "f3", "f4", "f5"]),
    ] {
        assert_eq!(search(&server, begins(text)).await, files, "{text}");
    }
}

#[tokio::test]
async fn s05_s06_a_file_comes_once_and_needs_no_set() {
    let server = stickers().await;
    assert_eq!(search(&server, begins("reuse")).await, ["f4"]);
    let query = json!({"where": begins("reuse"), "distinct": "file"});
    let counted = server.question("sticker_tags", "count", &query).await;
    assert_eq!(counted["count"], 1);
    assert_eq!(search(&server, begins("set")).await, ["f5"]);
}

#[tokio::test]
async fn s07_s16_what_is_tagged_in_a_set_by_anyone_or_by_one_author() {
    let server = stickers().await;
    for (filter, files) in [
        (json!({"set": "set1"}), &["f1", "f2"][..]),
        (json!({"set": "set1", "author": "u1"}), &["f1"]),
        (json!({"set": "nowhere"}), &[]),
    ] {
        assert_eq!(search(&server, filter.clone()).await, files, "{filter}");
        let existence =
            server.question("sticker_tags", "exists", &json!({ "where": filter })).await;
        assert_eq!(existence["exists"], !files.is_empty());
        assert!(existence["cost"]["keys_read"].as_u64().unwrap() <= 1);
        assert_eq!(existence["cost"]["documents_read"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_readers_see_the_old_set_or_the_new_one_and_never_a_mixture() {
    let server = stickers().await;
    let (old, new) = (numbered("old", 25), numbered("new", 25));
    store(&server, "u3", "f9", &old).await.ok();
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (server, old, new) = (server.clone(), old.clone(), new.clone());
        readers.spawn(async move {
            loop {
                let found = stored(&server, "u3", "f9").await;
                assert!(found == old || found == new, "a mixture: {found:?}");
                if found.last() != old.last() {
                    return;
                }
            }
        });
    }
    store(&server, "u3", "f9", &new).await.ok();
    readers.join_all().await;
    assert_eq!(stored(&server, "u3", "f9").await, new);
    assert!(search(&server, begins("old")).await.is_empty());
    server.assert_sound().await;
}

#[tokio::test]
async fn a_replaced_set_tells_what_came_and_what_went_and_leaves_the_rest() {
    let server = Server::start(STICKERS).await;
    let set = |values: [&str; 2]| values.map(str::to_owned);
    store(&server, "u1", "f1", &set(["one", "two"])).await.ok();
    let swapped = store(&server, "u1", "f1", &set(["two", "three"])).await.ok();
    let results = swapped["results"].as_array().unwrap().iter();
    let mut told: Vec<_> = results
        .map(|one| (one["key"].as_str().unwrap(), one["outcome"].as_str().unwrap()))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [("u1#f1#one", "deleted"), ("u1#f1#three", "created")]);
    assert_eq!(server.keys("sticker_tags", "key").await, ["u1#f1#three", "u1#f1#two"]);
}

#[tokio::test]
async fn s11_no_values_or_too_many_are_refused_and_the_old_set_stays() {
    let server = stickers().await;
    let old = numbered("old", 3);
    store(&server, "u3", "f9", &old).await.ok();
    for values in [vec![], numbered("new", 51)] {
        let refused = store(&server, "u3", "f9", &values).await;
        assert_eq!(refused.refusal(), "422 rule_violation", "{:?}", refused.body);
        assert_eq!(stored(&server, "u3", "f9").await, old);
    }
    store(&server, "u3", "f9", &numbered("new", 50)).await.ok();
}

#[tokio::test]
async fn s12_s23_repeated_values_are_stored_once_and_found_at_once() {
    let server = stickers().await;
    let twice: Vec<String> = ["one", "two", "one"].map(str::to_owned).to_vec();
    store(&server, "u3", "f9", &twice).await.ok();
    assert_eq!(search(&server, begins("tw")).await, ["f9"]);
    assert_eq!(stored(&server, "u3", "f9").await, ["one", "two"]);
}

#[tokio::test]
async fn s15_a_page_of_a_common_beginning_reads_one_key_more_than_it_returns() {
    let server = Server::start(STICKERS).await;
    for file in 0..4 {
        store(&server, "u", &format!("f{file}"), &numbered("the", 50)).await.ok();
    }
    let query = json!({"where": begins("the"), "limit": 50});
    let page = server.question("sticker_tags", "query", &query).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 50);
    assert_eq!(page["cost"]["keys_read"], 51);
}

#[tokio::test]
async fn s17_separators_inside_names_never_make_two_keys_one() {
    let server = Server::start(STICKERS).await;
    let mut keys = Vec::new();
    for (author, file) in [("a#b", "c"), ("a", "b#c"), ("a/b", "c"), ("a", "b/c"), ("a%23b", "c")] {
        let tag = json!({"author": author, "file": file, "value": "v"});
        let created = server.create("sticker_tags", &tag).await.ok();
        let key = created["key"].as_str().unwrap().to_owned();
        let found = server.document("sticker_tags", &key).await.ok();
        assert_eq!(found["data"], tag, "{key}");
        keys.push(key);
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}

#[tokio::test]
async fn s22_special_characters_are_literal() {
    let server = stickers().await;
    for value in ["100%", "a_b", "back\\slash", "num#ber"] {
        let tag = json!({"author": "u1", "file": "f9", "value": value});
        server.create("sticker_tags", &tag).await.ok();
    }
    for text in ["%", "_", "\\", "#", ".*", "("] {
        assert!(search(&server, begins(text)).await.is_empty(), "{text}");
    }
    for text in ["100%", "a_", "back\\", "num#"] {
        assert_eq!(search(&server, begins(text)).await, ["f9"], "{text}");
    }
}
