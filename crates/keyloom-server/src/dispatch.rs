//! Delivers the events that changes have triggered.
//!
//! D1: The events of one partition are delivered one after the other, in their order; a partition
//!     whose function is down does not hold up the others: it gives its place away while it waits.
//! D2: An event leaves the outbox after its function has answered, in one commit with the events
//!     that this triggers. Whoever kills the server before makes it deliver the event again, with
//!     the same number.
//! D3: Waits between attempts grow, up to a bound; after the last attempt the event is a dead
//!     letter.
//! D4: Work follows what is due: a partition is looked at because something was triggered in it,
//!     and all of them only at the start and now and then.

mod rounds;

use std::sync::Arc;
use std::time::Duration;

use keyloom_api::grid::{EventInfo, EventType, TriggerPayload};
use keyloom_engine::schema::TriggerTarget;
use keyloom_engine::{
    Completion, Ended, EntryKey, Error, EventCause, Failed, OutboxAt, OutboxEvent, Partition,
    Touched,
};
use prost::Message as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::functions::{ERROR, is_okay};
use crate::grid::identity;
use crate::limits::{
    COURIERS_MAX, DISPATCH_INTERVAL, DISPATCH_PAGE, DISPATCH_PAUSE, RETRY_WAIT_FIRST,
    RETRY_WAIT_MAX,
};
use crate::service::events::Place;
use crate::service::{DEPTH, Invoke, Service};
use rounds::{Rounds, Then};

/// Delivers until the server stops.
pub(crate) async fn run(service: Arc<Service>, mut stopping: watch::Receiver<bool>) {
    let mut couriers = JoinSet::new();
    let mut rounds = Rounds::default();
    let mut look_at = Instant::now();
    loop {
        let now = Instant::now();
        if now >= look_at {
            look_at = now + DISPATCH_INTERVAL;
            match service.partitions_with_events().await {
                Ok(places) => rounds.add(places),
                Err(error) => warn!(%error, "the outbox cannot be read"),
            }
        }
        while couriers.len() < COURIERS_MAX
            && let Some(place) = rounds.next(now)
        {
            couriers.spawn(deliver_some(Arc::clone(&service), place));
        }
        let wake_at = rounds.wake_at().map_or(look_at, |at| at.min(look_at));
        tokio::select! {
            places = service.fired() => rounds.add(places),
            Some(done) = couriers.join_next() => {
                let (place, then) = done.expect("a courier ends by itself while others run");
                rounds.end(place, then, Instant::now());
            }
            () = sleep_until(wake_at) => {}
            _ = stopping.changed() => break,
        }
    }
    couriers.shutdown().await;
}

/// Delivers a page of the events of a partition, and says when to go there again.
async fn deliver_some(service: Arc<Service>, place: Place) -> (Place, Then) {
    let at = OutboxAt { class: &place.0, partition: place.1 };
    let delivered = match service.outbox(at, DISPATCH_PAGE).await {
        Ok(events) => deliver_page(&service, at, events).await,
        Err(error) => Err(error),
    };
    let then = delivered.unwrap_or_else(|error| {
        warn!(class = place.0, partition = place.1, %error, "delivery of events paused");
        Then::After(DISPATCH_PAUSE)
    });
    (place, then)
}

async fn deliver_page(
    service: &Arc<Service>,
    at: OutboxAt<'_>,
    events: Vec<OutboxEvent>,
) -> Result<Then, Error> {
    if events.is_empty() {
        return Ok(Then::WhenFired);
    }
    for event in events {
        let sequence = event.sequence;
        match deliver(service, at, &event).await {
            Ok(answer) => {
                let ended = ended(&event, Completion::Complete, &answer);
                service.delivered(at, sequence, ended).await?;
            }
            Err(reason) => {
                let ended = ended(&event, Completion::Error, reason.as_bytes());
                match service.failed(at, sequence, &reason, ended).await? {
                    // Those behind it wait for it (D1).
                    Failed::Waiting(attempts) => return Ok(Then::After(wait_after(attempts))),
                    Failed::Dead => {
                        let (class, partition) = (at.class, at.partition);
                        warn!(class, partition, sequence, reason, "dead letter");
                    }
                    Failed::Gone => {}
                }
            }
        }
    }
    Ok(Then::After(Duration::ZERO))
}

/// Calls the function of an event; what it answered, or why it did not.
async fn deliver(
    service: &Arc<Service>,
    at: OutboxAt<'_>,
    event: &OutboxEvent,
) -> Result<Vec<u8>, String> {
    let TriggerTarget { class, partition, object, function, options } = event.target.clone();
    let mut options = options;
    options.insert(DEPTH.to_owned(), event.depth.to_string());
    let payload = payload(at, event).encode_to_vec();
    let partition = Partition::Number(partition);
    let invoke = Invoke { class, partition, object, function, options, payload };
    let answer = service.call(invoke).await.map_err(|error| error.to_string())?;
    if is_okay(&answer) {
        return Ok(answer.payload.unwrap_or_default());
    }
    let reason = answer.headers.get(ERROR).cloned().unwrap_or_default();
    Err(format!("{}: {reason}", answer.status().as_str_name()))
}

/// How a delivery ended, for those who wait for that.
fn ended<'a>(event: &'a OutboxEvent, completion: Completion, payload: &'a [u8]) -> Ended<'a> {
    let TriggerTarget { class, partition, object, function, options: _ } = &event.target;
    let (partition, object, depth) = (*partition, object.as_ref(), event.depth);
    Ended { class, partition, object, function, completion, payload, depth }
}

fn payload(at: OutboxAt<'_>, event: &OutboxEvent) -> TriggerPayload {
    let (source_object_id, source_object_id_str) =
        event.object.as_ref().map_or((None, None), identity);
    let mut info = EventInfo {
        source_cls_id: at.class.to_owned(),
        source_partition_id: u32::from(at.partition),
        source_object_id,
        timestamp: event.time,
        source_object_id_str,
        object_version: event.version,
        sequence: event.sequence,
        depth: event.depth,
        ..EventInfo::default()
    };
    let kind = match &event.cause {
        EventCause::Entry(touched, key) => {
            match key {
                EntryKey::Numeric(number) => info.key = Some(*number),
                EntryKey::String(text) => info.key_str = Some(text.to_string()),
            }
            match touched {
                Touched::Created => EventType::DataCreate,
                Touched::Updated => EventType::DataUpdate,
                Touched::Deleted => EventType::DataDelete,
            }
        }
        EventCause::Completed(function) => {
            info.fn_id = Some(function.clone());
            EventType::FuncComplete
        }
        EventCause::Failed(function) => {
            info.fn_id = Some(function.clone());
            EventType::FuncError
        }
    };
    info.event_type = kind.into();
    TriggerPayload { event_info: Some(info), original_payload: Some(event.payload.clone()) }
}

/// D3
fn wait_after(attempts: u32) -> Duration {
    let doubled = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    RETRY_WAIT_FIRST.saturating_mul(doubled).min(RETRY_WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d3_waits_double_up_to_a_bound() {
        assert_eq!(wait_after(1), RETRY_WAIT_FIRST);
        assert_eq!(wait_after(3), RETRY_WAIT_FIRST * 4);
        assert_eq!(wait_after(40), RETRY_WAIT_MAX);
        assert_eq!(wait_after(u32::MAX), RETRY_WAIT_MAX);
    }
}
