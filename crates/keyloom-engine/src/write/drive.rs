//! Drives a write to its end: plan, commit, and decide what a conflict or a lost reply means.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyloom_key::{Head, Space};
use keyloom_store::{Commit, CommitOutcome, StoreError, Stored, Write};

use super::draft::{Draft, Reason, Witness, taken_error, tombstone_keys};
use super::prepare::{Known, Request};
use super::{Action, Operation, Written};
use crate::catalog::{Catalog, Collection, Source, Unique};
use crate::document::{HeadRecord, Tombstone};
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::{
    BATCH_OPERATIONS_MAX, CODE_ATTEMPTS_MAX, OUTCOME_ATTEMPTS_MAX, REPLAN_ATTEMPTS_MAX,
};
use crate::object::Metadata;
use crate::read::key_from_claim;
use crate::token::check_subject;

impl Engine {
    /// Executes all operations in one commit, or none of them.
    pub(super) async fn write(
        &self,
        actor: &Actor,
        operations: &[Operation],
    ) -> Result<Vec<Written>, Error> {
        check_request(actor, operations)?;
        let alone = operations.len() == 1;
        let unwrap = |error| if alone { unwrap_single(error) } else { error };
        let mut known = Known::default();
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let draft = self
                .prepare(&catalog, Request { actor, operations }, &mut known)
                .await
                .map_err(unwrap)?;
            match self.try_commit(draft).await? {
                Tried::Committed(mut written) => {
                    written.sort_unstable_by_key(|(operation, _)| *operation);
                    return Ok(written.into_iter().map(|(_, written)| written).collect());
                }
                Tried::Conflict(conflict) => {
                    self.replans.fetch_add(1, Ordering::Relaxed);
                    let creates = |operation: usize| {
                        let action = operations.get(operation).map(|operation| &operation.action);
                        matches!(action, Some(Action::Create { .. }))
                    };
                    self.learn(&catalog, conflict, &creates, &mut known).await.map_err(unwrap)?;
                }
            }
        }
        Err(Error::exhausted())
    }

    /// Commits a draft; a lost reply is looked up, never guessed.
    pub(super) async fn try_commit(&self, draft: Draft) -> Result<Tried, Error> {
        let Draft { mut commit, reasons, written, witness, collision } = draft;
        if let Some((key, reason)) = collision {
            return Ok(Tried::Conflict(Conflict { reason, key, tombstones: Vec::new() }));
        }
        let Some(witness) = witness else { return Ok(Tried::Committed(written)) };
        // What one document writes is in key order, or nearly. A store need not sort the rest again
        // to see that no key stands twice and to write them, least of all while others wait for it.
        if written.len() > 1 {
            commit.writes.sort_unstable_by(|write, other| write.key().cmp(other.key()));
        }
        let commit = Arc::new(commit);
        match self.land(&commit, &witness).await? {
            Landed::Committed => Ok(Tried::Committed(written)),
            Landed::Conflict { check } => conflict_at(check, &commit, &reasons),
        }
    }

    /// Commits, whatever becomes of the reply: a lost one is looked up by what the witness says.
    pub(crate) async fn land(
        &self,
        commit: &Arc<Commit>,
        witness: &Witness,
    ) -> Result<Landed, Error> {
        let mut lost = None;
        // The commit checks what it changes, so a second copy of it never applies twice: it is safe
        // to send it again while there is no trace of the first.
        for _ in 0..OUTCOME_ATTEMPTS_MAX {
            let (conflict, error) = match (self.store.commit(Arc::clone(commit)).await, lost.take())
            {
                (Ok(CommitOutcome::Committed { .. }), _) => return Ok(Landed::Committed),
                (Ok(CommitOutcome::Conflict { check }), None) => {
                    return Ok(Landed::Conflict { check });
                }
                (Ok(CommitOutcome::Conflict { check }), Some(error)) => (Some(check), error),
                (Err(error @ StoreError::OutcomeUnknown { .. }), _) => (None, error),
                (Err(_), Some(error)) => return Err(Error::OutcomeUnknown(error)),
                (Err(error), None) => return Err(error.into()),
            };
            match (self.trace(commit, witness).await, conflict) {
                (Ok(Trace::Written), _) => return Ok(Landed::Committed),
                (Ok(Trace::None), Some(check)) => return Ok(Landed::Conflict { check }),
                (Ok(Trace::None), None) => lost = Some(error),
                (Ok(Trace::Covered) | Err(_), _) => return Err(Error::OutcomeUnknown(error)),
            }
        }
        Err(Error::OutcomeUnknown(lost.expect("only a lost reply is tried again")))
    }

    /// What is left of a commit: versions of a document only grow, also across delete and create,
    /// so a later one covers what this commit may have written, and an earlier one shows that it
    /// wrote nothing.
    async fn trace(&self, commit: &Commit, witness: &Witness) -> Result<Trace, Error> {
        let Witness { key, beside, version } = witness;
        let keys = [key.clone(), beside.clone()];
        let found = self.store.snapshot().await?.get_many(&keys).await?;
        let mut last = 0;
        for (key, stored) in keys.iter().zip(found) {
            let Some(Stored { value, .. }) = stored else { continue };
            let own = Write::Put { key: key.clone(), value };
            if commit.writes.contains(&own) {
                return Ok(Trace::Written);
            }
            let Write::Put { value, .. } = own else { continue };
            last = last.max(version_of(key, &value)?);
        }
        Ok(if last < *version { Trace::None } else { Trace::Covered })
    }

    /// Looks at the key whose check failed and decides: an error, or what to know next time.
    pub(super) async fn learn(
        &self,
        catalog: &Catalog,
        conflict: Conflict,
        creates: &(dyn Fn(usize) -> bool + Sync),
        known: &mut Known,
    ) -> Result<(), Error> {
        let Conflict { reason, key, tombstones } = conflict;
        match reason {
            Reason::Catalog => {
                self.reload_catalog().await?;
            }
            Reason::Changed | Reason::Moved => {}
            // A put names its key: the next attempt finds the document that is there now.
            Reason::Taken { operation } if !operation.is_some_and(creates) => {}
            Reason::Taken { operation } | Reason::MovedOnto { operation } => {
                if self.stored(&key).await?.is_some() {
                    return Err(key_taken(collection_of(catalog, &key)?, &key)?.of(operation));
                }
            }
            Reason::Tombstone => self.learn_tombstones(catalog, &tombstones, known).await?,
            Reason::Claim { operation, unique, collection, generated } => {
                if self.stored(&key).await?.is_none() {
                    return Ok(());
                }
                let Some(held) = catalog.by_id(collection) else { return Ok(()) };
                let Some(claim) = held.uniques.get(unique) else { return Ok(()) };
                if !generated {
                    return Err(taken_error(held, claim, &key).of(operation));
                }
                known.redraw(held, claim, operation)?;
            }
            Reason::DrawnTwice { operation, unique, collection } => {
                let Some(held) = catalog.by_id(collection) else { return Ok(()) };
                if let Some(claim) = held.uniques.get(unique) {
                    known.redraw(held, claim, operation)?;
                }
            }
        }
        Ok(())
    }

    /// Reads all tombstones that a commit could meet: one by one, each would cost an attempt.
    pub(super) async fn learn_tombstones(
        &self,
        catalog: &Catalog,
        keys: &[Vec<u8>],
        known: &mut Known,
    ) -> Result<(), Error> {
        let found = self.store.snapshot().await?.get_many(keys).await?;
        for (key, stored) in keys.iter().zip(found) {
            let (head, packed) = Head::read(key).map_err(|e| Error::corrupt(e.to_string()))?;
            let Some(collection) = catalog.by_id(head.collection) else { continue };
            let document = key_from_claim(collection, packed);
            match stored {
                None => known.tombstones.remove(&document),
                Some(Stored { value, stamp }) => {
                    known.tombstones.insert(document, (Tombstone::decode(&value)?, stamp))
                }
            };
        }
        Ok(())
    }

    async fn stored(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        Ok(self.store.snapshot().await?.get(key).await?)
    }
}

impl Known {
    /// Forgets a generated code that was taken, so that the next attempt draws another one.
    fn redraw(
        &mut self,
        collection: &Collection,
        unique: &Unique,
        operation: Option<usize>,
    ) -> Result<(), Error> {
        let place = operation.unwrap_or(usize::MAX);
        let is_taken = |field| unique.path.sources.contains(&Source::Field(field));
        self.drawn.retain(|(drawn_for, field), _| *drawn_for != place || !is_taken(*field));
        let taken = self.taken.entry(place).or_default();
        *taken += 1;
        if *taken < CODE_ATTEMPTS_MAX {
            return Ok(());
        }
        Err(codes_exhausted(&collection.name, &unique.path.name).of(operation))
    }
}

/// What is left of a commit whose reply was lost.
enum Trace {
    /// What it wrote.
    Written,
    /// Nothing: it did not happen.
    None,
    /// Something later: it happened before that, or not at all.
    Covered,
}

/// How a commit ended in the store.
pub(crate) enum Landed {
    /// It is written.
    Committed,
    /// This check did not hold, and nothing is written.
    Conflict { check: usize },
}

/// How the commit of operations ended.
pub(super) enum Tried {
    Committed(Vec<(usize, Written)>),
    Conflict(Conflict),
}

/// A check that did not hold.
pub(super) struct Conflict {
    reason: Reason,
    key: Vec<u8>,
    /// The keys of all tombstones that the commit could have met.
    tombstones: Vec<Vec<u8>>,
}

fn conflict_at(check: usize, commit: &Commit, reasons: &[Reason]) -> Result<Tried, Error> {
    let (Some(failed), Some(reason)) = (commit.checks.get(check), reasons.get(check)) else {
        return Err(Error::corrupt("the store names a check that was not asked"));
    };
    let tombstones = tombstone_keys(commit, reasons);
    Ok(Tried::Conflict(Conflict { reason: reason.clone(), key: failed.key.clone(), tombstones }))
}

/// The version that a document, an object or a tombstone holds.
fn version_of(key: &[u8], value: &[u8]) -> Result<u64, Error> {
    match Head::read(key).map_err(|error| Error::corrupt(error.to_string()))?.0.space {
        Space::Tombstone => Ok(Tombstone::decode(value)?.version),
        Space::Object => Ok(Metadata::decode(value)?.version),
        _ => Ok(HeadRecord::decode(value)?.version),
    }
}

/// The error of an operation that came alone.
pub(super) fn unwrap_single(error: Error) -> Error {
    match error {
        Error::Batch { source, .. } => *source,
        other => other,
    }
}

/// Refuses what no plan can mend.
pub(super) fn check_request(actor: &Actor, operations: &[Operation]) -> Result<(), Error> {
    if operations.is_empty() {
        return Err(Error::invalid("a batch needs at least one operation"));
    }
    if operations.len() > BATCH_OPERATIONS_MAX {
        return Err(Error::LimitExceeded {
            what: "operations of a batch".to_owned(),
            found: operations.len(),
            max: BATCH_OPERATIONS_MAX,
        });
    }
    actor.subject().map_or(Ok(()), check_subject)
}

fn collection_of<'c>(catalog: &'c Catalog, key: &[u8]) -> Result<&'c Collection, Error> {
    let (head, _) = Head::read(key).map_err(|error| Error::corrupt(error.to_string()))?;
    let collection = catalog.by_id(head.collection);
    let collection = collection.ok_or_else(|| Error::corrupt("the collection is unknown"))?;
    Ok(collection)
}

/// That a document cannot be created because there is one.
pub(super) fn key_taken(collection: &Collection, key: &[u8]) -> Result<Error, Error> {
    let values = collection.key.unpack(key)?;
    Ok(Error::UniqueViolation {
        collection: collection.name.clone(),
        claim: "key".to_owned(),
        value: collection.key.render(&values)?,
    })
}

fn codes_exhausted(collection: &str, unique: &str) -> Error {
    Error::RuleViolation {
        collection: collection.to_owned(),
        field: unique.to_owned(),
        rule: "generate",
        detail: format!(
            "{CODE_ATTEMPTS_MAX} generated codes in a row were taken: use more characters"
        ),
    }
}
