//! How many changes each caller has made, where a schema bounds them.
//!
//! N1: The count is part of the commit: it is read, checked and written, so two changes can never
//!     both be the last one.

use keyloom_key::{Head, Space};
use keyloom_store::Stamp;

use super::change::DocumentChange;
use super::prepare::Reads;
use crate::catalog::Collection;
use crate::engine::Actor;
use crate::error::Error;
use crate::read::read_counter;

/// The template of these counters: no key of a set has so many components.
const TEMPLATE: u16 = u16::MAX;

/// A caller's count, as it was read and as it will be.
#[derive(Debug)]
pub(super) struct Quota {
    pub(super) key: Vec<u8>,
    pub(super) stamp: Option<Stamp>,
    pub(super) after: u64,
}

/// Counts the changes that a caller asked for; refuses those beyond what he may make.
pub(super) async fn count_changes(
    reads: &mut Reads<'_>,
    actor: &Actor,
    changes: &[DocumentChange],
) -> Result<Vec<Quota>, Error> {
    let mut quotas: Vec<Quota> = Vec::new();
    if matches!(actor, Actor::Local | Actor::Admin(_)) {
        return Ok(quotas);
    }
    for change in changes.iter().filter(|change| change.operation.is_some()) {
        let Some(max) = change.collection.schema.changes_max else { continue };
        let key = quota_key(&change.collection, actor);
        let place = match quotas.iter().position(|quota| quota.key == key) {
            Some(place) => place,
            None => {
                let stored = reads.get(key.clone()).await?;
                let after = stored.as_ref().map_or(Ok(0), |stored| read_counter(&stored.value))?;
                quotas.push(Quota { key, stamp: stored.map(|stored| stored.stamp), after });
                quotas.len() - 1
            }
        };
        let Some(quota) = quotas.get_mut(place) else { continue };
        quota.after = quota.after.saturating_add(1);
        if quota.after > max {
            return Err(exceeded(&change.collection, max).of(change.operation));
        }
    }
    Ok(quotas)
}

/// Where the changes of a caller are counted; those without a name share one count.
fn quota_key(collection: &Collection, actor: &Actor) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    Head { space: Space::Counter, collection: collection.id, template: TEMPLATE }.write(&mut key);
    key.extend_from_slice(actor.subject().unwrap_or_default().as_bytes());
    key
}

fn exceeded(collection: &Collection, max: u64) -> Error {
    Error::RuleViolation {
        collection: collection.name.clone(),
        field: "*".to_owned(),
        rule: "changes_max",
        detail: format!("{max} changes are the most that a caller may make here"),
    }
}
