//! Drives a write to its end: plan, commit, and decide what a conflict or a lost reply means.

use keyloom_store::{CommitOutcome, StoreError};

use super::draft::{Draft, Reason, Witness, taken_error};
use super::prepare::{Known, Request};
use super::{Action, Operation, Written};
use crate::catalog::{Catalog, Collection, Source, Unique};
use crate::document::{HeadRecord, Tombstone};
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::{
    BATCH_OPERATIONS_MAX, CODE_ATTEMPTS_MAX, OUTCOME_ATTEMPTS_MAX, OWNER_BYTES_MAX,
    REPLAN_ATTEMPTS_MAX,
};

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
                    let creates = |operation: usize| {
                        let action = operations.get(operation).map(|operation| &operation.action);
                        matches!(action, Some(Action::Create { .. }))
                    };
                    self.learn(&catalog, conflict, &creates, &mut known).await.map_err(unwrap)?;
                }
            }
        }
        Err(Error::RetriesExhausted { attempts: attempts_max() })
    }

    /// Commits a draft; a lost reply is looked up, never guessed.
    pub(super) async fn try_commit(&self, draft: Draft) -> Result<Tried, Error> {
        let Draft { commit, mut reasons, written, witness, collision } = draft;
        if let Some((key, reason)) = collision {
            return Ok(Tried::Conflict(Conflict { reason, key }));
        }
        let Some(witness) = witness else { return Ok(Tried::Committed(written)) };
        let mut attempts = 0;
        let outcome = loop {
            match self.store.commit(commit.clone()).await {
                Ok(CommitOutcome::Committed { .. }) => break None,
                Ok(CommitOutcome::Conflict { check }) if attempts == 0 => break Some(check),
                // The conflict may be with the first copy of this very commit.
                Ok(CommitOutcome::Conflict { check }) => match self.happened(&witness).await {
                    Ok(true) => break None,
                    Ok(false) => break Some(check),
                    Err(error) => return Err(unknown(error)),
                },
                // The commit checks what it changes, so a second copy of it never applies twice:
                // it is safe to send it again until the store answers.
                Err(error @ StoreError::OutcomeUnknown { .. }) => {
                    attempts += 1;
                    match self.happened(&witness).await {
                        Ok(true) => break None,
                        Ok(false) if attempts < OUTCOME_ATTEMPTS_MAX => {}
                        Ok(false) | Err(_) => return Err(Error::OutcomeUnknown(error)),
                    }
                }
                Err(error) if attempts > 0 => return Err(Error::OutcomeUnknown(error)),
                Err(error) => return Err(error.into()),
            }
        };
        match outcome {
            None => Ok(Tried::Committed(written)),
            Some(check) => {
                let key = commit.checks.into_iter().nth(check).map(|check| check.key);
                let (Some(key), true) = (key, check < reasons.len()) else {
                    return Err(Error::corrupt("the store names a check that was not asked"));
                };
                Ok(Tried::Conflict(Conflict { reason: reasons.swap_remove(check), key }))
            }
        }
    }

    /// Whether the commit with this witness happened.
    async fn happened(&self, witness: &Witness) -> Result<bool, Error> {
        let snapshot = self.store.snapshot().await?;
        let Some(stored) = snapshot.get(&witness.key).await? else { return Ok(false) };
        let version = if witness.tombstone {
            Tombstone::decode(&stored.value)?.version
        } else {
            HeadRecord::decode(&stored.value)?.version
        };
        Ok(version == witness.version)
    }

    /// Looks at the key whose check failed and decides: an error, or what to know next time.
    pub(super) async fn learn(
        &self,
        catalog: &Catalog,
        conflict: Conflict,
        creates: &(dyn Fn(usize) -> bool + Sync),
        known: &mut Known,
    ) -> Result<(), Error> {
        let Conflict { reason, key } = conflict;
        match reason {
            Reason::Catalog => {
                self.reload_catalog().await?;
            }
            Reason::Changed | Reason::Moved => {}
            // A put names its key: the next attempt finds the document that is there now.
            Reason::Taken { operation } if !operation.is_some_and(creates) => {}
            Reason::Taken { operation } | Reason::MovedOnto { operation } => {
                if self.stored(&key).await?.is_some() {
                    return Err(key_taken(catalog, &key)?.of(operation));
                }
            }
            Reason::Tombstone { collection } => {
                let Some(collection) = catalog.by_id(collection) else { return Ok(()) };
                let mut document = Vec::with_capacity(key.len());
                collection.key.head.write(&mut document);
                let packed = key.get(document.len()..).unwrap_or_default();
                document.extend_from_slice(packed);
                match self.stored(&key).await? {
                    None => known.tombstones.remove(&document),
                    Some(stored) => {
                        let tombstone = Tombstone::decode(&stored.value)?;
                        known.tombstones.insert(document, (tombstone, stored.stamp))
                    }
                };
            }
            Reason::Claim { operation, unique, collection, generated } => {
                if self.stored(&key).await?.is_none() {
                    return Ok(());
                }
                let held = catalog.collection(&collection)?;
                let Some(claim) = held.uniques.get(unique) else { return Ok(()) };
                if !generated {
                    return Err(taken_error(held, claim, &key).of(operation));
                }
                known.redraw(held, claim, operation)?;
            }
            Reason::DrawnTwice { operation, unique, collection } => {
                let collection = catalog.collection(&collection)?;
                if let Some(unique) = collection.uniques.get(unique) {
                    known.redraw(collection, unique, operation)?;
                }
            }
        }
        Ok(())
    }

    async fn stored(&self, key: &[u8]) -> Result<Option<keyloom_store::Stored>, Error> {
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
        let drawn = self.drawn.entry(operation.unwrap_or(usize::MAX)).or_default();
        drawn.values.retain(|field, _| !unique.path.sources.contains(&Source::Field(*field)));
        drawn.taken += 1;
        if drawn.taken < CODE_ATTEMPTS_MAX {
            return Ok(());
        }
        Err(codes_exhausted(&collection.name, &unique.path.name).of(operation))
    }
}

/// How a commit ended.
pub(super) enum Tried {
    Committed(Vec<(usize, Written)>),
    Conflict(Conflict),
}

/// A check that did not hold.
pub(super) struct Conflict {
    reason: Reason,
    key: Vec<u8>,
}

/// A read that was to tell the outcome of a commit failed, so it stays unknown.
fn unknown(error: Error) -> Error {
    match error {
        Error::Unavailable(cause) => Error::OutcomeUnknown(cause),
        other => other,
    }
}

/// The attempts after which a write gives up, as errors count them.
pub(super) fn attempts_max() -> u32 {
    u32::try_from(REPLAN_ATTEMPTS_MAX).unwrap_or(u32::MAX)
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
    if let Actor::User(name) = actor
        && (name.is_empty() || name.len() > OWNER_BYTES_MAX || name.contains(char::is_control))
    {
        return Err(Error::invalid(format!(
            "a user has 1 to {OWNER_BYTES_MAX} bytes without control characters"
        )));
    }
    Ok(())
}

fn key_taken(catalog: &Catalog, key: &[u8]) -> Result<Error, Error> {
    let (head, _) =
        keyloom_key::Head::read(key).map_err(|error| Error::corrupt(error.to_string()))?;
    let collection = catalog
        .by_id(head.collection)
        .ok_or_else(|| Error::corrupt("a document of an unknown collection"))?;
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
