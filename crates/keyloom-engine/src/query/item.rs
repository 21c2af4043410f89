//! From what was read to what is handed out: whole documents, or the fields that were selected.

use keyloom_key::Value;

use super::Item;
use super::candidate::Candidate;
use super::execute::Read;
use super::plan::Plan;
use crate::catalog::{Collection, Source};
use crate::document::{Document, HeadRecord, Members};
use crate::error::Error;

/// The results of a page.
pub(super) fn items(
    collection: &Collection,
    plan: &Plan,
    reads: Vec<Read>,
) -> Result<Vec<Item>, Error> {
    let Some(select) = &plan.course.select else {
        return Ok(documents(collection, reads)?.into_iter().map(Item::Document).collect());
    };
    let mut items = Vec::with_capacity(reads.len());
    for read in reads {
        let members = if plan.covering {
            covered(collection, plan, select, &read)?
        } else {
            selected(collection, select, &read)?
        };
        let key = text_key(collection, &read.document)?;
        items.push(Item::Selected { key, data: Members::with_added(b"{}", &members) });
    }
    Ok(items)
}

/// Whole documents.
pub(crate) fn documents(collection: &Collection, reads: Vec<Read>) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::with_capacity(reads.len());
    for read in reads {
        let key = text_key(collection, &read.document)?;
        documents.push(Document::new(key, HeadRecord::decode(&read.body)?));
    }
    Ok(documents)
}

fn text_key(collection: &Collection, document: &[u8]) -> Result<String, Error> {
    collection.key.render(&collection.key.unpack(document)?)
}

/// Selected members of a stored document, as raw JSON.
fn selected(
    collection: &Collection,
    select: &[Source],
    read: &Read,
) -> Result<Vec<(String, String)>, Error> {
    let head = HeadRecord::decode(&read.body)?;
    let members = Members::parse(head.data)?;
    let mut chosen = Vec::with_capacity(select.len());
    for source in select {
        let name = collection.source_name(*source);
        let raw = match source {
            Source::Field(_) => members.get(name).map(str::to_owned),
            Source::CreatedAt => Some(head.created_at().to_string()),
            Source::UpdatedAt => Some(head.updated_at().to_string()),
            Source::Owner => head.owner.map(|owner| json(&Value::Text(owner.to_owned()))),
        };
        chosen.extend(raw.map(|raw| (name.to_owned(), raw)));
    }
    Ok(chosen)
}

/// Selected members from the key alone: what the index includes, its components, or those of the
/// document key.
fn covered(
    collection: &Collection,
    plan: &Plan,
    select: &[Source],
    read: &Read,
) -> Result<Vec<(String, String)>, Error> {
    let stretch = plan.course.stretches.get(read.hit.stretch);
    let candidate = stretch.and_then(|stretch| Candidate::of(collection, stretch.at));
    let candidate = candidate.expect("a plan is run with the collection that it was made for");
    let included = match candidate.index {
        Some(index) if !index.include.is_empty() => Some(Members::parse(&read.hit.value)?),
        _ => None,
    };
    let held = candidate.path.unpack(&read.hit.key)?;
    let key = collection.key.unpack(&read.document)?;
    let mut chosen = Vec::with_capacity(select.len());
    for source in select {
        let name = collection.source_name(*source);
        let is_included = matches!((candidate.index, source), (Some(index), Source::Field(field))
            if index.include.contains(field));
        let raw = if is_included {
            included.as_ref().and_then(|members| members.get(name)).map(str::to_owned)
        } else {
            let own = candidate.place_of(*source).and_then(|place| held.get(place));
            let in_key = collection.key.sources.iter().position(|filled| filled == source);
            own.or_else(|| key.get(in_key?)).map(json)
        };
        chosen.extend(raw.map(|raw| (name.to_owned(), raw)));
    }
    Ok(chosen)
}

/// A value as JSON.
fn json(value: &Value) -> String {
    match value {
        Value::Int(_) | Value::Unsigned(_) | Value::Bool(_) => value.to_string(),
        Value::Text(text) => serde_json::to_string(text).expect("a string is JSON"),
        Value::Ulid(_) | Value::Uuid(_) => format!("\"{value}\""),
    }
}
