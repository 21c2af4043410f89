//! The embedded stores: what was acknowledged is there after a restart.

use std::sync::Arc;

use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Options, Precondition, Rollout, Touched, Val};
use keyloom_store::OrderedStore;
use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;
use pollster::block_on;

use super::grid::{CLASSES, at, content, id, number, text};

/// Writes, closes, opens again, and reads.
fn check(open: impl Fn() -> Arc<dyn OrderedStore>) {
    let engine = || block_on(Engine::open(open(), Options::default())).unwrap();
    let (a, b) = (id("a"), id("42"));
    let first = engine();
    let schema = Schema::from_toml(CLASSES).unwrap();
    block_on(first.apply_schema(&schema, &mut |_| {})).unwrap();
    block_on(first.set_rollout(Rollout::phase(3))).unwrap();
    let entries = content(&[(text("x"), "1"), (number(1), "2")]);
    let set = block_on(first.set_object(at(&a), entries, Precondition::Unsaid)).unwrap();
    block_on(first.set_object(at(&b), content(&[]), Precondition::Unsaid)).unwrap();
    let deleted = block_on(first.delete_object(at(&b), Precondition::Any)).unwrap().unwrap();
    drop(first);
    let second = engine();
    let found = block_on(second.object(at(&a))).unwrap().unwrap();
    assert_eq!(found.version, set.version);
    assert_eq!(found.entries, [(number(1), Val::bytes("2")), (text("x"), Val::bytes("1"))]);
    assert_eq!(block_on(second.object(at(&b))).unwrap(), None);
    let again = block_on(second.set_object(at(&b), content(&[]), Precondition::Absent)).unwrap();
    assert_eq!(again.kind, Touched::Created);
    assert!(again.version > deleted.version);
}

#[test]
fn o20_objects_in_redb_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    check(|| Arc::new(RedbStore::open(folder.path()).unwrap()));
}

#[test]
fn o20_objects_in_fjall_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    check(|| Arc::new(FjallStore::open(folder.path(), Durability::Durable).unwrap()));
}
