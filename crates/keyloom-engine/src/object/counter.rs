//! What is counted of a class, partition by partition: statistics without reading objects.

use keyloom_key::{Head, Space};
use keyloom_store::{Direction, KeyRange, ScanOptions};

use crate::engine::Engine;
use crate::error::Error;
use crate::read::read_counter;

/// What a counter counts; its number is the last byte of the counter's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Counted {
    NumericObjects = 0,
    StringObjects = 1,
    NumericEntries = 2,
    StringEntries = 3,
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
}

/// Counters that one read of statistics takes at a time.
const PAGE: usize = 1000;

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
            let page = scan.next(PAGE).await?;
            if page.is_empty() {
                stats.retain(|(_, stats)| *stats != ObjectStats::default());
                return Ok(stats);
            }
            for entry in page {
                let (head, rest) =
                    Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
                let count = read_counter(&entry.stored.value)?;
                if stats.last().is_none_or(|(partition, _)| *partition != head.template) {
                    stats.push((head.template, ObjectStats::default()));
                }
                if let (Some((_, stats)), [kind]) = (stats.last_mut(), rest) {
                    stats.set(*kind, count)?;
                }
            }
        }
    }
}

impl Counted {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Counted; 4] = [
        Counted::NumericObjects,
        Counted::StringObjects,
        Counted::NumericEntries,
        Counted::StringEntries,
    ];
}

impl ObjectStats {
    fn set(&mut self, kind: u8, count: u64) -> Result<(), Error> {
        *match kind {
            0 => &mut self.numeric_objects,
            1 => &mut self.string_objects,
            2 => &mut self.numeric_entries,
            3 => &mut self.string_entries,
            _ => return Err(Error::corrupt("a counter of an unknown kind")),
        } = count;
        Ok(())
    }
}

/// Where something is counted.
pub(crate) fn counter_key(class: u16, partition: u16, counted: Counted) -> Vec<u8> {
    let mut key = Vec::with_capacity(6);
    Head { space: Space::Counter, collection: class, template: partition }.write(&mut key);
    key.push(counted as u8);
    key
}
