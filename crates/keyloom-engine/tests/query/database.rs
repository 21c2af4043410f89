//! A database in memory for tests of queries and lists, asked in the JSON of the public surface.
//!
//! Every answer is checked against the calls that really reached the store, so that no test can
//! pass with a cost that is not the true one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use keyloom_engine::schema::Schema;
use keyloom_engine::{
    Action, Actor, Cost, Counted, Engine, Error, Existence, Filter, Item, List, Listed, NoIndex,
    Options, OrderBy, Page, Precondition, Query, Sort, System, Test,
};
use keyloom_store::faults::FaultStore;
use keyloom_store::memory::MemoryStore;
use pollster::block_on;
use serde_json::Value as Json;

/// A database whose clock stands still until a test moves it.
pub(crate) struct Database {
    pub(crate) engine: Engine,
    pub(crate) store: FaultStore,
    pub(crate) clock: Arc<Clock>,
}

/// Time in microseconds, and numbers that look random and are the same in every run.
#[derive(Debug)]
pub(crate) struct Clock {
    micros: AtomicU64,
    drawn: AtomicU64,
}

impl Clock {
    /// Sets the time, in milliseconds.
    pub(crate) fn set(&self, millis: u64) {
        self.micros.store(millis * 1000, Ordering::Relaxed);
    }
}

#[async_trait]
impl System for Clock {
    fn now_micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
            let mixed = (drawn + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            *byte = (mixed >> 32) as u8;
        }
    }

    async fn sleep(&self, _: Duration) {}
}

impl Database {
    /// An empty database with this schema.
    pub(crate) fn open(schema: &str) -> Database {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        let clock =
            Arc::new(Clock { micros: AtomicU64::new(1_700_000_000_000_000), drawn: 0.into() });
        let options = Options { system: Arc::clone(&clock) as _, ..Options::default() };
        let engine = block_on(Engine::open(Arc::new(store.clone()), options)).unwrap();
        let database = Database { engine, store, clock };
        database.apply(schema);
        database
    }

    /// Applies a schema.
    pub(crate) fn apply(&self, schema: &str) {
        let schema = Schema::from_toml(schema).unwrap_or_else(|error| panic!("{error}"));
        block_on(self.engine.apply_schema(&schema, &mut |_| {}))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Creates a document and gives its key.
    pub(crate) fn put(&self, collection: &str, data: &Json) -> String {
        self.put_as(&Actor::Local, collection, data, None)
    }

    /// Creates a document with an owner and a description and gives its key.
    pub(crate) fn put_as(
        &self,
        actor: &Actor,
        collection: &str,
        data: &Json,
        description: Option<&str>,
    ) -> String {
        let (data, description) = (data.to_string().into_bytes(), description.map(str::to_owned));
        let action = Action::Create { key: None, data, description };
        let written = block_on(self.engine.execute(actor, collection, action));
        written.unwrap_or_else(|error| panic!("{error}")).into_document().unwrap().key
    }

    /// Changes a document.
    pub(crate) fn patch(&self, collection: &str, key: &str, patch: &Json) {
        let (key, patch) = (key.to_owned(), patch.to_string().into_bytes());
        let action = Action::Patch { key, precondition: Precondition::Any, patch };
        block_on(self.engine.execute(&Actor::Local, collection, action)).unwrap();
    }

    /// Deletes a document.
    pub(crate) fn delete(&self, collection: &str, key: &str) {
        block_on(self.engine.delete(&Actor::Local, collection, key, Precondition::Any)).unwrap();
    }

    /// The data of a document, if it is there.
    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Json> {
        let found = block_on(self.engine.get(&Actor::Local, collection, key)).unwrap();
        found.map(|document| serde_json::from_slice(&document.data).unwrap())
    }

    /// A page, or why there is none.
    pub(crate) fn try_query(&self, collection: &str, query: &Json) -> Result<Page, Error> {
        self.store.reset();
        let page = block_on(self.engine.query(&Actor::Local, collection, &read_query(query)))?;
        self.check_cost(page.cost);
        assert!(
            page.cost.keys_read <= page.plan.keys_read_max,
            "{query} read {:?}, planned: {}",
            page.cost,
            page.plan
        );
        Ok(page)
    }

    /// A page.
    pub(crate) fn query(&self, collection: &str, query: &Json) -> Page {
        self.try_query(collection, query).unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// The values of a field on all pages of a query.
    pub(crate) fn values(&self, collection: &str, query: &Json, field: &str) -> Vec<Json> {
        let mut query = query.clone();
        let mut values = Vec::new();
        for _ in 0..1000 {
            let page = self.query(collection, &query);
            values.extend(page.items.iter().map(|item| value_of(item, field)));
            match page.next() {
                None => return values,
                Some(next) => query["after"] = next.into(),
            }
        }
        panic!("{query} does not end");
    }

    /// How many documents match.
    pub(crate) fn count(&self, collection: &str, query: &Json) -> Counted {
        self.store.reset();
        let counted = block_on(self.engine.count(&Actor::Local, collection, &read_query(query)));
        let counted = counted.unwrap_or_else(|error| panic!("{query}: {error}"));
        self.check_cost(counted.cost);
        counted
    }

    /// Whether any document matches.
    pub(crate) fn exists(&self, collection: &str, query: &Json) -> Existence {
        self.store.reset();
        let existence = block_on(self.engine.exists(&Actor::Local, collection, &read_query(query)));
        let existence = existence.unwrap_or_else(|error| panic!("{query}: {error}"));
        self.check_cost(existence.cost);
        existence
    }

    /// The plan of a query as people see it.
    pub(crate) fn explain(&self, collection: &str, query: &Json) -> String {
        let plan = block_on(self.engine.explain(&Actor::Local, collection, &read_query(query)));
        plan.unwrap_or_else(|error| panic!("{query}: {error}")).to_string()
    }

    /// Why no key serves a query.
    pub(crate) fn refused(&self, collection: &str, query: &Json) -> NoIndex {
        match self.try_query(collection, query) {
            Err(Error::NoIndex(refused)) => *refused,
            other => panic!("{query} should be refused: {other:?}"),
        }
    }

    /// Why a query makes no sense.
    pub(crate) fn error(&self, collection: &str, query: &Json) -> String {
        self.try_query(collection, query).unwrap_err().to_string()
    }

    /// A page of a list, or why there is none.
    pub(crate) fn try_list(&self, collection: &str, list: &List) -> Result<Listed, Error> {
        self.store.reset();
        let listed = block_on(self.engine.list(&Actor::Local, collection, list))?;
        self.check_cost(listed.cost);
        assert!(listed.cost.keys_read <= listed.plan.keys_read_max, "{}", listed.plan);
        Ok(listed)
    }

    /// A page of a list.
    pub(crate) fn list(&self, collection: &str, list: &List) -> Listed {
        self.try_list(collection, list).unwrap_or_else(|error| panic!("{list:?}: {error}"))
    }

    /// How many documents a list has.
    pub(crate) fn count_list(&self, collection: &str, list: &List) -> u64 {
        block_on(self.engine.count_list(&Actor::Local, collection, list)).unwrap().count
    }

    fn check_cost(&self, cost: Cost) {
        let counts = self.store.counts();
        assert_eq!(counts.keys_read, cost.keys_read + cost.documents_read, "{counts:?} {cost:?}");
        assert!(counts.scans <= cost.ranges, "{counts:?} {cost:?}");
    }
}

/// A query from the JSON of the REST surface.
pub(crate) fn read_query(json: &Json) -> Query {
    let mut query = Query::default();
    for (name, value) in json.as_object().unwrap() {
        match name.as_str() {
            "where" => query.filter = read_filter(value),
            "any" => query.any = value.as_array().unwrap().iter().map(read_filter).collect(),
            "order" => query.order = Some(read_order(value.as_str().unwrap())),
            "limit" => query.limit = Some(usize::try_from(value.as_u64().unwrap()).unwrap()),
            "after" => query.after = Some(value.as_str().unwrap().to_owned()),
            "distinct" => query.distinct = Some(value.as_str().unwrap().to_owned()),
            "select" => {
                let names = value.as_array().unwrap().iter();
                query.select = Some(names.map(|name| name.as_str().unwrap().to_owned()).collect());
            }
            "scan" => query.scan = Some(usize::try_from(value.as_u64().unwrap()).unwrap()),
            other => panic!("unknown member {other}"),
        }
    }
    query
}

fn read_order(text: &str) -> OrderBy {
    match text.strip_prefix('-') {
        Some(field) => OrderBy { field: field.to_owned(), direction: Sort::Descending },
        None => OrderBy { field: text.to_owned(), direction: Sort::Ascending },
    }
}

fn read_filter(json: &Json) -> Filter {
    let tests = |value: &Json| match value {
        Json::Object(tests) => tests.iter().map(|(name, value)| read_test(name, value)).collect(),
        value => vec![Test::Equal(value.clone())],
    };
    json.as_object().unwrap().iter().map(|(name, value)| (name.clone(), tests(value))).collect()
}

fn read_test(name: &str, value: &Json) -> Test {
    match name {
        "in" => Test::In(value.as_array().unwrap().clone()),
        "prefix" => Test::Prefix(value.as_str().unwrap().to_owned()),
        "gt" => Test::Greater(value.clone()),
        "gte" => Test::GreaterOrEqual(value.clone()),
        "lt" => Test::Less(value.clone()),
        "lte" => Test::LessOrEqual(value.clone()),
        other => panic!("unknown test {other}"),
    }
}

/// The value of a field of a result; null if it has none.
pub(crate) fn value_of(item: Item<'_>, field: &str) -> Json {
    let data: Json = serde_json::from_slice(&item.data()).unwrap();
    data[field].clone()
}

/// The ULID with this number.
pub(crate) fn ulid(number: u128) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |place: u32| char::from(DIGITS[((number >> (5 * place)) & 31) as usize]);
    (0..26).rev().map(digit).collect()
}
