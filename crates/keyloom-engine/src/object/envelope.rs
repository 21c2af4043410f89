//! An event as it is stored.
//!
//! ```text
//! event   01 | length of the JSON u32 | JSON | payload to the end
//! ```

use keyloom_key::{EntryKey, ObjectId, Touched};
use serde::{Deserialize, Serialize};

use super::outbox::{EventCause, OutboxEvent};
use super::record::check_format;
use crate::error::Error;
use crate::schema::TriggerTarget;

const FORMAT: u8 = 1;

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

/// An event as it is stored.
pub(super) fn write_event(event: &OutboxEvent) -> Vec<u8> {
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

/// Reads an event; its number is the end of its key.
pub(super) fn read_event(key: &[u8], bytes: &[u8]) -> Result<OutboxEvent, Error> {
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
