//! A schema as people write it: TOML (or the same shape in JSON), read into plain types.
//!
//! S1: What is read here is only shape. Meaning (do the templates compile, do the fields exist) is
//!     checked by the catalog, which knows all collections.
//! S2: A member that is not known is an error, so that a typing error never turns a rule off.

mod access;
mod class;
mod event;
mod field;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::SCHEMA_BYTES_MAX;

pub use access::{AccessRule, AccessSchema};
pub use class::{ClassSchema, FunctionSchema};
pub use event::{DataTrigger, Event, FuncTrigger, TriggerTarget};
pub use field::{FieldSchema, Length, Transitions, Words};

/// Collections and classes by name, as one or more files declare them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The collections, by name.
    #[serde(default)]
    pub collections: BTreeMap<String, CollectionSchema>,
    /// The classes of the object grid, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, ClassSchema>,
}

/// How the documents of one collection are built, checked and found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `key` and `fields`")]
pub struct CollectionSchema {
    /// What the collection is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The key template of its documents.
    pub key: String,
    /// Their fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, FieldSchema>,
    /// Templates that only one document may hold, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unique: BTreeMap<String, String>,
    /// Further templates over the same documents, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, IndexSchema>,
    /// When a document no longer changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<FreezeSchema>,
    /// Whether an owner may have one document only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_per_owner: Option<OnePerOwner>,
    /// Who may read and write its documents.
    #[serde(default, skip_serializing_if = "AccessSchema::is_default")]
    pub access: AccessSchema,
    /// How many changes a caller may make here who is no administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_max: Option<u64>,
    /// How many documents there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySchema>,
    /// Sets of documents that are replaced as one, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<String, SetSchema>,
    /// What the engine keeps up to date from another collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derive: Option<DeriveSchema>,
}

/// An index: a template, or a template with a condition and covered fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "IndexForm", into = "IndexForm")]
pub struct IndexSchema {
    /// The key template.
    pub key: String,
    /// Only documents whose fields have these values are in the index.
    pub when: BTreeMap<String, Words>,
    /// Fields whose values are kept in the index, so that a query needs no document.
    pub include: Vec<String>,
}

/// When a document is frozen, and what stays open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreezeSchema {
    /// The values of the stored document that freeze it.
    pub when: BTreeMap<String, Words>,
    /// The fields that may still change.
    #[serde(default)]
    pub except: Vec<String>,
}

/// When an owner is held to one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnePerOwner {
    /// In every mode.
    Always,
    /// In production mode only.
    Production,
}

/// How many documents a collection holds and what happens beyond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitySchema {
    /// The most documents.
    pub max: u64,
    /// What a create beyond that does.
    pub full: WhenFull,
    /// With `evict`: the index whose first document makes room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a create does when the collection is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// It is refused.
    Refuse,
    /// The first document of an index is deleted in the same commit.
    Evict,
}

/// A set of documents that share the leading fields of their key and are replaced as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSchema {
    /// The leading fields of the key that name the set.
    pub by: Vec<String>,
    /// The fewest documents of a stored set.
    #[serde(default)]
    pub min: usize,
    /// The most documents of a set.
    pub max: usize,
}

/// Documents that the engine keeps: sums and counts over the documents of another collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeriveSchema {
    /// The collection that is counted.
    pub from: String,
    /// For each field of this collection's key, the field of the other one that fills it.
    pub group: BTreeMap<String, String>,
    /// Fields of this collection that hold the sum of a field of the other one.
    #[serde(default)]
    pub sum: BTreeMap<String, String>,
    /// The field of this collection that holds the number of documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
}

impl Schema {
    /// Reads a schema from TOML.
    pub fn from_toml(text: &str) -> Result<Schema, Error> {
        check_size(text)?;
        toml::from_str(text).map_err(|error| {
            let at = match error.span() {
                Some(span) => place(text, span.start),
                None => "schema".to_owned(),
            };
            Error::Schema { at, detail: error.message().to_owned() }
        })
    }

    /// Reads a schema from JSON of the same shape.
    pub fn from_json(text: &str) -> Result<Schema, Error> {
        check_size(text)?;
        serde_json::from_str(text).map_err(|error| Error::Schema {
            at: format!("line {}, column {}", error.line(), error.column()),
            detail: error.to_string(),
        })
    }

    /// Adds the collections and classes of another file. Each may be declared once only.
    pub fn merge(&mut self, other: Schema) -> Result<(), Error> {
        let twice = |at: String| Error::Schema {
            at,
            detail: "declared in two files: keep one of them".to_owned(),
        };
        for (name, collection) in other.collections {
            if self.collections.contains_key(&name) {
                return Err(twice(format!("collections.{name}")));
            }
            self.collections.insert(name, collection);
        }
        for (name, class) in other.classes {
            if self.classes.contains_key(&name) {
                return Err(twice(format!("classes.{name}")));
            }
            self.classes.insert(name, class);
        }
        Ok(())
    }
}

/// The two ways to write an index.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "an index is a template, or { key, when?, include? }")]
enum IndexForm {
    Template(String),
    Full(IndexTable),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexTable {
    key: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    when: BTreeMap<String, Words>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    include: Vec<String>,
}

impl From<IndexForm> for IndexSchema {
    fn from(form: IndexForm) -> IndexSchema {
        match form {
            IndexForm::Template(key) => {
                IndexSchema { key, when: BTreeMap::new(), include: Vec::new() }
            }
            IndexForm::Full(IndexTable { key, when, include }) => {
                IndexSchema { key, when, include }
            }
        }
    }
}

impl From<IndexSchema> for IndexForm {
    fn from(index: IndexSchema) -> IndexForm {
        let IndexSchema { key, when, include } = index;
        if when.is_empty() && include.is_empty() {
            return IndexForm::Template(key);
        }
        IndexForm::Full(IndexTable { key, when, include })
    }
}

fn check_size(text: &str) -> Result<(), Error> {
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(Error::LimitExceeded {
            what: "schema bytes".to_owned(),
            found: text.len(),
            max: SCHEMA_BYTES_MAX,
        });
    }
    Ok(())
}

/// Line and column, counted from one, of a byte of `text`.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Schema::from_toml(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn malformed_toml_is_reported_with_its_place() {
        let text = "[collections.a]\nkey = \n";
        let error = Schema::from_toml(text).unwrap_err().to_string();
        assert!(error.starts_with("line 2, column 7: "), "{error}");
    }

    #[test]
    fn an_unknown_member_is_an_error_and_not_ignored() {
        let error = Schema::from_toml("[collections.a]\nkey = \"a:{id}\"\nindices = {}\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 3") && error.contains("indices"), "{error}");
    }

    #[test]
    fn a_missing_key_template_is_named() {
        check("[collections.a]\nfields = {}\n", "line 1, column 1: missing field `key`");
    }

    #[test]
    fn an_index_is_a_template_or_a_table() {
        let schema = Schema::from_toml(
            "[collections.a]\nkey = \"{id}\"\n[collections.a.indexes]\none = \"x:{id}\"\n\
             two = { key = \"y:{id}\", when = { s = [\"p\", \"q\"] }, include = [\"s\"] }\n",
        )
        .unwrap();
        let indexes = &schema.collections["a"].indexes;
        assert_eq!(indexes["one"].key, "x:{id}");
        assert_eq!(indexes["two"].when["s"].0, ["p", "q"]);
        let json = serde_json::to_string(&schema).unwrap();
        assert_eq!(Schema::from_json(&json).unwrap(), schema);
    }

    #[test]
    fn a_collection_of_two_files_is_refused() {
        let mut schema = Schema::from_toml("[collections.a]\nkey = \"{id}\"\n").unwrap();
        let error = schema.merge(schema.clone()).unwrap_err();
        assert!(error.to_string().contains("collections.a: declared in two files"));
    }
}
