//! What keys ask of the service, and what they put there.

use std::sync::Arc;

use keyloom_api::{Code, grid};
use keyloom_engine::{
    EntryList, Error, Identity, ObjectAt, ObjectId, ObjectList, ObjectOrder, OutboxAt, Partition,
    Precondition, Terms,
};
use prost::Message;
use tracing::{debug, warn};
use zenoh::sample::Sample;

use super::key::{Key, What};
use super::{Desk, note};
use crate::edge::no_place;
use crate::functions::refused;
use crate::grid as convert;
use crate::rest::Refusal;
use crate::service::{Invoke, Service};

/// Who asks.
pub(super) struct Asker {
    pub(super) caller: Identity,
    /// How many events led to that.
    pub(super) depth: u32,
}

impl Asker {
    fn terms(&self, precondition: Precondition) -> Terms {
        Terms { precondition, depth: self.depth }
    }
}

/// The answer to a query: a message, or messages behind each other with their lengths.
pub(super) async fn answer(
    service: &Arc<Service>,
    asker: &Asker,
    key: Key,
    payload: Option<&[u8]>,
) -> Result<Vec<u8>, Error> {
    let caller = &asker.caller;
    let Key { class, partition, object, what } = key;
    let given = payload.unwrap_or_default();
    let (what, id) = match (what, object) {
        (What::List, _) => return list(service, caller, &class, partition, given).await,
        (What::Invoke(function), object) => {
            let invoke = read_invoke(class, partition, object, function, given)?;
            let invoke = invoke.deeper(asker.depth);
            return Ok(Arc::clone(service).invoke(caller, invoke).await?.encode_to_vec());
        }
        (What::Result(_, id), object) => {
            let partition = number(service, caller, &class, partition, object.as_ref())?;
            let at = OutboxAt { class: &class, partition };
            let found = service.invocation_result(caller, at, &id).await?;
            return found.map(|found| found.encode_to_vec()).ok_or_else(|| Error::NotFound {
                collection: class.clone(),
                key: format!("result of {id}: the function still runs"),
            });
        }
        (what, Some(id)) => (what, id),
        (_, None) => return Err(invalid("the key names no object")),
    };
    let at = ObjectAt { class: &class, partition, id: &id };
    match what {
        What::Object => {
            let object = service.object(caller, at).await?;
            Ok(convert::object(at, object).encode_to_vec())
        }
        What::Set => {
            let content = convert::content(service, at, read(given)?)?;
            let written = service.set_object(caller, at, content, asker.terms(UNSAID)).await?;
            Ok(convert::written(written).encode_to_vec())
        }
        What::Merge => {
            let content = convert::content(service, at, read(given)?)?;
            let object = service.merged_object(caller, at, content, asker.terms(UNSAID)).await?;
            Ok(convert::object(at, object).encode_to_vec())
        }
        What::BatchSet => {
            let message: grid::BatchSetValuesRequest = read(given)?;
            let expected = message.expected_object_version;
            let precondition = expected.map_or(UNSAID, Precondition::Version);
            let batch = convert::batch(service, message.values, &message.delete_keys)?;
            let written =
                service.batch_entries(caller, at, batch, asker.terms(precondition)).await?;
            Ok(convert::written(written).encode_to_vec())
        }
        What::Entry(text) => {
            let entry = service.entry_segment(&text)?;
            if payload.is_some() {
                let entry = (entry, convert::val(read(given)?)?);
                let written = service.set_entry(caller, at, entry, asker.terms(UNSAID)).await?;
                return Ok(convert::written(written).encode_to_vec());
            }
            let found = service.entry(caller, at, &entry).await?;
            let value = grid::ValueResponse {
                value: Some(convert::value(found.val)),
                object_version: Some(found.version),
                key: Some(entry.to_string()),
                deleted: None,
            };
            Ok(value.encode_to_vec())
        }
        What::Entries => entries(service, caller, at, given).await,
        _ => Err(invalid("this key answers no queries")),
    }
}

/// Takes what was put.
pub(super) async fn put(
    service: &Arc<Service>,
    asker: &Asker,
    key: Key,
    payload: &[u8],
) -> Result<(), Error> {
    let caller = &asker.caller;
    let Key { class, partition, object, what } = key;
    let id = object.ok_or_else(|| invalid("the key names no object"))?;
    let at = ObjectAt { class: &class, partition, id: &id };
    match what {
        What::Object => {
            let content = convert::content(service, at, read(payload)?)?;
            service.set_object(caller, at, content, asker.terms(UNSAID)).await?;
        }
        What::Entry(text) => {
            let entry = (service.entry_segment(&text)?, convert::val(read(payload)?)?);
            service.set_entry(caller, at, entry, asker.terms(UNSAID)).await?;
        }
        _ => return Err(invalid("nothing is put here: query it")),
    }
    Ok(())
}

/// Deletes what a key names.
pub(super) async fn delete(service: &Arc<Service>, asker: &Asker, key: Key) -> Result<(), Error> {
    let caller = &asker.caller;
    let Key { class, partition, object, what } = key;
    let id = object.ok_or_else(|| invalid("the key names no object"))?;
    let at = ObjectAt { class: &class, partition, id: &id };
    match what {
        What::Object => drop(service.delete_object(caller, at, asker.terms(UNSAID)).await?),
        What::Entry(text) => {
            let entry = service.entry_segment(&text)?;
            service.delete_entry(caller, at, entry, asker.terms(UNSAID)).await?;
        }
        _ => return Err(invalid("nothing is deleted here")),
    }
    Ok(())
}

/// Calls a function, and publishes its answer, or why there is none, where whoever called it waits
/// for it.
pub(super) fn invoke_later(desk: Arc<Desk>, key: Key, sample: Sample) {
    tokio::spawn(async move {
        let place = result_place(&desk, &key);
        let called = match desk.app.places.try_acquire() {
            Ok(_place) => call(&desk, key, &sample).await,
            Err(_) => Err(no_place()),
        };
        let answer = match called {
            Ok(answer) => answer,
            // Another call has this id, and whoever made that one waits there.
            Err(refusal) if refusal.problem().code == Code::UniqueViolation => {
                let error = &refusal.problem().detail;
                return warn!(key = place, error, "a call over Zenoh was refused");
            }
            Err(refusal) => refused(refusal.problem()),
        };
        if let Err(error) = desk.session.put(place, answer.encode_to_vec()).await {
            debug!(%error, "a result was not published");
        }
    });
}

async fn call(desk: &Desk, key: Key, sample: &Sample) -> Result<grid::InvocationResponse, Refusal> {
    let asker = note::read(desk, sample.attachment()).await?;
    let Key { class, partition, object, what } = key;
    let What::InvokeLater(function, id) = what else {
        return Err(invalid("the key names no call").into());
    };
    let payload = sample.payload().to_bytes();
    let invoke = read_invoke(class, partition, object, function, &payload)?.deeper(asker.depth);
    Ok(desk.app.service.invoke_as(&asker.caller, invoke, &id).await?)
}

/// Where the result of a call is awaited: in the partition that the call is in, if that is known.
fn result_place(desk: &Desk, key: &Key) -> String {
    let Key { class, partition, object, what } = key;
    let (function, id) = match what {
        What::InvokeLater(function, id) => (function.as_str(), id.as_str()),
        _ => ("", ""),
    };
    let partition = match (partition, object) {
        (Partition::Number(number), _) => number.to_string(),
        (Partition::Auto, object) => {
            let auto = desk.app.service.auto_partition(class, object.as_ref());
            auto.map_or_else(|_| "auto".to_owned(), |number| number.to_string())
        }
    };
    super::result_key(class, &partition, object.as_ref(), function, id)
}

async fn list(
    service: &Service,
    caller: &Identity,
    class: &str,
    partition: Partition,
    given: &[u8],
) -> Result<Vec<u8>, Error> {
    let partition = convert::listed(partition)?;
    let message: grid::ListObjectsRequest = read(given)?;
    let list = ObjectList {
        class,
        partition,
        prefix: message.object_id_prefix.as_deref().unwrap_or_default(),
        order: ObjectOrder::Bytes,
        limit: convert::limit(message.limit),
        after: convert::cursor(message.cursor.as_deref())?,
    };
    Ok(delimited(&convert::object_items(service.list_objects(caller, list).await?)))
}

async fn entries(
    service: &Service,
    caller: &Identity,
    at: ObjectAt<'_>,
    given: &[u8],
) -> Result<Vec<u8>, Error> {
    let message: grid::ListValuesRequest = read(given)?;
    let list = EntryList {
        prefix: message.key_prefix.as_deref().unwrap_or_default(),
        limit: convert::limit(message.limit),
        after: convert::cursor(message.cursor.as_deref())?,
    };
    Ok(delimited(&convert::entry_items(service.list_entries(caller, at, list).await?)))
}

/// The number of a partition.
fn number(
    service: &Service,
    caller: &Identity,
    class: &str,
    partition: Partition,
    object: Option<&ObjectId>,
) -> Result<u16, Error> {
    let none = ObjectId::Numeric(0);
    service.partition(caller, ObjectAt { class, partition, id: object.unwrap_or(&none) })
}

/// A call; where it goes says the key, and the message what it is given.
fn read_invoke(
    class: String,
    partition: Partition,
    object: Option<ObjectId>,
    function: String,
    given: &[u8],
) -> Result<Invoke, Error> {
    let (options, payload) = if object.is_some() {
        let message: grid::ObjectInvocationRequest = read(given)?;
        (message.options, message.payload)
    } else {
        let message: grid::InvocationRequest = read(given)?;
        (message.options, message.payload)
    };
    Ok(Invoke { class, partition, object, function, options, payload })
}

fn read<T: Message + Default>(bytes: &[u8]) -> Result<T, Error> {
    T::decode(bytes).map_err(|error| Error::Invalid { detail: format!("the payload: {error}") })
}

fn delimited(items: &[impl Message]) -> Vec<u8> {
    items.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
}

fn invalid(detail: &str) -> Error {
    Error::Invalid { detail: detail.to_owned() }
}

/// Nothing is demanded of the stored object.
const UNSAID: Precondition = Precondition::Unsaid;
