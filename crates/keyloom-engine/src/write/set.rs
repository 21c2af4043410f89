//! Replace-set: all documents under the leading fields of a key are swapped in one commit.
//!
//! T1: A reader sees the old set or the new one, never a mixture and never none.
//! T2: Two replacements of one set end with one of the two: each checks the set's membership clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::{Tail, Value};
use keyloom_store::{Direction, Entry, ScanOptions};
use serde_json::Value as Json;

use super::change::{DocumentChange, NewDocument, OldDocument};
use super::draft::{Guard, guard_key};
use super::drive::{Tried, check_request, unwrap_single};
use super::fill::{Generated, Supply};
use super::intent::Intent;
use super::permit::{check_caller, check_old};
use super::prepare::{Decided, Known, Reads};
use super::{Action, Operation, Precondition, Written};
use crate::catalog::{Collection, Set, scalar};
use crate::document::{Members, Record};
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::{REPLAN_ATTEMPTS_MAX, SET_DOCUMENTS_MAX};

/// What a set is replaced with.
#[derive(Clone, Copy, Debug)]
pub struct SetReplacement<'a> {
    /// The collection.
    pub collection: &'a str,
    /// The name of the set in the schema.
    pub set: &'a str,
    /// The first fields of the key, which tell this set from others.
    pub leading: &'a [Json],
    /// The data of the documents that the set holds afterwards.
    pub documents: &'a [Vec<u8>],
}

/// The documents of a set as they are stored, by packed key.
type Stored = BTreeMap<Vec<u8>, OldDocument>;

impl Engine {
    /// Replaces a set of documents. Documents that are equal are stored once; those that are there
    /// already stay untouched; what is not named is deleted. Answers what was written.
    pub async fn replace_set(
        &self,
        actor: &Actor,
        replacement: &SetReplacement<'_>,
    ) -> Result<Vec<Written>, Error> {
        let SetReplacement { collection, set, leading, documents } = *replacement;
        let operations: Vec<Operation> = documents
            .iter()
            .map(|data| Operation {
                collection: collection.to_owned(),
                action: Action::Create { key: None, data: data.clone(), description: None },
            })
            .collect();
        if !operations.is_empty() {
            check_request(actor, &operations)?;
        }
        let mut known = Known::default();
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let collection = catalog.collection(collection)?;
            let (set, values) = find_set(collection, set, leading)?;
            let mut reads = self.reads();
            let (stored, guard) = read_set(&mut reads, collection, &values).await?;
            check_members(collection, actor, &stored)?;
            let version = self.next_version();
            let plan = SetPlan {
                actor,
                collection,
                set,
                values: &values,
                operations: &operations,
                now_millis: version / 1000,
            };
            let changes = self.set_changes(&plan, stored, &mut known)?;
            let (absent, guard) = (Vec::new(), Some(guard));
            let decided = Decided { changes, absent, version, actor, guard };
            let draft = self.prepare_changes(&catalog, decided, &known, reads).await;
            match self.try_commit(draft.map_err(unwrap_single)?).await? {
                Tried::Committed(written) => {
                    return Ok(written.into_iter().map(|(_, written)| written).collect());
                }
                // A document that appeared in between belongs to the set: it is read again.
                Tried::Conflict(conflict) => {
                    let learned = self.learn(&catalog, conflict, &|_| false, &mut known).await;
                    learned.map_err(unwrap_single)?;
                }
            }
        }
        Err(Error::exhausted())
    }

    fn set_changes(
        &self,
        plan: &SetPlan<'_>,
        stored: Stored,
        known: &mut Known,
    ) -> Result<Vec<DocumentChange>, Error> {
        let mut left = stored;
        let mut wanted: BTreeMap<Vec<u8>, DocumentChange> = BTreeMap::new();
        for (place, operation) in plan.operations.iter().enumerate() {
            let change = stored_like(plan.collection, data_of(&operation.action), &left)
                .and_then(|old| self.set_member(plan, place, old, &mut known.drawn))
                .and_then(|change| match unseen_copy(plan.collection, &change, &left)? {
                    None => Ok(change),
                    old => self.set_member(plan, place, old, &mut known.drawn),
                });
            let change = change.map_err(|error| error.of(Some(place)))?;
            let Some(new) = &change.new else { continue };
            match wanted.get(&new.key).and_then(|known| known.new.as_ref()) {
                None => wanted.extend([(new.key.clone(), change)]),
                Some(known) if says_the_same(plan.collection, known, new) => {}
                Some(_) => return Err(contradiction(plan.collection, new)?.of(Some(place))),
            }
        }
        check_size(plan.collection, plan.set, wanted.len())?;
        let mut changes = Vec::with_capacity(wanted.len() + left.len());
        for (key, mut change) in wanted {
            change.old = left.remove(&key);
            let same = match (&change.old, &change.new) {
                (Some(old), Some(new)) => old.record == new.record,
                _ => false,
            };
            if !same {
                changes.push(change);
            }
        }
        // What goes has no operation of its own; its number only orders the results.
        let first = plan.operations.len();
        for (place, old) in left.into_values().enumerate() {
            changes.push(DocumentChange {
                operation: Some(first + place),
                collection: Arc::clone(plan.collection),
                old: Some(old),
                new: None,
            });
        }
        Ok(changes)
    }

    /// What one member of the set becomes; with the stored document under its key, if any, so that
    /// what was generated for it is kept.
    fn set_member(
        &self,
        plan: &SetPlan<'_>,
        place: usize,
        old: Option<OldDocument>,
        drawn: &mut Generated,
    ) -> Result<DocumentChange, Error> {
        let action = plan.operations.get(place).map(|operation| &operation.action);
        let action = action.expect("a member has an operation");
        let action = match &old {
            None => action.clone(),
            Some(old) => Action::Put {
                key: plan.collection.key.render(&plan.collection.key.unpack(&old.key)?)?,
                precondition: Precondition::Any,
                data: data_of(action).to_vec(),
                description: old.head().description.map(str::to_owned),
            },
        };
        let intent = Intent {
            operation: place,
            collection: plan.collection,
            actor: plan.actor,
            action: &action,
            old,
            supply: Supply { operation: place, now_millis: plan.now_millis, drawn },
        };
        let change = self.decide(intent)?.expect("a create or a put always does something");
        let new = change.new.as_ref().expect("a create or a put makes a document");
        if !plan.collection.key.unpack(&new.key)?.starts_with(plan.values) {
            let detail = "the document does not belong to the set that is replaced";
            return Err(Error::invalid(detail));
        }
        Ok(change)
    }
}

struct SetPlan<'a> {
    actor: &'a Actor,
    collection: &'a Arc<Collection>,
    set: &'a Set,
    values: &'a [Value],
    operations: &'a [Operation],
    now_millis: u64,
}

fn data_of(action: &Action) -> &[u8] {
    match action {
        Action::Create { data, .. } | Action::Put { data, .. } => data,
        Action::Patch { .. } | Action::Delete { .. } => &[],
    }
}

/// A copy of the stored document that has the key of this data, as far as the data alone tells it.
fn stored_like(
    collection: &Collection,
    data: &[u8],
    stored: &Stored,
) -> Result<Option<OldDocument>, Error> {
    let members = Members::parse_for(&collection.fields, data)?;
    let record = Record::read(collection, &members)?;
    let Ok(key) = crate::document::document_key(collection, &record) else {
        return Ok(None);
    };
    copy_of(collection, &key, stored)
}

/// A copy of the stored document that has the key of a new one, if that was not seen before a
/// default completed its key.
fn unseen_copy(
    collection: &Collection,
    change: &DocumentChange,
    stored: &Stored,
) -> Result<Option<OldDocument>, Error> {
    match (&change.old, &change.new) {
        (None, Some(new)) => copy_of(collection, &new.key, stored),
        _ => Ok(None),
    }
}

fn copy_of(
    collection: &Collection,
    key: &[u8],
    stored: &Stored,
) -> Result<Option<OldDocument>, Error> {
    let Some(old) = stored.get(key) else { return Ok(None) };
    OldDocument::read(collection, key.to_vec(), old.bytes.clone(), old.stamp).map(Some)
}

fn find_set<'a>(
    collection: &'a Collection,
    name: &str,
    leading: &[Json],
) -> Result<(&'a Set, Vec<Value>), Error> {
    let set = collection
        .sets
        .iter()
        .find(|set| set.name == name)
        .ok_or_else(|| Error::invalid(format!("`{}` has no set `{name}`", collection.name)))?;
    let components = collection.key.template.components().iter().take(set.bound);
    if leading.len() != set.bound {
        let fields: Vec<&str> = components.map(|component| component.field.as_str()).collect();
        return Err(Error::invalid(format!("set `{name}` is named by {}", fields.join(", "))));
    }
    let values = components.zip(leading).map(|(component, value)| {
        scalar(&component.kind, value)
            .map_err(|detail| Error::invalid(format!("`{}`: {detail}", component.field)))
    });
    Ok((set, values.collect::<Result<_, _>>()?))
}

/// A set is replaced by those who may read and write all of it. That there is something which they
/// may not touch cannot be hidden: the set could not be replaced.
fn check_members(collection: &Collection, actor: &Actor, stored: &Stored) -> Result<(), Error> {
    check_caller(collection, actor)?;
    let readable = collection.readable(actor);
    for old in stored.values() {
        if !readable.covers_record(&old.record, old.head().owner) {
            let detail = "the set holds documents of others";
            return Err(Error::forbidden(actor, &collection.name, detail));
        }
        check_old(collection, actor, old)?;
    }
    Ok(())
}

/// The documents of a set and its membership clock, from one snapshot.
async fn read_set(
    reads: &mut Reads<'_>,
    collection: &Collection,
    values: &[Value],
) -> Result<(Stored, Guard), Error> {
    let guard_key = guard_key(collection, values)?;
    let stamp = reads.get(guard_key.clone()).await?.map(|stored| stored.stamp);
    let range = collection.key.range(values, &Tail::All)?;
    let limit = SET_DOCUMENTS_MAX + 1;
    let options = ScanOptions { direction: Direction::Forward, limit };
    let page = reads.snapshot().await?.scan(&range, options).await?.next(limit).await?;
    if page.len() == limit {
        return Err(Error::LimitExceeded {
            what: "documents of a stored set".to_owned(),
            found: limit,
            max: SET_DOCUMENTS_MAX,
        });
    }
    let mut stored = Stored::new();
    for Entry { key, stored: found } in page {
        let old = OldDocument::read(collection, key.clone(), found.value, found.stamp)?;
        stored.insert(key, old);
    }
    Ok((stored, Guard { key: guard_key, stamp }))
}

/// Whether two new documents agree in all that was not drawn for each of them.
fn says_the_same(collection: &Collection, one: &NewDocument, other: &NewDocument) -> bool {
    let drawn = |place| one.generated.contains(&place) && other.generated.contains(&place);
    let mut places = 0..collection.fields.len();
    places.all(|place| drawn(place) || one.record.get(place) == other.record.get(place))
}

fn contradiction(collection: &Collection, new: &NewDocument) -> Result<Error, Error> {
    let key = collection.key.respell(&new.key)?;
    Ok(Error::invalid(format!("`{key}` stands twice in the set with different data")))
}

fn check_size(collection: &Collection, set: &Set, found: usize) -> Result<(), Error> {
    if (set.min..=set.max).contains(&found) {
        return Ok(());
    }
    Err(Error::RuleViolation {
        collection: collection.name.clone(),
        field: set.name.clone(),
        rule: "sets",
        detail: format!("{found} documents, a set has {} to {}", set.min, set.max),
    })
}
