//! Writes of one object: read what is touched, draft, commit; a conflict is planned again.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyloom_key::{EntryKey, ObjectKey, Touched};

use super::draft::{Draft, Grave, Materials, draft, entry_changes, version_after};
use super::outbox::Sequence;
use super::read::{Object, State};
use super::trigger::Fired;
use super::{ObjectAt, Val, checked_event, partition};
use crate::catalog::{Catalog, catalog_key};
use crate::document::Tombstone;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{ENTRY_BATCH_MAX, ENTRY_BYTES_MAX, OBJECT_ENTRIES_MAX, REPLAN_ATTEMPTS_MAX};
use crate::schema::Event;
use crate::write::{Landed, Precondition};

/// What an object is set to or merged with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectContent {
    /// The entries.
    pub entries: BTreeMap<EntryKey, Val>,
    /// What its changes trigger. Without it, set takes away what there was and merge keeps it.
    pub event: Option<Event>,
}

/// Entries that are set and deleted in one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryBatch {
    /// The entries to set.
    pub set: BTreeMap<EntryKey, Val>,
    /// The entries to delete; no effect on those that are absent.
    pub delete: Vec<EntryKey>,
}

/// On which terms an object is written. A [`Precondition`] alone is enough for all but functions
/// that were invoked by an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What must hold of the stored object; nothing said is nothing demanded.
    pub precondition: Precondition,
    /// How many events led to this write; beyond a limit, what it triggers is not delivered.
    pub depth: u32,
}

impl From<Precondition> for Terms {
    fn from(precondition: Precondition) -> Terms {
        Terms { precondition, depth: 0 }
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectWritten {
    /// What happened to the object.
    pub kind: Touched,
    /// The version that it has now; after a delete, the one that will never be used again.
    pub version: u64,
    /// The partition that it is in.
    pub partition: u16,
    /// How many events wait for delivery because of it.
    pub events: usize,
    /// What the caller should know.
    pub warning: Option<&'static str>,
}

/// What a write does to an object.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) scope: Scope,
    pub(super) set: BTreeMap<EntryKey, Val>,
    /// Ascending, each once.
    pub(super) delete: Vec<EntryKey>,
    pub(super) event: EventEdit,
}

impl Edit {
    /// The edit that changes nothing.
    pub(super) fn none() -> Edit {
        let (set, delete) = (BTreeMap::new(), Vec::new());
        Edit { scope: Scope::Named, set, delete, event: EventEdit::Keep }
    }
}

/// What happens to the entries that an edit does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// They stay.
    Named,
    /// They go.
    Replace,
    /// They go, and the object with them.
    Delete,
    /// They stay, and without a named entry nothing happens at all.
    Existing,
    /// They stay, and an absent object stays absent.
    Present,
    /// They stay, and all of them are read: the answer is the whole object.
    Merge,
}

impl Scope {
    /// Whether entries that are not named stay.
    pub(super) fn keeps_unnamed(self) -> bool {
        !matches!(self, Scope::Replace | Scope::Delete)
    }

    /// Whether an absent object is created.
    fn creates(self) -> bool {
        matches!(self, Scope::Named | Scope::Replace | Scope::Merge)
    }
}

/// What an edit did.
pub(super) struct Edited {
    pub(super) written: ObjectWritten,
    /// The object as it is now, if the edit asks for that.
    pub(super) object: Option<Object>,
}

/// What happens to the event configuration.
#[derive(Debug)]
pub(super) enum EventEdit {
    /// It stays.
    Keep,
    /// It becomes this one; an empty one is none.
    Put(Event),
}

impl Engine {
    /// Sets an object: entries that are not named are gone. It is created if it is absent.
    pub async fn set_object(
        &self,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: impl Into<Terms>,
    ) -> Result<ObjectWritten, Error> {
        let ObjectContent { entries: set, event } = content;
        let event = EventEdit::Put(event.unwrap_or_default());
        let edit = Edit { scope: Scope::Replace, set, event, ..Edit::none() };
        Ok(self.edit_object(at, edit, terms.into()).await?.expect("a set always writes").written)
    }

    /// Merges an object with what is stored: entries that are not named stay. It is created if it
    /// is absent.
    pub async fn merge_object(
        &self,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: impl Into<Terms>,
    ) -> Result<ObjectWritten, Error> {
        let edit = merging(Scope::Named, content);
        Ok(self.edit_object(at, edit, terms.into()).await?.expect("a merge always writes").written)
    }

    /// The same, and the whole object as this merge has left it, whatever others do meanwhile.
    pub async fn merged_object(
        &self,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: impl Into<Terms>,
    ) -> Result<(ObjectWritten, Object), Error> {
        let edit = merging(Scope::Merge, content);
        let edited = self.edit_object(at, edit, terms.into()).await?;
        let Edited { written, object } = edited.expect("a merge always writes");
        Ok((written, object.expect("a merge answers with the object")))
    }

    /// Deletes an object; `None` if it is absent.
    pub async fn delete_object(
        &self,
        at: ObjectAt<'_>,
        terms: impl Into<Terms>,
    ) -> Result<Option<ObjectWritten>, Error> {
        let edit = Edit { scope: Scope::Delete, ..Edit::none() };
        Ok(self.edit_object(at, edit, terms.into()).await?.map(|edited| edited.written))
    }

    /// Sets one entry. The object is created if it is absent.
    pub async fn set_entry(
        &self,
        at: ObjectAt<'_>,
        key: EntryKey,
        val: Val,
        terms: impl Into<Terms>,
    ) -> Result<ObjectWritten, Error> {
        let batch = EntryBatch { set: BTreeMap::from([(key, val)]), delete: Vec::new() };
        self.batch_entries(at, batch, terms).await
    }

    /// Deletes one entry; `None` if it or its object is absent, and then nothing is written.
    pub async fn delete_entry(
        &self,
        at: ObjectAt<'_>,
        key: EntryKey,
        terms: impl Into<Terms>,
    ) -> Result<Option<ObjectWritten>, Error> {
        let edit = Edit { scope: Scope::Existing, delete: vec![key], ..Edit::none() };
        Ok(self.edit_object(at, edit, terms.into()).await?.map(|edited| edited.written))
    }

    /// Sets and deletes entries in one commit, or does nothing. The object is created if it is
    /// absent and an entry is set.
    pub async fn batch_entries(
        &self,
        at: ObjectAt<'_>,
        batch: EntryBatch,
        terms: impl Into<Terms>,
    ) -> Result<ObjectWritten, Error> {
        let EntryBatch { set, mut delete } = batch;
        let found = set.len() + delete.len();
        if found > ENTRY_BATCH_MAX {
            let what = "entries of a batch".to_owned();
            return Err(Error::LimitExceeded { what, found, max: ENTRY_BATCH_MAX });
        }
        delete.sort_unstable();
        delete.dedup();
        if let Some(key) = delete.iter().find(|key| set.contains_key(key)) {
            return Err(Error::invalid(format!("entry `{key}` is set and deleted in one batch")));
        }
        let scope = if set.is_empty() { Scope::Present } else { Scope::Named };
        let edit = Edit { scope, set, delete, ..Edit::none() };
        let edited = self.edit_object(at, edit, terms.into()).await?;
        edited.map(|edited| edited.written).ok_or_else(|| missing(at))
    }

    /// Sets what the changes of an object trigger; an empty event takes it away. The object exists.
    pub async fn set_event(
        &self,
        at: ObjectAt<'_>,
        event: Event,
        terms: impl Into<Terms>,
    ) -> Result<ObjectWritten, Error> {
        let edit = Edit { scope: Scope::Present, event: EventEdit::Put(event), ..Edit::none() };
        let edited = self.edit_object(at, edit, terms.into()).await?;
        edited.map(|edited| edited.written).ok_or_else(|| missing(at))
    }

    /// Carries out an edit; `None` if there is nothing to do. Boxed: the state of a write has some
    /// kilobytes, and each of those who wait for it would copy them.
    fn edit_object<'a>(
        &'a self,
        at: ObjectAt<'a>,
        edit: Edit,
        terms: Terms,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Edited>, Error>> + Send + 'a>> {
        Box::pin(self.try_edit(at, edit, terms))
    }

    async fn try_edit(
        &self,
        at: ObjectAt<'_>,
        mut edit: Edit,
        terms: Terms,
    ) -> Result<Option<Edited>, Error> {
        check_sizes(&edit)?;
        if let EventEdit::Put(event) = &mut edit.event {
            *event = checked_event(&self.catalog(), std::mem::take(event))?;
        }
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let Some(draft) = self.draft_edit(&catalog, at, &edit, terms).await? else {
                return Ok(None);
            };
            let Draft { commit, witness, edited, dead } = draft;
            let commit = Arc::new(commit);
            match self.land(&commit, &witness).await? {
                Landed::Committed => {
                    if dead > 0 {
                        let partition = u32::from(edited.written.partition);
                        self.bound_letters(at.class, partition).await;
                    }
                    return Ok(Some(edited));
                }
                Landed::Conflict { check } => {
                    self.replans.fetch_add(1, Ordering::Relaxed);
                    let failed = commit.checks.get(check).map(|check| &check.key);
                    if failed == Some(&catalog_key()) {
                        self.reload_catalog().await?;
                    }
                }
            }
        }
        Err(Error::exhausted())
    }

    /// Reads what an edit touches and drafts its commit.
    async fn draft_edit(
        &self,
        catalog: &Catalog,
        at: ObjectAt<'_>,
        edit: &Edit,
        Terms { precondition, depth }: Terms,
    ) -> Result<Option<Draft>, Error> {
        let class = catalog.class(at.class)?;
        let rollout = &catalog.record.rollout;
        rollout.check_named(at.id)?;
        edit.set.keys().try_for_each(|key| rollout.check_written(key))?;
        let partition = partition(class, at.partition, at.id)?;
        let keys = ObjectKey::new(class.id, partition, at.id);
        let snapshot = self.store.snapshot().await?;
        let state = match edit.scope {
            Scope::Replace | Scope::Delete | Scope::Merge => {
                State::whole(&*snapshot, &keys).await?
            }
            Scope::Named | Scope::Existing | Scope::Present => {
                let mut named: Vec<EntryKey> =
                    edit.set.keys().chain(&edit.delete).cloned().collect();
                named.sort_unstable();
                State::of_entries(&*snapshot, &keys, &named).await?
            }
        };
        check_precondition(at, precondition, state.current().map(|found| found.version))?;
        let mut grave = None;
        let mut warning = None;
        if state.current().is_none() {
            if !edit.scope.creates() {
                return Ok(None);
            }
            warning = rollout.check_created(at.id)?;
            if let Some(stored) = snapshot.get(&keys.tombstone()).await? {
                let Tombstone { version } = Tombstone::decode(&stored.value)?;
                grave = Some(Grave { version, stamp: stored.stamp });
            }
        } else if edit.scope == Scope::Existing && state_lacks(&state, &edit.delete) {
            return Ok(None);
        }
        let time = self.options.system.now_micros() / 1000;
        let version = version_after(self.next_version(), &state, grave);
        let changes = entry_changes(&state, edit);
        let fired = Fired { class, object: at.id, state: &state, edit, depth, time };
        let events = fired.events(&changes, version)?;
        let sequence = match events.is_empty() {
            true => None,
            false => Some(Sequence::read(&*snapshot, class, partition).await?),
        };
        let materials = Materials {
            catalog,
            class,
            partition,
            id: at.id,
            keys: &keys,
            state: &state,
            grave,
            version,
            warning,
        };
        draft(&materials, edit, &changes, sequence.map(|sequence| (sequence, events))).map(Some)
    }
}

/// The edit of a merge.
fn merging(scope: Scope, content: ObjectContent) -> Edit {
    let ObjectContent { entries: set, event } = content;
    let event = event.map_or(EventEdit::Keep, EventEdit::Put);
    Edit { scope, set, event, ..Edit::none() }
}

fn missing(at: ObjectAt<'_>) -> Error {
    Error::NotFound { collection: at.class.to_owned(), key: at.id.to_string() }
}

/// Whether none of these entries is stored.
fn state_lacks(state: &State, keys: &[EntryKey]) -> bool {
    keys.iter().all(|key| state.entry(key).is_none())
}

/// For objects, nothing said is nothing demanded.
fn check_precondition(
    at: ObjectAt<'_>,
    precondition: Precondition,
    stored: Option<u64>,
) -> Result<(), Error> {
    let conflict = |expected| Error::VersionConflict { key: at.id.to_string(), expected, stored };
    match (precondition, stored) {
        (Precondition::Absent, Some(_)) => Err(conflict(None)),
        (Precondition::Version(wanted), stored) if stored != Some(wanted) => {
            Err(conflict(Some(wanted)))
        }
        (Precondition::Any, None) => Err(conflict(None)),
        _ => Ok(()),
    }
}

/// Refuses what no plan can mend.
fn check_sizes(edit: &Edit) -> Result<(), Error> {
    if edit.set.len() > OBJECT_ENTRIES_MAX {
        let what = "entries of an object".to_owned();
        return Err(Error::LimitExceeded { what, found: edit.set.len(), max: OBJECT_ENTRIES_MAX });
    }
    match edit.set.iter().find(|(_, val)| val.data.len() > ENTRY_BYTES_MAX) {
        None => Ok(()),
        Some((key, val)) => Err(Error::LimitExceeded {
            what: format!("bytes of entry `{key}`"),
            found: val.data.len(),
            max: ENTRY_BYTES_MAX,
        }),
    }
}
