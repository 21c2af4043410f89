//! The compiled schema: what a write or a query needs, resolved and proved once.
//!
//! K1: Every template of a catalog compiles, and every index template holds all fields of its
//!     collection's key, so an index key names its document.
//! K2: Ids of collections and templates are never used again, so keys of a removed index can
//!     never be taken for those of another.
//! K3: No key that a valid document can make is longer than the store takes.

mod class;
mod compile;
mod evolve;
mod field;
mod link;
mod record;
mod size;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::{Head, Kind, PackError, Tail, Template, Value};
use keyloom_store::{KeyRange, Stamp};

use crate::access::Access;
use crate::document::place_of;
use crate::engine::Mode;
use crate::error::Error;
use crate::schema::{CollectionSchema, OnePerOwner, WhenFull};

pub(crate) use class::{Class, Classes, check_targets};
pub(crate) use compile::compile;
pub(crate) use evolve::{Evolution, evolve};
pub use evolve::{SchemaChange, SchemaStep};
pub(crate) use field::{Field, FieldKind, Generate, scalar};
pub(crate) use record::{CatalogRecord, CollectionRecord, PathState, RetiredPath, catalog_key};
pub use size::PathCost;
pub(crate) use size::{path_costs, value_bytes_max};

/// All collections as they are in force.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// What is stored; `None` before the first schema was applied.
    pub(crate) stamp: Option<Stamp>,
    /// The record it was compiled from.
    pub(crate) record: CatalogRecord,
    /// The collections, by name.
    pub(crate) collections: BTreeMap<String, Arc<Collection>>,
    /// The classes of the object grid, by name.
    pub(crate) classes: Classes,
}

/// One collection as it is in force.
#[derive(Debug)]
pub(crate) struct Collection {
    pub(crate) name: String,
    pub(crate) id: u16,
    /// What it was compiled from.
    pub(crate) schema: Arc<CollectionSchema>,
    /// In the order of their names.
    pub(crate) fields: Vec<Field>,
    /// Rules that are about to come into force: a write has to obey both.
    pub(crate) next_fields: Option<Vec<Field>>,
    /// The path of the document keys.
    pub(crate) key: Path,
    pub(crate) uniques: Vec<Unique>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) access: Access,
    pub(crate) freeze: Option<Freeze>,
    pub(crate) capacity: Option<Capacity>,
    pub(crate) sets: Vec<Set>,
    /// How this collection is derived from another.
    pub(crate) derive: Option<Derive>,
    /// The collections that are derived from this one.
    pub(crate) derived_into: Vec<String>,
}

/// A template in force: where its keys stand and what fills them.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Its name in the schema; `key` for the document keys.
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) head: Head,
    /// For each component, what fills it.
    pub(crate) sources: Vec<Source>,
    pub(crate) state: PathState,
}

/// What fills a component of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A field of the data, by its place in [`Collection::fields`].
    Field(usize),
    /// The time of creation, in milliseconds.
    CreatedAt,
    /// The time of the last change, in milliseconds.
    UpdatedAt,
    /// The owner.
    Owner,
}

/// A template that only one document may hold.
#[derive(Clone, Debug)]
pub(crate) struct Unique {
    pub(crate) path: Path,
    /// When it binds; `None` for a unique claim of the schema, which always does.
    pub(crate) one_per_owner: Option<OnePerOwner>,
}

/// A further template over the same documents.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) path: Path,
    /// Only documents for which all of these hold are in the index.
    pub(crate) when: Condition,
    /// The fields whose values stand in the index.
    pub(crate) include: Vec<usize>,
    /// For each component of the document key, the component of the index that holds its value.
    pub(crate) key_from: Vec<usize>,
}

/// Fields and the values that they may have, all at once.
pub(crate) type Condition = Vec<(usize, Vec<Value>)>;

/// When a stored document no longer changes.
#[derive(Clone, Debug)]
pub(crate) struct Freeze {
    pub(crate) when: Condition,
    /// Whether each field stays open.
    pub(crate) open: Vec<bool>,
}

/// How many documents there may be.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) max: u64,
    pub(crate) full: WhenFull,
    /// With `evict`, the index whose first document makes room.
    pub(crate) by: Option<usize>,
}

/// Documents that share the first fields of their key and are replaced as one.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    /// How many leading components of the key name the set.
    pub(crate) bound: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

/// How a collection is kept from another one.
#[derive(Clone, Debug)]
pub(crate) struct Derive {
    /// The collection that is counted.
    pub(crate) from: String,
    /// For each component of the derived key: (field here, field there).
    pub(crate) group: Vec<(usize, usize)>,
    /// (field here, field there) whose values are added up.
    pub(crate) sums: Vec<(usize, usize)>,
    /// The field here that counts.
    pub(crate) count: Option<usize>,
}

impl Catalog {
    /// The collection with this name.
    pub(crate) fn collection(&self, name: &str) -> Result<&Arc<Collection>, Error> {
        self.collections.get(name).ok_or_else(|| Error::UnknownCollection {
            collection: name.to_owned(),
            known: names(&self.collections),
        })
    }

    /// The class with this name.
    pub(crate) fn class(&self, name: &str) -> Result<&Arc<Class>, Error> {
        self.classes.get(name).ok_or_else(|| Error::UnknownClass {
            class: name.to_owned(),
            known: names(&self.classes),
        })
    }

    /// The class with this id.
    pub(crate) fn class_by_id(&self, id: u16) -> Option<&Arc<Class>> {
        self.classes.values().find(|class| class.id == id)
    }

    /// The collection with this id.
    pub(crate) fn by_id(&self, id: u16) -> Option<&Arc<Collection>> {
        self.collections.values().find(|collection| collection.id == id)
    }
}

impl Collection {
    /// The place of a field.
    pub(crate) fn field(&self, name: &str) -> Option<usize> {
        place_of(&self.fields, name)
    }

    /// What a name in a query or a template stands for: a field, or `@created_at`, `@updated_at`,
    /// `@owner`.
    pub(crate) fn source(&self, name: &str) -> Option<Source> {
        match name {
            CREATED_AT => Some(Source::CreatedAt),
            UPDATED_AT => Some(Source::UpdatedAt),
            OWNER => Some(Source::Owner),
            _ => self.field(name).map(Source::Field),
        }
    }

    /// The name of a source, as queries and templates spell it.
    pub(crate) fn source_name(&self, source: Source) -> &str {
        match source {
            Source::CreatedAt => CREATED_AT,
            Source::UpdatedAt => UPDATED_AT,
            Source::Owner => OWNER,
            Source::Field(field) => self.fields.get(field).map_or("?", |field| &field.name),
        }
    }

    /// The kind of a source, if its values can stand in keys.
    pub(crate) fn source_kind(&self, source: Source) -> Option<&Kind> {
        match source {
            Source::CreatedAt | Source::UpdatedAt => Some(&Kind::Millis),
            Source::Owner => Some(&Kind::Id),
            Source::Field(field) => match &self.fields.get(field)?.kind {
                FieldKind::Key(kind) => Some(kind),
                FieldKind::Number | FieldKind::Json => None,
            },
        }
    }

    /// Whether every document has a value for the source.
    pub(crate) fn always_present(&self, source: Source) -> bool {
        match source {
            Source::CreatedAt | Source::UpdatedAt => true,
            Source::Owner => false,
            Source::Field(field) => self.fields.get(field).is_some_and(Field::is_always_present),
        }
    }

    /// All paths but the one of the document keys.
    pub(crate) fn further_paths(&self) -> impl Iterator<Item = &Path> {
        let uniques = self.uniques.iter().map(|unique| &unique.path);
        uniques.chain(self.indexes.iter().map(|index| &index.path))
    }
}

impl Unique {
    /// Whether it binds in this mode.
    pub(crate) fn in_force(&self, mode: Mode) -> bool {
        self.one_per_owner != Some(OnePerOwner::Production) || mode == Mode::Production
    }
}

impl Path {
    /// The key with these components.
    pub(crate) fn pack(&self, values: &[Value]) -> Result<Vec<u8>, Error> {
        let mut key = Vec::with_capacity(KEY_BYTES_USUAL);
        self.head.write(&mut key);
        self.template.pack(values, &mut key).map_err(|error| self.refused(&error))?;
        Ok(key)
    }

    /// The key of a document whose fields hold these values, by component; `None` without one of
    /// them.
    pub(crate) fn pack_fields<'v>(
        &self,
        field_value: impl FnMut(usize) -> Option<Cow<'v, Value>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut key = Vec::with_capacity(KEY_BYTES_USUAL);
        self.head.write(&mut key);
        let packed = self.template.pack_fields(field_value, &mut key);
        packed.map(|is_whole| is_whole.then_some(key)).map_err(|error| self.refused(&error))
    }

    /// The range of all keys that begin with `bound` and go on as `tail` says.
    pub(crate) fn range(&self, bound: &[Value], tail: &Tail) -> Result<KeyRange, Error> {
        let span = self.template.span(bound, tail).map_err(|error| self.refused(&error))?;
        let placed = |packed: &[u8]| {
            let mut key = Vec::with_capacity(8 + packed.len());
            self.head.write(&mut key);
            key.extend_from_slice(packed);
            key
        };
        Ok(KeyRange { from: placed(&span.from), to: placed(&span.to) })
    }

    /// The components of a stored key.
    pub(crate) fn unpack(&self, key: &[u8]) -> Result<Vec<Value>, Error> {
        self.template.unpack(self.packed(key)?).map_err(|error| self.damaged(key, &error))
    }

    /// The text spelling of a stored key.
    pub(crate) fn respell(&self, key: &[u8]) -> Result<String, Error> {
        self.respell_packed(self.packed(key)?)
    }

    /// The text spelling of a stored key, of which `packed` stands behind the head.
    pub(crate) fn respell_packed(&self, packed: &[u8]) -> Result<String, Error> {
        self.template.respell(packed).map_err(|error| self.damaged(packed, &error))
    }

    /// What stands behind the head of a stored key.
    pub(crate) fn packed<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], Error> {
        let (head, packed) = Head::read(key).map_err(|error| self.damaged(key, &error))?;
        if head != self.head {
            return Err(self.damaged(key, &"it stands under another template"));
        }
        Ok(packed)
    }

    fn refused(&self, error: &PackError) -> Error {
        Error::invalid(format!("key `{}`: {error}", self.template.text()))
    }

    fn damaged(&self, key: &[u8], detail: &dyn std::fmt::Display) -> Error {
        Error::corrupt(format!("key {} of `{}`: {detail}", key.escape_ascii(), self.name))
    }

    /// The text spelling of a key.
    pub(crate) fn render(&self, values: &[Value]) -> Result<String, Error> {
        self.template.render(values).map_err(|error| self.refused(&error))
    }

    /// The components of a key in text spelling.
    pub(crate) fn parse(&self, text: &str) -> Result<Vec<Value>, Error> {
        self.template.parse(text).map_err(|error| Error::invalid(error.to_string()))
    }
}

/// What there is, in one line.
fn names<T>(known: &BTreeMap<String, T>) -> String {
    if known.is_empty() {
        return "none yet, apply a schema first".to_owned();
    }
    known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The bytes that most keys have room in.
const KEY_BYTES_USUAL: usize = 96;

/// The name of the time of creation in templates and queries.
pub(crate) const CREATED_AT: &str = "@created_at";
/// The name of the time of the last change in templates and queries.
pub(crate) const UPDATED_AT: &str = "@updated_at";
/// The name of the owner in templates and queries.
pub(crate) const OWNER: &str = "@owner";
