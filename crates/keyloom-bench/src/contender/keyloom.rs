//! Keyloom as an application uses it: the public API of the engine over one store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::block_on::block_on;
use keyloom_engine::{
    Actor, Document, Engine, Filter, Items, Options, OrderBy, Page, Query, Selected, Sort, Test,
};
use keyloom_key::{Ulid, Value};
use keyloom_store::OrderedStore;
use keyloom_store::memory::MemoryStore;
use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;
use serde_json::Value as Json;

use super::{Contender, LOAD_BATCH, LOAD_THREADS, Promise, writers};
use crate::outcome::Outcome;
use crate::probe::{Digest, Probe};
use crate::scribe::{COLLECTION, creates, replacement};
use crate::workload::{Approval, LIST_LIMIT, Reading, code, id, schema, user};

/// An engine over some store.
pub(super) struct Keyloom {
    engine: Engine,
}

pub(super) fn open_redb(folder: &Path) -> Outcome<Keyloom> {
    open(Arc::new(RedbStore::open(folder)?))
}

pub(super) fn open_fjall(folder: &Path, promise: Promise) -> Outcome<Keyloom> {
    let durability = match promise {
        Promise::Durable => Durability::Durable,
        Promise::Buffered => Durability::Buffered,
    };
    open(Arc::new(FjallStore::open(folder, durability)?))
}

pub(super) fn open_memory() -> Outcome<Keyloom> {
    open(Arc::new(MemoryStore::new()))
}

fn open(store: Arc<dyn OrderedStore>) -> Outcome<Keyloom> {
    let engine = block_on(Engine::open(store, Options::default()))?;
    block_on(engine.apply_schema(&schema()?, &mut |_| {}))?;
    Ok(Keyloom { engine })
}

impl Contender for Keyloom {
    fn load(&self, approvals: &[Approval]) -> Outcome<Duration> {
        let batches: Vec<_> = approvals.chunks(LOAD_BATCH).map(creates).collect();
        writers::run(LOAD_THREADS, &batches, |batch| {
            block_on(self.engine.batch(&Actor::Local, batch))?;
            Ok(())
        })
    }

    fn create(&self, approvals: &[Approval], writers: usize) -> Outcome<Duration> {
        writers::run(writers, approvals, |approval| {
            block_on(self.engine.create(&Actor::Local, COLLECTION, approval.json.as_bytes()))?;
            Ok(())
        })
    }

    fn update(&self, changes: &[(Approval, Approval)], writers: usize) -> Outcome<Duration> {
        let actions: Vec<_> = changes.iter().map(|(_, new)| replacement(new)).collect();
        writers::run(writers, &actions, |action| {
            block_on(self.engine.execute(&Actor::Local, COLLECTION, action.clone()))?;
            Ok(())
        })
    }

    fn read(&self, reading: Reading, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        match reading {
            Reading::Get => self.get(questions, probe),
            Reading::Lookup => self.lookup(questions, probe),
            Reading::Newest => self.list(questions, newest, probe),
            Reading::Covered => self.covered(questions, probe),
            Reading::Merged => self.list(questions, merged, probe),
        }
    }
}

impl Keyloom {
    fn get(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| Ok(format!("approval:record:{}", id(number))),
            |key| found(block_on(self.engine.get(&Actor::Local, COLLECTION, key))?),
            spell_document,
        )
    }

    fn lookup(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| Ok([Json::String(code(number))]),
            |code| found(block_on(self.engine.lookup(&Actor::Local, COLLECTION, "code", code))?),
            spell_document,
        )?;
        // A lookup does not tell what it costs; the query for the same key does.
        if let Some(number) = questions.first() {
            let query = Query { filter: of("code", &code(*number)), ..Query::default() };
            probe.cost(cost(&block_on(self.engine.query(&Actor::Local, COLLECTION, &query))?));
        }
        Ok(())
    }

    fn covered(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        let mut costs = Vec::with_capacity(questions.len());
        probe.ask_each(
            questions,
            |number| Ok(covered(&user(number))),
            |query| {
                let page = block_on(self.engine.query(&Actor::Local, COLLECTION, query))?;
                let Items::Selected(rows) = &page.items else {
                    return Err("a covering list brings documents".into());
                };
                Ok((rows.iter().map(columns).collect::<Outcome<Vec<_>>>()?, cost(&page)))
            },
            |(rows, cost), digest| {
                costs.push(*cost);
                rows.iter()
                    .for_each(|(created_at, id)| digest.covered(*created_at, &id.to_string()));
                Ok(())
            },
        )?;
        costs.into_iter().for_each(|keys| probe.cost(keys));
        Ok(())
    }

    fn list(&self, questions: &[u64], query: fn(&str) -> Query, probe: &mut Probe) -> Outcome<()> {
        let mut costs = Vec::with_capacity(questions.len());
        probe.ask_each(
            questions,
            |number| Ok(query(&user(number))),
            |query| Ok(block_on(self.engine.query(&Actor::Local, COLLECTION, query))?),
            |page, digest| {
                costs.push(cost(page));
                spell_page(page, digest)
            },
        )?;
        costs.into_iter().for_each(|keys| probe.cost(keys));
        Ok(())
    }
}

/// All keys that a page has read, those of documents included.
fn cost(page: &Page) -> u64 {
    page.cost.keys_read + page.cost.documents_read
}

fn newest(user: &str) -> Query {
    Query {
        filter: of("requester", user),
        order: Some(OrderBy { field: "created_at".to_owned(), direction: Sort::Descending }),
        limit: Some(LIST_LIMIT),
        ..Query::default()
    }
}

fn covered(user: &str) -> Query {
    Query { select: Some(vec!["created_at".to_owned(), "id".to_owned()]), ..newest(user) }
}

fn merged(user: &str) -> Query {
    Query {
        filter: Filter::new(),
        any: vec![of("requester", user), of("approver", user)],
        ..newest(user)
    }
}

fn of(field: &str, value: &str) -> Filter {
    Filter::from([(field.to_owned(), vec![Test::Equal(Json::String(value.to_owned()))])])
}

fn found(document: Option<Document>) -> Outcome<Document> {
    document.ok_or_else(|| "a document is missing".into())
}

fn spell_document(document: &Document, digest: &mut Digest) -> Outcome<()> {
    digest.row(&document.data);
    Ok(())
}

fn spell_page(page: &Page, digest: &mut Digest) -> Outcome<()> {
    page.items.iter().for_each(|item| digest.row(&item.data()));
    Ok(())
}

/// Time and identity of a row, as values.
fn columns(row: Selected<'_>) -> Outcome<(i64, Ulid)> {
    match (row.value(0).as_deref(), row.value(1).as_deref()) {
        (Some(Value::Int(created_at)), Some(Value::Ulid(id))) => Ok((*created_at, *id)),
        _ => Err("a covering list lacks a column".into()),
    }
}
