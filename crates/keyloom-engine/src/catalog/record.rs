//! The catalog as it is stored: one record under one key, so that a change of schema is one
//! checked commit.
//!
//! ```text
//! 01 | JSON: {"version", "secret", "next_collection", "collections": [...], "classes"?: [...],
//!             "rollout"?}
//! ```

use keyloom_key::{Head, Space};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::object::Rollout;
use crate::schema::{ClassSchema, CollectionSchema};

/// The format of the record, its first byte.
const FORMAT: u8 = 1;

/// What is stored of all collections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CatalogRecord {
    /// Grows with every applied schema.
    pub(crate) version: u64,
    /// Authenticates cursors.
    pub(crate) secret: [u8; 16],
    /// The id of the next new collection.
    pub(crate) next_collection: u16,
    pub(crate) collections: Vec<CollectionRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<ClassRecord>,
    /// What the object grid takes and shows.
    #[serde(default, skip_serializing_if = "Rollout::is_default")]
    pub(crate) rollout: Rollout,
}

/// What is stored of one class. Its id comes from the same counter as those of collections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassRecord {
    pub(crate) name: String,
    pub(crate) id: u16,
    pub(crate) schema: ClassSchema,
}

/// What is stored of one collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollectionRecord {
    pub(crate) name: String,
    pub(crate) id: u16,
    pub(crate) schema: CollectionSchema,
    /// The schema that stored documents are being checked against; writes obey both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_schema: Option<Box<CollectionSchema>>,
    pub(crate) paths: Vec<PathRecord>,
    /// The id of the next new template; 0 is the document key.
    pub(crate) next_path: u16,
    /// Templates that are gone but whose keys may still be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retired: Vec<RetiredPath>,
}

/// What is stored of one index or unique claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathRecord {
    pub(crate) role: PathRole,
    pub(crate) name: String,
    pub(crate) id: u16,
    pub(crate) state: PathState,
}

/// A template that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetiredPath {
    pub(crate) role: PathRole,
    pub(crate) id: u16,
}

/// What a template is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PathRole {
    Unique,
    Index,
}

/// Whether a template may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PathState {
    /// Written by every commit, but older documents may still be missing.
    Building,
    /// Complete.
    Ready,
}

impl PathRole {
    /// Where the keys of such a template stand.
    pub(crate) fn space(self) -> Space {
        match self {
            PathRole::Unique => Space::Claim,
            PathRole::Index => Space::Index,
        }
    }
}

impl CatalogRecord {
    /// The record as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        serde_json::to_writer(&mut bytes, self).expect("a catalog has string keys only");
        bytes
    }

    /// Reads a record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<CatalogRecord, Error> {
        let Some((&format, json)) = bytes.split_first() else {
            return Err(Error::corrupt("the catalog is empty"));
        };
        if format != FORMAT {
            return Err(Error::corrupt(format!(
                "the catalog has format {format}, this program reads {FORMAT}: use a newer one"
            )));
        }
        serde_json::from_slice(json)
            .map_err(|error| Error::corrupt(format!("the catalog cannot be read: {error}")))
    }
}

/// Where the catalog stands.
pub(crate) fn catalog_key() -> Vec<u8> {
    let mut key = Vec::with_capacity(5);
    Head { space: Space::Catalog, collection: 0, template: 0 }.write(&mut key);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_encoding() {
        let record = CatalogRecord { version: 3, next_collection: 2, ..CatalogRecord::default() };
        assert_eq!(CatalogRecord::decode(&record.encode()).unwrap(), record);
    }

    #[test]
    fn foreign_bytes_are_refused_with_a_reason() {
        for (bytes, expected) in [
            (&b""[..], "empty"),
            (&[9, b'{', b'}'][..], "format 9"),
            (&[1, b'{'][..], "cannot be read"),
        ] {
            let error = CatalogRecord::decode(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
