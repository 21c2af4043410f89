//! Events that wait for their delivery.
//!
//! ```text
//! [0A][class u16][partition u16] 00          next sequence number u64
//!                                01 <u64>    event
//!                                02 <u64>    dead letter
//! ```
//!
//! V1: An event is written by the commit that causes it. Its sequence number is the next one of its
//!     partition, which that commit checks and steps: numbers have no gaps, and their order is the
//!     order of the commits.
//! V2: An event keeps its number, however often it is delivered, so that receivers can tell a
//!     second delivery from a second event.
//! V3: An event is in the outbox or among the dead letters, never in both. Both are counted by the
//!     commits that change them.
//! V4: Both are bounded. A write that finds no room in the outbox is refused; the end of a function
//!     cannot be, and what it triggers is a dead letter then.

use std::sync::Arc;

use keyloom_key::{EntryKey, Head, ObjectId, Space, Touched};
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Entry, Expect, KeyRange, ScanOptions, Snapshot, Stamp,
    Write,
};

use super::counter::{Counted, add_count, counter_key, read_events};
use super::envelope::{read_event, write_event};
use super::trigger::Ended;
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{
    ERROR_CHARACTERS_MAX, EVENT_ATTEMPTS_MAX, EVENT_PAGE_BYTES_MAX, LARGE_VALUES_PAGE,
    OUTBOX_EVENTS_MAX, REPLAN_ATTEMPTS_MAX, TRIGGER_DEPTH_MAX,
};
use crate::pause::pause;
use crate::query::check_limit;
use crate::schema::TriggerTarget;

const SEQUENCE: u8 = 0;

/// Where an event lies; the number is the first byte behind the head of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventList {
    Waiting = 1,
    Dead = 2,
}

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxAt<'a> {
    /// The class.
    pub class: &'a str,
    /// The partition.
    pub partition: u16,
}

/// An event that is to be delivered, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Its number among the events of its partition (V2).
    pub sequence: u64,
    /// What happened.
    pub cause: EventCause,
    /// The object to which it happened; `None` if a function of the class was invoked on none.
    pub object: Option<ObjectId>,
    /// The version that the object had then; 0 without one.
    pub version: u64,
    /// When it happened, in milliseconds since 1970.
    pub time: u64,
    /// What is to be invoked.
    pub target: TriggerTarget,
    /// How many events led to this one, itself included.
    pub depth: u32,
    /// The new value of the entry, or what the function answered.
    pub payload: Vec<u8>,
    /// How often its delivery has failed.
    pub attempts: u32,
    /// Why it failed the last time.
    pub error: Option<String>,
}

/// Some events of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The events, in their order.
    pub items: Vec<OutboxEvent>,
    /// The number with which the next page begins; `None` at the end.
    pub next: Option<u64>,
}

/// What caused an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventCause {
    /// Something happened to this entry.
    Entry(Touched, EntryKey),
    /// This function answered.
    Completed(String),
    /// This function failed.
    Failed(String),
}

/// What became of an event whose delivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is tried again; so often it has failed.
    Waiting(u32),
    /// It is a dead letter.
    Dead,
    /// It is no longer in the outbox.
    Gone,
}

/// What happens to events that find no room in the outbox (V4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowded {
    /// The write that causes them is refused.
    Refuse,
    /// They become dead letters.
    Bury,
}

/// The next sequence number of a partition, and how many of its events wait, as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    next: u64,
    stamp: Option<Stamp>,
    waiting: u64,
}

impl Engine {
    /// The first events of a partition that wait for delivery, in their order.
    pub async fn outbox(&self, at: OutboxAt<'_>, limit: usize) -> Result<Vec<OutboxEvent>, Error> {
        let range = EventList::Waiting.range(self.catalog().class(at.class)?, at.partition, 0);
        Ok(self.event_page(&range, limit).await?.items)
    }

    /// The partitions with events that wait for delivery, by class.
    pub async fn partitions_with_events(&self) -> Result<Vec<(String, u16)>, Error> {
        let catalog = self.catalog();
        let snapshot = self.store.snapshot().await?;
        let mut found = Vec::new();
        for class in catalog.classes.values() {
            let mut partition = Some(0);
            while let Some(from) = partition {
                pause().await;
                let head = |template| Head { space: Space::Outbox, collection: class.id, template };
                let range = KeyRange { from: head(from).whole().0, to: head(u16::MAX).whole().1 };
                let Some(entry) = first(&*snapshot, &range).await? else { break };
                let (head, _) =
                    Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
                let waiting = EventList::Waiting.range(class, head.template, 0);
                if first(&*snapshot, &waiting).await?.is_some() {
                    found.push((class.name.clone(), head.template));
                }
                partition = head.template.checked_add(1);
            }
        }
        Ok(found)
    }

    /// Takes a delivered event out of the outbox, and writes the events that the end of its
    /// function triggers; how many those are. No effect if it is not there.
    pub async fn delivered(
        &self,
        at: OutboxAt<'_>,
        sequence: u64,
        ended: Option<Ended<'_>>,
    ) -> Result<usize, Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let class = catalog.class(at.class)?;
            let key = EventList::Waiting.key(class, at.partition, sequence);
            let stored = self.store.snapshot().await?.get(&key).await?;
            let Some(stored) = stored else { return Ok(0) };
            let checks = vec![Check { key: key.clone(), expect: Expect::At(stored.stamp) }];
            let writes = vec![Write::Delete { key }];
            let mut commit = Commit { checks, writes, changes: Vec::new() };
            EventList::Waiting.count(class, at.partition, -1, &mut commit);
            let fired = match &ended {
                Some(ended) => self.add_completion(ended, &mut commit).await?,
                None => Appended::default(),
            };
            match self.store.commit(Arc::new(commit)).await? {
                CommitOutcome::Committed { .. } => {
                    if let Some(ended) = ended.filter(|_| fired.dead > 0) {
                        self.bound_letters(ended.class, ended.partition).await;
                    }
                    return Ok(fired.all);
                }
                CommitOutcome::Conflict { .. } => drop(self.reload_catalog().await?),
            }
        }
        Err(Error::exhausted())
    }

    /// Counts a failed delivery; after the last attempt the event becomes a dead letter, and the
    /// events that the end of its function triggers are written.
    pub async fn failed(
        &self,
        at: OutboxAt<'_>,
        sequence: u64,
        error: &str,
        ended: Option<Ended<'_>>,
    ) -> Result<Failed, Error> {
        let failed = |event: &mut OutboxEvent| {
            event.attempts = event.attempts.saturating_add(1);
            event.error = Some(error.chars().take(ERROR_CHARACTERS_MAX).collect());
            match event.attempts < EVENT_ATTEMPTS_MAX {
                true => EventList::Waiting,
                false => EventList::Dead,
            }
        };
        let moved = self.move_event(at, (EventList::Waiting, sequence), &failed, ended).await?;
        Ok(match moved {
            None => Failed::Gone,
            Some(event) if event.attempts < EVENT_ATTEMPTS_MAX => Failed::Waiting(event.attempts),
            Some(_) => Failed::Dead,
        })
    }

    /// A page of events, bounded in number and in bytes.
    pub(super) async fn event_page(
        &self,
        range: &KeyRange,
        limit: usize,
    ) -> Result<EventPage, Error> {
        check_limit(Some(limit))?;
        let options = ScanOptions { direction: Direction::Forward, limit: limit + 1 };
        let mut scan = self.store.snapshot().await?.scan(range, options).await?;
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let page = scan.next(LARGE_VALUES_PAGE).await?;
            if page.is_empty() {
                return Ok(EventPage { items, next: None });
            }
            for Entry { key, stored } in page {
                let event = read_event(&key, &stored.value)?;
                bytes += stored.value.len();
                let is_full = items.len() == limit || bytes > EVENT_PAGE_BYTES_MAX;
                if is_full && !items.is_empty() {
                    return Ok(EventPage { items, next: Some(event.sequence) });
                }
                items.push(event);
            }
        }
    }

    /// Changes an event, and moves it to the list that `change` says; a dead letter ends a
    /// function.
    pub(super) async fn move_event(
        &self,
        at: OutboxAt<'_>,
        (list, sequence): (EventList, u64),
        change: &(dyn Fn(&mut OutboxEvent) -> EventList + Sync),
        ended: Option<Ended<'_>>,
    ) -> Result<Option<OutboxEvent>, Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let class = catalog.class(at.class)?;
            let key = |list: EventList| list.key(class, at.partition, sequence);
            let snapshot = self.store.snapshot().await?;
            let Some(stored) = snapshot.get(&key(list)).await? else { return Ok(None) };
            let mut event = read_event(&key(list), &stored.value)?;
            let to = change(&mut event);
            let writes = vec![Write::Put { key: key(to), value: write_event(&event) }];
            let checks = vec![Check { key: key(list), expect: Expect::At(stored.stamp) }];
            let mut commit = Commit { checks, writes, changes: Vec::new() };
            if to != list {
                commit.writes.push(Write::Delete { key: key(list) });
                list.count(class, at.partition, -1, &mut commit);
                to.count(class, at.partition, 1, &mut commit);
            }
            let ended = ended.as_ref().filter(|_| to == EventList::Dead);
            let fired = match ended {
                Some(ended) => self.add_completion(ended, &mut commit).await?,
                None => Appended::default(),
            };
            match self.store.commit(Arc::new(commit)).await? {
                CommitOutcome::Committed { .. } => {
                    if to == EventList::Dead {
                        self.bound_letters(at.class, u32::from(at.partition)).await;
                    }
                    if let Some(ended) = ended.filter(|_| fired.dead > 0) {
                        self.bound_letters(ended.class, ended.partition).await;
                    }
                    return Ok(Some(event));
                }
                CommitOutcome::Conflict { .. } => drop(self.reload_catalog().await?),
            }
        }
        Err(Error::exhausted())
    }
}

/// How many events a commit writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appended {
    pub(super) all: usize,
    /// Those among them that are dead letters at once.
    pub(super) dead: usize,
}

impl Sequence {
    /// Reads the next number of a partition.
    pub(super) async fn read(
        snapshot: &dyn Snapshot,
        class: &Class,
        partition: u16,
    ) -> Result<Sequence, Error> {
        let keys = [sequence_key(class, partition), EventList::Waiting.counter(class, partition)];
        let found = snapshot.get_many(&keys).await?;
        let [next, waiting] = <[_; 2]>::try_from(found)
            .map_err(|_| Error::corrupt("the store answered with fewer values than asked for"))?;
        let waiting = waiting.map_or(Ok(0), |stored| read_events(&stored.value))?;
        let Some(stored) = next else { return Ok(Sequence { next: 1, stamp: None, waiting }) };
        let next = stored.value.as_slice().try_into().map(u64::from_be_bytes);
        let next = next.map_err(|_| Error::corrupt("a sequence number does not have 8 bytes"))?;
        Ok(Sequence { next, stamp: Some(stored.stamp), waiting })
    }

    /// How many have got a number so far, all in all.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds events to a commit; those that are too deep become dead letters at once (V1, V4).
    pub(super) fn append(
        self,
        (class, partition): (&Class, u16),
        events: Vec<OutboxEvent>,
        crowded: Crowded,
        commit: &mut Commit,
    ) -> Result<Appended, Error> {
        let key = sequence_key(class, partition);
        let expect = self.stamp.map_or(Expect::Absent, Expect::At);
        commit.checks.push(Check { key: key.clone(), expect });
        let mut fired = Appended { all: events.len(), dead: 0 };
        let (mut next, mut waiting) = (self.next, self.waiting);
        for mut event in events {
            event.sequence = next;
            if event.depth > TRIGGER_DEPTH_MAX {
                event.error = Some(format!("{TRIGGER_DEPTH_MAX} events led to this one: a loop"));
            } else if waiting >= OUTBOX_EVENTS_MAX {
                if crowded == Crowded::Refuse {
                    return Err(no_room(waiting));
                }
                event.error = Some(format!("{OUTBOX_EVENTS_MAX} events wait before this one"));
            }
            let list = if event.error.is_some() { EventList::Dead } else { EventList::Waiting };
            match list {
                EventList::Dead => fired.dead += 1,
                EventList::Waiting => waiting += 1,
            }
            list.count(class, partition, 1, commit);
            let key = list.key(class, partition, next);
            commit.writes.push(Write::Put { key, value: write_event(&event) });
            next = next.saturating_add(1);
        }
        commit.writes.push(Write::Put { key, value: next.to_be_bytes().to_vec() });
        Ok(fired)
    }
}

impl EventList {
    /// The list that a key belongs to, by what follows its head.
    pub(crate) fn read(rest: &[u8]) -> Option<EventList> {
        match rest.first()? {
            1 => Some(EventList::Waiting),
            2 => Some(EventList::Dead),
            _ => None,
        }
    }

    pub(super) fn key(self, class: &Class, partition: u16, sequence: u64) -> Vec<u8> {
        let head = head_bytes(class, partition);
        [&head[..], &[self as u8], &sequence.to_be_bytes()].concat()
    }

    /// The events from a number on.
    pub(super) fn range(self, class: &Class, partition: u16, from: u64) -> KeyRange {
        let to = [&head_bytes(class, partition)[..], &[self as u8 + 1]].concat();
        KeyRange { from: self.key(class, partition, from), to }
    }

    /// Where its events are counted.
    pub(super) fn counter(self, class: &Class, partition: u16) -> Vec<u8> {
        let counted = match self {
            EventList::Waiting => Counted::WaitingEvents,
            EventList::Dead => Counted::DeadLetters,
        };
        counter_key(class.id, partition, counted)
    }

    /// Counts events that come or go (V3).
    pub(super) fn count(self, class: &Class, partition: u16, more: i64, commit: &mut Commit) {
        add_count(commit, self.counter(class, partition), more);
    }
}

/// That so many events wait that no more are taken.
pub(super) fn no_room(waiting: u64) -> Error {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let what = "events of the partition that wait for delivery".to_owned();
    let (found, max) = (number(waiting.saturating_add(1)), number(OUTBOX_EVENTS_MAX));
    Error::LimitExceeded { what, found, max }
}

async fn first(snapshot: &dyn Snapshot, range: &KeyRange) -> Result<Option<Entry>, Error> {
    let options = ScanOptions { direction: Direction::Forward, limit: 1 };
    Ok(snapshot.scan(range, options).await?.next(1).await?.into_iter().next())
}

fn head_bytes(class: &Class, partition: u16) -> Vec<u8> {
    Head { space: Space::Outbox, collection: class.id, template: partition }.whole().0
}

fn sequence_key(class: &Class, partition: u16) -> Vec<u8> {
    [&head_bytes(class, partition)[..], &[SEQUENCE]].concat()
}
