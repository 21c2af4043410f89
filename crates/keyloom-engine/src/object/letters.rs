//! Dead letters: events that could not be delivered, until somebody looks at them.
//!
//! L1: There are at most [`DEAD_LETTERS_MAX`] of a partition, but for a moment: whoever adds one
//!     takes the oldest ones away, and counts that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Expect, KeyRange, ScanOptions, Snapshot, Stamp, Write,
};

use super::counter::read_events;
use super::outbox::{EventList, EventPage, OutboxAt, OutboxEvent, Sequence, no_room};
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{
    BACKFILL_DOCUMENTS, DEAD_LETTERS_MAX, LARGE_VALUES_PAGE, OUTBOX_EVENTS_MAX, REPLAN_ATTEMPTS_MAX,
};
use crate::pause::pause;

impl Engine {
    /// Events of a partition that could not be delivered, from a number on.
    pub async fn dead_letters(
        &self,
        at: OutboxAt<'_>,
        from: u64,
        limit: usize,
    ) -> Result<EventPage, Error> {
        let catalog = self.catalog();
        let range = EventList::Dead.range(known(catalog.class(at.class)?, at)?, at.partition, from);
        self.event_page(&range, limit).await
    }

    /// Puts a dead letter back into the outbox, with its number and as if it had never failed;
    /// `false` if there is none with this number.
    pub async fn replay(&self, at: OutboxAt<'_>, sequence: u64) -> Result<bool, Error> {
        let catalog = self.catalog();
        let class = known(catalog.class(at.class)?, at)?;
        let waiting = self.count_of(EventList::Waiting, class, at.partition).await?;
        if waiting >= OUTBOX_EVENTS_MAX {
            return Err(no_room(waiting));
        }
        let revived = |event: &mut OutboxEvent| {
            (event.attempts, event.error) = (0, None);
            EventList::Waiting
        };
        Ok(self.move_event(at, (EventList::Dead, sequence), &revived, None).await?.is_some())
    }

    /// Forgets a dead letter; `false` if there is none with this number.
    pub async fn delete_letter(&self, at: OutboxAt<'_>, sequence: u64) -> Result<bool, Error> {
        let catalog = self.catalog();
        let class = known(catalog.class(at.class)?, at)?;
        let key = EventList::Dead.key(class, at.partition, sequence);
        let range = KeyRange { to: [&key[..], &[0]].concat(), from: key };
        Ok(self.forget(class, at.partition, &range, 1).await? > 0)
    }

    /// Forgets the dead letters that a partition has now, and says how many those were.
    pub async fn delete_letters(&self, at: OutboxAt<'_>) -> Result<u64, Error> {
        let catalog = self.catalog();
        let class = known(catalog.class(at.class)?, at)?;
        let snapshot = self.store.snapshot().await?;
        let sequence = Sequence::read(&*snapshot, class, at.partition).await?;
        // What comes meanwhile stays: nobody has looked at it.
        let range = KeyRange {
            from: EventList::Dead.key(class, at.partition, 0),
            to: EventList::Dead.key(class, at.partition, sequence.next()),
        };
        self.forget(class, at.partition, &range, u64::MAX).await
    }

    /// L1. What goes wrong here is mended by the next letter; what was asked for is done.
    pub(super) async fn bound_letters(&self, class: &str, partition: u32) {
        let catalog = self.catalog();
        let Ok(class) = catalog.class(class) else { return };
        let Ok(partition) = class.partition(partition) else { return };
        let Ok(count) = self.count_of(EventList::Dead, class, partition).await else { return };
        let Some(excess) = count.checked_sub(DEAD_LETTERS_MAX).filter(|excess| *excess > 0) else {
            return;
        };
        let range = EventList::Dead.range(class, partition, 0);
        let dropped = self.forget(class, partition, &range, excess).await;
        self.letters_dropped.fetch_add(dropped.unwrap_or(0), Ordering::Relaxed);
    }

    /// Deletes the first letters of a range, some in each commit; how many.
    async fn forget(
        &self,
        class: &Class,
        partition: u16,
        range: &KeyRange,
        most: u64,
    ) -> Result<u64, Error> {
        let (mut gone, mut conflicts) = (0_u64, 0);
        while gone < most && conflicts < REPLAN_ATTEMPTS_MAX {
            pause().await;
            let left = usize::try_from(most - gone).unwrap_or(usize::MAX);
            let snapshot = self.store.snapshot().await?;
            let letters = marks(&*snapshot, range, left.min(BACKFILL_DOCUMENTS)).await?;
            let Ok(count @ 1..) = i64::try_from(letters.len()) else { return Ok(gone) };
            let mut commit = Commit::default();
            EventList::Dead.count(class, partition, -count, &mut commit);
            for (key, stamp) in letters {
                commit.checks.push(Check { key: key.clone(), expect: Expect::At(stamp) });
                commit.writes.push(Write::Delete { key });
            }
            match self.store.commit(Arc::new(commit)).await? {
                CommitOutcome::Committed { .. } => gone += count.unsigned_abs(),
                // Somebody else has taken one of them.
                CommitOutcome::Conflict { .. } => conflicts += 1,
            }
        }
        Ok(gone)
    }

    async fn count_of(&self, list: EventList, class: &Class, partition: u16) -> Result<u64, Error> {
        let stored = self.store.snapshot().await?.get(&list.counter(class, partition)).await?;
        stored.map_or(Ok(0), |stored| read_events(&stored.value))
    }
}

/// The class, if it has the partition.
fn known<'c>(class: &'c Class, at: OutboxAt<'_>) -> Result<&'c Class, Error> {
    class.partition(u32::from(at.partition)).map_err(Error::invalid)?;
    Ok(class)
}

/// The first keys of a range with their stamps; what they hold is not kept in memory.
async fn marks(
    snapshot: &dyn Snapshot,
    range: &KeyRange,
    limit: usize,
) -> Result<Vec<(Vec<u8>, Stamp)>, Error> {
    let options = ScanOptions { direction: Direction::Forward, limit };
    let mut scan = snapshot.scan(range, options).await?;
    let mut marks = Vec::new();
    loop {
        let page = scan.next(LARGE_VALUES_PAGE).await?;
        if page.is_empty() {
            return Ok(marks);
        }
        marks.extend(page.into_iter().map(|entry| (entry.key, entry.stored.stamp)));
    }
}
