//! An engine over a store in memory, with shorthands for what tests do all the time.

use std::sync::Arc;

use keyloom_engine::{
    Action, Actor, Change, ChangeKind, CheckReport, Document, DocumentChange, Engine, Error, Mode,
    Operation, Options, Position, Precondition, Repair, SchemaChange, Written,
};
use keyloom_key::{Head, Space};
use keyloom_store::faults::FaultStore;
use keyloom_store::memory::MemoryStore;
use keyloom_store::{Direction, Entry, KeyRange, OrderedStore, ScanOptions};
use pollster::block_on;
use serde_json::Value as Json;

use super::{TestSystem, schema};

/// An engine and everything around it. Clones share all of it.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) engine: Arc<Engine>,
    pub(crate) system: Arc<TestSystem>,
    /// What the engine sees: fails, counts and calls hooks as told.
    pub(crate) faults: FaultStore,
    /// What is stored (X2).
    pub(crate) memory: MemoryStore,
}

/// An operation of a batch.
pub(crate) fn operation(collection: &str, action: Action) -> Operation {
    Operation { collection: collection.to_owned(), action }
}

/// The actions that an operation can have.
pub(crate) mod action {
    use super::{Action, Json, Precondition};

    pub(crate) fn create(data: &Json) -> Action {
        Action::Create { key: None, data: data.to_string().into_bytes(), description: None }
    }

    pub(crate) fn put(key: &str, precondition: Precondition, data: &Json) -> Action {
        let (key, data) = (key.to_owned(), data.to_string().into_bytes());
        Action::Put { key, precondition, data, description: None }
    }

    pub(crate) fn patch(key: &str, precondition: Precondition, patch: &Json) -> Action {
        let patch = patch.to_string().into_bytes();
        Action::Patch { key: key.to_owned(), precondition, patch }
    }

    pub(crate) fn delete(key: &str, precondition: Precondition) -> Action {
        Action::Delete { key: key.to_owned(), precondition }
    }
}

/// The stable code of an error and its message, in one line.
pub(crate) fn code<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("{}: {error}", error.code()),
    }
}

impl Database {
    /// A database with this schema.
    pub(crate) fn new(schema: &str) -> Database {
        Database::in_mode(Mode::Development, schema)
    }

    /// A database with this schema in this mode.
    pub(crate) fn in_mode(mode: Mode, schema: &str) -> Database {
        let database = Database::empty(mode);
        database.apply(schema).expect("the test's schema can be applied");
        database
    }

    /// A database without any schema.
    pub(crate) fn empty(mode: Mode) -> Database {
        let memory = MemoryStore::new();
        let faults = FaultStore::new(Arc::new(memory.clone()));
        let system = Arc::new(TestSystem::new(0));
        let store: Arc<dyn OrderedStore> = Arc::new(faults.clone());
        let engine = Arc::new(open(store, &system, mode));
        Database { engine, system, faults, memory }
    }

    /// Another engine over the same data with faults of its own, as after a restart, or in another
    /// process.
    pub(crate) fn beside(&self, mode: Mode) -> Database {
        let faults = FaultStore::new(Arc::new(self.memory.clone()));
        let store: Arc<dyn OrderedStore> = Arc::new(faults.clone());
        let engine = Arc::new(open(store, &self.system, mode));
        Database { engine, faults, ..self.clone() }
    }

    /// Another engine over the same store and its faults, with time and randomness of its own.
    pub(crate) fn fork(&self, seed: u64) -> Database {
        let system = Arc::new(TestSystem::new(seed));
        let store: Arc<dyn OrderedStore> = Arc::new(self.faults.clone());
        let engine = Arc::new(open(store, &system, Mode::Development));
        Database { engine, system, ..self.clone() }
    }

    pub(crate) fn apply(&self, text: &str) -> Result<SchemaChange, Error> {
        block_on(self.engine.apply_schema(&schema(text), &mut |_| {}))
    }

    pub(crate) fn execute(&self, collection: &str, action: Action) -> Result<Written, Error> {
        block_on(self.engine.execute(&Actor::Local, collection, action))
    }

    pub(crate) fn batch(&self, operations: &[Operation]) -> Result<Vec<Written>, Error> {
        block_on(self.engine.batch(&Actor::Local, operations))
    }

    pub(crate) fn create(&self, collection: &str, data: &Json) -> Result<Document, Error> {
        block_on(self.engine.create(&Actor::Local, collection, data.to_string().as_bytes()))
    }

    pub(crate) fn create_as(
        &self,
        user: &str,
        collection: &str,
        data: &Json,
    ) -> Result<Document, Error> {
        let actor = Actor::User(user.to_owned());
        block_on(self.engine.create(&actor, collection, data.to_string().as_bytes()))
    }

    pub(crate) fn patch(
        &self,
        collection: &str,
        document: &Document,
        patch: &Json,
    ) -> Result<Document, Error> {
        let precondition = Precondition::Version(document.version);
        let written =
            self.execute(collection, action::patch(&document.key, precondition, patch))?;
        Ok(written.into_document().expect("a patch gives a document"))
    }

    pub(crate) fn delete(&self, collection: &str, key: &str) -> Result<Written, Error> {
        block_on(self.engine.delete(&Actor::Local, collection, key, Precondition::Any))
    }

    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Document> {
        block_on(self.engine.get(&Actor::Local, collection, key)).expect("the key is valid")
    }

    pub(crate) fn lookup(&self, collection: &str, unique: &str, value: &str) -> Option<Document> {
        let values = [Json::String(value.to_owned())];
        block_on(self.engine.lookup(&Actor::Local, collection, unique, &values))
            .expect("the value is valid")
    }

    /// The feed as lines: `created approvals approval:record:…`.
    pub(crate) fn feed(&self) -> Vec<String> {
        let lines = self.changes(Position(0), 1000).into_iter().map(|change| {
            let kind = match change.kind {
                ChangeKind::Created => "created",
                ChangeKind::Updated => "updated",
                ChangeKind::Deleted => "deleted",
            };
            format!("{kind} {} {}", change.collection, change.key)
        });
        lines.collect()
    }

    /// The changes of documents behind a position.
    pub(crate) fn changes(&self, after: Position, limit: usize) -> Vec<DocumentChange> {
        let changes = block_on(self.engine.changes(after, limit)).unwrap();
        changes.into_iter().filter_map(Change::into_document).collect()
    }

    /// How many documents a collection says that it has.
    pub(crate) fn count(&self, collection: &str) -> u64 {
        block_on(self.engine.collection(&Actor::Local, collection)).unwrap().documents.unwrap()
    }

    /// Everything that is stored, but for the catalog.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let range = KeyRange { from: vec![Space::Document as u8], to: vec![0xFF] };
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let snapshot = block_on(self.memory.snapshot()).unwrap();
        let mut scan = block_on(snapshot.scan(&range, options)).unwrap();
        block_on(scan.next(usize::MAX)).unwrap().into_iter().collect()
    }

    /// The stored keys of one space.
    pub(crate) fn keys(&self, space: Space) -> Vec<Vec<u8>> {
        let keys = self.entries().into_iter().map(|entry| entry.key);
        keys.filter(|key| Head::read(key).unwrap().0.space == space).collect()
    }

    /// Compares documents and keys both ways.
    pub(crate) fn check(&self, repair: Repair) -> CheckReport {
        block_on(self.beside(Mode::Development).engine.check(repair, &mut |_| {})).unwrap()
    }

    /// Fails the test unless documents and keys agree.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.check(Repair::No).problems, []);
    }
}

fn open(store: Arc<dyn OrderedStore>, system: &Arc<TestSystem>, mode: Mode) -> Engine {
    let options = Options { system: Arc::clone(system) as _, mode, ..Options::default() };
    block_on(Engine::open(store, options)).expect("the store can be opened")
}
