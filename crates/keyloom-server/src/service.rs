//! The one thing that every door calls: REST now, others later.
//!
//! S1: Every call names the caller.
//! S2: Whoever waits for changes is woken by every write that goes through here.

use std::sync::Arc;

use keyloom_engine::schema::{CollectionSchema, Schema};
use keyloom_engine::{
    Action, Actor, CheckReport, CollectionInfo, Counted, Document, DocumentChange, Engine, Error,
    Existence, KeyPage, KeyQuery, List, Listed, Operation, Page, Position, Precondition, Query,
    Repair, SchemaChange, SetReplacement, WritePlan, Written,
};
use serde_json::Value as Json;
use tokio::sync::Notify;

use crate::limits::DELETE_ATTEMPTS;

/// The operations of a database, for callers on a network.
pub struct Service {
    engine: Arc<Engine>,
    /// Signalled after each write.
    written: Notify,
}

/// How many documents a delete by filter has deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedMany {
    /// How many.
    pub deleted: usize,
    /// Whether there may be more.
    pub more: bool,
    /// What finding them has cost.
    pub cost: keyloom_engine::Cost,
}

impl Service {
    /// A service over an open database.
    pub fn new(engine: Arc<Engine>) -> Service {
        Service { engine, written: Notify::new() }
    }

    /// The names of all collections.
    pub fn collections(&self, _: &Actor) -> Vec<String> {
        self.engine.collections()
    }

    /// What there is to know of one collection.
    pub async fn collection(&self, caller: &Actor, name: &str) -> Result<CollectionInfo, Error> {
        self.engine.collection(caller, name).await
    }

    /// The schema of one collection, by which text is read as values.
    pub fn schema(&self, _: &Actor, name: &str) -> Result<Arc<CollectionSchema>, Error> {
        self.engine.schema(name)
    }

    /// What a schema would change.
    pub async fn plan_schema(&self, _: &Actor, schema: &Schema) -> Result<SchemaChange, Error> {
        self.engine.plan_schema(schema).await
    }

    /// Puts a schema in force.
    pub async fn apply_schema(&self, _: &Actor, schema: &Schema) -> Result<SchemaChange, Error> {
        self.engine.apply_schema(schema, &mut |_| {}).await
    }

    /// The document with this key.
    pub async fn get(
        &self,
        caller: &Actor,
        collection: &str,
        key: &str,
    ) -> Result<Document, Error> {
        let found = self.engine.get(caller, collection, key).await?;
        found.ok_or_else(|| Error::NotFound {
            collection: collection.to_owned(),
            key: key.to_owned(),
        })
    }

    /// The documents with these keys, each in its place.
    pub async fn get_many(
        &self,
        caller: &Actor,
        collection: &str,
        keys: &[&str],
    ) -> Result<Vec<Option<Document>>, Error> {
        self.engine.get_many(caller, collection, keys).await
    }

    /// The document that holds a unique claim.
    pub async fn lookup(
        &self,
        caller: &Actor,
        collection: &str,
        unique: &str,
        values: &[Json],
    ) -> Result<Option<Document>, Error> {
        self.engine.lookup(caller, collection, unique, values).await
    }

    /// A page of the documents that satisfy a query.
    pub async fn query(
        &self,
        caller: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Page, Error> {
        self.engine.query(caller, collection, query).await
    }

    /// How many documents satisfy a query.
    pub async fn count(
        &self,
        caller: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Counted, Error> {
        self.engine.count(caller, collection, query).await
    }

    /// Whether any document satisfies a query.
    pub async fn exists(
        &self,
        caller: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Existence, Error> {
        self.engine.exists(caller, collection, query).await
    }

    /// A page of the documents that match.
    pub async fn list(
        &self,
        caller: &Actor,
        collection: &str,
        list: &List,
    ) -> Result<Listed, Error> {
        self.engine.list(caller, collection, list).await
    }

    /// How many documents match.
    pub async fn count_list(
        &self,
        caller: &Actor,
        collection: &str,
        list: &List,
    ) -> Result<Counted, Error> {
        self.engine.count_list(caller, collection, list).await
    }

    /// The keys that are stored under one path.
    pub async fn keys(
        &self,
        caller: &Actor,
        collection: &str,
        query: &KeyQuery,
    ) -> Result<KeyPage, Error> {
        self.engine.keys(caller, collection, query).await
    }

    /// Executes one operation.
    pub async fn execute(
        &self,
        caller: &Actor,
        collection: &str,
        action: Action,
    ) -> Result<Written, Error> {
        let written = self.engine.execute(caller, collection, action).await?;
        self.wake();
        Ok(written)
    }

    /// Executes all operations in one commit, or none of them.
    pub async fn batch(
        &self,
        caller: &Actor,
        operations: &[Operation],
    ) -> Result<Vec<Written>, Error> {
        let written = self.engine.batch(caller, operations).await?;
        self.wake();
        Ok(written)
    }

    /// What operations would write.
    pub async fn explain_write(
        &self,
        caller: &Actor,
        operations: &[Operation],
    ) -> Result<WritePlan, Error> {
        self.engine.explain_write(caller, operations).await
    }

    /// Replaces a set of documents in one commit.
    pub async fn replace_set(
        &self,
        caller: &Actor,
        replacement: &SetReplacement<'_>,
    ) -> Result<Vec<Written>, Error> {
        let written = self.engine.replace_set(caller, replacement).await?;
        self.wake();
        Ok(written)
    }

    /// Deletes the documents of one page of a query in one commit, each at the version that was
    /// found.
    pub async fn delete_matching(
        &self,
        caller: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<DeletedMany, Error> {
        let mut attempts = 0;
        loop {
            let page = self.query(caller, collection, query).await?;
            let operations: Vec<Operation> =
                page.items.iter().filter_map(|item| deletion(collection, item)).collect();
            let found = DeletedMany {
                deleted: operations.len(),
                more: page.next.is_some(),
                cost: page.cost,
            };
            if operations.is_empty() {
                return Ok(found);
            }
            attempts += 1;
            match self.batch(caller, &operations).await {
                Ok(_) => return Ok(found),
                // Somebody changed one of them: look again.
                Err(Error::Batch { source, .. })
                    if matches!(*source, Error::VersionConflict { .. }) =>
                {
                    if attempts == DELETE_ATTEMPTS {
                        return Err(Error::RetriesExhausted { attempts });
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// At most `limit` changes behind a position, in commit order.
    pub async fn changes(
        &self,
        _: &Actor,
        after: Position,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, Error> {
        self.engine.changes(after, limit).await
    }

    /// Compares all documents and keys.
    pub async fn check(&self, _: &Actor, repair: Repair) -> Result<CheckReport, Error> {
        self.engine.check(repair, &mut |_| {}).await
    }

    /// Tells whoever waits for changes that there may be some (S2).
    fn wake(&self) {
        self.written.notify_waiters();
    }
}

/// The deletion of a document as it was found.
fn deletion(collection: &str, item: &keyloom_engine::Item) -> Option<Operation> {
    let keyloom_engine::Item::Document(document) = item else { return None };
    Some(Operation {
        collection: collection.to_owned(),
        action: Action::Delete {
            key: document.key.clone(),
            precondition: Precondition::Version(document.version),
        },
    })
}
