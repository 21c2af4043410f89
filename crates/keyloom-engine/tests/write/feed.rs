//! The change feed: one item per document of a commit, in commit order.

use std::time::Duration;

use keyloom_engine::{ChangeKind, Feed, Mode, Position, Precondition, Retention};
use pollster::block_on;
use serde_json::json;

use crate::support::{Database, Seconds, action, code, operation};

const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
fields.id = { type = "id", required = true }
"#;

fn note(id: &str) -> serde_json::Value {
    json!({ "id": id })
}

#[test]
fn changes_come_in_commit_order_with_the_version_that_they_gave() {
    let database = Database::new(NOTES);
    let created = database.create("notes", &note("b")).unwrap();
    let patched = database.patch("notes", &created, &json!({})).unwrap();
    let other = database.create("notes", &note("a")).unwrap();
    database.delete("notes", "note:b").unwrap();
    let changes = database.changes(Position(0), 10);
    let seen: Vec<_> = changes.iter().map(|c| (c.kind, c.key.as_str(), c.version)).collect();
    let deleted = changes.last().unwrap().version;
    assert_eq!(
        seen,
        [
            (ChangeKind::Created, "note:b", created.version),
            (ChangeKind::Updated, "note:b", patched.version),
            (ChangeKind::Created, "note:a", other.version),
            (ChangeKind::Deleted, "note:b", deleted),
        ]
    );
    assert!(deleted > patched.version);
    assert!(changes.is_sorted_by(|a, b| a.position < b.position));
    assert!(changes.iter().all(|change| change.collection == "notes"));
}

#[test]
fn a_batch_stands_together_in_the_order_of_its_operations() {
    let database = Database::new(NOTES);
    database.create("notes", &note("x")).unwrap();
    let create = |id: &str| operation("notes", action::create(&note(id)));
    let delete = operation("notes", action::delete("note:x", Precondition::Any));
    database.batch(&[create("c"), create("a"), delete, create("b")]).unwrap();
    let expected = [
        "created notes note:c",
        "created notes note:a",
        "deleted notes note:x",
        "created notes note:b",
    ];
    assert_eq!(database.feed()[1..], expected);
}

#[test]
fn pages_of_any_size_add_up_to_the_whole_feed() {
    let database = Database::new(NOTES);
    for number in 0..23 {
        database.create("notes", &note(&format!("n{number}"))).unwrap();
    }
    let whole = block_on(database.engine.changes(Position(0), 1000)).unwrap();
    assert_eq!(whole.len(), 23);
    for size in [1, 2, 7, 22, 23, 24] {
        let mut after = Position(0);
        let mut seen = Vec::new();
        loop {
            let page = block_on(database.engine.changes(after, size)).unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            after = last.position();
            seen.extend(page);
        }
        assert_eq!(seen, whole, "pages of {size}");
    }
    assert_eq!(block_on(database.engine.changes(Position(0), 0)).unwrap(), []);
    assert_eq!(
        code(block_on(database.engine.changes(Position(0), 1001))),
        "limit_exceeded: changes of a page: 1001, at most 1000 allowed"
    );
}

#[test]
fn what_is_refused_leaves_no_change() {
    let database = Database::new(NOTES);
    database.create("notes", &note("a")).unwrap();
    database.create("notes", &note("a")).unwrap_err();
    database.create("notes", &json!({})).unwrap_err();
    database.delete("notes", "note:x").unwrap();
    assert_eq!(database.feed(), ["created notes note:a"]);
}

#[test]
fn an_engine_reads_changes_of_a_collection_that_came_after_it_was_opened() {
    let database = Database::new(NOTES);
    let early = database.beside(Mode::Development);
    database.apply(&NOTES.replace("notes", "later")).unwrap();
    database.create("later", &note("a")).unwrap();
    assert_eq!(early.feed(), ["created later note:a"]);
}

#[test]
fn only_the_newest_changes_are_kept_and_who_stands_before_them_is_told() {
    let database = Database::new(NOTES);
    for id in ["a", "b", "c", "d", "e"] {
        database.create("notes", &note(id)).unwrap();
    }
    block_on(database.engine.trim_changes(Retention::All)).unwrap();
    assert_eq!(database.feed().len(), 5);
    block_on(database.engine.trim_changes(Retention::Count(2))).unwrap();
    let feed = block_on(database.engine.feed()).unwrap();
    assert_eq!(feed, Feed { trimmed: Position(3), last: Position(5) });
    let kept = database.changes(Position(3), 10);
    assert_eq!(
        kept.iter().map(|change| change.key.as_str()).collect::<Vec<_>>(),
        ["note:d", "note:e"]
    );
    let refused = code(block_on(database.engine.changes(Position(2), 10)));
    assert!(refused.starts_with("invalid_argument: changes up to position 3"), "{refused}");
}

#[test]
fn changes_are_kept_as_long_as_their_age_allows() {
    let database = Database::new(NOTES);
    for id in ["a", "b", "c", "d", "e"] {
        database.create("notes", &note(id)).unwrap();
        database.system.pass(Seconds(60));
    }
    let age = Retention::Age(Duration::from_secs(150));
    block_on(database.engine.trim_changes(age)).unwrap();
    assert_eq!(block_on(database.engine.feed()).unwrap().trimmed, Position(3));
    block_on(database.engine.trim_changes(Retention::Age(Duration::ZERO))).unwrap();
    let feed = block_on(database.engine.feed()).unwrap();
    assert_eq!(feed, Feed { trimmed: Position(5), last: Position(5) });
    database.create("notes", &note("f")).unwrap();
    assert_eq!(block_on(database.engine.changes(Position(5), 10)).unwrap().len(), 1);
}

#[test]
fn a_key_that_the_schema_cannot_spell_any_more_does_not_end_the_feed() {
    let schema = |values: &str| {
        format!(
            r#"
            [collections.notes]
            key = "note:{{kind}}:{{id}}"
            fields.kind = {{ type = "enum", values = [{values}], required = true }}
            fields.id = {{ type = "id", required = true }}
            "#
        )
    };
    let database = Database::new(&schema("\"x\", \"y\""));
    let gone = database.create("notes", &json!({"kind": "x", "id": "a"})).unwrap();
    database.delete("notes", &gone.key).unwrap();
    database.create("notes", &json!({"kind": "y", "id": "b"})).unwrap();
    database.apply(&schema("\"y\"")).unwrap();
    let expected = [
        "created notes \\x02x\\x00\\x02a\\x00",
        "deleted notes \\x02x\\x00\\x02a\\x00",
        "created notes note:y:b",
    ];
    assert_eq!(database.feed(), expected);
}
