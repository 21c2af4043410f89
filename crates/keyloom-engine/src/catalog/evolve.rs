//! From the catalog in force and a new schema to the next catalog: what changes, and whether that
//! is safe with the documents that are stored.
//!
//! E1: Pure: it decides, `apply` does.
//! E2: What stored documents could contradict is named in `recheck`: `apply` makes it the
//!     `next_schema`, which writers obey while the stored documents are checked.

use std::collections::BTreeMap;

use super::class;
use super::compile::{ONE_PER_OWNER, wrong};
use super::record::{
    CatalogRecord, ClassRecord, CollectionRecord, PathRecord, PathRole, PathState, RetiredPath,
};
use crate::error::Error;
use crate::limits::COLLECTIONS_MAX;
use crate::schema::{ClassSchema, CollectionSchema, Schema, Words};

/// What a schema changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaChange {
    /// The version of the catalog once it is applied.
    pub version: u64,
    /// The steps, by collection; empty if the schema is in force already.
    pub steps: Vec<SchemaStep>,
}

/// One step of a schema change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaStep {
    /// A collection is new.
    CollectionAdded {
        /// Its name.
        collection: String,
    },
    /// An index or a unique claim is new or has changed.
    PathAdded {
        /// The collection.
        collection: String,
        /// `index:name` or `unique:name`.
        path: String,
        /// How many stored documents get keys.
        backfill_documents: u64,
    },
    /// An index or a unique claim is gone, and its keys are deleted.
    PathRemoved {
        /// The collection.
        collection: String,
        /// `index:name` or `unique:name`.
        path: String,
    },
    /// Rules changed; the stored documents are checked against them first.
    RulesChanged {
        /// The collection.
        collection: String,
        /// How many stored documents are checked.
        check_documents: u64,
    },
    /// A class is new.
    ClassAdded {
        /// Its name.
        class: String,
    },
    /// What a class says has changed.
    ClassChanged {
        /// Its name.
        class: String,
    },
}

/// The next catalog and how to get there.
#[derive(Debug)]
pub(crate) struct Evolution {
    /// The record to store; new indexes over stored documents are `building`.
    pub(crate) record: CatalogRecord,
    /// The collections whose stored documents have to pass the new rules first.
    pub(crate) recheck: Vec<String>,
    pub(crate) change: SchemaChange,
}

/// Decides what a schema changes. `documents` counts the stored documents of a collection by id.
pub(crate) fn evolve(
    current: &CatalogRecord,
    schema: &Schema,
    documents: &BTreeMap<u16, u64>,
) -> Result<Evolution, Error> {
    let mut record = current.clone();
    let mut steps = Vec::new();
    let mut recheck = Vec::new();
    for (name, wanted) in &schema.collections {
        let known = record.collections.iter().position(|collection| collection.name == *name);
        match known.and_then(|place| record.collections.get_mut(place)) {
            None => {
                check_source(current, name, wanted, documents)?;
                add_collection(&mut record, name, wanted)?;
                steps.push(SchemaStep::CollectionAdded { collection: name.clone() });
            }
            Some(stored) => {
                let count = documents.get(&stored.id).copied().unwrap_or(0);
                let derived_anew = stored.schema.derive != wanted.derive;
                if count > 0 && stored.schema.fields != wanted.fields {
                    recheck.push(name.clone());
                }
                change_collection(stored, wanted, count, &mut steps)?;
                if derived_anew {
                    check_source(current, name, wanted, documents)?;
                }
            }
        }
    }
    for (name, wanted) in &schema.classes {
        steps.extend(change_class(&mut record, name, wanted)?);
    }
    let clash = record.classes.iter().map(|class| &class.name);
    let mut clash = clash.filter(|name| record.collections.iter().any(|c| c.name == **name));
    if let Some(name) = clash.next() {
        return Err(class::wrong(name, "", "a collection has this name: choose another one"));
    }
    if record != *current {
        record.version += 1;
    }
    let change = SchemaChange { version: record.version, steps };
    Ok(Evolution { record, recheck, change })
}

/// Adds a class, or makes a stored one what is wanted; says what changed.
fn change_class(
    record: &mut CatalogRecord,
    name: &str,
    wanted: &ClassSchema,
) -> Result<Option<SchemaStep>, Error> {
    let class = name.to_owned();
    let before = record.classes.iter().find(|stored| stored.name == name);
    class::check_addresses(name, before.map(|stored| &stored.schema), wanted)?;
    let Some(stored) = record.classes.iter_mut().find(|stored| stored.name == name) else {
        if record.collections.len() + record.classes.len() >= COLLECTIONS_MAX {
            let detail = format!("there are {COLLECTIONS_MAX} collections and classes already");
            return Err(class::wrong(name, "", detail));
        }
        let id = record.next_collection;
        record.classes.push(ClassRecord { name: class.clone(), id, schema: wanted.clone() });
        record.next_collection += 1;
        return Ok(Some(SchemaStep::ClassAdded { class }));
    };
    if wanted.partitions < stored.schema.partitions {
        let detail = format!(
            "there are {} partitions, and all of them may have been used: their number only grows",
            stored.schema.partitions
        );
        return Err(class::wrong(name, "partitions", detail));
    }
    if stored.schema == *wanted {
        return Ok(None);
    }
    stored.schema = wanted.clone();
    Ok(Some(SchemaStep::ClassChanged { class }))
}

/// What is derived counts every document from the first one on.
fn check_source(
    current: &CatalogRecord,
    name: &str,
    wanted: &CollectionSchema,
    documents: &BTreeMap<u16, u64>,
) -> Result<(), Error> {
    let Some(from) = wanted.derive.as_ref().map(|derive| &derive.from) else { return Ok(()) };
    let source = current.collections.iter().find(|stored| stored.name == *from);
    match source.and_then(|source| documents.get(&source.id)) {
        None | Some(0) => Ok(()),
        Some(count) => {
            let detail = format!(
                "`{from}` holds {count} documents already, which nobody counted: what is derived \
                 begins while it is empty"
            );
            Err(wrong(name, "derive", detail))
        }
    }
}

fn add_collection(
    record: &mut CatalogRecord,
    name: &str,
    schema: &CollectionSchema,
) -> Result<(), Error> {
    if record.collections.len() + record.classes.len() >= COLLECTIONS_MAX {
        let detail = format!("there are {COLLECTIONS_MAX} collections and classes already");
        return Err(wrong(name, "", detail));
    }
    let mut stored = CollectionRecord {
        name: name.to_owned(),
        id: record.next_collection,
        schema: schema.clone(),
        next_schema: None,
        paths: Vec::new(),
        next_path: 1,
        retired: Vec::new(),
    };
    for (role, path) in wanted_paths(schema).into_keys() {
        add_path(&mut stored, role, &path, PathState::Ready);
    }
    record.next_collection += 1;
    record.collections.push(stored);
    Ok(())
}

fn change_collection(
    stored: &mut CollectionRecord,
    wanted: &CollectionSchema,
    documents: u64,
    steps: &mut Vec<SchemaStep>,
) -> Result<(), Error> {
    let typed_key = |schema: &CollectionSchema| typed(schema, &schema.key, &BTreeMap::new());
    if typed_key(&stored.schema) != typed_key(wanted) && documents > 0 {
        return Err(wrong(
            &stored.name,
            "key",
            format!(
                "{documents} documents are stored under `{}`: the key of a collection changes \
                 only while it is empty",
                stored.schema.key
            ),
        ));
    }
    if stored.schema.derive != wanted.derive && documents > 0 {
        let detail = "what is derived changes only while the collection is empty";
        return Err(wrong(&stored.name, "derive", detail));
    }
    change_paths(stored, wanted, documents, steps);
    let documents = if stored.schema.fields == wanted.fields { 0 } else { documents };
    if rules(&stored.schema) != rules(wanted) {
        steps.push(SchemaStep::RulesChanged {
            collection: stored.name.clone(),
            check_documents: documents,
        });
    }
    stored.schema = wanted.clone();
    stored.next_schema = None;
    Ok(())
}

/// What a schema says beside its paths, which are steps of their own.
fn rules(schema: &CollectionSchema) -> CollectionSchema {
    let mut rules = schema.clone();
    (rules.about, rules.one_per_owner) = (None, None);
    (rules.indexes, rules.unique) = (BTreeMap::new(), BTreeMap::new());
    rules
}

fn change_paths(
    stored: &mut CollectionRecord,
    wanted: &CollectionSchema,
    documents: u64,
    steps: &mut Vec<SchemaStep>,
) {
    let old = wanted_paths(&stored.schema);
    let new = wanted_paths(wanted);
    for (key, text) in &old {
        if new.get(key) != Some(text) {
            let (role, name) = key;
            retire_path(stored, *role, name);
            steps.push(SchemaStep::PathRemoved {
                collection: stored.name.clone(),
                path: spelled(*role, name),
            });
        }
    }
    for (key, text) in &new {
        let (role, name) = key;
        let known = stored.paths.iter().any(|path| path.role == *role && path.name == *name);
        if known && old.get(key) == Some(text) {
            continue;
        }
        let state = if documents > 0 { PathState::Building } else { PathState::Ready };
        add_path(stored, *role, name, state);
        steps.push(SchemaStep::PathAdded {
            collection: stored.name.clone(),
            path: spelled(*role, name),
            backfill_documents: documents,
        });
    }
}

/// Everything that decides the keys of a template, by role and name.
fn wanted_paths(schema: &CollectionSchema) -> BTreeMap<(PathRole, String), String> {
    let mut paths = BTreeMap::new();
    for (name, text) in &schema.unique {
        let text = typed(schema, text, &BTreeMap::new());
        paths.insert((PathRole::Unique, name.clone()), text);
    }
    if let Some(mode) = schema.one_per_owner {
        let key = (PathRole::Unique, ONE_PER_OWNER.to_owned());
        paths.insert(key, format!("{mode:?}"));
    }
    for (name, index) in &schema.indexes {
        let text = serde_json::to_string(index).expect("an index has string keys only");
        paths.insert((PathRole::Index, name.clone()), typed(schema, &text, &index.when));
    }
    paths
}

/// A template with the types of the fields that it or its condition names: the same template over
/// another type makes other keys. A name that is the beginning of another one may bring a type too
/// many, and then a path is built once more than it has to be.
fn typed(schema: &CollectionSchema, template: &str, when: &BTreeMap<String, Words>) -> String {
    let named = |name: &str| when.contains_key(name) || template.contains(&format!("{{{name}"));
    let fields = schema.fields.iter().filter(|(name, _)| named(name));
    let types = fields.map(|(name, field)| format!(" {name} {}", field.kind));
    std::iter::once(template.to_owned()).chain(types).collect()
}

fn add_path(stored: &mut CollectionRecord, role: PathRole, name: &str, state: PathState) {
    stored.paths.push(PathRecord { role, name: name.to_owned(), id: stored.next_path, state });
    stored.next_path += 1;
}

fn retire_path(stored: &mut CollectionRecord, role: PathRole, name: &str) {
    let place = stored.paths.iter().position(|path| path.role == role && path.name == name);
    if let Some(place) = place {
        let path = stored.paths.remove(place);
        stored.retired.push(RetiredPath { role, id: path.id });
    }
}

fn spelled(role: PathRole, name: &str) -> String {
    match role {
        PathRole::Unique => format!("unique:{name}"),
        PathRole::Index => format!("index:{name}"),
    }
}
