//! Answers about writes, schemas, changes and consistency.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::document::Document;
use crate::page::Cost;

/// That a document is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    /// Its key in text spelling.
    pub key: String,
    /// Whether there was one.
    pub deleted: bool,
    /// The version of the deletion, which is never used again; absent if there was no document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Documents that were asked for by their keys.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Documents {
    /// In the order of the keys; `null` for one that does not exist.
    pub items: Vec<Option<Document>>,
}

/// How many documents of a filter are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedMany {
    /// How many this call has deleted, all in one commit.
    pub deleted: u64,
    /// Whether there may be more: call again.
    pub more: bool,
    /// What finding them has cost.
    pub cost: Cost,
}

/// What the operations of a batch did.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// In the order of the operations.
    pub results: Vec<BatchResult>,
}

/// What one operation did.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// What happened.
    pub outcome: Outcome,
    /// The key of the document.
    pub key: String,
    /// The version that the operation gave it; absent if nothing happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The document, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Document>,
}

/// What happened to a document or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is new.
    Created,
    /// It has changed.
    Updated,
    /// It is gone.
    Deleted,
    /// There was nothing to delete.
    Absent,
}

/// Whether the server can answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready`.
    pub status: String,
    /// Indexes and unique claims that are still being built, as `collection index:name`.
    pub building: Vec<String>,
}

/// What a write would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WritePlan {
    /// The keys that it puts.
    pub puts: Vec<PlannedKey>,
    /// The keys that it deletes.
    pub deletes: Vec<PlannedKey>,
    /// How many conditions its commit checks.
    pub checks: usize,
    /// How many changes it adds to the feed.
    pub changes: usize,
}

/// One key of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedKey {
    /// `document`, `index:name`, `unique:name`, `tombstone` or `counter`.
    pub role: String,
    /// The key in text spelling.
    pub key: String,
    /// The bytes of the packed key.
    pub key_bytes: usize,
    /// The bytes of the value.
    pub value_bytes: usize,
}

/// What a schema changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaChange {
    /// The version of the catalog once it is applied.
    pub version: u64,
    /// Whether it is in force, or was only planned.
    pub applied: bool,
    /// The steps; empty if nothing changes.
    pub steps: Vec<CollectionChange>,
}

/// One step of a schema change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CollectionChange {
    /// What changes.
    pub change: StepKind,
    /// The collection.
    pub collection: String,
    /// `index:name` or `unique:name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many stored documents have to be read for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
}

/// What a step of a schema change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A collection is new.
    CollectionAdded,
    /// An index or a unique claim is new.
    PathAdded,
    /// An index or a unique claim is gone.
    PathRemoved,
    /// Rules changed.
    RulesChanged,
    /// A class of the object grid is new.
    ClassAdded,
    /// What a class says has changed.
    ClassChanged,
    /// Something that this release does not name.
    Other,
}

/// What one template of a schema costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathCost {
    /// `key`, `unique:name` or `index:name`.
    pub path: String,
    /// Its template.
    pub template: String,
    /// The longest key in bytes, packed.
    pub key_bytes_max: usize,
    /// The most keys that one document has under it.
    pub keys_per_document: usize,
    /// What to think about.
    pub lints: Vec<String>,
}

/// The collections that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Collections {
    /// Their names.
    pub collections: Vec<String>,
}

/// What there is to know of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// How many documents it holds; absent for a caller who may not read all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
    /// Its key formats, newest first.
    pub formats: Vec<Format>,
    /// Its schema, in the shape of a schema file.
    #[schema(value_type = Object)]
    pub schema: Json,
    /// Its indexes and unique claims.
    pub indexes: Vec<Index>,
}

/// One generation of the document keys of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Format {
    /// Its key template.
    pub template: String,
    /// How many documents have such a key; absent for a caller who may not read all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
}

/// What there is to know of an index or a unique claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Index {
    /// `index:name` or `unique:name`.
    pub path: String,
    /// Its key template.
    pub template: String,
    /// `ready`, or `building` while older documents are still missing.
    pub state: String,
}

/// One item of the change feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Where it stands in the feed: ask for what is after it to go on.
    pub position: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// To what it happened.
    #[serde(flatten)]
    pub what: Changed,
    /// The version that the change gave it.
    pub version: u64,
}

/// To what something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Changed {
    /// To a document.
    Document {
        /// The collection.
        collection: String,
        /// The key of the document in text spelling.
        key: String,
    },
    /// To an object.
    Object {
        /// The class.
        class: String,
        /// The partition.
        partition: u16,
        /// The identity of the object.
        object: String,
        /// The entries that were touched.
        entries: Vec<EntryChange>,
    },
}

/// What happened to an entry of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EntryChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The key of the entry.
    pub key: String,
}

/// What happened to a document or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It is new under this key.
    Created,
    /// It changed.
    Updated,
    /// It is gone from this key.
    Deleted,
}

/// What a check of all documents and keys found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    /// How many documents were read.
    pub documents: u64,
    /// How many objects were read.
    #[serde(default)]
    pub objects: u64,
    /// How many of their keys were read.
    pub keys: u64,
    /// What is wrong.
    pub problems: Vec<CheckProblem>,
    /// How many problems were mended.
    pub repaired: u64,
}

/// One thing that a check found wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckProblem {
    /// The collection.
    pub collection: String,
    /// `key`, `index:name` or `unique:name`.
    pub path: String,
    /// The key in text spelling.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_without_a_document_has_no_version() {
        let absent = Deleted { key: "k".to_owned(), deleted: false, version: None };
        assert_eq!(serde_json::to_string(&absent).unwrap(), r#"{"key":"k","deleted":false}"#);
    }

    #[test]
    fn a_step_says_only_what_concerns_it() {
        let step = CollectionChange {
            change: StepKind::PathRemoved,
            collection: "a".to_owned(),
            path: Some("index:b".to_owned()),
            documents: None,
        };
        let text = serde_json::to_string(&step).unwrap();
        assert_eq!(text, r#"{"change":"path_removed","collection":"a","path":"index:b"}"#);
        assert_eq!(serde_json::from_str::<CollectionChange>(&text).unwrap(), step);
    }

    #[test]
    fn a_change_says_what_happened_in_a_word() {
        let change = Change {
            position: 3,
            kind: ChangeKind::Deleted,
            what: Changed::Document { collection: "a".to_owned(), key: "k".to_owned() },
            version: 9,
        };
        let text = serde_json::to_string(&change).unwrap();
        let expected = r#"{"position":3,"kind":"deleted","collection":"a","key":"k","version":9}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
    }

    #[test]
    fn a_change_of_an_object_names_its_entries() {
        let entry = EntryChange { kind: ChangeKind::Created, key: "1".to_owned() };
        let (class, object) = ("c".to_owned(), "o".to_owned());
        let what = Changed::Object { class, partition: 7, object, entries: vec![entry] };
        let change = Change { position: 3, kind: ChangeKind::Updated, what, version: 9 };
        let text = serde_json::to_string(&change).unwrap();
        let expected = concat!(
            r#"{"position":3,"kind":"updated","class":"c","partition":7,"object":"o","#,
            r#""entries":[{"kind":"created","key":"1"}],"version":9}"#
        );
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
    }
}
