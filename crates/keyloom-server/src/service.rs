//! The one thing that every door calls: REST, gRPC and Zenoh.
//!
//! S1: Every call names the caller. The engine keeps the rules of collections for him; what his
//!     token is for, and what only administrators do, is checked here.
//! S2: Whoever waits for changes is woken by every write that goes through here.

pub(crate) mod events;
mod invoke;
mod objects;

use std::pin::Pin;
use std::sync::Arc;

use keyloom_engine::schema::{CollectionSchema, Schema};
use keyloom_engine::{
    Action, Actor, Change, CheckReport, CollectionInfo, Cost, Counted, Document, Engine,
    EngineTally, Error, Existence, Feed, Identity, KeyPage, KeyQuery, List, Listed, NewToken,
    Operation, Page, Plan, Position, Query, Repair, Retention, Right, SchemaChange, Secret,
    SetReplacement, Token, TokenPage, WritePlan, Written,
};
use serde_json::Value as Json;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, Semaphore};
use tracing::Span;

use crate::asked;
use crate::functions::Functions;
use crate::limits::{DELETE_ATTEMPTS, INVOCATIONS_MAX};
use crate::metrics::Metrics;

pub use invoke::{ASYNC, DEPTH, Invoke};
pub use objects::EntryRead;

/// The operations of a database, for callers on a network.
pub struct Service {
    engine: Arc<Engine>,
    /// Signalled after each write.
    written: Arc<Notify>,
    metrics: Arc<Metrics>,
    /// Told of each write that has triggered something.
    fired: events::Fired,
    functions: Functions,
    /// A place for each function that runs.
    invocations: Arc<Semaphore>,
}

/// How many documents a delete by filter has deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedMany {
    /// How many.
    pub deleted: usize,
    /// Whether there may be more.
    pub more: bool,
    /// What finding them has cost.
    pub cost: Cost,
}

impl Service {
    /// A service over an open database.
    pub fn new(engine: Arc<Engine>) -> Service {
        Service {
            engine,
            written: Arc::default(),
            metrics: Arc::new(Metrics::new()),
            fired: events::Fired::default(),
            functions: Functions::default(),
            invocations: Arc::new(Semaphore::new(INVOCATIONS_MAX)),
        }
    }

    /// The names of all collections.
    pub fn collections(&self, caller: &Identity) -> Vec<String> {
        let mut names = self.engine.collections();
        names.retain(|name| any_right(caller, name).is_ok());
        names
    }

    /// What there is to know of one collection.
    pub async fn collection(&self, caller: &Identity, name: &str) -> Result<CollectionInfo, Error> {
        self.engine.collection(reading(caller, name)?, name).await
    }

    /// The schema of one collection, by which text is read as values.
    pub fn schema(&self, caller: &Identity, name: &str) -> Result<Arc<CollectionSchema>, Error> {
        any_right(caller, name)?;
        self.engine.schema(name)
    }

    /// What a schema would change.
    pub async fn plan_schema(
        &self,
        caller: &Identity,
        schema: &Schema,
    ) -> Result<SchemaChange, Error> {
        administering(caller)?;
        self.engine.plan_schema(schema).await
    }

    /// Puts a schema in force.
    pub async fn apply_schema(
        &self,
        caller: &Identity,
        schema: &Schema,
    ) -> Result<SchemaChange, Error> {
        administering(caller)?;
        self.engine.apply_schema(schema, &mut |_| {}).await
    }

    /// The document with this key.
    pub async fn get(
        &self,
        caller: &Identity,
        collection: &str,
        key: &str,
    ) -> Result<Document, Error> {
        let found = self.engine.get(reading(caller, collection)?, collection, key).await?;
        trace(|| "key".to_owned(), points(1));
        found.ok_or_else(|| Error::NotFound {
            collection: collection.to_owned(),
            key: key.to_owned(),
        })
    }

    /// The documents with these keys, each in its place.
    pub async fn get_many(
        &self,
        caller: &Identity,
        collection: &str,
        keys: &[&str],
    ) -> Result<Vec<Option<Document>>, Error> {
        let found = self.engine.get_many(reading(caller, collection)?, collection, keys).await?;
        trace(|| "key".to_owned(), points(keys.len()));
        Ok(found)
    }

    /// The document that holds a unique claim.
    pub async fn lookup(
        &self,
        caller: &Identity,
        collection: &str,
        unique: &str,
        values: &[Json],
    ) -> Result<Option<Document>, Error> {
        let actor = reading(caller, collection)?;
        let found = self.engine.lookup(actor, collection, unique, values).await?;
        trace(|| format!("unique:{unique}"), points(1));
        Ok(found)
    }

    /// A page of the documents that satisfy a query.
    pub async fn query(
        &self,
        caller: &Identity,
        collection: &str,
        query: &Query,
    ) -> Result<Page, Error> {
        let found = self.engine.query(reading(caller, collection)?, collection, query).await;
        match &found {
            Ok(page) => self.looked(&page.plan, &page.cost, page.items.len()),
            Err(error) => self.refused(error),
        }
        found
    }

    /// How many documents satisfy a query.
    pub async fn count(
        &self,
        caller: &Identity,
        collection: &str,
        query: &Query,
    ) -> Result<Counted, Error> {
        let found = self.engine.count(reading(caller, collection)?, collection, query).await;
        let found = found.inspect_err(|error| self.refused(error))?;
        trace(|| found.plan.path(), found.cost);
        Ok(found)
    }

    /// Whether any document satisfies a query.
    pub async fn exists(
        &self,
        caller: &Identity,
        collection: &str,
        query: &Query,
    ) -> Result<Existence, Error> {
        let found = self.engine.exists(reading(caller, collection)?, collection, query).await;
        let found = found.inspect_err(|error| self.refused(error))?;
        trace(|| found.plan.path(), found.cost);
        Ok(found)
    }

    /// A page of the documents that match.
    pub async fn list(
        &self,
        caller: &Identity,
        collection: &str,
        list: &List,
    ) -> Result<Listed, Error> {
        let found = self.engine.list(reading(caller, collection)?, collection, list).await;
        match &found {
            Ok(page) => self.looked(&page.plan, &page.cost, page.items.len()),
            Err(error) => self.refused(error),
        }
        found
    }

    /// How many documents match.
    pub async fn count_list(
        &self,
        caller: &Identity,
        collection: &str,
        list: &List,
    ) -> Result<Counted, Error> {
        self.engine.count_list(reading(caller, collection)?, collection, list).await
    }

    /// The keys that are stored under one path.
    pub async fn keys(
        &self,
        caller: &Identity,
        collection: &str,
        query: &KeyQuery,
    ) -> Result<KeyPage, Error> {
        self.engine.keys(reading(caller, collection)?, collection, query).await
    }

    /// Executes one operation.
    pub async fn execute(
        &self,
        caller: &Identity,
        collection: &str,
        action: Action,
    ) -> Result<Written, Error> {
        let written = self.engine.execute(writing(caller, collection)?, collection, action).await?;
        self.wake();
        Ok(written)
    }

    /// Executes all operations in one commit, or none of them.
    pub async fn batch(
        &self,
        caller: &Identity,
        operations: &[Operation],
    ) -> Result<Vec<Written>, Error> {
        let written = self.engine.batch(writing_all(caller, operations)?, operations).await?;
        self.wake();
        Ok(written)
    }

    /// What operations would write.
    pub async fn explain_write(
        &self,
        caller: &Identity,
        operations: &[Operation],
    ) -> Result<WritePlan, Error> {
        self.engine.explain_write(writing_all(caller, operations)?, operations).await
    }

    /// Replaces a set of documents in one commit.
    pub async fn replace_set(
        &self,
        caller: &Identity,
        replacement: &SetReplacement<'_>,
    ) -> Result<Vec<Written>, Error> {
        let actor = writing(caller, replacement.collection)?;
        let written = self.engine.replace_set(actor, replacement).await?;
        self.wake();
        Ok(written)
    }

    /// Deletes the documents of one page of a query in one commit, each at the version that was
    /// found. What the caller may not change is left alone.
    pub async fn delete_matching(
        &self,
        caller: &Identity,
        collection: &str,
        query: &Query,
    ) -> Result<DeletedMany, Error> {
        let mut attempts = 0;
        loop {
            let actor = reading(caller, collection)?;
            let page = self.engine.query_writable(actor, collection, query).await?;
            trace(|| page.plan.path(), page.cost);
            let operations = asked::deletions(collection, &page.items);
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

    /// Whether a caller may hear of a change.
    pub fn shows(&self, caller: &Identity, change: &Change) -> bool {
        caller.scopes.allow(change.home(), Right::Read) && self.engine.shows(&caller.actor, change)
    }

    /// Refuses whoever does not administer the database.
    pub fn check_admin(caller: &Identity) -> Result<(), Error> {
        administering(caller).map(|_| ())
    }

    /// Who the caller is that sends this token; `None` if it is not valid.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Identity>, Error> {
        self.engine.authenticate(token).await
    }

    /// Whether there are any tokens.
    pub async fn has_tokens(&self) -> Result<bool, Error> {
        self.engine.has_tokens().await
    }

    /// Makes a token.
    pub async fn create_token(
        &self,
        caller: &Identity,
        new: &NewToken,
    ) -> Result<(Token, Secret), Error> {
        administering(caller)?;
        self.engine.create_token(new).await
    }

    /// A page of all tokens.
    pub async fn tokens(
        &self,
        caller: &Identity,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<TokenPage, Error> {
        administering(caller)?;
        self.engine.tokens(after, limit).await
    }

    /// Makes a token invalid.
    pub async fn revoke_token(&self, caller: &Identity, id: &str) -> Result<bool, Error> {
        administering(caller)?;
        self.engine.revoke_token(id).await
    }

    /// The caller, writing documents that somebody else will own: an administrator who brings them
    /// from elsewhere.
    pub fn for_owner(caller: &Identity, owner: String) -> Result<Identity, Error> {
        if caller.actor.subject() == Some(&owner) {
            return Ok(caller.clone());
        }
        administering(caller)?;
        Ok(Identity { actor: Actor::Admin(owner), ..caller.clone() })
    }

    /// At most `limit` changes behind a position, in commit order, of all callers: what is passed
    /// on goes through [`Service::shows`].
    pub async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, Error> {
        self.engine.changes(after, limit).await
    }

    /// Which changes there still are.
    pub async fn feed(&self) -> Result<Feed, Error> {
        self.engine.feed().await
    }

    /// Forgets the changes that need not be kept.
    pub async fn trim_changes(&self, retention: Retention) -> Result<(), Error> {
        self.engine.trim_changes(retention).await
    }

    /// Done with the next write. Ask before you look at the feed, and no write is missed.
    pub fn written(&self) -> Pin<Box<OwnedNotified>> {
        let mut written = Box::pin(Arc::clone(&self.written).notified_owned());
        written.as_mut().enable();
        written
    }

    /// What was done since the database was opened.
    pub fn tally(&self) -> EngineTally {
        self.engine.tally()
    }

    /// Compares all documents and keys.
    pub async fn check(&self, caller: &Identity, repair: Repair) -> Result<CheckReport, Error> {
        administering(caller)?;
        self.engine.check(repair, &mut |_| {}).await
    }

    /// What is counted and measured.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Counts what a page has cost, and adds its plan to the span of the request.
    fn looked(&self, plan: &Plan, cost: &Cost, results: usize) {
        self.metrics.page(cost, results);
        trace(|| plan.path(), *cost);
    }

    fn refused(&self, error: &Error) {
        if matches!(error, Error::NoIndex(_)) {
            self.metrics.refused_query();
        }
    }

    /// Tells whoever waits for changes that there may be some (S2).
    fn wake(&self) {
        self.written.notify_waiters();
    }
}

/// Adds the path that was taken, and what that has cost, to the span of the request.
fn trace(path: impl FnOnce() -> String, cost: Cost) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("plan", path().as_str());
        span.record("ranges", cost.ranges);
        span.record("keys_read", cost.keys_read);
    }
}

/// What a look at so many keys costs.
fn points(keys: usize) -> Cost {
    let keys = u64::try_from(keys).unwrap_or(u64::MAX);
    Cost { keys_read: keys, documents_read: 0, ranges: keys }
}

/// The caller, if his token is for reading a collection.
fn reading<'c>(caller: &'c Identity, collection: &str) -> Result<&'c Actor, Error> {
    with_right(caller, collection, Right::Read)
}

/// The caller, if his token is for writing a collection.
fn writing<'c>(caller: &'c Identity, collection: &str) -> Result<&'c Actor, Error> {
    with_right(caller, collection, Right::Write)
}

/// The caller, if his token is for writing all that operations name.
fn writing_all<'c>(caller: &'c Identity, operations: &[Operation]) -> Result<&'c Actor, Error> {
    for (place, operation) in operations.iter().enumerate() {
        let checked = writing(caller, &operation.collection);
        checked.map_err(|error| Error::Batch { operation: place, source: Box::new(error) })?;
    }
    Ok(&caller.actor)
}

/// The caller, if his token is for anything in a collection.
fn any_right<'c>(caller: &'c Identity, collection: &str) -> Result<&'c Actor, Error> {
    reading(caller, collection).or_else(|error| writing(caller, collection).map_err(|_| error))
}

fn with_right<'c>(
    caller: &'c Identity,
    collection: &str,
    right: Right,
) -> Result<&'c Actor, Error> {
    if caller.scopes.allow(collection, right) {
        return Ok(&caller.actor);
    }
    let what = match right {
        Right::Read => "reading",
        Right::Write => "writing",
    };
    let detail = format!("the token is not for {what} here");
    Err(Error::forbidden(&caller.actor, collection, detail))
}

/// The caller, if he administers the database: with a token for some collections he does not.
fn administering(caller: &Identity) -> Result<&Actor, Error> {
    match &caller.actor {
        actor @ (Actor::Local | Actor::Admin(_)) if caller.scopes.is_everything() => Ok(actor),
        actor => Err(Error::forbidden(
            actor,
            "*",
            "only administrators do this, with a token that is for everything",
        )),
    }
}
