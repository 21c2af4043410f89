//! What is counted of a class, partition by partition: statistics without reading objects.

use keyloom_key::{Head, Space};
use keyloom_store::{Check, Commit, Direction, Expect, KeyRange, ScanOptions, Snapshot, Write};

use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::COUNTERS_PAGE;
use crate::read::read_counter;

/// What a counter counts; its number is the last byte of the counter's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Counted {
    NumericObjects = 0,
    StringObjects = 1,
    NumericEntries = 2,
    StringEntries = 3,
    WaitingEvents = 4,
    DeadLetters = 5,
}

/// How much there is of a class, or of one of its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Objects with numeric identities.
    pub numeric_objects: u64,
    /// Objects with string identities.
    pub string_objects: u64,
    /// Entries with numeric keys.
    pub numeric_entries: u64,
    /// Entries with string keys.
    pub string_entries: u64,
    /// Events that wait for delivery.
    pub waiting_events: u64,
    /// Events that could not be delivered.
    pub dead_letters: u64,
}

impl Engine {
    /// How much there is of a class, by partition; partitions without anything are left out.
    pub async fn class_stats(&self, class: &str) -> Result<Vec<(u16, ObjectStats)>, Error> {
        let catalog = self.catalog();
        let class = catalog.class(class)?;
        let head = |template| Head { space: Space::Counter, collection: class.id, template };
        let range = KeyRange { from: head(0).whole().0, to: head(u16::MAX).whole().1 };
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let mut scan = self.store.snapshot().await?.scan(&range, options).await?;
        let mut stats: Vec<(u16, ObjectStats)> = Vec::new();
        loop {
            let page = scan.next(COUNTERS_PAGE).await?;
            if page.is_empty() {
                stats.retain(|(_, stats)| *stats != ObjectStats::default());
                return Ok(stats);
            }
            for entry in page {
                let (head, rest) =
                    Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
                if stats.last().is_none_or(|(partition, _)| *partition != head.template) {
                    stats.push((head.template, ObjectStats::default()));
                }
                if let (Some((_, stats)), [kind]) = (stats.last_mut(), rest) {
                    stats.set(*kind, &entry.stored.value)?;
                }
            }
        }
    }
}

impl Counted {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Counted; 6] = [
        Counted::NumericObjects,
        Counted::StringObjects,
        Counted::NumericEntries,
        Counted::StringEntries,
        Counted::WaitingEvents,
        Counted::DeadLetters,
    ];
}

impl ObjectStats {
    fn set(&mut self, kind: u8, value: &[u8]) -> Result<(), Error> {
        match kind {
            0 => self.numeric_objects = read_counter(value)?,
            1 => self.string_objects = read_counter(value)?,
            2 => self.numeric_entries = read_counter(value)?,
            3 => self.string_entries = read_counter(value)?,
            4 => self.waiting_events = read_events(value)?,
            5 => self.dead_letters = read_events(value)?,
            _ => return Err(Error::corrupt("a counter of an unknown kind")),
        }
        Ok(())
    }
}

/// Whether a class has any objects, in whatever layout and whether or not they are counted.
pub(crate) async fn has_objects(snapshot: &dyn Snapshot, class: u16) -> Result<bool, Error> {
    for space in [Space::Object, Space::LegacyObject] {
        let head = |template| Head { space, collection: class, template };
        let range = KeyRange { from: head(0).whole().0, to: head(u16::MAX).whole().1 };
        let options = ScanOptions { direction: Direction::Forward, limit: 1 };
        if !snapshot.scan(&range, options).await?.next(1).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// That nobody has created an object of a class: whoever does moves one of these counters.
pub(crate) async fn uncreated(snapshot: &dyn Snapshot, class: &Class) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    for partition in 0..class.schema.partitions {
        let partition = class.partition(partition).map_err(Error::corrupt)?;
        let counters = [Counted::NumericObjects, Counted::StringObjects];
        let keys = counters.map(|counted| counter_key(class.id, partition, counted));
        let found = snapshot.get_many(&keys).await?;
        for (key, stored) in keys.into_iter().zip(found) {
            let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.stamp));
            checks.push(Check { key, expect });
        }
    }
    Ok(checks)
}

/// Where something is counted.
pub(crate) fn counter_key(class: u16, partition: u16, counted: Counted) -> Vec<u8> {
    let mut key = Vec::with_capacity(6);
    Head { space: Space::Counter, collection: class, template: partition }.write(&mut key);
    key.push(counted as u8);
    key
}

/// The value of a counter of events. Those that were there before events were counted take it below
/// zero when they go, until a check has counted the others.
pub(crate) fn read_events(value: &[u8]) -> Result<u64, Error> {
    let bytes = <[u8; 8]>::try_from(value);
    let count = bytes.map_err(|_| Error::corrupt("a counter does not have 8 bytes"))?;
    Ok(u64::try_from(i64::from_be_bytes(count)).unwrap_or(0))
}

/// Adds to a counter; a commit writes each key once.
pub(super) fn add_count(commit: &mut Commit, key: Vec<u8>, more: i64) {
    let added = commit.writes.iter_mut().find_map(|write| match write {
        Write::Add { key: known, delta } if *known == key => Some(delta),
        _ => None,
    });
    match added {
        Some(delta) => *delta += more,
        None => commit.writes.push(Write::Add { key, delta: more }),
    }
}
