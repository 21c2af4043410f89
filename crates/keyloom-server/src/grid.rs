//! Between the messages of the object grid and what the engine is asked and answers.
//!
//! Destructured without `..` where a message has many fields, so that a new one does not compile
//! until it is decided.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Display;

use keyloom_api::{self as api, grid};
use keyloom_engine::schema::{DataTrigger, Event, FuncTrigger, TriggerTarget};
use keyloom_engine::{
    EntryBatch, EntryKey, EntryPage, Error, Object, ObjectAt, ObjectContent, ObjectId, ObjectItem,
    ObjectPage, ObjectStats, ObjectWritten, Partition, Rollout, Val, ValKind,
};

use crate::limits::LIST_LIMIT;
use crate::service::Service;

/// The header that says `auto` in a request, and the number of the partition in an answer.
pub(crate) const PARTITION: &str = "keyloom-partition";

/// What an object is to be. Where it is, the request says.
pub(crate) fn content(
    service: &Service,
    at: ObjectAt<'_>,
    data: grid::ObjData,
) -> Result<ObjectContent, Error> {
    let grid::ObjData { metadata, entries, event, entries_str } = data;
    if let Some(grid::ObjMeta { cls_id, partition_id, object_id, object_id_str, version }) =
        metadata
    {
        // What a message does not say is empty, or zero.
        let claim = api::ObjectClaim {
            cls_id: Some(cls_id).filter(|class| !class.is_empty()),
            partition_id: Some(partition_id).filter(|number| *number > 0),
            object_id,
            object_id_str,
            version,
        };
        check_claim(service, at, &claim)?;
    }
    let mut content = ObjectContent::default();
    for (key, value) in entries {
        content.entries.insert(EntryKey::Numeric(key), val(value)?);
    }
    for (text, value) in entries_str {
        let key = service.entry_key(None, Some(&text))?;
        insert_once(&mut content.entries, key, val(value)?)?;
    }
    content.event = event.map(|event| triggers(service, event)).transpose()?;
    Ok(content)
}

/// Refuses an object that says of itself that it is elsewhere.
pub(crate) fn check_claim(
    service: &Service,
    at: ObjectAt<'_>,
    claim: &api::ObjectClaim,
) -> Result<(), Error> {
    let api::ObjectClaim { cls_id, partition_id, object_id, object_id_str, version: _ } = claim;
    let wrong = |what: &str, said: &dyn Display, is: &dyn Display| {
        let detail = format!("metadata names the {what} `{said}`, and the request `{is}`");
        Err(invalid(detail))
    };
    if let Some(class) = cls_id.as_ref().filter(|class| *class != at.class) {
        return wrong("class", class, &at.class);
    }
    let partition = match at.partition {
        Partition::Number(number) => Some(number),
        Partition::Auto => service.auto_partition(at.class, Some(at.id)).ok().map(u32::from),
    };
    if let (Some(said), Some(is)) = (partition_id, partition)
        && *said != is
    {
        return wrong("partition", said, &is);
    }
    match (object_id, object_id_str) {
        (Some(_), Some(_)) => Err(invalid("metadata names the object twice".to_owned())),
        (Some(number), None) if ObjectId::Numeric(*number) != *at.id => {
            wrong("object", number, at.id)
        }
        (None, Some(text)) if service.object_segment(text)? != *at.id => {
            wrong("object", text, at.id)
        }
        _ => Ok(()),
    }
}

/// The entries that are set and deleted together.
pub(crate) fn batch(
    service: &Service,
    values: BTreeMap<String, grid::ValData>,
    delete_keys: &[String],
) -> Result<EntryBatch, Error> {
    let mut batch = EntryBatch::default();
    for (text, value) in values {
        insert_once(&mut batch.set, service.entry_segment(&text)?, val(value)?)?;
    }
    for text in delete_keys {
        batch.delete.push(service.entry_segment(text)?);
    }
    Ok(batch)
}

/// The partition that a segment of an address or a key names.
pub(crate) fn partition(text: &str) -> Result<Partition, Error> {
    if text == "auto" {
        return Ok(Partition::Auto);
    }
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number
        .map(Partition::Number)
        .ok_or_else(|| invalid(format!("`{text}` is no partition: it is a number, or auto")))
}

/// The partition of a list.
pub(crate) fn listed(partition: Partition) -> Result<u32, Error> {
    match partition {
        Partition::Number(number) => Ok(number),
        Partition::Auto => Err(invalid("this is of one partition: auto is none".to_owned())),
    }
}

/// A value.
pub(crate) fn val(value: grid::ValData) -> Result<Val, Error> {
    let kind = match grid::ValType::try_from(value.r#type) {
        Ok(grid::ValType::Byte) => ValKind::Byte,
        Ok(grid::ValType::CrdtMap) => ValKind::CrdtMap,
        Err(_) => return Err(invalid(format!("there is no type {} of values", value.r#type))),
    };
    Ok(Val { kind, data: value.data })
}

/// What is called when an object changes.
pub(crate) fn triggers(service: &Service, event: grid::ObjectEvent) -> Result<Event, Error> {
    let grid::ObjectEvent { func_trigger, data_trigger, data_trigger_str } = event;
    let targets = |all: Vec<grid::TriggerTarget>| {
        all.into_iter().map(|one| target(service, one)).collect::<Result<Vec<_>, Error>>()
    };
    let data = |trigger: grid::DataTrigger| {
        let grid::DataTrigger { on_create, on_update, on_delete } = trigger;
        Ok::<_, Error>(DataTrigger {
            on_create: targets(on_create)?,
            on_update: targets(on_update)?,
            on_delete: targets(on_delete)?,
        })
    };
    let mut triggers = Event::default();
    for (name, trigger) in func_trigger {
        let grid::FuncTrigger { on_complete, on_error } = trigger;
        let trigger =
            FuncTrigger { on_complete: targets(on_complete)?, on_error: targets(on_error)? };
        triggers.func_trigger.insert(name, trigger);
    }
    for (key, trigger) in data_trigger {
        triggers.data_trigger.insert(key, data(trigger)?);
    }
    for (key, trigger) in data_trigger_str {
        triggers.data_trigger_str.insert(key, data(trigger)?);
    }
    Ok(triggers)
}

fn target(service: &Service, target: grid::TriggerTarget) -> Result<TriggerTarget, Error> {
    let grid::TriggerTarget {
        cls_id: class,
        partition_id: partition,
        object_id,
        fn_id: function,
        req_options: options,
        object_id_str,
    } = target;
    let object = match (object_id, object_id_str) {
        (None, None) => None,
        (number, text) => Some(service.object_id(number, text.as_deref())?),
    };
    Ok(TriggerTarget { class, partition, object, function, options })
}

/// An object as a message.
pub(crate) fn object(at: ObjectAt<'_>, object: Object) -> grid::ObjData {
    let Object { partition, version, created_at: _, updated_at: _, entries, event } = object;
    let (object_id, object_id_str) = identity(at.id);
    let metadata = grid::ObjMeta {
        cls_id: at.class.to_owned(),
        partition_id: u32::from(partition),
        object_id,
        object_id_str,
        version: Some(version),
    };
    let mut data = grid::ObjData {
        metadata: Some(metadata),
        event: event.map(event_message),
        ..grid::ObjData::default()
    };
    for (key, val) in entries {
        match key {
            EntryKey::Numeric(key) => data.entries.insert(key, value(val)),
            EntryKey::String(key) => data.entries_str.insert(key.to_string(), value(val)),
        };
    }
    data
}

/// An object as JSON.
pub(crate) fn object_json(message: grid::ObjData) -> api::Object {
    let grid::ObjData { metadata, entries, event, entries_str } = message;
    let metadata = metadata.unwrap_or_default();
    let grid::ObjMeta { cls_id, partition_id, object_id, object_id_str, version } = metadata;
    let version = version.unwrap_or_default();
    api::Object {
        metadata: api::ObjectMetadata { cls_id, partition_id, object_id, object_id_str, version },
        entries: entries.into_iter().map(|(key, value)| (key, value.into())).collect(),
        entries_str: entries_str.into_iter().map(|(key, value)| (key, value.into())).collect(),
        event,
    }
}

/// The objects of a page; the last one says where the next page begins.
pub(crate) fn object_items(page: ObjectPage) -> Vec<grid::ObjectMetaEnvelope> {
    let envelope = |item: ObjectItem| grid::ObjectMetaEnvelope {
        object_id: item.id.to_string(),
        version: item.version,
        entry_count: item.entries,
        next_cursor: None,
    };
    let mut items: Vec<_> = page.items.into_iter().map(envelope).collect();
    if let Some(last) = items.last_mut() {
        last.next_cursor = page.next.map(String::into_bytes);
    }
    items
}

/// The entries of a page; the last one says where the next page begins.
pub(crate) fn entry_items(page: EntryPage) -> Vec<grid::ValueEnvelope> {
    let version = page.version;
    let envelope = |(key, val): (EntryKey, Val)| grid::ValueEnvelope {
        key: key.to_string(),
        value: Some(value(val)),
        version,
        next_cursor: None,
    };
    let mut items: Vec<_> = page.items.into_iter().map(envelope).collect();
    if let Some(last) = items.last_mut() {
        last.next_cursor = page.next.map(String::into_bytes);
    }
    items
}

/// The most items of a page, as a message says it.
pub(crate) fn limit(asked: u32) -> usize {
    if asked == 0 { LIST_LIMIT } else { usize::try_from(asked).unwrap_or(usize::MAX) }
}

/// A cursor is text, whatever bytes a client can send.
pub(crate) fn cursor(bytes: Option<&[u8]>) -> Result<Option<&str>, Error> {
    let text = bytes.filter(|bytes| !bytes.is_empty()).map(std::str::from_utf8).transpose();
    text.map_err(|_| invalid("the cursor is not one that this server has given out".to_owned()))
}

/// How much there is in a partition.
pub(crate) fn shard(class: &str, partition: u16, stats: ObjectStats) -> grid::ShardStats {
    let ObjectStats {
        numeric_objects,
        string_objects,
        numeric_entries,
        string_entries,
        waiting_events: _,
        dead_letters: _,
    } = stats;
    grid::ShardStats {
        collection: class.to_owned(),
        partition_id: u32::from(partition),
        shard_id: 0,
        count: numeric_objects + string_objects,
        string_objects,
        numeric_entries,
        string_entries,
    }
}

/// What the server accepts at present.
pub(crate) fn capabilities(rollout: &Rollout) -> grid::CapabilitiesResponse {
    grid::CapabilitiesResponse {
        string_ids: rollout.string_ids,
        string_entry_keys: rollout.string_keys,
        granular_entry_storage: true,
        event_pipeline_v2: true,
    }
}

/// A value as a message.
pub(crate) fn value(val: Val) -> grid::ValData {
    let Val { kind, data } = val;
    let kind = match kind {
        ValKind::Byte => grid::ValType::Byte,
        ValKind::CrdtMap => grid::ValType::CrdtMap,
    };
    grid::ValData { data, r#type: kind.into() }
}

/// What a change has done, as a message.
pub(crate) fn written(written: ObjectWritten) -> grid::EmptyResponse {
    grid::EmptyResponse {
        object_version: Some(written.version),
        warning: written.warning.map(str::to_owned),
    }
}

/// An identity in the field of its form.
pub(crate) fn identity(id: &ObjectId) -> (Option<u64>, Option<String>) {
    match id {
        ObjectId::Numeric(number) => (Some(*number), None),
        ObjectId::String(text) => (None, Some(text.as_str().to_owned())),
    }
}

/// What is called when an object changes, as a message.
pub(crate) fn event_message(event: Event) -> grid::ObjectEvent {
    let Event { func_trigger, data_trigger, data_trigger_str } = event;
    let functions = func_trigger.into_iter().map(|(name, trigger)| {
        let FuncTrigger { on_complete, on_error } = trigger;
        let (on_complete, on_error) = (target_messages(on_complete), target_messages(on_error));
        (name, grid::FuncTrigger { on_complete, on_error })
    });
    grid::ObjectEvent {
        func_trigger: functions.collect(),
        data_trigger: data_trigger.into_iter().map(|(key, it)| (key, data_message(it))).collect(),
        data_trigger_str: data_trigger_str
            .into_iter()
            .map(|(key, it)| (key, data_message(it)))
            .collect(),
    }
}

fn data_message(trigger: DataTrigger) -> grid::DataTrigger {
    let DataTrigger { on_create, on_update, on_delete } = trigger;
    grid::DataTrigger {
        on_create: target_messages(on_create),
        on_update: target_messages(on_update),
        on_delete: target_messages(on_delete),
    }
}

fn target_messages(targets: Vec<TriggerTarget>) -> Vec<grid::TriggerTarget> {
    let message = |target| {
        let TriggerTarget { class, partition, object, function, options } = target;
        let (object_id, object_id_str) = object.as_ref().map_or((None, None), identity);
        grid::TriggerTarget {
            cls_id: class,
            partition_id: partition,
            object_id,
            fn_id: function,
            req_options: options,
            object_id_str,
        }
    };
    targets.into_iter().map(message).collect()
}

/// Two spellings of one key are not two entries, and which of the values should win nobody knows.
fn insert_once(
    entries: &mut BTreeMap<EntryKey, Val>,
    key: EntryKey,
    val: Val,
) -> Result<(), Error> {
    match entries.entry(key) {
        Entry::Vacant(place) => {
            place.insert(val);
            Ok(())
        }
        Entry::Occupied(taken) => {
            let key = taken.key();
            Err(invalid(format!("entry `{key}` is named twice, in two spellings")))
        }
    }
}

fn invalid(detail: String) -> Error {
    Error::Invalid { detail }
}
