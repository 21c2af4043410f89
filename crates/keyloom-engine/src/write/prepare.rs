//! Reads what a write depends on and builds its commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use keyloom_store::{Snapshot, Stamp, Stored};

use super::capacity::make_room;
use super::change::{DocumentChange, OldDocument, facts};
use super::derive::deltas;
use super::draft::{Draft, Guard, Materials, build, is_uncertain, references};
use super::fill::{Generated, Supply};
use super::intent::Intent;
use super::quota::count_changes;
use super::{Action, Operation, Written};
use crate::catalog::Catalog;
use crate::document::{Tombstone, path_keys};
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::read::parse_key;

/// Who asks for what.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) actor: &'a Actor,
    pub(super) operations: &'a [Operation],
}

/// One attempt at a request.
struct Attempt<'a> {
    request: Request<'a>,
    version: u64,
    drawn: &'a mut Generated,
}

/// What earlier attempts at the same write found out.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Tombstones by document key.
    pub(super) tombstones: HashMap<Vec<u8>, (Tombstone, Stamp)>,
    /// What was generated.
    pub(super) drawn: Generated,
    /// How often what was generated was taken by another document, by operation.
    pub(super) taken: BTreeMap<usize, usize>,
}

/// Changes that were decided from the operations alone.
pub(super) struct Decided<'a> {
    pub(super) changes: Vec<DocumentChange>,
    /// Documents that operations found nothing to do with, by operation.
    pub(super) absent: Vec<(usize, Vec<u8>)>,
    /// The version of the commit.
    pub(super) version: u64,
    /// Who asks for them.
    pub(super) actor: &'a Actor,
    /// The membership clock of the set that is replaced.
    pub(super) guard: Option<Guard>,
}

/// Reads from one snapshot, which is opened at the first read: a plain create needs none.
pub(super) struct Reads<'a> {
    engine: &'a Engine,
    snapshot: Option<Box<dyn Snapshot>>,
}

impl Reads<'_> {
    pub(super) async fn snapshot(&mut self) -> Result<&dyn Snapshot, Error> {
        if self.snapshot.is_none() {
            self.snapshot = Some(self.engine.store.snapshot().await?);
        }
        Ok(self.snapshot.as_deref().expect("it was opened above"))
    }

    pub(super) async fn get(&mut self, key: Vec<u8>) -> Result<Option<Stored>, Error> {
        Ok(self.snapshot().await?.get(&key).await?)
    }

    async fn get_many(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>, Error> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.snapshot().await?.get_many(keys).await?)
    }
}

impl Engine {
    /// Plans the commit of all operations.
    pub(super) async fn prepare(
        &self,
        catalog: &Catalog,
        request: Request<'_>,
        known: &mut Known,
    ) -> Result<Draft, Error> {
        let version = self.next_version();
        let mut reads = Reads { engine: self, snapshot: None };
        let attempt = Attempt { request, version, drawn: &mut known.drawn };
        let (changes, absent) = self.decide_all(catalog, attempt, &mut reads).await?;
        let results = absent.iter().map(|(place, _)| (*place, absent_result(request, *place)));
        let results: Vec<_> = results.collect();
        let decided = Decided { changes, absent, version, actor: request.actor, guard: None };
        let mut draft = self.prepare_changes(catalog, decided, known, reads).await?;
        draft.written.extend(results);
        Ok(draft)
    }

    /// Plans the commit of changes that were decided already.
    pub(super) async fn prepare_changes(
        &self,
        catalog: &Catalog,
        decided: Decided<'_>,
        known: &Known,
        mut reads: Reads<'_>,
    ) -> Result<Draft, Error> {
        let Decided { mut changes, absent, version, actor, guard } = decided;
        let quotas = count_changes(&mut reads, actor, &changes).await?;
        let counted = make_room(&mut reads, &mut changes).await?;
        let deltas = deltas(catalog, &changes)?;
        let mut needed: BTreeSet<Vec<u8>> = deltas.keys().cloned().collect();
        for change in &changes {
            let referred = references(catalog, change).map_err(|e| e.of(change.operation))?;
            needed.extend(referred.into_iter().map(|(key, _)| key));
            needed.extend(uncertain_claims(change)?);
        }
        let needed: Vec<Vec<u8>> = needed.into_iter().collect();
        let stored = reads.get_many(&needed).await?;
        let fetched: HashMap<Vec<u8>, Option<Stored>> = needed.into_iter().zip(stored).collect();
        changes.extend(self.derived_changes(deltas, &fetched, version / 1000)?);
        let materials = Materials {
            catalog,
            mode: self.options.mode,
            version,
            fetched: &fetched,
            tombstones: &known.tombstones,
            counted: &counted,
            quotas: &quotas,
            absent: &absent,
            guard: guard.as_ref(),
        };
        build(&materials, changes)
    }

    /// A reader for [`Engine::prepare_changes`].
    pub(super) fn reads(&self) -> Reads<'_> {
        Reads { engine: self, snapshot: None }
    }

    /// What each operation does, and which had nothing to do.
    async fn decide_all(
        &self,
        catalog: &Catalog,
        attempt: Attempt<'_>,
        reads: &mut Reads<'_>,
    ) -> Result<(Vec<DocumentChange>, Vec<(usize, Vec<u8>)>), Error> {
        let Attempt { request: Request { actor, operations }, version, drawn } = attempt;
        let mut keys = Vec::new();
        for (place, operation) in operations.iter().enumerate() {
            let collection = catalog.collection(&operation.collection);
            let collection = collection.map_err(|error| error.of(Some(place)))?;
            if let Some(key) = stored_key(&operation.action) {
                keys.push(parse_key(collection, key).map_err(|error| error.of(Some(place)))?);
            }
        }
        let mut stored = keys.iter().cloned().zip(reads.get_many(&keys).await?);
        let mut changes = Vec::with_capacity(operations.len());
        let mut absent = Vec::new();
        for (place, operation) in operations.iter().enumerate() {
            let collection = catalog.collection(&operation.collection)?;
            let named = stored_key(&operation.action).and_then(|_| stored.next());
            let (key, old) = match named {
                None => (Vec::new(), None),
                Some((key, None)) => (key, None),
                Some((key, Some(Stored { value, stamp }))) => {
                    let old = OldDocument::read(collection, key.clone(), value, stamp)?;
                    (key, Some(old))
                }
            };
            let action = &operation.action;
            let supply = Supply { operation: place, now_millis: version / 1000, drawn };
            let intent = Intent { operation: place, collection, actor, action, old, supply };
            match self.decide(intent).map_err(|error| error.of(Some(place)))? {
                Some(change) => changes.push(change),
                None => absent.push((place, key)),
            }
        }
        Ok((changes, absent))
    }
}

/// The key of the stored document that an operation is about.
fn stored_key(action: &Action) -> Option<&str> {
    match action {
        Action::Create { .. } => None,
        Action::Put { key, .. } | Action::Patch { key, .. } | Action::Delete { key, .. } => {
            Some(key)
        }
    }
}

fn absent_result(request: Request<'_>, operation: usize) -> Written {
    let key = request.operations.get(operation).and_then(|o| stored_key(&o.action));
    Written::Absent { key: key.unwrap_or_default().to_owned() }
}

/// Claims that the old document may hold or not: who holds them has to be read.
fn uncertain_claims(change: &DocumentChange) -> Result<Vec<Vec<u8>>, Error> {
    let Some(old) = &change.old else { return Ok(Vec::new()) };
    // An owner never changes: his claim is touched only if the document goes or moves.
    let stays = change.vacated().is_none();
    let mut keys = Vec::new();
    for unique in change.collection.uniques.iter().filter(|unique| is_uncertain(unique)) {
        if unique.one_per_owner.is_none() || !stays {
            keys.extend(path_keys(&unique.path, &old.record, &facts(&old.head()))?);
        }
    }
    Ok(keys)
}
