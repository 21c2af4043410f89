//! Builds the commit of one edit: pure.
//!
//! D1: The first check is the catalog, then follow the records of the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::{EntryKey, EntryStep, ObjectId, ObjectKey, ObjectStep, Touched};
use keyloom_store::{Check, Commit, Expect, Stamp, Write};

use super::Val;
use super::counter::{Counted, counter_key};
use super::outbox::{Appended, Crowded, OutboxEvent, Sequence};
use super::read::{Layout, Object, State};
use super::record::{Metadata, encode_event};
use super::write::{Edit, Edited, EventEdit, ObjectWritten, Scope};
use crate::catalog::{Catalog, Class, catalog_key};
use crate::document::Tombstone;
use crate::error::Error;
use crate::limits::{OBJECT_BYTES_MAX, OBJECT_ENTRIES_MAX};
use crate::write::Witness;

/// What a draft is built from beside the edit.
pub(super) struct Materials<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) class: &'a Arc<Class>,
    pub(super) partition: u16,
    pub(super) id: &'a ObjectId,
    pub(super) keys: &'a ObjectKey,
    pub(super) state: &'a State,
    /// What is left of an earlier object with this identity.
    pub(super) grave: Option<Grave>,
    /// The version that the object gets.
    pub(super) version: u64,
    pub(super) warning: Option<&'static str>,
}

/// What is left of a deleted object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grave {
    pub(super) version: u64,
    pub(super) stamp: Stamp,
}

/// A commit that is ready to be tried.
pub(super) struct Draft {
    pub(super) commit: Commit,
    pub(super) witness: Witness,
    pub(super) edited: Edited,
    /// How many dead letters it writes.
    pub(super) dead: usize,
}

/// An entry before and after.
pub(super) struct EntryChange<'a> {
    pub(super) key: &'a EntryKey,
    pub(super) kind: Touched,
    /// What it is now; `None` if it is gone.
    pub(super) new: Option<&'a Val>,
}

/// A version above `proposed` and above all that the object ever had (O3).
pub(super) fn version_after(proposed: u64, state: &State, grave: Option<Grave>) -> u64 {
    let last = state.current().map(|it| it.version).or(grave.map(|grave| grave.version));
    proposed.max(last.map_or(0, |last| last.saturating_add(1)))
}

/// Builds the commit.
pub(super) fn draft(
    materials: &Materials<'_>,
    edit: &Edit,
    changes: &[EntryChange<'_>],
    outgoing: Option<(Sequence, Vec<OutboxEvent>)>,
) -> Result<Draft, Error> {
    let Materials { catalog, class, partition, id, keys, state, grave, version, warning } =
        *materials;
    let mut builder = Builder::new(catalog, keys, state, grave, version);
    builder.add_checks();
    builder.move_older(edit);
    for change in changes {
        builder.add_entry(change);
    }
    let kind = match (state.current(), edit.scope) {
        (_, Scope::Delete) => Touched::Deleted,
        (None, _) => Touched::Created,
        (Some(_), _) => Touched::Updated,
    };
    builder.add_event(edit, kind);
    builder.add_object(kind)?;
    builder.add_counters(kind, (class.id, partition), id);
    let entries = changes.iter().map(|it| EntryStep { kind: it.kind, key: it.key.clone() });
    let step = ObjectStep {
        kind,
        class: class.id,
        partition,
        version,
        id: id.clone(),
        entries: entries.collect(),
    };
    builder.commit.changes.push(step.write());
    let mut fired = Appended::default();
    if let Some((sequence, outgoing)) = outgoing {
        let commit = &mut builder.commit;
        fired = sequence.append((class, partition), outgoing, Crowded::Refuse, commit)?;
    }
    let events = fired.all - fired.dead;
    let written = ObjectWritten { kind, version, partition, events, warning };
    let object = (edit.scope == Scope::Merge).then(|| merged(state, edit, partition, &builder));
    Ok(builder.finish(Edited { written, object }, fired.dead))
}

/// The object that a merge leaves: what was read, which the commit checks, and what is set.
fn merged(state: &State, edit: &Edit, partition: u16, builder: &Builder<'_>) -> Object {
    let stored = state.entries.iter().map(|entry| (&entry.key, &entry.val));
    let entries: BTreeMap<&EntryKey, &Val> = stored.chain(&edit.set).collect();
    let event = match &edit.event {
        EventEdit::Keep => state.event.clone(),
        EventEdit::Put(event) => Some(event.clone()).filter(|event| !event.is_empty()),
    };
    Object {
        partition,
        version: builder.metadata.version,
        created_at: builder.metadata.created_at(),
        updated_at: builder.metadata.updated_at(),
        entries: entries.into_iter().map(|(key, val)| (key.clone(), val.clone())).collect(),
        event,
    }
}

/// Builds the commit that moves an object to the new layout, and changes nothing else.
pub(super) fn rewrite(catalog: &Catalog, keys: &ObjectKey, state: &State) -> Result<Commit, Error> {
    let version = state.current().map_or(0, |stored| stored.version);
    let mut builder = Builder::new(catalog, keys, state, None, version);
    builder.add_checks();
    builder.move_older(&Edit::none());
    builder.add_object(Touched::Updated)?;
    Ok(builder.commit)
}

/// The entries that an edit changes, ascending by key. A value that is set to what it is, is none.
pub(super) fn entry_changes<'a>(state: &'a State, edit: &'a Edit) -> Vec<EntryChange<'a>> {
    let mut changes = Vec::with_capacity(edit.set.len() + edit.delete.len());
    for (key, val) in &edit.set {
        let old = state.entry(key);
        if old.is_some_and(|old| old.val == *val) {
            continue;
        }
        let kind = if old.is_some() { Touched::Updated } else { Touched::Created };
        changes.push(EntryChange { key, kind, new: Some(val) });
    }
    let gone = |key: &'a EntryKey| EntryChange { key, kind: Touched::Deleted, new: None };
    if edit.scope.keeps_unnamed() {
        let stored = edit.delete.iter().filter(|key| state.entry(key).is_some());
        changes.extend(stored.map(gone));
    } else {
        let stored = state.entries.iter().map(|entry| &entry.key);
        changes.extend(stored.filter(|key| !edit.set.contains_key(key)).map(gone));
    }
    changes.sort_unstable_by(|one, two| one.key.cmp(two.key));
    changes
}

struct Builder<'a> {
    catalog: &'a Catalog,
    keys: &'a ObjectKey,
    state: &'a State,
    grave: Option<Grave>,
    commit: Commit,
    version: u64,
    metadata: Metadata,
    /// What the entries of each variant grow by.
    grown: [i64; 2],
}

impl<'a> Builder<'a> {
    fn new(
        catalog: &'a Catalog,
        keys: &'a ObjectKey,
        state: &'a State,
        grave: Option<Grave>,
        version: u64,
    ) -> Builder<'a> {
        let stored = state.current().copied();
        let new = Metadata { created: version, ..Metadata::default() };
        let metadata = Metadata { version, ..stored.unwrap_or(new) };
        let (commit, grown) = (Commit::default(), [0, 0]);
        Builder { catalog, keys, state, grave, commit, version, metadata, grown }
    }

    /// The catalog, and everything that says what the object is (O2, O4).
    fn add_checks(&mut self) {
        let Builder { catalog, keys, state, grave, .. } = *self;
        let at = |stamp: Option<Stamp>| stamp.map_or(Expect::Absent, Expect::At);
        self.check(catalog_key(), at(catalog.stamp));
        self.check(keys.metadata(), at(state.metadata.as_ref().map(|(_, stamp)| *stamp)));
        if state.metadata.is_some() {
            return;
        }
        self.check(keys.tombstone(), at(grave.map(|grave| grave.stamp)));
        if let Some(legacy) = keys.legacy() {
            self.check(legacy, at(state.legacy.as_ref().map(|(_, stamp)| *stamp)));
        }
    }

    /// Moves what lies in an older layout, and is not changed anyway, to the new one.
    fn move_older(&mut self, edit: &Edit) {
        let Builder { keys, state, .. } = *self;
        if let (Some(_), Some(legacy)) = (&state.legacy, keys.legacy()) {
            self.commit.writes.push(Write::Delete { key: legacy });
        }
        let shadowed = state.shadowed.iter().filter_map(|key| keys.length_entry(key));
        self.commit.writes.extend(shadowed.map(|key| Write::Delete { key }));
        for old in state.entries.iter().filter(|old| old.layout != Layout::Now) {
            if let (Layout::Length, Some(key)) = (old.layout, keys.length_entry(&old.key)) {
                self.commit.writes.push(Write::Delete { key });
            }
            let stays = match edit.set.get(&old.key) {
                Some(val) => *val == old.val,
                None => edit.scope.keeps_unnamed() && !edit.delete.contains(&old.key),
            };
            if stays {
                self.commit
                    .writes
                    .push(Write::Put { key: keys.entry(&old.key), value: old.val.encode() });
            }
        }
        self.metadata.has_length_entries = false;
    }

    fn add_entry(&mut self, change: &EntryChange<'_>) {
        let Builder { keys, state, .. } = *self;
        let key = keys.entry(change.key);
        let old = state.entry(change.key);
        let old_bytes = old.map_or(0, |old| old.val.data.len() as u64);
        let new_bytes = change.new.map_or(0, |val| val.data.len() as u64);
        self.metadata.bytes = (self.metadata.bytes + new_bytes).saturating_sub(old_bytes);
        match change.new {
            Some(val) => self.commit.writes.push(Write::Put { key, value: val.encode() }),
            None if old.is_some_and(|old| old.layout == Layout::Now) => {
                self.commit.writes.push(Write::Delete { key });
            }
            None => {}
        }
        let delta = match change.kind {
            Touched::Created => 1,
            Touched::Updated => 0,
            Touched::Deleted => -1,
        };
        let [numeric, string] = &mut self.grown;
        *match change.key {
            EntryKey::Numeric(_) => numeric,
            EntryKey::String(_) => string,
        } += delta;
    }

    fn add_event(&mut self, edit: &Edit, kind: Touched) {
        let keys = self.keys;
        let had = self.metadata.has_event;
        match &edit.event {
            EventEdit::Put(event) if !event.is_empty() && kind != Touched::Deleted => {
                self.metadata.has_event = true;
                let value = encode_event(event);
                self.commit.writes.push(Write::Put { key: keys.event(), value });
            }
            EventEdit::Keep if kind != Touched::Deleted => {}
            EventEdit::Put(_) | EventEdit::Keep => {
                self.metadata.has_event = false;
                if had {
                    self.commit.writes.push(Write::Delete { key: keys.event() });
                }
            }
        }
    }

    /// The metadata, or the tombstone of what is deleted.
    fn add_object(&mut self, kind: Touched) -> Result<(), Error> {
        let Builder { keys, state, grave, .. } = *self;
        let [numeric, string] = self.grown;
        self.metadata.numeric = grow(self.metadata.numeric, numeric)?;
        self.metadata.string = grow(self.metadata.string, string)?;
        if kind == Touched::Deleted {
            if state.metadata.is_some() {
                self.commit.writes.push(Write::Delete { key: keys.metadata() });
            }
            let value = Tombstone { version: self.version }.encode();
            self.commit.writes.push(Write::Put { key: keys.tombstone(), value });
            if let (Some(_), Some(key)) = (&state.metadata, keys.directory()) {
                self.commit.writes.push(Write::Delete { key });
            }
            return Ok(());
        }
        at_most("entries of an object", self.metadata.entries(), OBJECT_ENTRIES_MAX)?;
        at_most("bytes of an object", self.metadata.bytes, OBJECT_BYTES_MAX)?;
        let value = self.metadata.encode();
        self.commit.writes.push(Write::Put { key: keys.metadata(), value });
        if grave.is_some() {
            self.commit.writes.push(Write::Delete { key: keys.tombstone() });
        }
        if let (None, Some(key)) = (&state.metadata, keys.directory()) {
            self.commit.writes.push(Write::Put { key, value: Vec::new() });
        }
        Ok(())
    }

    fn add_counters(&mut self, kind: Touched, (class, partition): (u16, u16), id: &ObjectId) {
        let objects = match kind {
            Touched::Created => 1,
            Touched::Updated => 0,
            Touched::Deleted => -1,
        };
        let object = match id {
            ObjectId::Numeric(_) => Counted::NumericObjects,
            ObjectId::String(_) => Counted::StringObjects,
        };
        let [numeric, string] = self.grown;
        let deltas = [
            (object, objects),
            (Counted::NumericEntries, numeric),
            (Counted::StringEntries, string),
        ];
        for (counted, delta) in deltas.into_iter().filter(|(_, delta)| *delta != 0) {
            let key = counter_key(class, partition, counted);
            self.commit.writes.push(Write::Add { key, delta });
        }
    }

    fn check(&mut self, key: Vec<u8>, expect: Expect) {
        self.commit.checks.push(Check { key, expect });
    }

    fn finish(self, edited: Edited, dead: usize) -> Draft {
        let (metadata, tombstone) = (self.keys.metadata(), self.keys.tombstone());
        let (key, beside) = match edited.written.kind {
            Touched::Deleted => (tombstone, metadata),
            Touched::Created | Touched::Updated => (metadata, tombstone),
        };
        let witness = Witness { key, beside, version: self.version };
        Draft { commit: self.commit, witness, edited, dead }
    }
}

fn grow(count: u32, delta: i64) -> Result<u32, Error> {
    u32::try_from(i64::from(count) + delta)
        .map_err(|_| Error::corrupt("an object has fewer entries than it should"))
}

fn at_most(what: &str, found: u64, max: usize) -> Result<(), Error> {
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    if found > max {
        Err(Error::LimitExceeded { what: what.to_owned(), found, max })
    } else {
        Ok(())
    }
}
