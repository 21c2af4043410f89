//! What keys ask of the service, and what they put there.

use std::sync::Arc;

use keyloom_api::grid::{self, ResponseStatus};
use keyloom_engine::{
    EntryList, Error, Identity, ObjectAt, ObjectId, ObjectList, ObjectOrder, OutboxAt, Partition,
    Precondition,
};
use prost::Message;
use tracing::{debug, warn};
use zenoh::Session;

use super::key::{Key, What};
use crate::app::App;
use crate::functions::failed;
use crate::grid as convert;
use crate::service::{Invoke, Service};

/// The answer to a query: a message, or messages behind each other with their lengths.
pub(super) async fn answer(
    service: &Arc<Service>,
    caller: &Identity,
    key: Key,
    payload: Option<&[u8]>,
) -> Result<Vec<u8>, Error> {
    let Key { class, partition, object, what } = key;
    let given = payload.unwrap_or_default();
    let (what, id) = match (what, object) {
        (What::List, _) => return list(service, caller, &class, partition, given).await,
        (What::Invoke(function), object) => {
            let invoke = read_invoke(class, partition, object, function, given)?;
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
            let content = convert::content(service, read(given)?)?;
            let written = service.set_object(caller, at, content, UNSAID.into()).await?;
            Ok(convert::written(written).encode_to_vec())
        }
        What::Merge => {
            let content = convert::content(service, read(given)?)?;
            let object = service.merged_object(caller, at, content, UNSAID.into()).await?;
            Ok(convert::object(at, object).encode_to_vec())
        }
        What::BatchSet => {
            let message: grid::BatchSetValuesRequest = read(given)?;
            let expected = message.expected_object_version;
            let precondition = expected.map_or(UNSAID, Precondition::Version);
            let batch = convert::batch(service, message.values, &message.delete_keys)?;
            let written = service.batch_entries(caller, at, batch, precondition.into()).await?;
            Ok(convert::written(written).encode_to_vec())
        }
        What::Entry(text) => {
            let entry = service.entry_segment(&text)?;
            if payload.is_some() {
                let entry = (entry, convert::val(read(given)?)?);
                let written = service.set_entry(caller, at, entry, UNSAID.into()).await?;
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
    caller: &Identity,
    key: Key,
    payload: &[u8],
) -> Result<(), Error> {
    let Key { class, partition, object, what } = key;
    let id = object.ok_or_else(|| invalid("the key names no object"))?;
    let at = ObjectAt { class: &class, partition, id: &id };
    match what {
        What::Object => {
            let content = convert::content(service, read(payload)?)?;
            service.set_object(caller, at, content, UNSAID.into()).await?;
        }
        What::Entry(text) => {
            let entry = (service.entry_segment(&text)?, convert::val(read(payload)?)?);
            service.set_entry(caller, at, entry, UNSAID.into()).await?;
        }
        _ => return Err(invalid("nothing is put here: query it")),
    }
    Ok(())
}

/// Deletes what a key names.
pub(super) async fn delete(
    service: &Arc<Service>,
    caller: &Identity,
    key: Key,
) -> Result<(), Error> {
    let Key { class, partition, object, what } = key;
    let id = object.ok_or_else(|| invalid("the key names no object"))?;
    let at = ObjectAt { class: &class, partition, id: &id };
    match what {
        What::Object => drop(service.delete_object(caller, at, UNSAID.into()).await?),
        What::Entry(text) => {
            let entry = service.entry_segment(&text)?;
            service.delete_entry(caller, at, entry, UNSAID.into()).await?;
        }
        _ => return Err(invalid("nothing is deleted here")),
    }
    Ok(())
}

/// Calls a function, and publishes its answer where whoever called it waits for it.
pub(super) fn invoke_later(
    app: &Arc<App>,
    session: &Session,
    caller: Identity,
    key: Key,
    payload: &[u8],
) -> Result<(), Error> {
    let Key { class, partition, object, what } = key;
    let What::InvokeLater(function, id) = what else { return Ok(()) };
    let number = number(&app.service, &caller, &class, partition, object.as_ref())?;
    let place = super::result_key(&class, number, object.as_ref(), &function, &id);
    let invoke = read_invoke(class, partition, object, function, payload)?;
    let (app, session) = (Arc::clone(app), session.clone());
    tokio::spawn(async move {
        let Ok(_place) = app.places.try_acquire() else {
            return warn!(key = place, "a call over Zenoh found no place");
        };
        let answer = app.service.invoke_as(&caller, invoke, &id).await;
        let answer = answer
            .unwrap_or_else(|error| failed(ResponseStatus::InvalidRequest, error.to_string()));
        if let Err(error) = session.put(place, answer.encode_to_vec()).await {
            debug!(%error, "a result was not published");
        }
    });
    Ok(())
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
