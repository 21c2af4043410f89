//! Classes of the object grid as people write them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::Event;

/// How the objects of one class are spread, what can be invoked on them, and what their changes
/// trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSchema {
    /// What the class is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// How many partitions its objects are spread over; the number stays once there are
    /// objects.
    #[serde(default = "one_partition")]
    pub partitions: u32,
    /// What can be invoked, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, FunctionSchema>,
    /// What changes of all its objects trigger, beside what each of them says itself.
    #[serde(default, skip_serializing_if = "Event::is_empty")]
    pub event: Event,
}

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionSchema {
    /// The gRPC address of a server that implements `OprcFunction`.
    pub url: String,
    /// How long an invocation may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl Default for ClassSchema {
    fn default() -> ClassSchema {
        ClassSchema {
            about: None,
            partitions: one_partition(),
            functions: BTreeMap::new(),
            event: Event::default(),
        }
    }
}

fn one_partition() -> u32 {
    1
}
