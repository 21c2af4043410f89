//! Reads of one object.
//!
//! R1: A value is one `get_many` of the metadata and the entry; an object is one scan of one range,
//!     and so are many of its values. Only what lies in an older layout, or far apart in a large
//!     object, costs a second read.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use keyloom_key::{EntryKey, ObjectKey, ObjectRecord};
use keyloom_store::{Direction, Entries, Entry, KeyRange, ScanOptions, Snapshot, Stamp, Stored};

use super::record::{LegacyObject, Metadata, decode_event};
use super::{ObjectAt, Val, partition};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{GET_MANY_KEYS_MAX, OBJECT_ENTRIES_MAX, SCANNED_KEYS_MIN};
use crate::schema::Event;

/// A whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The partition that it is in.
    pub partition: u16,
    /// Grows with every change, also across delete and create.
    pub version: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// Milliseconds since 1970.
    pub updated_at: u64,
    /// Its entries, ascending by key.
    pub entries: Vec<(EntryKey, Val)>,
    /// What its changes trigger.
    pub event: Option<Event>,
}

/// Some entries of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntriesRead {
    /// The version of the object.
    pub version: u64,
    /// The values in the order of their keys; an absent one is `None` in its place.
    pub values: Vec<Option<Val>>,
}

/// What is stored of an object, as far as it was asked for.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) metadata: Option<(Metadata, Stamp)>,
    /// Set if the object lies in the oldest layout.
    pub(super) legacy: Option<(Metadata, Stamp)>,
    pub(super) event: Option<Event>,
    /// Ascending by key.
    pub(super) entries: Vec<OldEntry>,
    /// Entries that lie in the older layout as well, where they no longer count.
    pub(super) shadowed: Vec<EntryKey>,
}

/// A stored entry.
#[derive(Debug)]
pub(super) struct OldEntry {
    pub(super) key: EntryKey,
    pub(super) val: Val,
    pub(super) layout: Layout,
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Under the key that is written today.
    Now,
    /// Under the key that begins with its length.
    Length,
    /// In the record of the whole object.
    Legacy,
}

impl Engine {
    /// A whole object.
    pub async fn object(&self, at: ObjectAt<'_>) -> Result<Option<Object>, Error> {
        let (keys, partition) = self.object_keys(at)?;
        let snapshot = self.store.snapshot().await?;
        let state = State::whole(&*snapshot, &keys).await?;
        let Some(metadata) = state.current().copied() else { return Ok(None) };
        self.count_layout(state.is_older());
        let entries = state.entries.into_iter().map(|entry| (entry.key, entry.val)).collect();
        Ok(Some(Object {
            partition,
            version: metadata.version,
            created_at: metadata.created_at(),
            updated_at: metadata.updated_at(),
            entries,
            event: state.event,
        }))
    }

    /// One entry of an object, beside the object's version; `None` if there is no such object.
    pub async fn entry(
        &self,
        at: ObjectAt<'_>,
        key: &EntryKey,
    ) -> Result<Option<(u64, Option<Val>)>, Error> {
        let read = self.entries(at, std::slice::from_ref(key)).await?;
        Ok(read.map(|mut read| (read.version, read.values.pop().flatten())))
    }

    /// Some entries of an object; `None` if there is no such object.
    pub async fn entries(
        &self,
        at: ObjectAt<'_>,
        keys: &[EntryKey],
    ) -> Result<Option<EntriesRead>, Error> {
        if keys.len() > GET_MANY_KEYS_MAX {
            let what = "keys of a get".to_owned();
            return Err(Error::LimitExceeded { what, found: keys.len(), max: GET_MANY_KEYS_MAX });
        }
        // Each would be another copy of the value.
        let mut seen = HashSet::with_capacity(keys.len());
        if let Some(key) = keys.iter().find(|key| !seen.insert(*key)) {
            return Err(Error::invalid(format!("the entry `{key}` is asked for twice")));
        }
        let (object, _) = self.object_keys(at)?;
        let snapshot = self.store.snapshot().await?;
        let (metadata, found) = current_entries(&*snapshot, &object, keys).await?;
        let Some((metadata, _)) = metadata else {
            let Some((legacy, _)) = legacy(&*snapshot, &object).await? else { return Ok(None) };
            self.count_layout(true);
            let find = |key| legacy.entries.iter().find(|(stored, _)| stored == key);
            let values = keys.iter().map(|key| find(key).map(|(_, val)| val.clone())).collect();
            return Ok(Some(EntriesRead { version: legacy.version, values }));
        };
        let mut values = Vec::with_capacity(keys.len());
        for stored in found {
            values.push(stored.map(|stored| Val::decode(stored.value)).transpose()?);
        }
        self.count_layout(metadata.has_length_entries);
        if metadata.has_length_entries {
            read_older(&*snapshot, &object, keys, &mut values).await?;
        }
        Ok(Some(EntriesRead { version: metadata.version, values }))
    }

    /// Counts a read that found an object in an older layout.
    fn count_layout(&self, is_older: bool) {
        self.legacy_reads.fetch_add(u64::from(is_older), Ordering::Relaxed);
    }

    /// The keys of an object that a request names, and its partition.
    pub(super) fn object_keys(&self, at: ObjectAt<'_>) -> Result<(ObjectKey, u16), Error> {
        let catalog = self.catalog();
        let class = catalog.class(at.class)?;
        catalog.record.rollout.check_named(at.id)?;
        let partition = partition(class, at.partition, at.id)?;
        Ok((ObjectKey::new(class.id, partition, at.id), partition))
    }
}

impl State {
    /// What is stored of an object, with all entries.
    pub(super) async fn whole(snapshot: &dyn Snapshot, keys: &ObjectKey) -> Result<State, Error> {
        let (from, to) = keys.records();
        // Metadata and event beside the entries, and one more to find out an object that is too
        // large: only a damaged one can be.
        let limit = OBJECT_ENTRIES_MAX + 3;
        let options = ScanOptions { direction: Direction::Forward, limit };
        let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
        let page = scan.next(limit).await?;
        if page.is_empty() {
            return State::oldest(snapshot, keys).await;
        }
        if page.len() == limit {
            return Err(Error::corrupt("an object has more entries than it may"));
        }
        let mut state = State::of_page(keys, page)?;
        if state.entries.iter().any(|entry| entry.layout == Layout::Length) {
            state.entries.sort_by(|one, two| one.key.cmp(&two.key));
            // An entry that lies in both layouts was written since: the new one holds.
            state.entries.dedup_by(|later, first| {
                let same = later.key == first.key;
                if same {
                    state.shadowed.push(first.key.clone());
                }
                if same && first.layout == Layout::Length {
                    std::mem::swap(later, first);
                }
                same
            });
        }
        Ok(state)
    }

    /// What some records of an object say; the metadata is one of them.
    fn of_page(keys: &ObjectKey, page: Entries) -> Result<State, Error> {
        let mut state = State { entries: Vec::with_capacity(page.len()), ..State::default() };
        for Entry { key, stored } in page {
            match keys.read(&key).map_err(|error| Error::corrupt(error.to_string()))? {
                ObjectRecord::Metadata => {
                    state.metadata = Some((Metadata::decode(&stored.value)?, stored.stamp));
                }
                ObjectRecord::Event => state.event = Some(decode_event(&stored.value)?),
                ObjectRecord::Entry(key) => state.add(key, stored, Layout::Now)?,
                ObjectRecord::LengthEntry(key) => state.add(key, stored, Layout::Length)?,
            }
        }
        if state.metadata.is_none() {
            return Err(Error::corrupt("an object has entries, but no metadata"));
        }
        Ok(state)
    }

    /// What is stored of an object, with these entries at least. The keys ascend.
    pub(super) async fn of_entries(
        snapshot: &dyn Snapshot,
        object: &ObjectKey,
        keys: &[EntryKey],
    ) -> Result<State, Error> {
        match keys.last() {
            Some(last) if keys.len() >= SCANNED_KEYS_MIN => {
                State::scanned(snapshot, object, keys, last).await
            }
            _ => State::looked_up(snapshot, object, keys).await,
        }
    }

    /// The same in one scan, which costs less than as many single reads while the entries that
    /// nobody asked for are not too many.
    async fn scanned(
        snapshot: &dyn Snapshot,
        object: &ObjectKey,
        keys: &[EntryKey],
        last: &EntryKey,
    ) -> Result<State, Error> {
        let (from, to) = object.records_through(last);
        let limit = 2 * keys.len();
        let options = ScanOptions { direction: Direction::Forward, limit };
        let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
        let page = scan.next(limit).await?;
        let Some(end) = page.iter().last().map(|(key, _)| key.to_vec()) else {
            return State::oldest(snapshot, object).await;
        };
        let is_cut = page.len() == limit;
        let mut state = State::of_page(object, page)?;
        if state.is_older() || state.entries.iter().any(|entry| entry.layout != Layout::Now) {
            return State::whole(snapshot, object).await;
        }
        if is_cut {
            let missing = keys.iter().map(|key| (key, object.entry(key)));
            let (keys, asked): (Vec<_>, Vec<_>) = missing.filter(|(_, row)| *row > end).unzip();
            for (key, stored) in keys.into_iter().zip(snapshot.get_many(&asked).await?) {
                if let Some(stored) = stored {
                    state.add(key.clone(), stored, Layout::Now)?;
                }
            }
        }
        Ok(state)
    }

    /// The same in one read of all keys.
    async fn looked_up(
        snapshot: &dyn Snapshot,
        object: &ObjectKey,
        keys: &[EntryKey],
    ) -> Result<State, Error> {
        let (metadata, found) = current_entries(snapshot, object, keys).await?;
        let Some((metadata, stamp)) = metadata else {
            return State::oldest(snapshot, object).await;
        };
        if metadata.has_length_entries {
            return State::whole(snapshot, object).await;
        }
        let mut state = State { metadata: Some((metadata, stamp)), ..State::default() };
        if metadata.has_event {
            let event = snapshot.get(&object.event()).await?;
            state.event = event.map(|event| decode_event(&event.value)).transpose()?;
        }
        for (key, stored) in keys.iter().zip(found) {
            if let Some(stored) = stored {
                state.add(key.clone(), stored, Layout::Now)?;
            }
        }
        Ok(state)
    }

    async fn oldest(snapshot: &dyn Snapshot, keys: &ObjectKey) -> Result<State, Error> {
        let Some((object, stamp)) = legacy(snapshot, keys).await? else {
            return Ok(State::default());
        };
        let old = |(key, val)| OldEntry { key, val, layout: Layout::Legacy };
        Ok(State {
            legacy: Some((object.metadata(), stamp)),
            entries: object.entries.into_iter().map(old).collect(),
            ..State::default()
        })
    }

    /// The metadata, whatever the layout.
    pub(super) fn current(&self) -> Option<&Metadata> {
        self.metadata.as_ref().or(self.legacy.as_ref()).map(|(metadata, _)| metadata)
    }

    /// Whether the object lies in an older layout.
    pub(super) fn is_older(&self) -> bool {
        self.legacy.is_some() || self.current().is_some_and(|it| it.has_length_entries)
    }

    /// A stored entry.
    pub(super) fn entry(&self, key: &EntryKey) -> Option<&OldEntry> {
        let place = self.entries.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
        self.entries.get(place)
    }

    fn add(&mut self, key: EntryKey, stored: Stored, layout: Layout) -> Result<(), Error> {
        let val = Val::decode(stored.value)?;
        self.entries.push(OldEntry { key, val, layout });
        Ok(())
    }
}

/// The metadata and some entries where they are written today.
async fn current_entries(
    snapshot: &dyn Snapshot,
    object: &ObjectKey,
    keys: &[EntryKey],
) -> Result<(Option<(Metadata, Stamp)>, Vec<Option<Stored>>), Error> {
    let mut asked = Vec::with_capacity(1 + keys.len());
    asked.push(object.metadata());
    asked.extend(keys.iter().map(|key| object.entry(key)));
    let mut found = snapshot.get_many(&asked).await?;
    if found.is_empty() {
        return Err(Error::corrupt("the store answered with fewer values than were asked for"));
    }
    let metadata = found.remove(0);
    let metadata =
        metadata.map(|stored| Ok::<_, Error>((Metadata::decode(&stored.value)?, stored.stamp)));
    Ok((metadata.transpose()?, found))
}

/// Fills in values that lie in the older layout.
async fn read_older(
    snapshot: &dyn Snapshot,
    object: &ObjectKey,
    keys: &[EntryKey],
    values: &mut [Option<Val>],
) -> Result<(), Error> {
    let missing = keys.iter().zip(values).filter(|(_, value)| value.is_none());
    let (asked, places): (Vec<_>, Vec<_>) =
        missing.filter_map(|(key, place)| Some((object.length_entry(key)?, place))).unzip();
    for (place, stored) in places.into_iter().zip(snapshot.get_many(&asked).await?) {
        *place = stored.map(|stored| Val::decode(stored.value)).transpose()?;
    }
    Ok(())
}

/// The object in the oldest layout.
async fn legacy(
    snapshot: &dyn Snapshot,
    object: &ObjectKey,
) -> Result<Option<(LegacyObject, Stamp)>, Error> {
    let Some(key) = object.legacy() else { return Ok(None) };
    let Some(stored) = snapshot.get(&key).await? else { return Ok(None) };
    Ok(Some((LegacyObject::decode(&stored.value)?, stored.stamp)))
}
