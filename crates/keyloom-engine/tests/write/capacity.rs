//! Collections that hold a bounded number of documents.

use keyloom_engine::Precondition;
use serde_json::json;

use crate::support::{Database, Seconds, action, code, operation};

const FIELDS: &str = r#"
[collections.log]
key = "log:{id}"
fields.id = { type = "id", required = true }
fields.rank = { type = "i64", default = 0 }
indexes.age = "{@created_at}:{id}"
indexes.rank = "{rank}:{id}"
"#;

fn log(capacity: &str) -> Database {
    Database::new(&format!("{FIELDS}\n[collections.log.capacity]\n{capacity}\n"))
}

fn refusing() -> Database {
    log("max = 2\nfull = \"refuse\"")
}

fn evicting() -> Database {
    log("max = 2\nfull = \"evict\"\nby = \"age\"")
}

fn create(database: &Database, id: &str) -> String {
    database.system.pass(Seconds(1));
    code(database.create("log", &json!({ "id": id })))
}

fn stored(database: &Database) -> Vec<&'static str> {
    let ids = ["a", "b", "c", "d", "e"];
    ids.into_iter().filter(|id| database.get("log", &format!("log:{id}")).is_some()).collect()
}

#[test]
fn j27_a_full_collection_that_refuses_keeps_what_it_has() {
    let database = refusing();
    let full = "rule_violation: log.*: capacity: it holds 2 documents already, its most";
    let results = ["a", "b", "c", "d"].map(|id| create(&database, id));
    assert_eq!(results, ["ok", "ok", full, full]);
    assert_eq!(stored(&database), ["a", "b"]);
    database.delete("log", "log:a").unwrap();
    assert_eq!(create(&database, "c"), "ok");
    assert_eq!(database.count("log"), 2);
    database.assert_sound();
}

#[test]
fn j27_a_full_collection_that_evicts_lets_the_oldest_go_and_says_so_in_the_feed() {
    let database = evicting();
    for id in ["d", "c", "b", "a"] {
        assert_eq!(create(&database, id), "ok");
    }
    assert_eq!(stored(&database), ["a", "b"]);
    assert_eq!(
        database.feed(),
        [
            "created log log:d",
            "created log log:c",
            "created log log:b",
            "deleted log log:d",
            "created log log:a",
            "deleted log log:c",
        ]
    );
    assert_eq!(database.count("log"), 2);
    database.assert_sound();
}

#[test]
fn an_update_of_a_full_collection_is_neither_refused_nor_evicts() {
    for database in [refusing(), evicting()] {
        create(&database, "a");
        create(&database, "b");
        let a = database.get("log", "log:a").unwrap();
        let a = database.patch("log", &a, &json!({"rank": 7})).unwrap();
        let moved = database.patch("log", &a, &json!({"id": "c"})).unwrap();
        assert_eq!(moved.key, "log:c");
        assert_eq!(stored(&database), ["b", "c"]);
        database.assert_sound();
    }
}

#[test]
fn an_evicted_document_is_the_first_of_the_index_that_the_schema_names() {
    let database = log("max = 2\nfull = \"evict\"\nby = \"rank\"");
    for (id, rank) in [("a", 5), ("b", -5), ("c", 0), ("d", 9)] {
        database.create("log", &json!({"id": id, "rank": rank})).unwrap();
    }
    assert_eq!(stored(&database), ["a", "d"]);
    database.assert_sound();
}

#[test]
fn a_batch_evicts_as_many_as_it_needs_but_nothing_that_it_writes_itself() {
    let database = evicting();
    create(&database, "a");
    create(&database, "b");
    let touched = action::patch("log:a", Precondition::Any, &json!({"rank": 1}));
    let created = operation("log", action::create(&json!({"id": "c"})));
    database.batch(&[operation("log", touched), created]).unwrap();
    assert_eq!(stored(&database), ["a", "c"]);
    let three = ["b", "d", "e"].map(|id| operation("log", action::create(&json!({ "id": id }))));
    assert!(code(database.batch(&three)).contains("capacity"), "three never fit");
    database.batch(&three[1..]).unwrap();
    assert_eq!(stored(&database), ["d", "e"]);
    database.assert_sound();
}

#[test]
fn a_delete_in_the_same_batch_makes_room() {
    let database = refusing();
    create(&database, "a");
    create(&database, "b");
    let gone = operation("log", action::delete("log:a", Precondition::Any));
    let created = operation("log", action::create(&json!({"id": "c"})));
    database.batch(&[created, gone]).unwrap();
    assert_eq!(stored(&database), ["b", "c"]);
}

#[test]
fn many_writers_at_once_never_take_more_places_than_there_are() {
    for database in [refusing(), evicting()] {
        let created: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let database = &database;
                    scope.spawn(move || {
                        let create = |round: usize| {
                            let id = format!("{writer}-{round}");
                            database.create("log", &json!({ "id": id })).is_ok()
                        };
                        (0..50).filter(|round| create(*round)).count()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        let evicts = database.feed().iter().any(|line| line.starts_with("deleted"));
        assert_eq!(created, if evicts { 200 } else { 2 });
        assert_eq!(database.count("log"), 2);
        database.assert_sound();
    }
}

#[test]
fn a_capacity_that_was_lowered_is_reached_step_by_step() {
    let database = Database::new(FIELDS);
    let creates: Vec<_> = (0..250)
        .map(|id| operation("log", action::create(&json!({ "id": id.to_string(), "rank": id }))))
        .collect();
    database.batch(&creates).unwrap();
    let lowered = "[collections.log.capacity]\nmax = 2\nfull = \"evict\"\nby = \"rank\"\n";
    database.apply(&format!("{FIELDS}\n{lowered}")).unwrap();
    let counts = ["a", "b", "c", "d"].map(|id| {
        let created = code(database.create("log", &json!({ "id": id, "rank": 1000 })));
        assert_eq!(created, "ok");
        database.count("log")
    });
    assert_eq!(counts, [150, 50, 2, 2]);
    database.assert_sound();
}
