//! What a schema costs, what its store takes, and what is no schema at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Mode, Options};
use keyloom_store::memory::MemoryStore;
use keyloom_store::{
    Change, Commit, CommitOutcome, Feed, Limits, OrderedStore, Position, Snapshot, StoreError,
    Tally,
};
use pollster::block_on;

use super::collection;
use crate::support::{APPROVALS, Database, code, schema};

/// A store in memory that takes less than others.
struct Tight {
    memory: MemoryStore,
    limits: Limits,
}

#[async_trait]
impl OrderedStore for Tight {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.memory.snapshot().await
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        self.memory.commit(commit).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.memory.changes(after, limit).await
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        self.memory.feed().await
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.memory.trim(through).await
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn tally(&self) -> Tally {
        self.memory.tally()
    }
}

#[test]
fn a_schema_is_checked_against_the_limits_of_its_store() {
    let apply = |change: &dyn Fn(&mut Limits), text: &str| {
        let memory = MemoryStore::new();
        let mut limits = memory.limits();
        change(&mut limits);
        let store = Arc::new(Tight { memory, limits });
        let engine = block_on(Engine::open(store, Options::default())).unwrap();
        code(block_on(engine.apply_schema(&schema(text), &mut |_| {})))
    };
    assert_eq!(apply(&|_| {}, APPROVALS), "ok");
    assert_eq!(
        apply(&|limits| limits.value_bytes_max = 1000, APPROVALS),
        "invalid_argument: collections.approvals: the store takes values of 1000 bytes only"
    );
    assert_eq!(
        apply(&|limits| limits.key_bytes_max = 100, APPROVALS),
        "invalid_argument: collections.approvals.code: its keys can take 135 bytes, the store \
         takes 100: bound the length of its texts, or use {field prefix N}"
    );
    let tags = collection("fields.a = { type = \"id[]\" }\nindexes.a = \"{a[]}:{id}\"");
    assert_eq!(
        apply(&|limits| limits.commit_operations_max = 128, &tags),
        "invalid_argument: collections.c.indexes: a write can touch 257 keys, the store takes 128 \
         operations: use fewer indexes or bound `elements`"
    );
    let few = tags.replace("\"id[]\"", "\"id[]\", elements = { max = 59 }");
    assert_eq!(apply(&|limits| limits.commit_operations_max = 128, &few), "ok");
}

#[test]
fn costs_and_lints_of_templates_are_shown_before_a_schema_is_applied() {
    let database = Database::empty(Mode::Development);
    let lines = "fields.tags = { type = \"id[]\", elements = { max = 5 } }\n\
                 fields.at = { type = \"millis\" }\nindexes.tags = \"{tags[]}:{id}\"\n\
                 indexes.at = \"{at}:{id}\"\nindexes.shard = \"{id shard 16}:{at}:{id}\"\n\
                 indexes.changed = \"{id}:{@updated_at}\"\nunique.u = \"u:{id}\"";
    let costs = block_on(database.engine.schema_costs(&schema(&collection(lines)))).unwrap();
    let shown: BTreeMap<&str, (usize, usize, usize)> = costs["c"]
        .iter()
        .map(|c| (c.path.as_str(), (c.key_bytes_max, c.keys_per_document, c.lints.len())))
        .collect();
    let expected = BTreeMap::from([
        ("key", (135, 1, 0)),
        ("unique:u", (135, 1, 0)),
        ("index:tags", (265, 5, 0)),
        ("index:at", (144, 1, 1)),
        ("index:shard", (153, 1, 0)),
        ("index:changed", (144, 1, 1)),
    ]);
    assert_eq!(shown, expected);
    assert_eq!(database.engine.collections(), Vec::<String>::new());
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    let refused = |text: &str| code(Schema::from_toml(text));
    for (text, place, part) in [
        ("[collections.c\nkey = 1", "line 1, column 15: ", ""),
        ("[collections.c]\nkey = 1", "line 2, column 7: ", "expected a string"),
        (
            "[collections.c]\nkey = \"\"\nfields.a = {}",
            "line 3, column 12: ",
            "missing field `type`",
        ),
        ("[collection.c]\nkey = \"\"", "line 1, column 2: ", "unknown field `collection`"),
        (
            "[collections.c]\nkey = \"\"\nfields.a = { type = \"id\", requird = true }",
            "line 3, column 27: ",
            "unknown field `requird`",
        ),
        (
            "[collections.c]\nkey = \"\"\none_per_owner = \"sometimes\"",
            "line 3, column 17: ",
            "unknown variant `sometimes`, expected `always` or `production`",
        ),
        (
            "[collections.c]\nkey = \"\"\nindexes.i = 1",
            "line 3, column 13: ",
            "an index is a template, or { key, when?, include? }",
        ),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(&format!("invalid_argument: {place}")), "{refused}");
        assert!(refused.contains(part), "{refused}");
    }
    let json = code(Schema::from_json("{\"collections\": {\"c\": {\"key\": 1}}}"));
    assert!(json.starts_with("invalid_argument: line 1, column 31: "), "{json}");
}
