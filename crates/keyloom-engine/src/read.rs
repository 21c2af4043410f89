//! Reads of single documents: by key, by many keys, by unique claim.
//!
//! R1: A get is one key read, a lookup by claim two.
//! R2: A document that the caller may not read is absent (A1 in `access`).

use keyloom_key::{Head, Space, Value};
use keyloom_store::Snapshot;
use serde_json::Value as Json;

use crate::access::Reach;
use crate::catalog::{Collection, Path, PathState};
use crate::document::{Document, HeadRecord};
use crate::engine::{Actor, Engine};
use crate::error::{Error, NoIndex};
use crate::limits::GET_MANY_KEYS_MAX;

impl Engine {
    /// The document with this key in text spelling.
    pub async fn get(
        &self,
        actor: &Actor,
        collection: &str,
        key: &str,
    ) -> Result<Option<Document>, Error> {
        let catalog = self.catalog();
        let collection = catalog.collection(collection)?;
        let packed = parse_key(collection, key)?;
        let snapshot = self.store.snapshot().await?;
        let Some(stored) = snapshot.get(&packed).await? else { return Ok(None) };
        shown(collection, &collection.readable(actor), key.to_owned(), stored.value)
    }

    /// The documents with these keys, in their order; an absent one is `None` in its place.
    pub async fn get_many(
        &self,
        actor: &Actor,
        collection: &str,
        keys: &[&str],
    ) -> Result<Vec<Option<Document>>, Error> {
        if keys.len() > GET_MANY_KEYS_MAX {
            return Err(Error::LimitExceeded {
                what: "keys of a get".to_owned(),
                found: keys.len(),
                max: GET_MANY_KEYS_MAX,
            });
        }
        let catalog = self.catalog();
        let collection = catalog.collection(collection)?;
        let packed: Result<Vec<_>, _> = keys.iter().map(|key| parse_key(collection, key)).collect();
        let snapshot = self.store.snapshot().await?;
        let stored = snapshot.get_many(&packed?).await?;
        let readable = collection.readable(actor);
        let mut documents = Vec::with_capacity(keys.len());
        for (key, stored) in keys.iter().zip(stored) {
            documents.push(match stored {
                None => None,
                Some(stored) => shown(collection, &readable, (*key).to_owned(), stored.value)?,
            });
        }
        Ok(documents)
    }

    /// The document that holds a unique claim: its values, in the order of the claim's template.
    pub async fn lookup(
        &self,
        actor: &Actor,
        collection: &str,
        unique: &str,
        values: &[Json],
    ) -> Result<Option<Document>, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let claim = collection.uniques.iter().find(|claim| claim.path.name == unique);
        let claim = claim.ok_or_else(|| {
            Error::invalid(format!("`{}` has no unique claim `{unique}`", collection.name))
        })?;
        let packed = claim.path.pack(&claim_values(&claim.path, values)?)?;
        if claim.path.state == PathState::Building {
            let documents = told_count(&*snapshot, collection, &collection.readable(actor)).await?;
            return Err(unfinished(collection, &claim.path, documents));
        }
        let Some(held) = snapshot.get(&packed).await? else { return Ok(None) };
        let key = key_from_claim(collection, &held.value);
        let Some(stored) = snapshot.get(&key).await? else {
            return Err(Error::corrupt(format!("claim `{unique}` names no document")));
        };
        let key = collection.key.respell(&key)?;
        shown(collection, &collection.readable(actor), key, stored.value)
    }
}

/// How many documents a collection holds, for a caller who may read all of them; 0 for others.
pub(crate) async fn told_count(
    snapshot: &dyn Snapshot,
    collection: &Collection,
    readable: &Reach,
) -> Result<u64, Error> {
    match readable {
        Reach::All => document_count(snapshot, collection).await,
        Reach::Own(_) | Reach::Nothing => Ok(0),
    }
}

/// How many documents a collection holds, from its counter.
pub(crate) async fn document_count(
    snapshot: &dyn Snapshot,
    collection: &Collection,
) -> Result<u64, Error> {
    let Some(stored) = snapshot.get(&counter_key(collection.id)).await? else { return Ok(0) };
    read_counter(&stored.value)
}

/// The value of a counter.
pub(crate) fn read_counter(value: &[u8]) -> Result<u64, Error> {
    let bytes = <[u8; 8]>::try_from(value)
        .map_err(|_| Error::corrupt("a counter does not have 8 bytes"))?;
    u64::try_from(i64::from_be_bytes(bytes))
        .map_err(|_| Error::corrupt("a counter of documents is below zero"))
}

/// Where the documents of a collection are counted.
pub(crate) fn counter_key(collection: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(5);
    Head { space: Space::Counter, collection, template: 0 }.write(&mut key);
    key
}

/// The packed key of a key in text spelling.
pub(crate) fn parse_key(collection: &Collection, key: &str) -> Result<Vec<u8>, Error> {
    let values = collection.key.parse(key)?;
    collection.key.pack(&values)
}

/// The packed key of the document that a claim's value names.
pub(crate) fn key_from_claim(collection: &Collection, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + value.len());
    collection.key.head.write(&mut key);
    key.extend_from_slice(value);
    key
}

/// A document, for a caller who may read it.
fn shown(
    collection: &Collection,
    readable: &Reach,
    key: String,
    stored: Vec<u8>,
) -> Result<Option<Document>, Error> {
    if *readable != Reach::All && !readable.covers(collection, &HeadRecord::decode(&stored)?)? {
        return Ok(None);
    }
    Document::stored(key, stored).map(Some)
}

fn unfinished(collection: &Collection, path: &Path, documents: u64) -> Error {
    Error::NoIndex(Box::new(NoIndex {
        collection: collection.name.clone(),
        reason: format!("`unique:{}` would, but is still being built", path.name),
        suggest: None,
        backfill_documents: documents,
        keys_per_write: 1,
    }))
}

fn claim_values(path: &Path, values: &[Json]) -> Result<Vec<Value>, Error> {
    let components = path.template.components();
    if components.len() != values.len() {
        let fields: Vec<&str> = components.iter().map(|c| c.field.as_str()).collect();
        return Err(Error::invalid(format!(
            "claim `{}` takes {} values: {}",
            path.name,
            fields.len(),
            fields.join(", ")
        )));
    }
    let values = components.iter().zip(values).map(|(component, value)| {
        crate::catalog::scalar(&component.kind, value)
            .map_err(|detail| Error::invalid(format!("`{}`: {detail}", component.field)))
    });
    values.collect()
}
