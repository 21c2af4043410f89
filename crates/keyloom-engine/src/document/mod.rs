//! Documents: what callers see, what is stored, and the values that keys are made of.

mod head;
mod keys;
mod members;
mod record;

pub(crate) use head::{HeadRecord, Tombstone};
pub(crate) use keys::{KeySet, document_key, document_keys, index_key_of, path_keys};
pub(crate) use members::{Members, place_of};
pub(crate) use record::{Facts, FieldValue, Record, raw_elements, raw_text, single_value};

use crate::error::Error;

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its key in text spelling.
    pub key: String,
    /// Grows with every change, also across delete and create; it is the ETag.
    pub version: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// Milliseconds since 1970.
    pub updated_at: u64,
    /// Who created it; `None` if that was the local administrator.
    pub owner: Option<String>,
    /// A free text beside the data.
    pub description: Option<String>,
    /// The data, JSON as it came.
    pub data: Vec<u8>,
}

impl Document {
    /// A document from the bytes that are stored under its key; what they hold is not copied.
    pub(crate) fn stored(key: String, mut bytes: Vec<u8>) -> Result<Document, Error> {
        let head = HeadRecord::decode(&bytes)?;
        let mut document = Document::new(key, HeadRecord { data: &[], ..head });
        let data_from = bytes.len() - head.data.len();
        bytes.drain(..data_from);
        document.data = bytes;
        Ok(document)
    }

    /// A document from what is stored under its key.
    pub(crate) fn new(key: String, head: HeadRecord<'_>) -> Document {
        Document {
            key,
            version: head.version,
            created_at: head.created_at(),
            updated_at: head.updated_at(),
            owner: head.owner.map(str::to_owned),
            description: head.description.map(str::to_owned),
            data: head.data.to_vec(),
        }
    }
}
