//! What changes and ends of functions trigger.
//!
//! T1: Events of the class come first, then those of the object, entry by entry in key order: the
//!     same change always gives the same events in the same order.
//! T2: A value that is set to what it was triggers nothing.

use keyloom_key::{ObjectId, ObjectKey, Touched};
use keyloom_store::{Check, Commit, CommitOutcome, Expect};

use super::draft::EntryChange;
use super::outbox::{Appended, Crowded, EventCause, OutboxEvent, Sequence};
use super::read::State;
use super::write::{Edit, EventEdit};
use crate::catalog::{Class, catalog_key};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{COMMIT_EVENT_BYTES_MAX, COMMIT_EVENTS_MAX, REPLAN_ATTEMPTS_MAX};
use crate::schema::{Event, TriggerTarget};

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It answered.
    Complete,
    /// It failed.
    Error,
}

/// The end of an invocation.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The class that has the function.
    pub class: &'a str,
    /// The partition that it was invoked in.
    pub partition: u32,
    /// The object that it was invoked on.
    pub object: Option<&'a ObjectId>,
    /// The function.
    pub function: &'a str,
    /// How it ended.
    pub completion: Completion,
    /// What it answered.
    pub payload: &'a [u8],
    /// How many events led to the invocation.
    pub depth: u32,
}

impl Engine {
    /// Writes the events that the end of a function triggers, and says how many there are.
    pub async fn record_completion(&self, ended: Ended<'_>) -> Result<usize, Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let mut commit = Commit::default();
            let fired = self.add_completion(&ended, &mut commit).await?;
            if fired.all == 0 {
                return Ok(0);
            }
            match self.store.commit(commit.into()).await? {
                CommitOutcome::Committed { .. } => {
                    if fired.dead > 0 {
                        self.bound_letters(ended.class, ended.partition).await;
                    }
                    return Ok(fired.all);
                }
                CommitOutcome::Conflict { .. } => drop(self.reload_catalog().await?),
            }
        }
        Err(Error::exhausted())
    }

    /// Adds these events to a commit. A class or a partition that is gone triggers nothing.
    pub(super) async fn add_completion(
        &self,
        ended: &Ended<'_>,
        commit: &mut Commit,
    ) -> Result<Appended, Error> {
        let none = Appended::default();
        let catalog = self.catalog();
        let Ok(class) = catalog.class(ended.class) else { return Ok(none) };
        let Ok(number) = class.partition(ended.partition) else { return Ok(none) };
        let snapshot = self.store.snapshot().await?;
        let mut state = State::default();
        if let Some(id) = ended.object {
            let keys = ObjectKey::new(class.id, number, id);
            state = State::of_entries(&*snapshot, &keys, &[]).await?;
        }
        let version = state.current().map_or(0, |metadata| metadata.version);
        let time = self.options.system.now_micros() / 1000;
        let events = ended_events(class, &state, ended, version, time);
        if events.is_empty() {
            return Ok(none);
        }
        let sequence = Sequence::read(&*snapshot, class, number).await?;
        let expect = catalog.stamp.map_or(Expect::Absent, Expect::At);
        commit.checks.push(Check { key: catalog_key(), expect });
        sequence.append((class, number), events, Crowded::Bury, commit)
    }
}

/// What the entries of an edit trigger; the numbers are given out by the outbox.
pub(super) struct Fired<'a> {
    pub(super) class: &'a Class,
    pub(super) object: &'a ObjectId,
    pub(super) state: &'a State,
    pub(super) edit: &'a Edit,
    /// How many events led to this edit.
    pub(super) depth: u32,
    /// Milliseconds since 1970.
    pub(super) time: u64,
}

impl Fired<'_> {
    /// The events of these changes, for an object that gets this version.
    pub(super) fn events(
        &self,
        changes: &[EntryChange<'_>],
        version: u64,
    ) -> Result<Vec<OutboxEvent>, Error> {
        // A configuration that comes with the change is the one that it obeys.
        let own = match &self.edit.event {
            EventEdit::Put(event) => Some(event),
            EventEdit::Keep => self.state.event.as_ref(),
        };
        let configured = [Some(&self.class.schema.event), own];
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        for change in changes {
            for event in configured.into_iter().flatten() {
                for target in targets(event, change) {
                    bytes = bytes.saturating_add(change.new.map_or(0, |val| val.data.len()));
                    check_room(events.len() + 1, bytes)?;
                    events.push(OutboxEvent {
                        sequence: 0,
                        cause: EventCause::Entry(change.kind, change.key.clone()),
                        object: Some(self.object.clone()),
                        version,
                        time: self.time,
                        target: target.clone(),
                        depth: self.depth.saturating_add(1),
                        payload: change.new.map(|val| val.data.clone()).unwrap_or_default(),
                        attempts: 0,
                        error: None,
                    });
                }
            }
        }
        Ok(events)
    }
}

/// Whether one write may trigger so much.
fn check_room(events: usize, bytes: usize) -> Result<(), Error> {
    for (what, found, max) in [
        ("events of one write", events, COMMIT_EVENTS_MAX),
        ("bytes in the events of one write", bytes, COMMIT_EVENT_BYTES_MAX),
    ] {
        if found > max {
            return Err(Error::LimitExceeded { what: what.to_owned(), found, max });
        }
    }
    Ok(())
}

fn targets<'e>(event: &'e Event, change: &EntryChange<'_>) -> &'e [TriggerTarget] {
    let Some(trigger) = event.of_entry(change.key) else { return &[] };
    match change.kind {
        Touched::Created => &trigger.on_create,
        Touched::Updated => &trigger.on_update,
        Touched::Deleted => &trigger.on_delete,
    }
}

fn ended_events(
    class: &Class,
    state: &State,
    ended: &Ended<'_>,
    version: u64,
    time: u64,
) -> Vec<OutboxEvent> {
    let configured = [Some(&class.schema.event), state.event.as_ref()];
    let triggers = configured.into_iter().flatten();
    let triggers = triggers.filter_map(|event| event.func_trigger.get(ended.function));
    let function = ended.function.to_owned();
    let (cause, targets): (_, Vec<&TriggerTarget>) = match ended.completion {
        Completion::Complete => {
            (EventCause::Completed(function), triggers.flat_map(|it| &it.on_complete).collect())
        }
        Completion::Error => {
            (EventCause::Failed(function), triggers.flat_map(|it| &it.on_error).collect())
        }
    };
    // The function has done its work: an answer that is too large for all of them is left out.
    let bytes = targets.len().saturating_mul(ended.payload.len());
    let payload = if bytes > COMMIT_EVENT_BYTES_MAX { &[] } else { ended.payload };
    let event = |target: &TriggerTarget| OutboxEvent {
        sequence: 0,
        cause: cause.clone(),
        object: ended.object.cloned(),
        version,
        time,
        target: target.clone(),
        depth: ended.depth.saturating_add(1),
        payload: payload.to_vec(),
        attempts: 0,
        error: None,
    };
    targets.into_iter().map(event).collect()
}
