//! Where a page begins that follows a document.
//!
//! B1: A position that follows from the document's key alone does not need the document: it may be
//!     gone. Only where the path orders by something else is the document looked up.

use keyloom_key::{Tail, Value};

use crate::access::Reach;
use crate::catalog::Collection;
use crate::document::{Facts, HeadRecord, Record, path_keys};
use crate::error::Error;
use crate::query::{Candidate, Plan, Position, Reader, is_chain, is_cursor, read_cursor};

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
    let Some(stretch) = plan.course.stretches.first() else {
        // Nothing can match, so any position will do.
        return Ok(Position::Key(document));
    };
    let candidate = Candidate::of(collection, stretch.at);
    let candidate = candidate.expect("a plan is run with the collection that it was made for");
    let key = match derived(collection, &candidate, &values)? {
        Some(key) => key,
        None => {
            let asked = Asked { readable, document: &document, text };
            looked_up(reader, plan, &candidate, asked).await?
        }
    };
    if is_chain(plan) {
        return Ok(Position::Key(key));
    }
    Ok(Position::Tail { tail: stretch.tail(&key).to_vec(), document })
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
    for (component, source) in candidate.components() {
        if missing.is_empty() {
            break;
        }
        let place = key.sources.iter().position(|filled| *filled == source);
        let Some(value) = place.and_then(|place| values.get(place)) else { return Ok(None) };
        known.push(component.value_of(value));
        missing.retain(|wanted| *wanted != source || candidate.place_of(source).is_none());
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

/// The key of the stored document under a path.
async fn looked_up(
    reader: &mut Reader<'_>,
    plan: &Plan,
    candidate: &Candidate<'_>,
    asked: Asked<'_>,
) -> Result<Vec<u8>, Error> {
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
    let keys = path_keys(candidate.path, &record, &Facts::from(head))?;
    let in_ranges =
        |key: &Vec<u8>| plan.course.stretches.iter().any(|stretch| stretch.range.contains(key));
    keys.into_iter().find(in_ranges).ok_or_else(|| {
        Error::invalid(format!("start_after: `{text}` does not belong to this list"))
    })
}
