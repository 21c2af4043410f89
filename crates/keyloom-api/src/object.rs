//! Objects of the grid as JSON.
//!
//! O1: A value goes out as `{"data": base64, "type"}`. It comes in like that, or as any other JSON,
//!     which is then the value, byte by byte as it came. A type that is none is refused.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::grid;

/// What an object is to be.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectBody {
    /// Where the object is says the address; what is here may repeat it, and not contradict it.
    pub metadata: Option<ObjectClaim>,
    /// The entries with numeric keys.
    #[schema(value_type = Object)]
    pub entries: BTreeMap<u32, ValueBody>,
    /// The entries with string keys.
    #[schema(value_type = Object)]
    pub entries_str: BTreeMap<String, ValueBody>,
    /// What is called when the object changes.
    #[schema(value_type = Object)]
    pub event: Option<grid::ObjectEvent>,
}

/// What a body says of where its object is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectClaim {
    /// The class.
    pub cls_id: Option<String>,
    /// The partition.
    pub partition_id: Option<u32>,
    /// Its number.
    pub object_id: Option<u64>,
    /// Its name.
    pub object_id_str: Option<String>,
    /// The version that it was read with; `If-Match` says which one it has to have.
    pub version: Option<u64>,
}

/// A value as it comes (O1).
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ValueBody(Box<RawValue>);

/// A value as it goes out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The bytes, in base64.
    pub data: String,
    /// What they are.
    #[serde(rename = "type", default)]
    pub kind: ValueKind,
}

/// What looks like a value that goes out, whatever its type is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagged {
    data: String,
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
}

/// What the bytes of a value are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// Any bytes.
    #[default]
    Byte,
    /// A map that replicas merge.
    CrdtMap,
}

/// Entries that are set and deleted in one commit.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntryBatchBody {
    /// The entries to set; digits are a number.
    #[schema(value_type = Object)]
    pub values: BTreeMap<String, ValueBody>,
    /// The entries to delete; digits are a number.
    pub delete_keys: Vec<String>,
    /// The version that the object has to have.
    pub expected_object_version: Option<u64>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Object {
    /// Which object it is.
    pub metadata: ObjectMetadata,
    /// The entries with numeric keys.
    #[schema(value_type = Object)]
    pub entries: BTreeMap<u32, Value>,
    /// The entries with string keys.
    #[schema(value_type = Object)]
    pub entries_str: BTreeMap<String, Value>,
    /// What is called when the object changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub event: Option<grid::ObjectEvent>,
}

/// Which object it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectMetadata {
    /// The class.
    pub cls_id: String,
    /// The partition.
    pub partition_id: u32,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_id: Option<u64>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_id_str: Option<String>,
    /// Its version.
    pub version: u64,
}

/// What a change of an object has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectWritten {
    /// The version that the change has made.
    pub version: u64,
    /// The partition that the object is in.
    pub partition_id: u32,
    /// What the caller should do otherwise from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// The key as it is stored; numbers in decimal.
    pub key: String,
    /// The bytes of the value, in base64.
    pub data: String,
    /// What they are.
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// The version of the object.
    pub version: u64,
}

/// One page of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntryPage {
    /// The entries, in the order of their keys.
    pub items: Vec<Entry>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// One object of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectListed {
    /// The id; numbers in decimal.
    pub object_id: String,
    /// Its version.
    pub version: u64,
    /// How many entries it has.
    pub entry_count: u64,
}

/// One page of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectPage {
    /// The objects, in the order of their ids.
    pub items: Vec<ObjectListed>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// What the server accepts at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// String object ids.
    pub string_ids: bool,
    /// String entry keys.
    pub string_entry_keys: bool,
    /// Each entry is stored by itself.
    pub granular_entry_storage: bool,
    /// Triggers for single entries.
    pub event_pipeline_v2: bool,
}

/// How far string identities are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// 0 to 6.
    pub phase: u8,
    /// Whether objects are named by strings; follows from the phase if it is not said.
    #[serde(default)]
    pub string_ids: Option<bool>,
    /// Whether entries with string keys are written; follows from the phase if it is not said.
    #[serde(default)]
    pub string_keys: Option<bool>,
    /// Whether lists hide objects with string ids; follows from the phase if it is not said.
    #[serde(default)]
    pub write_only: Option<bool>,
    /// The longest string identity in bytes; 160 if it is not said.
    #[serde(default)]
    pub id_len_max: Option<u16>,
}

/// The classes that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClassNames {
    /// Their names, in order: those that the caller may read.
    pub classes: Vec<String>,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What it says, as in a schema.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// How much there is in its partitions; empty ones are left out.
    pub partitions: Vec<PartitionStats>,
}

/// How much there is in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartitionStats {
    /// The partition.
    pub partition_id: u32,
    /// All objects.
    pub objects: u64,
    /// The objects with string ids.
    pub string_objects: u64,
    /// The entries with numeric keys.
    pub numeric_entries: u64,
    /// The entries with string keys.
    pub string_entries: u64,
    /// The events that wait for delivery.
    pub waiting_events: u64,
    /// The events that could not be delivered.
    pub dead_letters: u64,
}

/// What a function answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invoked {
    /// The answer, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// `OKAY`, `INVALID_REQUEST`, `APP_ERROR` or `SYSTEM_ERROR`.
    pub status: String,
    /// More about it; `error` says what went wrong, `keyloom-code` why it was not called at all.
    #[schema(value_type = Object)]
    pub headers: BTreeMap<String, String>,
    /// By which the result of an asynchronous invocation is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
}

/// An event that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// Its number among the events of its partition.
    pub sequence: u64,
    /// `created`, `updated`, `deleted`, `completed` or `failed`.
    pub cause: String,
    /// The entry, or the function.
    pub of: String,
    /// The object to which it happened.
    pub object_id: Option<String>,
    /// The version that the object had then.
    pub version: u64,
    /// When it happened, in milliseconds since 1970.
    pub time: u64,
    /// The class of the function that was to be called.
    pub target_cls_id: String,
    /// The function that was to be called.
    pub target_fn_id: String,
    /// How many events led to this one, itself included.
    pub depth: u32,
    /// How often its delivery has failed.
    pub attempts: u32,
    /// Why it failed the last time.
    pub error: Option<String>,
}

/// Events that could not be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetters {
    /// The events, in their order.
    pub items: Vec<DeadLetter>,
    /// Where the next page begins, as `from`.
    pub next: Option<u64>,
}

/// Events that are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LettersDeleted {
    /// How many.
    pub deleted: u64,
}

/// An event that is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replayed {
    /// Its number.
    pub sequence: u64,
}

/// What was moved to the layout of today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rewritten {
    /// How many objects.
    pub objects: u64,
}

/// Where an identity falls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectHash {
    /// The identity as it is stored.
    pub object_id: String,
    /// Whether it is `numeric` or a `string`.
    pub variant: String,
    /// SipHash-2-4 with a zero key, in hexadecimal.
    pub hash: String,
    /// The partition that `auto` would choose.
    pub auto_partition: u32,
    /// The partition that the address names.
    pub partition_id: u32,
}

impl ValueBody {
    /// The value, or why it is none.
    pub fn read(self) -> Result<grid::ValData, String> {
        let text = self.0.get();
        // Only an object with these members and no others is taken apart (O1).
        let Ok(Tagged { data, kind }) = serde_json::from_str(text) else {
            return Ok(grid::ValData { data: text.as_bytes().to_vec(), r#type: 0 });
        };
        let kind = kind.map_or(Ok(ValueKind::default()), |kind| {
            let wrong = format!("there is no type {kind} of values: it is byte or crdt_map");
            serde_json::from_value(kind).map_err(|_| wrong)
        });
        let kind = kind?;
        let data = BASE64.decode(data).map_err(|error| format!("data is not base64: {error}"))?;
        let kind = match kind {
            ValueKind::Byte => grid::ValType::Byte,
            ValueKind::CrdtMap => grid::ValType::CrdtMap,
        };
        Ok(grid::ValData { data, r#type: kind.into() })
    }
}

impl From<grid::InvocationResponse> for Invoked {
    fn from(response: grid::InvocationResponse) -> Invoked {
        let status = response.status().as_str_name().to_owned();
        let grid::InvocationResponse { payload, status: _, headers, invocation_id } = response;
        let payload = payload.map(|bytes| BASE64.encode(bytes));
        Invoked { payload, status, headers, invocation_id }
    }
}

impl From<grid::ValData> for Value {
    fn from(value: grid::ValData) -> Value {
        let kind = match value.r#type() {
            grid::ValType::Byte => ValueKind::Byte,
            grid::ValType::CrdtMap => ValueKind::CrdtMap,
        };
        Value { data: BASE64.encode(value.data), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<grid::ValData, String> {
        serde_json::from_str::<ValueBody>(text).unwrap().read()
    }

    #[test]
    fn o1_a_value_comes_as_base64_or_as_any_json() {
        let value = read(r#"{"data": "aGk=", "type": "crdt_map"}"#).unwrap();
        assert_eq!((value.data.as_slice(), value.r#type), (b"hi".as_slice(), 1));
        assert_eq!(read(r#"{"data":"aGk="}"#).unwrap().data, b"hi");
        for text in ["7", "\"shipped\"", r#"{"value": "shipped"}"#, "[1,  2]", "null"] {
            let value = read(text).unwrap();
            assert_eq!((value.data.as_slice(), value.r#type), (text.as_bytes(), 0));
        }
        assert!(read(r#"{"data": "a"}"#).is_err(), "what claims to be base64 has to be");
        for kind in ["\"more\"", "1", "[]"] {
            let refused = read(&format!(r#"{{"data": "aGk=", "type": {kind}}}"#)).unwrap_err();
            assert!(refused.contains(kind) && refused.contains("byte or crdt_map"), "{refused}");
        }
        let other = r#"{"data": "aGk=", "more": 1}"#;
        assert_eq!(read(other).unwrap().data, other.as_bytes());
    }

    #[test]
    fn o1_what_goes_out_can_come_in() {
        let value = grid::ValData { data: vec![0, 255, 7], r#type: 1 };
        let text = serde_json::to_string(&Value::from(value.clone())).unwrap();
        assert_eq!(text, r#"{"data":"AP8H","type":"crdt_map"}"#);
        assert_eq!(read(&text).unwrap(), value);
    }
}
