//! Calls over gRPC: connections with many calls in flight on each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use keyloom_api::grid::{
    BatchSetValuesRequest, ObjData, ObjectResponse, SetKeyRequest, SetObjectRequest,
    SingleKeyRequest, SingleObjectRequest, ValData, ValueResponse,
};
use prost::Message as _;
use tokio::time::Instant;

use super::wire::Wire;
use super::{CLASS, ENTRIES, VALUE_BYTES, entry_key, string_id, value};
use crate::outcome::Outcome;

/// Connections, and the calls that wait for an answer on each of them.
const CONNECTIONS: u64 = 4;
pub(super) const IN_FLIGHT: u64 = 64;

/// How many entries a batch sets.
const BATCH: u64 = 50;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// One entry.
    GetValue,
    /// One entry is set.
    SetValue,
    /// A whole object.
    Get,
    /// A whole object is replaced.
    Set,
    /// Many entries are set at once.
    BatchSetValues,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    pub(super) call: Call,
    pub(super) objects: u64,
    /// Values differ from round to round, so that every set is a change.
    pub(super) round: u64,
}

impl Call {
    /// All of them.
    pub(super) const ALL: [Call; 5] =
        [Call::GetValue, Call::SetValue, Call::Get, Call::Set, Call::BatchSetValues];

    /// What stands in the table.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Call::GetValue => "GetValue",
            Call::SetValue => "SetValue",
            Call::Get => "Get, 16 entries",
            Call::Set => "Set, 16 entries",
            Call::BatchSetValues => "BatchSetValues, 50 entries",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Call::GetValue => "/oprc.DataService/GetValue",
            Call::SetValue => "/oprc.DataService/SetValue",
            Call::Get => "/oprc.DataService/Get",
            Call::Set => "/oprc.DataService/Set",
            Call::BatchSetValues => "/oprc.DataService/BatchSetValues",
        }
    }

    /// What the system that this replaces was measured at, in memory and without durability, in
    /// calls per second.
    pub(super) const fn yardstick(self) -> f64 {
        match self {
            Call::GetValue => 55_000.0,
            Call::SetValue => 44_000.0,
            Call::Get => 25_000.0,
            Call::Set => 13_700.0,
            Call::BatchSetValues => 5_000.0,
        }
    }
}

/// Calls until the time is over; calls per second.
pub(super) fn drive(address: SocketAddr, errand: Errand, lasts: Duration) -> Outcome<f64> {
    let number = AtomicU64::new(errand.round * 1_000_003);
    let started = Instant::now();
    let done = thread::scope(|scope| {
        let callers: Vec<_> = (0..CONNECTIONS)
            .map(|_| scope.spawn(|| errand.call(address, &number, || started.elapsed() < lasts)))
            .collect();
        let done = callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller broke")?);
        done.sum::<Outcome<u32>>()
    })?;
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}

impl Errand {
    /// Calls on one connection; the calls that were answered.
    fn call(
        self,
        address: SocketAddr,
        number: &AtomicU64,
        goes_on: impl Fn() -> bool,
    ) -> Outcome<u32> {
        let mut wire = Wire::connect(address, self.call.path())?;
        let next = || self.message(number.fetch_add(1, Ordering::Relaxed));
        for _ in 0..IN_FLIGHT / CONNECTIONS {
            wire.call(&next())?;
        }
        let mut done = 0;
        while wire.open() > 0 {
            for answer in wire.answers()? {
                self.check(&answer)?;
                done += 1;
                if goes_on() {
                    wire.call(&next())?;
                }
            }
        }
        Ok(done)
    }

    /// What is asked.
    fn message(self, number: u64) -> Vec<u8> {
        let Errand { call, objects, .. } = self;
        let cls_id = CLASS.to_owned();
        let object_id_str = Some(string_id(number % objects));
        let key_str = Some(entry_key(number % ENTRIES));
        let val = |entry| ValData { data: value(number, entry), ..ValData::default() };
        let vals = |count| -> BTreeMap<String, ValData> {
            (0..count).map(|entry| (entry_key(entry), val(entry))).collect()
        };
        match call {
            Call::GetValue => {
                let ask = SingleKeyRequest { cls_id, object_id_str, key_str, ..Default::default() };
                ask.encode_to_vec()
            }
            Call::SetValue => {
                let value = Some(val(number));
                let ask = SetKeyRequest {
                    cls_id,
                    object_id_str,
                    key_str,
                    value,
                    ..SetKeyRequest::default()
                };
                ask.encode_to_vec()
            }
            Call::Get => {
                let ask = SingleObjectRequest { cls_id, object_id_str, ..Default::default() };
                ask.encode_to_vec()
            }
            Call::Set => {
                let object = Some(ObjData { entries_str: vals(ENTRIES), ..ObjData::default() });
                let ask = SetObjectRequest { cls_id, object_id_str, object, ..Default::default() };
                ask.encode_to_vec()
            }
            Call::BatchSetValues => {
                // Objects of their own: the others keep the number of their entries.
                let object_id_str = Some(format!("batch-{:07}", number % objects));
                let values = vals(BATCH);
                let ask = BatchSetValuesRequest {
                    cls_id,
                    object_id_str,
                    values,
                    ..BatchSetValuesRequest::default()
                };
                ask.encode_to_vec()
            }
        }
    }

    /// Fails if an answer is not what was asked for.
    fn check(self, answer: &[u8]) -> Outcome<()> {
        match self.call {
            Call::GetValue => {
                let found = ValueResponse::decode(answer)?.value.ok_or("there is no such entry")?;
                if found.data.len() != VALUE_BYTES {
                    return Err("a value has lost bytes".into());
                }
            }
            Call::Get => {
                let object = ObjectResponse::decode(answer)?.obj.ok_or("no such object")?;
                if u64::try_from(object.entries_str.len())? != ENTRIES {
                    return Err("an object has lost entries".into());
                }
            }
            // That there is an answer says that it is done.
            Call::SetValue | Call::Set | Call::BatchSetValues => {}
        }
        Ok(())
    }
}
