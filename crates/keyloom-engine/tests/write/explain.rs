//! `explain` of a write lists the keys that the write then touches, and writes nothing.

use keyloom_engine::{Actor, Operation, PlannedKey, Precondition, WritePlan};
use keyloom_key::{Head, Space};
use keyloom_store::Entry;
use pollster::block_on;
use serde_json::json;

use crate::support::{APPROVALS, Database, REPUTATION, STICKERS, Seconds, action, code, operation};

fn explain(database: &Database, operations: &[Operation]) -> WritePlan {
    block_on(database.engine.explain_write(&Actor::Local, operations)).unwrap()
}

/// What is known of a key from its bytes alone: its kind, its length and that of its value.
type Shape = (&'static str, usize, usize);

fn shape(entry: &Entry) -> Shape {
    let kind = match Head::read(&entry.key).unwrap().0.space {
        Space::Document => "document",
        Space::Index => "index",
        Space::Claim => "unique",
        Space::Tombstone => "tombstone",
        Space::Counter => "counter",
        Space::Catalog => "catalog",
        Space::Token => "token",
        Space::Object | Space::LegacyObject | Space::Outbox | Space::Invocation => "object",
    };
    (kind, entry.key.len(), entry.stored.value.len())
}

fn planned(keys: &[PlannedKey]) -> Vec<Shape> {
    let kinds = ["document", "index", "unique", "tombstone", "counter"];
    let mut shapes: Vec<Shape> = keys
        .iter()
        .map(|key| {
            let role = key.role.split(':').next().unwrap();
            let kind = kinds.into_iter().find(|kind| *kind == role).unwrap();
            (kind, key.key_bytes, key.value_bytes)
        })
        .collect();
    shapes.sort_unstable();
    shapes
}

/// Explains operations, executes them, and compares the plan with what then changed in the store.
#[track_caller]
fn check(database: &Database, operations: &[Operation]) -> WritePlan {
    let (before, feed) = (database.entries(), database.feed().len());
    let plan = explain(database, operations);
    assert_eq!(database.entries(), before, "nothing is written");
    database.batch(operations).unwrap();
    let after = database.entries();
    // A stamp tells a value that was written from one that was not.
    let mut put: Vec<Shape> =
        after.iter().filter(|entry| !before.contains(entry)).map(shape).collect();
    put.sort_unstable();
    let mut deleted: Vec<Shape> = before
        .iter()
        .filter(|entry| after.iter().all(|other| other.key != entry.key))
        .map(|entry| (shape(entry).0, entry.key.len(), 0))
        .collect();
    deleted.sort_unstable();
    assert_eq!(planned(&plan.puts), put);
    assert_eq!(planned(&plan.deletes), deleted);
    assert_eq!(plan.changes, database.feed().len() - feed);
    plan
}

fn roles(keys: &[PlannedKey]) -> Vec<String> {
    keys.iter().map(|key| format!("{} {}", key.role, key.key)).collect()
}

fn approval() -> serde_json::Value {
    json!({"requester": "ann", "approver": "bob", "code": "A-234567",
           "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "created_at": 1_700_000_000_000_i64})
}

const APPROVAL: &str = "approval:record:01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn decide() -> Operation {
    let patch = json!({"status": "approved"});
    operation("approvals", action::patch(APPROVAL, Precondition::Any, &patch))
}

#[test]
fn a_create_puts_the_document_its_claim_and_all_its_index_keys() {
    let database = Database::new(APPROVALS);
    let plan = check(&database, &[operation("approvals", action::create(&approval()))]);
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let mut found = roles(&plan.puts);
    found.sort();
    assert_eq!(
        found,
        [
            "counter approvals".to_owned(),
            format!("document {APPROVAL}"),
            format!("index:approver approval:index:approver:bob:8299999999999:{id}"),
            format!("index:pending approval:index:pending:1700000000000:{id}"),
            format!("index:requester approval:index:requester:ann:8299999999999:{id}"),
            format!("index:status approval:index:status:pending:8299999999999:{id}"),
            "unique:code approval:code:A-234567".to_owned(),
        ]
    );
    assert_eq!((plan.deletes.as_slice(), plan.changes), (&[][..], 1));
    assert_eq!(plan.checks, 4, "catalog, key, tombstone, claim");
}

#[test]
fn an_update_touches_only_the_index_keys_that_change() {
    let database = Database::new(APPROVALS);
    database.create("approvals", &approval()).unwrap();
    let comment = action::patch(APPROVAL, Precondition::Any, &json!({"comment": "x"}));
    let plan = check(&database, &[operation("approvals", comment)]);
    assert_eq!(roles(&plan.puts), [format!("document {APPROVAL}")]);
    assert_eq!((plan.deletes.as_slice(), plan.checks), (&[][..], 2));
    let plan = check(&database, &[decide()]);
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let status = "approval:index:status";
    assert_eq!(
        roles(&plan.puts),
        [
            format!("document {APPROVAL}"),
            format!("index:status {status}:approved:8299999999999:{id}"),
        ]
    );
    assert_eq!(
        roles(&plan.deletes),
        [
            format!("index:pending approval:index:pending:1700000000000:{id}"),
            format!("index:status {status}:pending:8299999999999:{id}"),
        ]
    );
}

#[test]
fn a_delete_removes_every_key_and_leaves_a_tombstone() {
    let database = Database::new(APPROVALS);
    database.create("approvals", &approval()).unwrap();
    let gone = operation("approvals", action::delete(APPROVAL, Precondition::Any));
    let plan = check(&database, &[gone]);
    assert_eq!(plan.deletes.len(), 6);
    assert_eq!(
        roles(&plan.puts),
        [format!("tombstone {APPROVAL}"), "counter approvals".to_owned()]
    );
}

#[test]
fn a_create_over_a_tombstone_takes_it_away() {
    let database = Database::new(APPROVALS);
    database.create("approvals", &approval()).unwrap();
    database.delete("approvals", APPROVAL).unwrap();
    let plan = check(&database, &[operation("approvals", action::create(&approval()))]);
    assert_eq!(roles(&plan.deletes), [format!("tombstone {APPROVAL}")]);
}

#[test]
fn a_move_deletes_here_and_creates_there() {
    let database = Database::new(REPUTATION);
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let data = json!({"usr_key": id, "username": "ann", "display_name": "Ann"});
    let ann = database.create("users", &data).unwrap();
    database.system.pass(Seconds(1));
    let rename = action::patch(&ann.key, Precondition::Any, &json!({"username": "bob"}));
    let plan = check(&database, &[operation("users", rename)]);
    let mut puts = roles(&plan.puts);
    puts.sort();
    assert_eq!(
        puts,
        [
            format!("document usr_{id}_usrName_bob_"),
            format!("tombstone usr_{id}_usrName_ann_"),
            "unique:username usrName_bob".to_owned(),
            format!("unique:usr_key usr_{id}"),
        ]
    );
    assert_eq!(
        roles(&plan.deletes),
        [format!("document usr_{id}_usrName_ann_"), "unique:username usrName_ann".to_owned()]
    );
    assert_eq!(plan.changes, 2);
}

#[test]
fn a_vote_lists_the_reputation_that_it_changes() {
    let database = Database::new(REPUTATION);
    let ulid = |last: char| format!("01ARZ3NDEKTSV4RRFFQ69G5FA{last}");
    for (key, name) in [('A', "ann"), ('B', "bob")] {
        let data = json!({"usr_key": ulid(key), "username": name, "display_name": name});
        database.create("users", &data).unwrap();
    }
    let tag = json!({"usr_key": ulid('A'), "tag_key": ulid('T'), "name": "rust"});
    database.create("tags", &tag).unwrap();
    let vote = |key: char| {
        operation(
            "votes",
            action::create(&json!({"usr_key": ulid('A'), "tar_key": ulid('B'),
                "tag_key": ulid('T'), "vote_key": ulid(key), "value": 1})),
        )
    };
    check(&database, &[vote('V')]);
    let plan = check(&database, &[vote('W')]);
    let reputation = format!("document usr_{}_tag_{}", ulid('B'), ulid('T'));
    assert!(roles(&plan.puts).contains(&reputation));
    let top = |score| format!("index:top tag_{}_score_{score}_usr_{}", ulid('T'), ulid('B'));
    assert!(roles(&plan.puts).iter().any(|key| key.starts_with("index:top")), "{:?}", plan.puts);
    assert_eq!(roles(&plan.deletes), [top(1)]);
}

#[test]
fn batches_sets_and_arrays_are_listed_whole() {
    let database = Database::new(STICKERS);
    let sticker = |value: &str| {
        let data = json!({"author": "a", "file": "f", "value": value, "set": "s"});
        operation("sticker_tags", action::create(&data))
    };
    check(&database, &[sticker("one"), sticker("two")]);
    let gone = operation("sticker_tags", action::delete("a#f#one", Precondition::Any));
    check(&database, &[sticker("three"), gone]);
    let database = Database::new(
        "[collections.a]\nkey = \"{id}\"\nfields.id = { type = \"id\", required = true }\n\
         fields.tags = { type = \"id[]\" }\nindexes.tag = \"{tags[]}:{id}\"\n",
    );
    let tagged = json!({"id": "x", "tags": ["a", "b", "a"]});
    let plan = check(&database, &[operation("a", action::create(&tagged))]);
    assert_eq!(plan.puts.iter().filter(|key| key.role == "index:tag").count(), 2);
    let retagged = action::patch("x", Precondition::Any, &json!({"tags": ["b", "c"]}));
    let plan = check(&database, &[operation("a", retagged)]);
    assert_eq!(roles(&plan.deletes), ["index:tag a:x"]);
    assert_eq!(roles(&plan.puts), ["document x", "index:tag c:x"]);
}

#[test]
fn what_would_be_refused_is_refused() {
    let database = Database::new(APPROVALS);
    let explain = |operations: &[Operation]| {
        code(block_on(database.engine.explain_write(&Actor::Local, operations)))
    };
    assert!(explain(&[]).starts_with("invalid_argument: a batch needs"));
    let missing = operation("approvals", action::create(&json!({})));
    assert!(
        explain(std::slice::from_ref(&missing)).starts_with("rule_violation: approvals.approver")
    );
    let fine = operation("approvals", action::create(&approval()));
    let both = explain(&[fine, missing]);
    assert!(both.starts_with("rule_violation: operation 1: approvals.approver"), "{both}");
}
