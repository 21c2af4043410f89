//! Derived documents: sums and counts over another collection, kept by the same commit.
//!
//! V1: For every group, the derived document holds the sum and the count over all documents of the
//!     group, at every snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use keyloom_key::Value;
use keyloom_store::Stored;
use serde_json::Value as Json;

use super::change::{DocumentChange, NewDocument, OldDocument};
use super::fill::{Generated, Supply};
use crate::catalog::{Catalog, Collection, Derive};
use crate::document::{Members, Record};
use crate::engine::Engine;
use crate::error::Error;

/// What a commit adds to the derived documents, by their packed key.
pub(super) type Deltas = BTreeMap<Vec<u8>, Delta>;

/// What is added to one derived document.
#[derive(Debug)]
pub(super) struct Delta {
    collection: Arc<Collection>,
    /// The components of its key.
    values: Vec<Value>,
    /// For each sum of the collection, what is added. What many changes add up to need not fit
    /// what is stored; only what comes out at the end does.
    sums: Vec<i128>,
    count: i64,
}

/// Adds up what all changes do to derived documents.
pub(super) fn deltas(catalog: &Catalog, changes: &[DocumentChange]) -> Result<Deltas, Error> {
    let mut deltas = Deltas::new();
    for change in changes {
        for name in &change.collection.derived_into {
            let target = catalog.collection(name)?;
            let derive = target.derive.as_ref().expect("K1: it is linked");
            if let Some(old) = &change.old {
                add(&mut deltas, target, derive, &old.record, -1)?;
            }
            if let Some(new) = &change.new {
                add(&mut deltas, target, derive, &new.record, 1)?;
            }
        }
    }
    deltas.retain(|_, delta| delta.count != 0 || delta.sums.iter().any(|sum| *sum != 0));
    Ok(deltas)
}

impl Engine {
    /// The changes of the derived documents, from what is stored of them.
    pub(super) fn derived_changes(
        &self,
        deltas: Deltas,
        fetched: &HashMap<Vec<u8>, Option<Stored>>,
        now_millis: u64,
    ) -> Result<Vec<DocumentChange>, Error> {
        let mut changes = Vec::with_capacity(deltas.len());
        for (key, delta) in deltas {
            let collection = Arc::clone(&delta.collection);
            let old = match fetched.get(&key).and_then(Option::as_ref) {
                None => None,
                Some(stored) => {
                    Some(OldDocument::read(&collection, key, stored.value.clone(), stored.stamp)?)
                }
            };
            let data = self.derived_data(&delta, old.as_ref(), now_millis)?;
            let members = Members::parse_for(&collection.fields, &data)?;
            let record = Record::read(&collection, &members)?;
            let mut new = NewDocument::new(&collection, record, data)?;
            if let Some(old) = &old {
                new.description = old.head().description.map(str::to_owned);
                new.owner = old.head().owner.map(str::to_owned);
            }
            changes.push(DocumentChange { operation: None, collection, old, new: Some(new) });
        }
        Ok(changes)
    }

    fn derived_data(
        &self,
        delta: &Delta,
        old: Option<&OldDocument>,
        now_millis: u64,
    ) -> Result<Vec<u8>, Error> {
        let collection = &delta.collection;
        let derive = collection.derive.as_ref().expect("K1: it is linked");
        let mut members: Vec<(String, String)> = match old {
            None => {
                let group = derive.group.iter().zip(&delta.values);
                group
                    .map(|((here, _), value)| (field_name(collection, *here), json(value)))
                    .collect()
            }
            Some(old) => {
                let members = Members::parse(old.head().data)?;
                members
                    .iter()
                    .map(|member| (member.name.to_string(), member.raw.to_owned()))
                    .collect()
            }
        };
        let sums = derive.sums.iter().map(|(here, _)| *here).zip(delta.sums.iter().copied());
        let count = derive.count.map(|field| (field, i128::from(delta.count)));
        for (field, add) in sums.chain(count) {
            let before = match old.and_then(|old| old.record.scalar(field)) {
                Some(Value::Int(before)) => i128::from(*before),
                _ => 0,
            };
            let name = field_name(collection, field);
            let after = i64::try_from(before + add).map_err(|_| Error::RuleViolation {
                collection: collection.name.clone(),
                field: name.clone(),
                rule: "derive",
                detail: "the sum does not fit 64 bits".to_owned(),
            })?;
            members.retain(|(member, _)| *member != name);
            members.push((name, after.to_string()));
        }
        let members = members.iter().map(|(name, raw)| (name.as_str(), raw.as_str()));
        let data = Members::with_added(b"{}", members);
        let old_data = old.map(|old| old.head().data);
        let drawn = &mut Generated::default();
        let supply = Supply { operation: 0, now_millis, drawn };
        let members = Members::parse_for(&collection.fields, &data)?;
        let additions = self.additions(collection, &members, old_data, supply)?;
        members.completed_data(&data, &additions.members)
    }
}

fn add(
    deltas: &mut Deltas,
    target: &Arc<Collection>,
    derive: &Derive,
    record: &Record,
    sign: i64,
) -> Result<(), Error> {
    let values: Option<Vec<Value>> =
        derive.group.iter().map(|(_, there)| record.scalar(*there).cloned()).collect();
    let values = values.ok_or_else(|| Error::corrupt("a counted document lacks a group field"))?;
    let key = target.key.pack(&values)?;
    let delta = deltas.entry(key).or_insert_with(|| Delta {
        collection: Arc::clone(target),
        values,
        sums: vec![0; derive.sums.len()],
        count: 0,
    });
    delta.count += sign;
    for ((_, there), sum) in derive.sums.iter().zip(&mut delta.sums) {
        if let Some(Value::Int(value)) = record.scalar(*there) {
            *sum += i128::from(*value) * i128::from(sign);
        }
    }
    Ok(())
}

fn field_name(collection: &Collection, field: usize) -> String {
    collection.fields.get(field).map_or_else(String::new, |field| field.name.clone())
}

/// A key value as JSON text.
fn json(value: &Value) -> String {
    match value {
        Value::Ulid(id) => Json::String(id.to_string()).to_string(),
        Value::Uuid(id) => Json::String(id.to_string()).to_string(),
        Value::Text(text) => Json::String(text.clone()).to_string(),
        Value::Int(number) => number.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
    }
}
