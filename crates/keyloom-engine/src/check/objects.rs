//! Checks the objects of a class: what metadata and counters say is what is there.

use std::collections::BTreeMap;

use keyloom_key::{EntryKey, Head, ObjectId, ObjectKey, ObjectRecord, Space, StoredKey};
use keyloom_store::{Check, Direction, Entry, Expect, KeyRange, ScanOptions, Stored, Write};

use super::{CheckRun, Problem};
use crate::catalog::Class;
use crate::error::Error;
use crate::limits::{CHECK_PAGE, CHECK_PROBLEMS_MAX, LARGE_VALUES_PAGE};
use crate::object::{Counted, EventList, LegacyObject, Metadata, counter_key};
use crate::pause::pause;
use crate::read::read_counter;

/// What was counted in a partition, in the order of [`Counted`].
type Counts = [u64; 6];

/// The object whose records are being read.
struct Walk {
    partition: u16,
    id: ObjectId,
    metadata: Option<Stored>,
    /// What its records add up to.
    found: Metadata,
}

impl CheckRun<'_> {
    pub(super) async fn check_class(
        &mut self,
        class: &Class,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        let mut counts: BTreeMap<u16, Counts> = BTreeMap::new();
        let mut walk: Option<Walk> = None;
        for space in [Space::Object, Space::LegacyObject] {
            let head = |template| Head { space, collection: class.id, template };
            let range = KeyRange { from: head(0).whole().0, to: head(u16::MAX).whole().1 };
            let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
            let mut scan = self.snapshot.scan(&range, options).await?;
            loop {
                let page = scan.next(CHECK_PAGE).await?;
                if page.is_empty() {
                    break;
                }
                self.report.keys += page.len() as u64;
                let before = self.report.objects;
                for entry in page {
                    self.check_record(class, entry, &mut walk, &mut counts).await?;
                }
                progress(self.report.objects - before);
            }
            self.finish_object(class, walk.take(), &mut counts).await?;
        }
        self.count_events(class, &mut counts).await?;
        self.check_counters(class, counts).await
    }

    async fn check_record(
        &mut self,
        class: &Class,
        entry: Entry,
        walk: &mut Option<Walk>,
        counts: &mut BTreeMap<u16, Counts>,
    ) -> Result<(), Error> {
        let Ok((_, partition, key)) = StoredKey::read(&entry.key) else {
            self.class_problem(class, "key", entry.key.escape_ascii(), "it is damaged");
            return Ok(());
        };
        match key {
            StoredKey::Record { id, record } => {
                let same = |walk: &Walk| walk.partition == partition && walk.id == id;
                if !walk.as_ref().is_some_and(same) {
                    self.finish_object(class, walk.take(), counts).await?;
                }
                let found = Metadata::default();
                let walk = walk.get_or_insert(Walk { partition, id, metadata: None, found });
                walk.add(record, entry.stored);
            }
            StoredKey::Directory(number) => {
                let keys = ObjectKey::new(class.id, partition, &ObjectId::Numeric(number));
                if self.snapshot.get(&keys.metadata()).await?.is_none() {
                    self.class_problem(class, "directory", number, "its object is absent");
                    let checks = vec![
                        Check { key: keys.metadata(), expect: Expect::Absent },
                        Check { key: entry.key.clone(), expect: Expect::At(entry.stored.stamp) },
                    ];
                    self.mend(checks, vec![Write::Delete { key: entry.key }]).await?;
                }
            }
            StoredKey::Legacy(number) => {
                let Ok(object) = LegacyObject::decode(&entry.stored.value) else {
                    self.class_problem(class, "legacy", number, "it is damaged");
                    return Ok(());
                };
                let id = ObjectId::Numeric(number);
                let metadata = ObjectKey::new(class.id, partition, &id).metadata();
                if self.snapshot.get(&metadata).await?.is_some() {
                    self.class_problem(class, "legacy", number, "it lies in both layouts");
                }
                self.count_object(counts, partition, &id, &object.metadata());
            }
        }
        Ok(())
    }

    /// Compares the metadata of an object with its records, and what stands beside it.
    async fn finish_object(
        &mut self,
        class: &Class,
        walk: Option<Walk>,
        counts: &mut BTreeMap<u16, Counts>,
    ) -> Result<(), Error> {
        let Some(Walk { partition, id, metadata, found }) = walk else { return Ok(()) };
        let Some(stored) = metadata else {
            self.class_problem(class, "entry", &id, "it has no metadata");
            return Ok(());
        };
        self.count_object(counts, partition, &id, &found);
        let keys = ObjectKey::new(class.id, partition, &id);
        let same = Check { key: keys.metadata(), expect: Expect::At(stored.stamp) };
        let Ok(said) = Metadata::decode(&stored.value) else {
            self.class_problem(class, "metadata", &id, "it is damaged");
            return Ok(());
        };
        let found = Metadata { version: said.version, created: said.created, ..found };
        if said != found {
            self.class_problem(class, "metadata", &id, "it does not count what is there");
            let write = Write::Put { key: keys.metadata(), value: found.encode() };
            self.mend(vec![same.clone()], vec![write]).await?;
            // It has another stamp now: what else is wrong is mended by the next check.
            return Ok(());
        }
        if let Some(grave) = self.snapshot.get(&keys.tombstone()).await? {
            self.class_problem(class, "tombstone", &id, "its object exists");
            let check = Check { key: keys.tombstone(), expect: Expect::At(grave.stamp) };
            let write = Write::Delete { key: keys.tombstone() };
            self.mend(vec![same.clone(), check], vec![write]).await?;
        }
        let Some(place) = keys.directory() else { return Ok(()) };
        if self.snapshot.get(&place).await?.is_none() {
            self.class_problem(class, "directory", &id, "it is missing");
            let check = Check { key: place.clone(), expect: Expect::Absent };
            let write = Write::Put { key: place, value: Vec::new() };
            self.mend(vec![same, check], vec![write]).await?;
        }
        Ok(())
    }

    fn count_object(
        &mut self,
        counts: &mut BTreeMap<u16, Counts>,
        partition: u16,
        id: &ObjectId,
        found: &Metadata,
    ) {
        self.report.objects += 1;
        let [numeric_objects, string_objects, numeric, string, ..] =
            counts.entry(partition).or_default();
        match id {
            ObjectId::Numeric(_) => *numeric_objects += 1,
            ObjectId::String(_) => *string_objects += 1,
        }
        *numeric += u64::from(found.numeric);
        *string += u64::from(found.string);
    }

    /// Counts the events that wait for delivery, and the dead letters.
    async fn count_events(
        &mut self,
        class: &Class,
        counts: &mut BTreeMap<u16, Counts>,
    ) -> Result<(), Error> {
        let head = |template| Head { space: Space::Outbox, collection: class.id, template };
        let range = KeyRange { from: head(0).whole().0, to: head(u16::MAX).whole().1 };
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let mut scan = self.snapshot.scan(&range, options).await?;
        loop {
            let page = scan.next(LARGE_VALUES_PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            pause().await;
            self.report.keys += page.len() as u64;
            for entry in page {
                let (head, rest) =
                    Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
                let [.., waiting, dead] = counts.entry(head.template).or_default();
                match EventList::read(rest) {
                    Some(EventList::Waiting) => *waiting += 1,
                    Some(EventList::Dead) => *dead += 1,
                    None => {}
                }
            }
        }
    }

    /// Compares every counter that is stored or should be.
    async fn check_counters(
        &mut self,
        class: &Class,
        mut counts: BTreeMap<u16, Counts>,
    ) -> Result<(), Error> {
        let head = |template| Head { space: Space::Counter, collection: class.id, template };
        let range = KeyRange { from: head(0).whole().0, to: head(u16::MAX).whole().1 };
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let mut scan = self.snapshot.scan(&range, options).await?;
        loop {
            let page = scan.next(CHECK_PAGE).await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                let head = Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?.0;
                counts.entry(head.template).or_default();
            }
        }
        for (partition, counts) in counts {
            for (counted, found) in Counted::ALL.into_iter().zip(counts) {
                let key = counter_key(class.id, partition, counted);
                let stored = self.snapshot.get(&key).await?;
                let said = stored.as_ref().map_or(Ok(0), |stored| read_counter(&stored.value));
                if said.is_ok_and(|said| said == found) {
                    continue;
                }
                let what = "it is not the number of what it counts";
                self.class_problem(class, "counter", key.escape_ascii(), what);
                let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.stamp));
                let check = Check { key: key.clone(), expect };
                let value = found.to_be_bytes().to_vec();
                self.mend(vec![check], vec![Write::Put { key, value }]).await?;
            }
        }
        Ok(())
    }

    fn class_problem(&mut self, class: &Class, path: &str, key: impl ToString, what: &'static str) {
        if self.report.problems.len() < CHECK_PROBLEMS_MAX {
            let (collection, path) = (class.name.clone(), path.to_owned());
            let (key, what) = (key.to_string(), what.to_owned());
            self.report.problems.push(Problem { collection, path, key, what });
        }
    }
}

impl Walk {
    /// Adds up what a record brings.
    fn add(&mut self, record: ObjectRecord, stored: Stored) {
        let found = &mut self.found;
        let bytes = stored.value.len().saturating_sub(1) as u64;
        let key = match record {
            ObjectRecord::Metadata => {
                self.metadata = Some(stored);
                return;
            }
            ObjectRecord::Event => {
                found.has_event = true;
                return;
            }
            ObjectRecord::Entry(key) => key,
            ObjectRecord::LengthEntry(key) => {
                found.has_length_entries = true;
                key
            }
        };
        found.bytes += bytes;
        match key {
            EntryKey::Numeric(_) => found.numeric += 1,
            EntryKey::String(_) => found.string += 1,
        }
    }
}
