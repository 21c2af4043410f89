//! Collections that hold a bounded number of documents.
//!
//! The count is part of the commit: it is read, checked and written, so two creates can never both
//! take the last place.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_store::{Direction, KeyRange, ScanOptions, Stamp};

use super::change::{DocumentChange, OldDocument};
use super::prepare::Reads;
use crate::catalog::{Capacity, Collection};
use crate::document::index_key_of;
use crate::error::Error;
use crate::limits::EVICTED_MAX;
use crate::read::{counter_key, read_counter};
use crate::schema::WhenFull;

/// The counters of bounded collections as they were read: stamp and value.
pub(super) type Counted = BTreeMap<u16, (Option<Stamp>, u64)>;

/// Reads the counters of bounded collections and makes room where the schema says so.
pub(super) async fn make_room(
    reads: &mut Reads<'_>,
    changes: &mut Vec<DocumentChange>,
) -> Result<Counted, Error> {
    let mut counted = Counted::new();
    let mut bounded: BTreeMap<u16, (Arc<Collection>, i64)> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.collection.capacity.is_some()) {
        let entry = bounded
            .entry(change.collection.id)
            .or_insert_with(|| (Arc::clone(&change.collection), 0));
        entry.1 += change.count_delta();
    }
    for (id, (collection, delta)) in bounded {
        let Some(capacity) = &collection.capacity else { continue };
        let stored = reads.get(counter_key(id)).await?;
        let count = stored.as_ref().map_or(Ok(0), |stored| read_counter(&stored.value))?;
        counted.insert(id, (stored.map(|stored| stored.stamp), count));
        let after = count.saturating_add_signed(delta);
        if delta <= 0 || after <= capacity.max {
            continue;
        }
        // A capacity that was lowered is reached step by step; each commit stays small.
        let at_once = delta.unsigned_abs().saturating_add(EVICTED_MAX);
        let excess = usize::try_from((after - capacity.max).min(at_once)).unwrap_or(usize::MAX);
        match capacity.full {
            WhenFull::Refuse => return Err(full(&collection, capacity)),
            WhenFull::Evict => evict(reads, &collection, excess, changes).await?,
        }
    }
    Ok(counted)
}

/// Deletes the first documents of the index that the schema names.
async fn evict(
    reads: &mut Reads<'_>,
    collection: &Arc<Collection>,
    excess: usize,
    changes: &mut Vec<DocumentChange>,
) -> Result<(), Error> {
    let place = collection.capacity.as_ref().and_then(|capacity| capacity.by);
    let index = place.and_then(|place| collection.indexes.get(place));
    let index = index.expect("K1: an evicting collection names an index");
    let (from, to) = index.path.head.whole();
    // Documents that this commit writes itself are passed over, hence the further keys.
    let options =
        ScanOptions { direction: Direction::Forward, limit: excess.saturating_add(changes.len()) };
    let mut scan = reads.snapshot().await?.scan(&KeyRange { from, to }, options).await?;
    let mut left = excess;
    while left > 0 {
        let page = scan.next(left).await?;
        if page.is_empty() {
            let capacity = collection.capacity.as_ref().expect("it was looked at above");
            return Err(full(collection, capacity));
        }
        for entry in page {
            let values = index_key_of(index, &index.path.unpack(&entry.key)?);
            let key = collection.key.pack(&values)?;
            let written = changes.iter().any(|change| change.keys().any(|known| known == key));
            if written || left == 0 {
                continue;
            }
            let stored = reads.get(key.clone()).await?.ok_or_else(|| {
                Error::corrupt(format!("index `{}` names no document", index.path.name))
            })?;
            let old = OldDocument::read(collection, key, stored.value, stored.stamp)?;
            let collection = Arc::clone(collection);
            changes.push(DocumentChange { operation: None, collection, old: Some(old), new: None });
            left -= 1;
        }
    }
    Ok(())
}

fn full(collection: &Collection, capacity: &Capacity) -> Error {
    Error::RuleViolation {
        collection: collection.name.clone(),
        field: "*".to_owned(),
        rule: "capacity",
        detail: format!("it holds {} documents already, its most", capacity.max),
    }
}
