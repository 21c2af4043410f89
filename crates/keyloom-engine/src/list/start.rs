//! Where a page begins that follows a document.
//!
//! B1: A position that follows from the document's key alone does not need the document: it may be
//!     gone. Only where the path orders by something else is the document looked up.

use keyloom_key::{Tail, Value};

use crate::access::Reach;
use crate::catalog::Collection;
use crate::document::{Facts, HeadRecord, Record, path_keys};
use crate::error::Error;
use crate::query::{Candidate, Plan, Position, Reader, Stretch, is_chain, is_cursor, read_cursor};

/// The position of a `next`, or of a document by its key.
pub(super) async fn position(
    reader: &mut Reader<'_>,
    readable: &Reach,
    secret: &[u8; 16],
    plan: &Plan,
    text: &str,
) -> Result<Position, Error> {
    let collection = reader.collection;
    if is_cursor(secret, text) {
        return read_cursor(secret, plan, collection, text);
    }
    let values = collection.key.parse(text).map_err(|error| {
        Error::invalid(format!("start_after is neither a key nor a `next`: {error}"))
    })?;
    let document = collection.key.pack(&values)?;
    let stretches = &plan.course.stretches;
    if stretches.is_empty() {
        // Nothing can match, so any position will do.
        return Ok(Position::Key(document));
    }
    let mut is_told = true;
    for stretch in stretches {
        match derived(collection, &candidate_of(collection, stretch), &values)? {
            Some(key) if is_chain(plan) => return Ok(Position::Key(key)),
            Some(key) if stretch.binds(&key) => {
                return Ok(Position::Tail { tail: stretch.tail(&key).to_vec(), document });
            }
            Some(_) => {}
            None => is_told = false,
        }
    }
    if is_told {
        return Err(elsewhere(text));
    }
    let (stretch, key) =
        looked_up(reader, plan, Asked { readable, document: &document, text }).await?;
    Ok(match is_chain(plan) {
        true => Position::Key(key),
        false => Position::Tail { tail: stretch.tail(&key).to_vec(), document },
    })
}

fn candidate_of<'c>(collection: &'c Collection, stretch: &Stretch) -> Candidate<'c> {
    let candidate = Candidate::of(collection, stretch.at);
    candidate.expect("a plan is run with the collection that it was made for")
}

fn elsewhere(text: &str) -> Error {
    Error::invalid(format!("start_after: `{text}` does not belong to this list"))
}

/// The beginning of the document's key under a path, up to where it names the document; `None` if
/// something before that is not in the document key.
fn derived(
    collection: &Collection,
    candidate: &Candidate<'_>,
    values: &[Value],
) -> Result<Option<Vec<u8>>, Error> {
    let key = &collection.key;
    let mut known = Vec::with_capacity(candidate.path.sources.len());
    let mut missing: Vec<_> = key.sources.clone();
    for (at, (component, source)) in candidate.components().enumerate() {
        if missing.is_empty() {
            break;
        }
        let place = key.sources.iter().position(|filled| *filled == source);
        let Some(value) = place.and_then(|place| values.get(place)) else { return Ok(None) };
        known.push(component.value_of(value));
        // A part of a value, or its bucket, does not name the document.
        missing.retain(|wanted| *wanted != source || candidate.place_of(source) != Some(at));
    }
    let span = candidate.path.template.span(&known, &Tail::All);
    let span = span.map_err(|error| Error::invalid(error.to_string()))?;
    let mut start = Vec::with_capacity(5 + span.from.len());
    candidate.path.head.write(&mut start);
    start.extend_from_slice(&span.from);
    Ok(Some(start))
}

/// A document that a page is to begin behind.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// What the caller may read: what he may not is not there.
    readable: &'a Reach,
    document: &'a [u8],
    text: &'a str,
}

/// The first range that holds a key of the stored document, and that key.
async fn looked_up<'p>(
    reader: &mut Reader<'_>,
    plan: &'p Plan,
    asked: Asked<'_>,
) -> Result<(&'p Stretch, Vec<u8>), Error> {
    let Asked { readable, document, text } = asked;
    reader.cost.documents_read += 1;
    let mut stored = reader.snapshot.get(document).await?;
    if let Some(found) = &stored
        && !readable.covers(reader.collection, &HeadRecord::decode(&found.value)?)?
    {
        stored = None;
    }
    let Some(stored) = stored else {
        return Err(Error::invalid(format!(
            "start_after: there is no document `{text}`, and its place in this order went with it: \
             send the `next` of the page instead"
        )));
    };
    let head = HeadRecord::decode(&stored.value)?;
    let record = Record::stored(reader.collection, head.data)?;
    let facts = Facts::from(head);
    for stretch in &plan.course.stretches {
        let candidate = candidate_of(reader.collection, stretch);
        let keys = path_keys(candidate.path, &record, &facts)?;
        if let Some(key) = keys.into_iter().find(|key| stretch.range.contains(key)) {
            return Ok((stretch, key));
        }
    }
    Err(elsewhere(text))
}
