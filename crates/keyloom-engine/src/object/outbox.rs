//! Events that wait for their delivery, and those that nobody could be delivered to.
//!
//! ```text
//! [0A][class u16][partition u16] 00          next sequence number u64
//!                                01 <u64>    event
//!                                02 <u64>    dead letter
//! event   01 | length of the JSON u32 | JSON | payload to the end
//! ```
//!
//! V1: An event is written by the commit that causes it. Its sequence number is the next one of its
//!     partition, which that commit checks and steps: numbers have no gaps, and their order is the
//!     order of the commits.
//! V2: An event keeps its number, however often it is delivered, so that receivers can tell a
//!     second delivery from a second event.
//! V3: An event is in the outbox or among the dead letters, never in both.

use std::sync::Arc;

use keyloom_key::{EntryKey, Head, ObjectId, Space, Touched};
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Entry, Expect, KeyRange, ScanOptions, Snapshot, Stamp,
    Write,
};
use serde::{Deserialize, Serialize};

use super::record::check_format;
use super::trigger::Ended;
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{EVENT_ATTEMPTS_MAX, PAGE_LIMIT_MAX, REPLAN_ATTEMPTS_MAX, TRIGGER_DEPTH_MAX};
use crate::schema::TriggerTarget;

const FORMAT: u8 = 1;
const SEQUENCE: u8 = 0;
const WAITING: u8 = 1;
const DEAD: u8 = 2;

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

/// The next sequence number of a partition, as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    next: u64,
    stamp: Option<Stamp>,
}

impl Engine {
    /// The first events of a partition that wait for delivery, in their order.
    pub async fn outbox(&self, at: OutboxAt<'_>, limit: usize) -> Result<Vec<OutboxEvent>, Error> {
        self.events(at, WAITING, 0, limit).await
    }

    /// Events of a partition that could not be delivered, from a number on.
    pub async fn dead_letters(
        &self,
        at: OutboxAt<'_>,
        from: u64,
        limit: usize,
    ) -> Result<Vec<OutboxEvent>, Error> {
        self.events(at, DEAD, from, limit).await
    }

    /// The partitions with events that wait for delivery, by class.
    pub async fn partitions_with_events(&self) -> Result<Vec<(String, u16)>, Error> {
        let catalog = self.catalog();
        let snapshot = self.store.snapshot().await?;
        let mut found = Vec::new();
        for class in catalog.classes.values() {
            let mut partition = Some(0);
            while let Some(from) = partition {
                let head = |template| Head { space: Space::Outbox, collection: class.id, template };
                let range = KeyRange { from: head(from).whole().0, to: head(u16::MAX).whole().1 };
                let Some(entry) = first(&*snapshot, &range).await? else { break };
                let (head, _) =
                    Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
                let waiting = range_of(class, head.template, WAITING, 0);
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
            let key = event_key(catalog.class(at.class)?, at.partition, WAITING, sequence);
            let stored = self.store.snapshot().await?.get(&key).await?;
            let Some(stored) = stored else { return Ok(0) };
            let checks = vec![Check { key: key.clone(), expect: Expect::At(stored.stamp) }];
            let writes = vec![Write::Delete { key }];
            let mut commit = Commit { checks, writes, changes: Vec::new() };
            let count = match &ended {
                Some(ended) => self.add_completion(ended, &mut commit).await?,
                None => 0,
            };
            match self.store.commit(Arc::new(commit)).await? {
                CommitOutcome::Committed { .. } => return Ok(count),
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
            if event.attempts < EVENT_ATTEMPTS_MAX { WAITING } else { DEAD }
        };
        Ok(match self.move_event(at, (WAITING, sequence), &failed, ended).await? {
            None => Failed::Gone,
            Some(event) if event.attempts < EVENT_ATTEMPTS_MAX => Failed::Waiting(event.attempts),
            Some(_) => Failed::Dead,
        })
    }

    /// Puts a dead letter back into the outbox, with its number and as if it had never failed;
    /// `false` if there is none with this number.
    pub async fn replay(&self, at: OutboxAt<'_>, sequence: u64) -> Result<bool, Error> {
        let revived = |event: &mut OutboxEvent| {
            (event.attempts, event.error) = (0, None);
            WAITING
        };
        Ok(self.move_event(at, (DEAD, sequence), &revived, None).await?.is_some())
    }

    async fn events(
        &self,
        at: OutboxAt<'_>,
        list: u8,
        from: u64,
        limit: usize,
    ) -> Result<Vec<OutboxEvent>, Error> {
        if limit > PAGE_LIMIT_MAX {
            let what = "events of a page".to_owned();
            return Err(Error::LimitExceeded { what, found: limit, max: PAGE_LIMIT_MAX });
        }
        let catalog = self.catalog();
        let range = range_of(catalog.class(at.class)?, at.partition, list, from);
        let options = ScanOptions { direction: Direction::Forward, limit };
        let mut scan = self.store.snapshot().await?.scan(&range, options).await?;
        let page = scan.next(limit).await?;
        page.iter().map(|Entry { key, stored }| read_event(key, &stored.value)).collect()
    }

    /// Changes an event, and moves it to the list that `change` says; a dead letter ends a
    /// function.
    async fn move_event(
        &self,
        at: OutboxAt<'_>,
        (list, sequence): (u8, u64),
        change: &(dyn Fn(&mut OutboxEvent) -> u8 + Sync),
        ended: Option<Ended<'_>>,
    ) -> Result<Option<OutboxEvent>, Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let class = catalog.class(at.class)?;
            let key = |list| event_key(class, at.partition, list, sequence);
            let snapshot = self.store.snapshot().await?;
            let Some(stored) = snapshot.get(&key(list)).await? else { return Ok(None) };
            let mut event = read_event(&key(list), &stored.value)?;
            let to = change(&mut event);
            let mut writes = vec![Write::Put { key: key(to), value: write_event(&event) }];
            if to != list {
                writes.push(Write::Delete { key: key(list) });
            }
            let checks = vec![Check { key: key(list), expect: Expect::At(stored.stamp) }];
            let mut commit = Commit { checks, writes, changes: Vec::new() };
            if let (DEAD, Some(ended)) = (to, &ended) {
                self.add_completion(ended, &mut commit).await?;
            }
            match self.store.commit(Arc::new(commit)).await? {
                CommitOutcome::Committed { .. } => return Ok(Some(event)),
                CommitOutcome::Conflict { .. } => drop(self.reload_catalog().await?),
            }
        }
        Err(Error::exhausted())
    }
}

impl Sequence {
    /// Reads the next number of a partition.
    pub(super) async fn read(
        snapshot: &dyn Snapshot,
        class: &Class,
        partition: u16,
    ) -> Result<Sequence, Error> {
        let Some(stored) = snapshot.get(&sequence_key(class, partition)).await? else {
            return Ok(Sequence { next: 1, stamp: None });
        };
        let next = stored.value.as_slice().try_into().map(u64::from_be_bytes);
        let next = next.map_err(|_| Error::corrupt("a sequence number does not have 8 bytes"))?;
        Ok(Sequence { next, stamp: Some(stored.stamp) })
    }

    /// Adds events to a commit; those that are too deep become dead letters at once (V1).
    pub(super) fn append(
        self,
        class: &Class,
        partition: u16,
        events: Vec<OutboxEvent>,
        commit: &mut Commit,
    ) {
        let key = sequence_key(class, partition);
        let expect = self.stamp.map_or(Expect::Absent, Expect::At);
        commit.checks.push(Check { key: key.clone(), expect });
        let mut next = self.next;
        for mut event in events {
            event.sequence = next;
            let is_deep = event.depth > TRIGGER_DEPTH_MAX;
            if is_deep {
                event.error = Some(format!("{TRIGGER_DEPTH_MAX} events led to this one: a loop"));
            }
            let list = if is_deep { DEAD } else { WAITING };
            let key = event_key(class, partition, list, next);
            commit.writes.push(Write::Put { key, value: write_event(&event) });
            next = next.saturating_add(1);
        }
        commit.writes.push(Write::Put { key, value: next.to_be_bytes().to_vec() });
    }
}

/// Characters of an error that a row keeps.
const ERROR_CHARACTERS_MAX: usize = 512;

/// The part of an event that is JSON.
#[derive(Serialize, Deserialize)]
struct EventJson {
    cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_str: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    version: u64,
    time: u64,
    target: TriggerTarget,
    depth: u32,
    #[serde(default)]
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn write_event(event: &OutboxEvent) -> Vec<u8> {
    let OutboxEvent {
        sequence: _,
        cause,
        object,
        version,
        time,
        target,
        depth,
        payload,
        attempts,
        error,
    } = event;
    let (mut key, mut key_str, mut function) = (None, None, None);
    let cause = match cause {
        EventCause::Entry(touched, entry) => {
            match entry {
                EntryKey::Numeric(number) => key = Some(*number),
                EntryKey::String(text) => key_str = Some(text.as_str().to_owned()),
            }
            match touched {
                Touched::Created => "created",
                Touched::Updated => "updated",
                Touched::Deleted => "deleted",
            }
        }
        EventCause::Completed(name) => {
            function = Some(name.clone());
            "completed"
        }
        EventCause::Failed(name) => {
            function = Some(name.clone());
            "failed"
        }
    };
    let json = EventJson {
        cause: cause.to_owned(),
        key,
        key_str,
        function,
        object: object.as_ref().map(ObjectId::to_string),
        version: *version,
        time: *time,
        target: target.clone(),
        depth: *depth,
        attempts: *attempts,
        error: error.clone(),
    };
    let json = serde_json::to_vec(&json).expect("an event has string keys only");
    let length = u32::try_from(json.len()).expect("an event is bounded");
    let mut bytes = Vec::with_capacity(5 + json.len() + payload.len());
    bytes.push(FORMAT);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&json);
    bytes.extend_from_slice(payload);
    bytes
}

fn read_event(key: &[u8], bytes: &[u8]) -> Result<OutboxEvent, Error> {
    let damaged = |detail: &str| Error::corrupt(format!("an event in the outbox: {detail}"));
    let sequence = key.last_chunk().map(|number| u64::from_be_bytes(*number));
    let rest = check_format(bytes)?;
    let (length, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let (json, payload) = rest.split_at_checked(length).ok_or_else(|| damaged("it is cut off"))?;
    let json: EventJson =
        serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))?;
    let EventJson {
        cause,
        key,
        key_str,
        function,
        object,
        version,
        time,
        target,
        depth,
        attempts,
        error,
    } = json;
    let limit = keyloom_key::limits::STRING_ID_LIMIT_MAX;
    let entry = match (key, key_str) {
        (Some(number), None) => Some(EntryKey::Numeric(number)),
        (None, Some(text)) => EntryKey::string(&text, limit).ok(),
        _ => None,
    };
    let cause = match (cause.as_str(), entry, function) {
        ("created", Some(entry), None) => EventCause::Entry(Touched::Created, entry),
        ("updated", Some(entry), None) => EventCause::Entry(Touched::Updated, entry),
        ("deleted", Some(entry), None) => EventCause::Entry(Touched::Deleted, entry),
        ("completed", None, Some(function)) => EventCause::Completed(function),
        ("failed", None, Some(function)) => EventCause::Failed(function),
        _ => return Err(damaged("its cause is unknown")),
    };
    let object = object.map(|text| ObjectId::string(&text, limit)).transpose();
    Ok(OutboxEvent {
        sequence: sequence.ok_or_else(|| damaged("it has no number"))?,
        cause,
        object: object.map_err(|error| damaged(&error.to_string()))?,
        version,
        time,
        target,
        depth,
        payload: payload.to_vec(),
        attempts,
        error,
    })
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

fn event_key(class: &Class, partition: u16, list: u8, sequence: u64) -> Vec<u8> {
    [&head_bytes(class, partition)[..], &[list], &sequence.to_be_bytes()].concat()
}

/// The events of a list from a number on.
fn range_of(class: &Class, partition: u16, list: u8, from: u64) -> KeyRange {
    let to = [&head_bytes(class, partition)[..], &[list + 1]].concat();
    KeyRange { from: event_key(class, partition, list, from), to }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn event(cause: EventCause) -> OutboxEvent {
        OutboxEvent {
            sequence: 7,
            cause,
            object: ObjectId::string("a", 160).ok(),
            version: 9,
            time: 5,
            target: TriggerTarget {
                class: "c".to_owned(),
                partition: 1,
                object: Some(ObjectId::Numeric(3)),
                function: "f".to_owned(),
                options: BTreeMap::from([("x".to_owned(), "y".to_owned())]),
            },
            depth: 2,
            payload: vec![0, 255],
            attempts: 1,
            error: Some("down".to_owned()),
        }
    }

    #[test]
    fn an_event_survives_its_encoding() {
        let text = EntryKey::string("name", 160).unwrap();
        for cause in [
            EventCause::Entry(Touched::Created, EntryKey::Numeric(1)),
            EventCause::Entry(Touched::Updated, text.clone()),
            EventCause::Entry(Touched::Deleted, text),
            EventCause::Completed("f".to_owned()),
            EventCause::Failed("f".to_owned()),
        ] {
            let event = event(cause);
            let bytes = write_event(&event);
            assert_eq!(read_event(&7_u64.to_be_bytes(), &bytes).unwrap(), event);
            for cut in 0..bytes.len() - 2 {
                assert!(read_event(&[0; 8], &bytes[..cut]).is_err());
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_refused(bytes: Vec<u8>) {
            prop_assert!(read_event(&[0; 8], &bytes).is_err());
        }
    }
}
