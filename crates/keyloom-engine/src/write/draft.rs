//! Builds the commit of all document changes: pure, so that `explain` shows what will run.

mod claims;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use keyloom_key::{Head, Space, Tail, Value};
use keyloom_store::{Check, Commit, Expect, Stamp, Stored, Write};

use super::Written;
use super::change::{DocumentChange, tombstone_key};
use super::explain::spell_key;
use super::keys::{KeyChange, add_index_writes, key_change};
use super::quota::Quota;
use crate::catalog::{Catalog, Collection, catalog_key};
use crate::changes::{ChangeKind, encode_change};
use crate::document::{HeadRecord, Tombstone};
use crate::engine::Mode;
use crate::error::Error;
use crate::read::counter_key;

use claims::Taking;
pub(super) use claims::{is_uncertain, references, taken_error};

/// A commit that is ready to be tried.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) commit: Commit,
    /// For each check of the commit, what it means if it does not hold.
    pub(super) reasons: Vec<Reason>,
    /// (operation, what it did if the commit goes through).
    pub(super) written: Vec<(usize, Written)>,
    /// Tells afterwards whether the commit happened.
    pub(super) witness: Option<Witness>,
    /// A conflict that is known before the store is asked: the key, and what it means.
    pub(super) collision: Option<(Vec<u8>, Reason)>,
}

/// What it means if a check does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The schema changed.
    Catalog,
    /// The document changed since it was read.
    Changed,
    /// The key that a document is created under is taken.
    Taken { operation: Option<usize> },
    /// The key that a document moves to is taken.
    MovedOnto { operation: Option<usize> },
    /// A document with this key was deleted before.
    Tombstone,
    /// A claim is taken.
    Claim { operation: Option<usize>, unique: usize, collection: u16, generated: bool },
    /// Two documents of this commit drew the same code.
    DrawnTwice { operation: Option<usize>, unique: usize, collection: u16 },
    /// Something that was read for this commit moved: a reference, a counter.
    Moved,
}

/// The keys of all tombstones that the documents of a commit could meet.
pub(super) fn tombstone_keys(commit: &Commit, reasons: &[Reason]) -> Vec<Vec<u8>> {
    let checks = commit.checks.iter().zip(reasons);
    let graves = checks.filter(|(_, reason)| **reason == Reason::Tombstone);
    graves.map(|(check, _)| check.key.clone()).collect()
}

/// A record that the commit puts, and where to look for what came after it.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    /// The key of a document or of an object's metadata that is written, or of the tombstone of one
    /// that is deleted.
    pub(crate) key: Vec<u8>,
    /// The other one of the two.
    pub(crate) beside: Vec<u8>,
    pub(crate) version: u64,
}

/// What a draft is built from beside the changes.
pub(super) struct Materials<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) mode: Mode,
    /// The version of this commit; a document may need a higher one.
    pub(super) version: u64,
    /// What was read: claims that are referred to or given up.
    pub(super) fetched: &'a HashMap<Vec<u8>, Option<Stored>>,
    /// Tombstones that were met, by document key.
    pub(super) tombstones: &'a HashMap<Vec<u8>, (Tombstone, Stamp)>,
    /// Counters that have to be exact: collection, stamp, value before.
    pub(super) counted: &'a BTreeMap<u16, (Option<Stamp>, u64)>,
    /// How many changes the caller has made, where that is bounded.
    pub(super) quotas: &'a [Quota],
    /// Documents that operations found nothing to do with.
    pub(super) absent: &'a [(usize, Vec<u8>)],
    /// The membership clock of a set that is replaced, as it was read.
    pub(super) guard: Option<&'a Guard>,
}

/// The membership clock of a set: every commit that adds or removes one of its documents moves it,
/// so that a set which was read whole can be replaced whole.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) key: Vec<u8>,
    pub(super) stamp: Option<Stamp>,
}

/// Builds the commit.
pub(super) fn build(
    materials: &Materials<'_>,
    mut changes: Vec<DocumentChange>,
) -> Result<Draft, Error> {
    check_each_once(materials.catalog, &changes, materials.absent)?;
    let mut builder = Builder::new(materials, changes.len());
    if let Some(stamp) = materials.catalog.stamp {
        builder.check(catalog_key(), Expect::At(stamp), Reason::Catalog);
    }
    if let Some(guard) = materials.guard {
        let expect = guard.stamp.map_or(Expect::Absent, Expect::At);
        builder.check(guard.key.clone(), expect, Reason::Moved);
    }
    for change in &mut changes {
        let operation = change.operation;
        builder.add(change).map_err(|error| error.of(operation))?;
    }
    builder.finish(&changes)
}

struct Builder<'a> {
    materials: &'a Materials<'a>,
    draft: Draft,
    /// Claims that some document gives up in this commit.
    released: BTreeSet<Vec<u8>>,
    /// Claims that some document takes: key, value, and whether it held it before.
    taken: BTreeMap<Vec<u8>, Taking>,
}

impl<'a> Builder<'a> {
    fn new(materials: &'a Materials<'a>, changes: usize) -> Builder<'a> {
        // What a document with a claim and a few indexes needs.
        let (checks, writes) = (4 * changes, 8 * changes);
        let commit = Commit {
            checks: Vec::with_capacity(checks),
            writes: Vec::with_capacity(writes),
            changes: Vec::with_capacity(changes),
        };
        let reasons = Vec::with_capacity(checks);
        let written = Vec::with_capacity(changes);
        Builder {
            materials,
            draft: Draft { commit, reasons, written, ..Draft::default() },
            released: BTreeSet::new(),
            taken: BTreeMap::new(),
        }
    }

    fn check(&mut self, key: Vec<u8>, expect: Expect, reason: Reason) {
        self.draft.commit.checks.push(Check { key, expect });
        self.draft.reasons.push(reason);
    }

    fn write(&mut self, write: Write) {
        self.draft.commit.writes.push(write);
    }

    /// Adds a change; the data of the document goes on into what the operation is answered.
    fn add(&mut self, change: &mut DocumentChange) -> Result<(), Error> {
        let tombstone = change.occupied().and_then(|key| self.materials.tombstones.get(key));
        let floor = change.old_version().max(tombstone.map(|(tombstone, _)| tombstone.version));
        let version = self.materials.version.max(floor.map_or(0, |floor| floor + 1));
        let created = change.old.as_ref().map_or(version, |old| old.head().created);
        let head = change.new.as_ref().map(|new| new.head(version, created));
        self.add_document(change, head.as_ref(), version);
        let KeyChange { old, new } = key_change(change, head.as_ref())?;
        self.add_claims(change, &old.claims, new.claims)?;
        add_index_writes(&old.indexes, new.indexes, &mut self.draft.commit.writes);
        self.add_changes(change, version);
        let Some(operation) = change.operation else { return Ok(()) };
        let collection = &change.collection;
        let written = match (&change.old, &mut change.new) {
            (old, Some(new)) => {
                let document = new.take_document(collection, version, created)?;
                if old.is_some() { Written::Updated(document) } else { Written::Created(document) }
            }
            (Some(old), None) => {
                let key = collection.key.render(&collection.key.unpack(&old.key)?)?;
                Written::Deleted { key, version }
            }
            (None, None) => return Ok(()),
        };
        self.draft.written.push((operation, written));
        Ok(())
    }

    /// The document itself: its head, and tombstones where it came from and goes to.
    fn add_document(
        &mut self,
        change: &DocumentChange,
        head: Option<&HeadRecord<'_>>,
        version: u64,
    ) {
        let id = change.collection.id;
        if let Some(old) = &change.old {
            self.check(old.key.clone(), Expect::At(old.stamp), Reason::Changed);
        }
        if let Some(key) = change.occupied() {
            let operation = change.operation;
            let reason = match change.old {
                None => Reason::Taken { operation },
                Some(_) => Reason::MovedOnto { operation },
            };
            self.check(key.to_vec(), Expect::Absent, reason);
            let grave = tombstone_key(key, id);
            let reason = Reason::Tombstone;
            match self.materials.tombstones.get(key) {
                None => self.check(grave, Expect::Absent, reason),
                Some((_, stamp)) => {
                    self.check(grave.clone(), Expect::At(*stamp), reason);
                    self.write(Write::Delete { key: grave });
                }
            }
        }
        if let Some(key) = change.vacated() {
            self.write(Write::Delete { key: key.to_vec() });
            let value = Tombstone { version }.encode();
            self.write(Write::Put { key: tombstone_key(key, id), value });
        }
        if let (Some(new), Some(head)) = (&change.new, head) {
            self.write(Write::Put { key: new.key.clone(), value: head.encode() });
        }
        // One record tells of the whole commit.
        if self.draft.witness.is_some() {
            return;
        }
        let witness = match (&change.new, change.vacated()) {
            (Some(new), _) => Some((new.key.clone(), tombstone_key(&new.key, id))),
            (None, Some(key)) => Some((tombstone_key(key, id), key.to_vec())),
            (None, None) => None,
        };
        self.draft.witness = witness.map(|(key, beside)| Witness { key, beside, version });
    }

    fn add_changes(&mut self, change: &DocumentChange, version: u64) {
        let collection = &change.collection;
        let subjects = change.subjects();
        let mut record = |kind, key: &[u8]| {
            let packed = key.get(Head::BYTES..).unwrap_or_default();
            let bytes = encode_change(kind, collection.id, version, subjects.as_deref(), packed);
            self.draft.commit.changes.push(bytes);
        };
        if let Some(key) = change.vacated() {
            record(ChangeKind::Deleted, key);
        }
        if let Some(new) = &change.new {
            let created = change.occupied().is_some();
            record(if created { ChangeKind::Created } else { ChangeKind::Updated }, &new.key);
        }
    }

    fn finish(mut self, changes: &[DocumentChange]) -> Result<Draft, Error> {
        let taken = std::mem::take(&mut self.taken);
        let released = std::mem::take(&mut self.released);
        self.add_references(changes, &taken, &released)?;
        for key in released.iter().filter(|key| !taken.contains_key(*key)) {
            self.write(Write::Delete { key: key.clone() });
        }
        for (key, Taking { value, held, reason, .. }) in taken {
            // A claim that this commit takes over from another of its documents is free as soon as
            // that document is checked, which it is.
            if !held && !released.contains(&key) {
                self.check(key.clone(), Expect::Absent, reason);
            }
            self.write(Write::Put { key, value });
        }
        self.add_counters(changes);
        for Quota { key, stamp, after } in self.materials.quotas {
            let expect = stamp.map_or(Expect::Absent, Expect::At);
            self.check(key.clone(), expect, Reason::Moved);
            self.write(Write::Put { key: key.clone(), value: after.to_be_bytes().to_vec() });
        }
        for key in guards(changes)? {
            self.write(Write::Add { key, delta: 1 });
        }
        Ok(self.draft)
    }

    fn add_counters(&mut self, changes: &[DocumentChange]) {
        // A commit is about a few collections.
        let mut deltas: Vec<(u16, i64)> = Vec::new();
        for change in changes {
            let (id, delta) = (change.collection.id, change.count_delta());
            match deltas.iter_mut().find(|(known, _)| *known == id) {
                Some((_, sum)) => *sum += delta,
                None => deltas.push((id, delta)),
            }
        }
        deltas.sort_unstable();
        for (id, delta) in deltas.into_iter().filter(|(_, delta)| *delta != 0) {
            let key = counter_key(id);
            let Some((stamp, count)) = self.materials.counted.get(&id) else {
                self.write(Write::Add { key, delta });
                continue;
            };
            let expect = stamp.map_or(Expect::Absent, Expect::At);
            self.check(key.clone(), expect, Reason::Moved);
            let count = count.saturating_add_signed(delta);
            self.write(Write::Put { key, value: count.to_be_bytes().to_vec() });
        }
    }
}

/// The key of the membership clock of a set: the leading components of its documents' keys.
pub(super) fn guard_key(collection: &Collection, leading: &[Value]) -> Result<Vec<u8>, Error> {
    let template = u16::try_from(leading.len()).unwrap_or(u16::MAX);
    let head = Head { space: Space::Counter, collection: collection.id, template };
    let span = collection.key.template.span(leading, &Tail::All);
    let mut packed = span.map_err(|error| Error::invalid(error.to_string()))?.from;
    let mut key = Vec::with_capacity(8 + packed.len());
    head.write(&mut key);
    key.append(&mut packed);
    Ok(key)
}

/// The membership clocks that the changes move, once each.
fn guards(changes: &[DocumentChange]) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut guards = BTreeSet::new();
    for change in changes.iter().filter(|change| !change.collection.sets.is_empty()) {
        let collection = &change.collection;
        for key in change.occupied().into_iter().chain(change.vacated()) {
            let values = collection.key.unpack(key)?;
            for set in &collection.sets {
                let leading = values.get(..set.bound).expect("K1: a set has fewer components");
                guards.insert(guard_key(collection, leading)?);
            }
        }
    }
    Ok(guards)
}

impl Error {
    /// The same error, naming the operation that it belongs to.
    pub(super) fn of(self, operation: Option<usize>) -> Error {
        match (operation, self) {
            (Some(operation), error) if !matches!(error, Error::Batch { .. }) => {
                Error::Batch { operation, source: Box::new(error) }
            }
            (_, error) => error,
        }
    }
}

/// One commit takes each document once: what two operations on it mean together is anybody's guess.
/// `absent` are documents that an operation found nothing to do with, by operation.
fn check_each_once(
    catalog: &Catalog,
    changes: &[DocumentChange],
    absent: &[(usize, Vec<u8>)],
) -> Result<(), Error> {
    if changes.len() + absent.len() == 1 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    let absent = absent.iter().map(|(operation, key)| (Some(*operation), key.as_slice()));
    let changed = changes.iter().flat_map(|c| c.keys().map(|key| (c.operation, key)));
    for (operation, key) in absent.chain(changed) {
        if !seen.insert(key) {
            let (_, key) = spell_key(catalog, key)?;
            let detail = format!("document `{key}` is written twice in one batch");
            return Err(Error::invalid(detail).of(operation));
        }
    }
    Ok(())
}
