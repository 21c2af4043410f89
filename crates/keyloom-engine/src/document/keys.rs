//! The keys of a document: computed from its fields, never searched for.
//!
//! D1: A path has a key for a document if the document has a value for each of its components and
//!     satisfies its condition; with an array component, one key per different element.
//! D2: The keys are sorted, and no key stands twice.

use std::borrow::Cow;

use keyloom_key::{Each, Space, Value};

use super::members::Members;
use super::record::{Facts, FieldValue, Record};
use crate::catalog::{Collection, Index, Path, PathState, Source};
use crate::error::Error;

/// Keys and their values under all indexes and claims of a collection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet {
    /// (key, value) of all indexes, sorted.
    pub(crate) indexes: Vec<(Vec<u8>, Vec<u8>)>,
    /// (key, place of the unique claim in the collection).
    pub(crate) claims: Vec<(Vec<u8>, usize)>,
}

/// The packed key of a document.
pub(crate) fn document_key(collection: &Collection, record: &Record) -> Result<Vec<u8>, Error> {
    let value = |source: &Source| match source {
        Source::Field(field) => record.scalar(*field).map(Cow::Borrowed),
        _ => unreachable!("K1: a document key is made of fields"),
    };
    let sources = &collection.key.sources;
    let key = collection.key.pack_fields(|place| sources.get(place).and_then(value))?;
    key.ok_or_else(|| {
        let missing = sources.iter().find(|source| value(source).is_none());
        Error::RuleViolation {
            collection: collection.name.clone(),
            field: missing.map_or("?", |source| collection.source_name(*source)).to_owned(),
            rule: "required",
            detail: "it is part of the document's key".to_owned(),
        }
    })
}

/// All keys of a document but its own.
pub(crate) fn document_keys(
    collection: &Collection,
    record: &Record,
    facts: &Facts<'_>,
    data: &[u8],
) -> Result<KeySet, Error> {
    let mut keys = KeySet {
        indexes: Vec::with_capacity(collection.indexes.len()),
        claims: Vec::with_capacity(collection.uniques.len()),
    };
    for (place, unique) in collection.uniques.iter().enumerate() {
        each_key(&unique.path, record, facts, |key| keys.claims.push((key, place)))?;
    }
    for index in collection.indexes.iter().filter(|index| record.satisfies(&index.when)) {
        let first = keys.indexes.len();
        each_key(&index.path, record, facts, |key| keys.indexes.push((key, Vec::new())))?;
        let own = keys.indexes.get_mut(first..).unwrap_or_default();
        if !own.is_empty() && !index.include.is_empty() {
            let covered = covered(collection, index, data)?;
            own.iter_mut().for_each(|(_, value)| value.clone_from(&covered));
        }
    }
    keys.indexes.sort_unstable();
    Ok(keys)
}

/// The components of the document key that an index key with these components names.
pub(crate) fn index_key_of(index: &Index, components: &[Value]) -> Vec<Value> {
    let held = index.key_from.iter().filter_map(|place| components.get(*place).cloned());
    held.collect()
}

/// The keys of a document under one path.
pub(crate) fn path_keys(
    path: &Path,
    record: &Record,
    facts: &Facts<'_>,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut keys = Vec::new();
    each_key(path, record, facts, |key| keys.push(key))?;
    Ok(keys)
}

/// Hands over the keys of a document under one path; most have one.
fn each_key(
    path: &Path,
    record: &Record,
    facts: &Facts<'_>,
    take: impl FnMut(Vec<u8>),
) -> Result<(), Error> {
    debug_assert!(matches!(path.state, PathState::Ready | PathState::Building));
    debug_assert!(matches!(path.head.space, Space::Claim | Space::Index));
    let value = |place: usize| record.source(*path.sources.get(place)?, facts);
    let components = path.template.components();
    let Some(each) = components.iter().position(|part| part.each == Each::Element) else {
        path.pack_fields(value)?.into_iter().for_each(take);
        return Ok(());
    };
    let Some(Source::Field(field)) = path.sources.get(each) else { return Ok(()) };
    let Some(FieldValue::Array(array)) = record.get(*field) else { return Ok(()) };
    let mut keys = Vec::with_capacity(array.len());
    for element in array {
        let element = Cow::Borrowed(element);
        keys.extend(path.pack_fields(|place| {
            if place == each { Some(element.clone()) } else { value(place) }
        })?);
    }
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().for_each(take);
    Ok(())
}

/// The value of an index key that includes members: these, as a JSON object.
fn covered(collection: &Collection, index: &Index, data: &[u8]) -> Result<Vec<u8>, Error> {
    let members = Members::parse_for(&collection.fields, data)?;
    let included = index.include.iter().filter_map(|place| {
        let field = collection.fields.get(*place)?;
        Some((field.name.as_str(), members.of_field(*place)?))
    });
    Ok(Members::with_added(b"{}", included))
}
