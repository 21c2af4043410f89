//! Resolves what one collection says of another: references and derived documents.

use std::collections::BTreeMap;

use keyloom_key::Kind;

use super::compile::wrong;
use super::field::{FieldKind, Reference};
use super::{Collection, Derive};
use crate::error::Error;

/// Checks every reference and resolves every derived collection.
pub(super) fn link(collections: &mut BTreeMap<String, Collection>) -> Result<(), Error> {
    for collection in collections.values() {
        for field in &collection.fields {
            if let Some(reference) = &field.refers_to {
                check_reference(collections, &field.kind, reference).map_err(|detail| {
                    wrong(&collection.name, &format!("fields.{}.refers_to", field.name), detail)
                })?;
            }
        }
    }
    let mut derived = Vec::new();
    for collection in collections.values() {
        if let Some(derive) = resolve_derive(collections, collection)? {
            derived.push((collection.name.clone(), derive));
        }
    }
    for (name, derive) in derived {
        if let Some(source) = collections.get_mut(&derive.from) {
            source.derived_into.push(name.clone());
        }
        if let Some(collection) = collections.get_mut(&name) {
            collection.derive = Some(derive);
        }
    }
    // One level only: a commit then touches a bounded number of documents.
    for collection in collections.values() {
        if collection.derive.is_some() && !collection.derived_into.is_empty() {
            let detail = "a derived collection cannot be derived from again";
            return Err(wrong(&collection.name, "derive", detail));
        }
    }
    Ok(())
}

fn check_reference(
    collections: &BTreeMap<String, Collection>,
    kind: &FieldKind,
    reference: &Reference,
) -> Result<(), String> {
    let Reference { collection, unique } = reference;
    let target = collections
        .get(collection)
        .ok_or_else(|| format!("there is no collection `{collection}`"))?;
    let claim = target.uniques.iter().find(|claim| claim.path.name == *unique);
    let claim = claim.ok_or_else(|| {
        format!(
            "`{collection}` has no unique claim `{unique}`: a reference names one, so add it under \
             [collections.{collection}.unique]"
        )
    })?;
    match claim.path.template.components() {
        [component] if FieldKind::Key(component.kind.clone()) == *kind => Ok(()),
        [component] => Err(format!("`{collection}.{unique}` is a {}", component.kind)),
        _ => Err(format!("`{collection}.{unique}` has several fields: refer to one with one")),
    }
}

fn resolve_derive(
    collections: &BTreeMap<String, Collection>,
    collection: &Collection,
) -> Result<Option<Derive>, Error> {
    let Some(schema) = &collection.schema.derive else { return Ok(None) };
    let wrong = |detail: String| wrong(&collection.name, "derive", detail);
    if collection.capacity.is_some() || !collection.sets.is_empty() {
        return Err(wrong("a derived collection has neither `capacity` nor `sets`".to_owned()));
    }
    let Some(source) = collections.get(&schema.from) else {
        return Err(wrong(format!("there is no collection `{}`", schema.from)));
    };
    let there = |name: &str| {
        source.field(name).ok_or_else(|| wrong(format!("`{}` has no field `{name}`", schema.from)))
    };
    let here = |name: &str| {
        collection.field(name).ok_or_else(|| wrong(format!("there is no field `{name}` here")))
    };
    let mut group = Vec::with_capacity(schema.group.len());
    for component in collection.key.template.components() {
        let Some(from) = schema.group.get(&component.field) else {
            return Err(wrong(format!("`group` must fill `{}` of the key", component.field)));
        };
        let (here, there) = (here(&component.field)?, there(from)?);
        let kinds = (collection.fields.get(here), source.fields.get(there));
        let fits = matches!(kinds, (Some(a), Some(b))
            if a.kind == b.kind && !b.array && b.is_always_present());
        if !fits {
            return Err(wrong(format!(
                "`{from}` must have the type of `{}` and be required",
                component.field
            )));
        }
        group.push((here, there));
    }
    if schema.group.len() != group.len() {
        return Err(wrong("`group` fills the fields of the key and no others".to_owned()));
    }
    let kept = |field: usize| collection.fields.get(field).is_some_and(|f| f.derived);
    for field in collection.fields.iter().enumerate() {
        let (place, field) = field;
        let in_group = group.iter().any(|(here, _)| *here == place);
        if field.required && !in_group && !kept(place) && field.default.is_none() {
            let detail = format!("`{}` is required, but nothing fills it", field.name);
            return Err(wrong(detail));
        }
    }
    let mut sums = Vec::with_capacity(schema.sum.len());
    for (to, from) in &schema.sum {
        let (to, from) = (here(to)?, there(from)?);
        let numeric = source.fields.get(from).is_some_and(|field| {
            field.kind == FieldKind::Key(Kind::I64) && !field.array && field.is_always_present()
        });
        if !numeric {
            return Err(wrong("only a required field of type i64 can be summed".to_owned()));
        }
        sums.push((to, from));
    }
    let count = schema.count.as_deref().map(here).transpose()?;
    Ok(Some(Derive { from: schema.from.clone(), group, sums, count }))
}
