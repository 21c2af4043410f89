//! What happens to one document: from an old state to a new one.

use std::borrow::Cow;
use std::sync::Arc;

use keyloom_key::{Head, Space};
use keyloom_store::Stamp;

use crate::catalog::Collection;
use crate::document::{Document, Facts, HeadRecord, Record, document_key};
use crate::error::Error;

/// A document before and after; at least one of them is there.
#[derive(Debug)]
pub(super) struct DocumentChange {
    /// The operation it belongs to; `None` for what the engine does beside.
    pub(super) operation: Option<usize>,
    pub(super) collection: Arc<Collection>,
    pub(super) old: Option<OldDocument>,
    pub(super) new: Option<NewDocument>,
}

/// A document as it is stored.
#[derive(Debug)]
pub(super) struct OldDocument {
    pub(super) key: Vec<u8>,
    pub(super) stamp: Stamp,
    /// The stored head record.
    pub(super) bytes: Vec<u8>,
    pub(super) record: Record,
}

/// A document as it will be; version and owner are decided when the commit is built.
#[derive(Debug)]
pub(super) struct NewDocument {
    pub(super) key: Vec<u8>,
    pub(super) record: Record,
    pub(super) data: Vec<u8>,
    pub(super) description: Option<String>,
    pub(super) owner: Option<String>,
    /// Whether a field that was made by the engine is part of it, by place.
    pub(super) generated: Vec<usize>,
}

impl OldDocument {
    /// Reads a stored document.
    pub(super) fn read(
        collection: &Collection,
        key: Vec<u8>,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> Result<OldDocument, Error> {
        let record = Record::stored(collection, HeadRecord::decode(&bytes)?.data)?;
        Ok(OldDocument { key, stamp, bytes, record })
    }

    /// The stored head record.
    pub(super) fn head(&self) -> HeadRecord<'_> {
        HeadRecord::decode(&self.bytes).expect("it was decoded when it was read")
    }
}

impl NewDocument {
    /// A new state with its key computed from its fields.
    pub(super) fn new(
        collection: &Collection,
        record: Record,
        data: Vec<u8>,
    ) -> Result<NewDocument, Error> {
        let key = document_key(collection, &record)?;
        Ok(NewDocument { key, record, data, description: None, owner: None, generated: Vec::new() })
    }

    /// The record to store.
    pub(super) fn head(&self, version: u64, created: u64) -> HeadRecord<'_> {
        HeadRecord {
            version,
            created,
            owner: self.owner.as_deref(),
            description: self.description.as_deref(),
            data: &self.data,
        }
    }

    /// The document as callers see it. It takes the data along: once the record to store is
    /// encoded, nobody else needs it.
    pub(super) fn take_document(
        &mut self,
        collection: &Collection,
        version: u64,
        created: u64,
    ) -> Result<Document, Error> {
        let key = collection.key.respell(&self.key)?;
        let data = std::mem::take(&mut self.data);
        Ok(Document { data, ..Document::new(key, self.head(version, created)) })
    }
}

impl DocumentChange {
    /// The keys of the document before and after, once each.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let old = self.old.as_ref().map(|old| old.key.as_slice());
        let new = self.new.as_ref().map(|new| new.key.as_slice());
        old.into_iter().chain(new.filter(|new| Some(*new) != old))
    }

    /// The key that is taken by this change: the document is new, or moves there.
    pub(super) fn occupied(&self) -> Option<&[u8]> {
        let new = self.new.as_ref()?;
        match &self.old {
            Some(old) if old.key == new.key => None,
            _ => Some(&new.key),
        }
    }

    /// The key that is given up by this change: the document is deleted, or moves away.
    pub(super) fn vacated(&self) -> Option<&[u8]> {
        let old = self.old.as_ref()?;
        match &self.new {
            Some(new) if old.key == new.key => None,
            _ => Some(&old.key),
        }
    }

    /// How the number of documents changes.
    pub(super) fn count_delta(&self) -> i64 {
        i64::from(self.new.is_some()) - i64::from(self.old.is_some())
    }

    /// Whose document it is or was, where that decides who hears of the change.
    pub(super) fn subjects(&self) -> Option<Vec<Cow<'_, str>>> {
        let collection = &self.collection;
        if !collection.access.is_personal() {
            return None;
        }
        let old = self.old.as_ref().map(|old| (&old.record, old.head().owner));
        let new = self.new.as_ref().map(|new| (&new.record, new.owner.as_deref()));
        let mut subjects = Vec::new();
        for (record, owner) in old.into_iter().chain(new) {
            collection.subjects_of(record, owner, &mut subjects);
        }
        subjects.sort_unstable();
        subjects.dedup();
        Some(subjects)
    }

    /// The version before, if there was one.
    pub(super) fn old_version(&self) -> Option<u64> {
        self.old.as_ref().map(|old| old.head().version)
    }
}

/// Facts of a document that has `version` and was created with `created`.
pub(super) fn facts<'a>(head: &HeadRecord<'a>) -> Facts<'a> {
    Facts::from(*head)
}

/// The key of the tombstone that belongs to a document key.
pub(crate) fn tombstone_key(document_key: &[u8], collection: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(document_key.len());
    Head { space: Space::Tombstone, collection, template: 0 }.write(&mut key);
    let head_len = key.len();
    key.extend_from_slice(document_key.get(head_len..).unwrap_or_default());
    key
}
