//! The claims of one commit: which documents give up, take and refer to.
//!
//! L1: A claim is given up or carried along only by the document that holds it.
//! L2: A claim is taken only if it is free, or given up in the same commit.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use keyloom_key::Head;
use keyloom_store::Expect;

use super::{Builder, Reason};
use crate::catalog::{Catalog, Collection, PathState, Source, Unique};
use crate::error::Error;
use crate::write::change::DocumentChange;

/// A claim that a document takes.
pub(super) struct Taking {
    pub(super) value: Vec<u8>,
    pub(super) held: bool,
    pub(super) reason: Reason,
    operation: Option<usize>,
    generated: bool,
}

impl Builder<'_> {
    /// Adds the claims that a document gives up and takes; `old` and `new` follow from it.
    pub(super) fn add_claims(
        &mut self,
        change: &DocumentChange,
        old: &[(Vec<u8>, usize)],
        new: Vec<(Vec<u8>, usize)>,
    ) -> Result<(), Error> {
        let collection = &change.collection;
        for (key, place) in old {
            let Some(unique) = collection.uniques.get(*place) else { continue };
            let stays = new.iter().any(|(new, _)| new == key);
            if !stays && self.holds(change, unique, key) {
                self.released.insert(key.clone());
            }
        }
        for (key, place) in new {
            let Some(unique) = collection.uniques.get(place) else { continue };
            let stays = old.iter().any(|(old, _)| *old == key);
            if (stays && change.occupied().is_none()) || !unique.in_force(self.materials.mode) {
                continue;
            }
            let held = stays && self.holds(change, unique, &key);
            let others =
                stays && !held && self.materials.fetched.get(&key).is_some_and(Option::is_some);
            // Another document of the same owner holds it, and goes on to.
            if others && unique.one_per_owner.is_some() {
                continue;
            }
            self.take(change, key, place, held)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        change: &DocumentChange,
        key: Vec<u8>,
        place: usize,
        held: bool,
    ) -> Result<(), Error> {
        let (collection, operation) = (&change.collection, change.operation);
        let (Some(document), Some(unique)) = (&change.new, collection.uniques.get(place)) else {
            return Ok(());
        };
        let drawn = |source: &Source| {
            document.generated.iter().any(|field| *source == Source::Field(*field))
        };
        let generated = unique.path.sources.iter().any(drawn);
        let id = collection.id;
        let reason = Reason::Claim { operation, unique: place, collection: id, generated };
        let value = components(&document.key).to_vec();
        let taking = Taking { value, held, reason, operation, generated };
        let other = match self.taken.entry(key) {
            Entry::Vacant(free) => {
                free.insert(taking);
                return Ok(());
            }
            Entry::Occupied(other) => other,
        };
        if !generated && !other.get().generated {
            return Err(taken_error(collection, unique, other.key()));
        }
        let operation = if generated { operation } else { other.get().operation };
        let reason = Reason::DrawnTwice { operation, unique: place, collection: id };
        self.draft.collision = Some((other.key().clone(), reason));
        Ok(())
    }

    /// Whether the old document holds a claim that follows from it. Where that is not certain, the
    /// holder was read, and what was read is checked.
    fn holds(&mut self, change: &DocumentChange, unique: &Unique, key: &[u8]) -> bool {
        if !is_uncertain(unique) {
            return true;
        }
        let found = self.materials.fetched.get(key).and_then(Option::as_ref);
        let own = change.old.as_ref().map(|old| components(&old.key));
        let held = found.is_some_and(|found| Some(found.value.as_slice()) == own);
        let expect = found.map_or(Expect::Absent, |found| Expect::At(found.stamp));
        self.check(key.to_vec(), expect, Reason::Moved);
        held
    }

    pub(super) fn add_references(
        &mut self,
        changes: &[DocumentChange],
        taken: &BTreeMap<Vec<u8>, Taking>,
        released: &BTreeSet<Vec<u8>>,
    ) -> Result<(), Error> {
        let mut checked = BTreeSet::new();
        for change in changes {
            for (key, field) in references(self.materials.catalog, change)? {
                if taken.contains_key(&key) || checked.contains(&key) {
                    continue;
                }
                let held = self.materials.fetched.get(&key).and_then(Option::as_ref);
                let Some(held) = held.filter(|_| !released.contains(&key)) else {
                    return Err(dangling(change, field).of(change.operation));
                };
                self.check(key.clone(), Expect::At(held.stamp), Reason::Moved);
                checked.insert(key);
            }
        }
        Ok(())
    }
}

/// Whether a document may lack a claim that follows from it: while the claim is built it may not be
/// written yet, or be taken by a newer document, and outside of production an owner may have
/// several documents, of which one at most holds the claim per owner.
pub(in crate::write) fn is_uncertain(unique: &Unique) -> bool {
    unique.one_per_owner.is_some() || unique.path.state == PathState::Building
}

/// The claims that a change refers to: packed key and the field that refers. What did not change is
/// not looked at, so a document stays editable when what it refers to is gone.
pub(in crate::write) fn references(
    catalog: &Catalog,
    change: &DocumentChange,
) -> Result<Vec<(Vec<u8>, usize)>, Error> {
    let Some(new) = &change.new else { return Ok(Vec::new()) };
    let mut keys = Vec::new();
    for (place, field) in change.collection.fields.iter().enumerate() {
        let Some(reference) = &field.refers_to else { continue };
        let Some(value) = new.record.scalar(place) else { continue };
        let before = change.old.as_ref().and_then(|old| old.record.scalar(place));
        if before == Some(value) {
            continue;
        }
        let target = catalog.collection(&reference.collection)?;
        let unique = target.uniques.iter().find(|unique| unique.path.name == reference.unique);
        let unique = unique.expect("K1: every reference of a catalog is linked");
        keys.push((unique.path.pack(std::slice::from_ref(value))?, place));
    }
    Ok(keys)
}

/// The error of a claim that another document holds.
pub(in crate::write) fn taken_error(collection: &Collection, unique: &Unique, key: &[u8]) -> Error {
    let value = unique.path.unpack(key).and_then(|values| unique.path.render(&values));
    Error::UniqueViolation {
        collection: collection.name.clone(),
        claim: unique.path.name.clone(),
        value: value.unwrap_or_default(),
    }
}

fn dangling(change: &DocumentChange, field: usize) -> Error {
    let collection = &change.collection;
    let field = collection.fields.get(field);
    let target = field.and_then(|field| field.refers_to.as_ref());
    Error::RuleViolation {
        collection: collection.name.clone(),
        field: field.map_or_else(String::new, |field| field.name.clone()),
        rule: "refers_to",
        detail: target.map_or_else(String::new, |target| {
            format!("there is no such document in `{}`", target.collection)
        }),
    }
}

/// The packed components of a document key.
fn components(key: &[u8]) -> &[u8] {
    key.get(Head::BYTES..).unwrap_or_default()
}
