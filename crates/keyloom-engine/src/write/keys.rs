//! The difference between the keys of a document before and after.

use keyloom_store::Write;

use super::change::{DocumentChange, facts};
use crate::document::{HeadRecord, KeySet, document_keys};
use crate::error::Error;

/// The keys of a document under all indexes and claims, before and after.
pub(super) struct KeyChange {
    pub(super) old: KeySet,
    pub(super) new: KeySet,
}

/// Computes the keys on both sides of a change; `head` is the record to be stored.
pub(super) fn key_change(
    change: &DocumentChange,
    head: Option<&HeadRecord<'_>>,
) -> Result<KeyChange, Error> {
    let collection = &change.collection;
    let old = match &change.old {
        None => KeySet::default(),
        Some(old) => {
            let head = old.head();
            document_keys(collection, &old.record, &facts(&head), head.data)?
        }
    };
    let new = match (&change.new, head) {
        (Some(new), Some(head)) => document_keys(collection, &new.record, &facts(head), &new.data)?,
        _ => KeySet::default(),
    };
    Ok(KeyChange { old, new })
}

/// Adds the writes that lead from the old index keys to the new ones; none where nothing changes.
/// Both are sorted.
pub(super) fn add_index_writes(
    old: &[(Vec<u8>, Vec<u8>)],
    new: Vec<(Vec<u8>, Vec<u8>)>,
    writes: &mut Vec<Write>,
) {
    let mut kept = new.iter().peekable();
    for (key, _) in old {
        while kept.next_if(|(new, _)| new < key).is_some() {}
        if kept.peek().is_none_or(|(new, _)| new != key) {
            writes.push(Write::Delete { key: key.clone() });
        }
    }
    for (key, value) in new {
        let before = old.binary_search_by(|(old, _)| old.cmp(&key));
        let same = before.is_ok_and(|place| old.get(place).is_some_and(|(_, old)| *old == value));
        if !same {
            writes.push(Write::Put { key, value });
        }
    }
}
