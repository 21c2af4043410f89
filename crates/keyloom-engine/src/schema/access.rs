//! Who may read and write the documents of a collection, as people write it.
//!
//! A1: What nobody said is `managed`: a collection that was declared without a thought shows and
//!     gives everything to its owners and the administrators, and nothing to others.

use serde::{Deserialize, Serialize};

/// Who may read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as in { read = \"public\", write = \"managed\" }"
)]
pub struct AccessSchema {
    /// Who may read a document.
    #[serde(default)]
    pub read: AccessRule,
    /// Who may create, change and delete one.
    #[serde(default)]
    pub write: AccessRule,
    /// The fields that hold the subjects whose document it is; without any, `@owner`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

/// Who may do something with a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRule {
    /// Anyone.
    Public,
    /// Its owner only.
    Private,
    /// Its owner and administrators.
    #[default]
    Managed,
    /// Administrators only.
    Admin,
}

impl AccessSchema {
    /// Whether it says what would hold without it.
    pub(super) fn is_default(&self) -> bool {
        *self == AccessSchema::default()
    }
}
