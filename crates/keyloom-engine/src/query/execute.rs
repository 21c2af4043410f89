//! Runs a course: pages, counts, existence.
//!
//! X1: Every key and document that is read is counted in the cost.
//! X2: A page ends early, with a position to go on from, rather than growing beyond its bytes or
//!     the keys that it may read.
//! X3: An index key without its document is damage, never skipped.

use keyloom_store::Snapshot;

use super::Cost;
use super::candidate::Candidate;
use super::course::{Course, Mode, Stretch};
use super::cursor::Position;
use super::distinct::is_first_of_group;
use super::filter::is_first_key;
use super::merge::{document_of, group_of};
use super::plan::Plan;
use super::stream::{Hit, Hits, Stream};
use crate::catalog::Collection;
use crate::document::{HeadRecord, Record};
use crate::error::Error;
use crate::limits::PAGE_BYTES_MAX;
use crate::pause::pause;

/// How many keys are read at a time. With the largest documents these are 128 MiB, and a page of
/// the default size is one batch.
const BATCH: usize = 128;

/// How many keys a scan tests at a time, so that a small page of a rare kind is not read one by
/// one.
const BATCH_TESTED: usize = 64;

/// How many keys are counted at a time.
const BATCH_COUNTED: usize = 1000;

/// What a page reads from and has read.
pub(crate) struct Reader<'a> {
    pub(crate) snapshot: &'a dyn Snapshot,
    pub(crate) collection: &'a Collection,
    pub(crate) cost: Cost,
    keys_max: usize,
}

/// What a page has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// With their documents, unless the keys cover what is asked.
    pub(crate) hits: Hits,
    /// Where the next page begins; `None` at the end.
    pub(crate) next: Option<Position>,
}

impl<'a> Reader<'a> {
    /// A reader that has read nothing.
    pub(crate) fn new(snapshot: &'a dyn Snapshot, collection: &'a Collection) -> Reader<'a> {
        Reader { snapshot, collection, cost: Cost::default(), keys_max: usize::MAX }
    }

    /// How many keys may still be read.
    pub(super) fn keys_left(&self) -> usize {
        self.keys_max.saturating_sub(usize::try_from(self.cost.keys_read).unwrap_or(usize::MAX))
    }

    /// Lets so many more keys be read.
    pub(super) fn allow(&mut self, keys: usize) {
        self.keys_max = self.keys_max.saturating_add(keys);
    }

    pub(super) fn count_keys(&mut self, count: usize) {
        self.cost.keys_read += u64::try_from(count).unwrap_or(u64::MAX);
    }
}

/// A page of at most `limit` results behind a position.
pub(crate) async fn read_page(
    reader: &mut Reader<'_>,
    plan: &Plan,
    limit: usize,
    after: Option<Position>,
) -> Result<Found, Error> {
    let course = &plan.course;
    if course.residue.is_some() || course.once {
        return tested_page(reader, course, limit, after).await;
    }
    let mut stream = Stream::open(reader, course, after.as_ref(), limit.saturating_add(1));
    if course.probe.is_some() {
        return probed_page(reader, plan, limit, stream).await;
    }
    let mut found = Found::default();
    let mut bytes = 0;
    loop {
        let missing = limit - found.hits.len();
        let mut hits = stream.take(reader, (missing + 1).min(BATCH)).await?;
        let ends = hits.is_empty();
        let ahead = hits.len() > missing;
        hits.truncate(missing);
        with_documents(reader, plan, &mut hits).await?;
        if !found.add(hits, &mut bytes) {
            return found.ending_here(reader, course);
        }
        if ends {
            return Ok(found);
        }
        if ahead {
            return found.ending_here(reader, course);
        }
        if found.hits.len() == limit {
            // A whole batch was filled exactly: one more key says whether there is a next page.
            let more = !stream.take(reader, 1).await?.is_empty();
            return if more { found.ending_here(reader, course) } else { Ok(found) };
        }
    }
}

/// How many results there are.
pub(crate) async fn count_matches(reader: &mut Reader<'_>, plan: &Plan) -> Result<u64, Error> {
    let course = &plan.course;
    if let Some((_, budget)) = &course.residue {
        reader.keys_max = *budget;
    }
    let mut stream = Stream::open(reader, course, None, usize::MAX);
    let mut count = 0;
    let tested = course.residue.is_some() || course.once;
    loop {
        let size = if tested { BATCH } else { BATCH_COUNTED };
        let mut hits = stream.take(reader, size).await?;
        if hits.is_empty() {
            break;
        }
        pause().await;
        if tested {
            fetch(reader, course, &mut hits).await?;
            for hit in hits.iter() {
                count += u64::from(passes(reader, course, hit)?);
            }
        } else if course.probe.is_some() {
            for hit in hits.iter() {
                count += u64::from(is_first(reader, course, hit).await?);
            }
        } else {
            count += u64::try_from(hits.len()).unwrap_or(u64::MAX);
        }
    }
    if reader.keys_left() == 0 {
        ends_within_budget(reader, &mut stream).await?;
    }
    Ok(count)
}

/// Whether there is any result.
pub(crate) async fn any_match(reader: &mut Reader<'_>, plan: &Plan) -> Result<bool, Error> {
    if plan.course.residue.is_some() {
        let found = tested_page(reader, &plan.course, 1, None).await?;
        return match (found.hits.is_empty(), found.next) {
            (false, _) => Ok(true),
            (true, None) => Ok(false),
            (true, after) => {
                let mut stream = Stream::open(reader, &plan.course, after.as_ref(), usize::MAX);
                ends_within_budget(reader, &mut stream).await.map(|()| false)
            }
        };
    }
    let mut stream = Stream::open(reader, &plan.course, None, 1);
    Ok(!stream.take(reader, 1).await?.is_empty())
}

/// A page whose documents are tested one by one; `next` stands behind the last one that was.
async fn tested_page(
    reader: &mut Reader<'_>,
    course: &Course,
    limit: usize,
    after: Option<Position>,
) -> Result<Found, Error> {
    reader.keys_max = course.budget(limit);
    let mut stream = Stream::open(reader, course, after.as_ref(), reader.keys_max);
    let mut found = Found { next: after.clone(), ..Found::default() };
    let mut bytes = 0;
    while found.hits.len() < limit && reader.keys_left() > 0 {
        let missing = limit - found.hits.len();
        let mut hits = stream.take(reader, missing.clamp(BATCH_TESTED, BATCH)).await?;
        if found.next.is_some() {
            pause().await;
        }
        if hits.is_empty() && reader.keys_left() > 0 {
            found.next = None;
            return Ok(found);
        }
        if hits.is_empty() {
            found.next = stream.behind().or(found.next);
            if found.next == after {
                // A page that brings nobody further would be asked for again and again.
                ends_within_budget(reader, &mut stream).await?;
                found.next = None;
            }
            return Ok(found);
        }
        fetch(reader, course, &mut hits).await?;
        for place in 0..hits.len() {
            let Some(hit) = hits.get(place).filter(|_| found.hits.len() < limit) else {
                return Ok(found);
            };
            let passed = passes(reader, course, hit)?;
            bytes += if passed { hit.value.len() } else { 0 };
            if bytes > PAGE_BYTES_MAX && !found.hits.is_empty() {
                return Ok(found);
            }
            found.next = Some(position(reader, course, hit)?);
            if passed {
                hits.hand_over(place, &mut found.hits);
            }
        }
    }
    Ok(found)
}

/// A page of the first keys of groups along a range.
async fn probed_page(
    reader: &mut Reader<'_>,
    plan: &Plan,
    limit: usize,
    mut stream: Stream<'_>,
) -> Result<Found, Error> {
    let course = &plan.course;
    let mut hits = stream.take(reader, limit + 1).await?;
    let ahead = hits.len() > limit;
    hits.truncate(limit);
    let last = hits.last().map(|hit| Position::Key(hit.key.to_vec()));
    let mut firsts = Vec::with_capacity(hits.len());
    for (place, hit) in hits.iter().enumerate() {
        if is_first(reader, course, hit).await? {
            firsts.push(place);
        }
    }
    let mut found = Found { next: last.filter(|_| ahead), ..Found::default() };
    let mut bytes = 0;
    for batch in firsts.chunks(BATCH) {
        let mut first = Hits::default();
        batch.iter().for_each(|place| hits.hand_over(*place, &mut first));
        with_documents(reader, plan, &mut first).await?;
        if !found.add(first, &mut bytes) {
            return found.ending_here(reader, course);
        }
    }
    Ok(found)
}

impl Found {
    /// Adds results for as long as all together are no larger than a page may be; `false` if some
    /// were left out.
    fn add(&mut self, mut hits: Hits, bytes: &mut usize) -> bool {
        let count = hits.len();
        let fits = |(place, hit): &(usize, Hit<'_>)| {
            *bytes += hit.value.len();
            // The first one always does.
            *bytes <= PAGE_BYTES_MAX || (self.hits.is_empty() && *place == 0)
        };
        let fitting = hits.iter().enumerate().take_while(fits).count();
        hits.truncate(fitting);
        self.hits.append(hits);
        fitting == count
    }

    /// The page ends at its last result, and there is more.
    fn ending_here(mut self, reader: &Reader<'_>, course: &Course) -> Result<Found, Error> {
        self.next = match self.hits.last() {
            Some(hit) => Some(position(reader, course, hit)?),
            None => None,
        };
        Ok(self)
    }
}

/// Where a key stands in its course.
fn position(reader: &Reader<'_>, course: &Course, hit: Hit<'_>) -> Result<Position, Error> {
    Ok(match course.mode {
        Mode::Chain => Position::Key(hit.key.to_vec()),
        Mode::Merge => Position::Tail {
            tail: stretch_of(course, hit).tail(hit.key).to_vec(),
            document: hit.document.to_vec(),
        },
        Mode::Groups => {
            let tail = group_of(reader, course, hit)?;
            Position::Tail { tail, document: Vec::new() }
        }
    })
}

/// The documents of hits, unless the keys hold all that is asked.
async fn with_documents(
    reader: &mut Reader<'_>,
    plan: &Plan,
    hits: &mut Hits,
) -> Result<(), Error> {
    if plan.covering { Ok(()) } else { fetch(reader, &plan.course, hits).await }
}

/// The documents of hits: those of document keys are at hand, the others are fetched at once.
async fn fetch(reader: &mut Reader<'_>, course: &Course, hits: &mut Hits) -> Result<(), Error> {
    let mut wanted = hits.take_documents();
    for (hit, document) in hits.iter().zip(&mut wanted).filter(|(_, known)| known.is_empty()) {
        *document = document_of(reader, stretch_of(course, hit), hit)?;
    }
    let mut values = None;
    if hits.iter().zip(&wanted).any(|(hit, document)| hit.key != document) {
        reader.cost.documents_read += u64::try_from(wanted.len()).unwrap_or(u64::MAX);
        let stored = reader.snapshot.get_many(&wanted).await?;
        let found = hits.iter().zip(&wanted).zip(stored).map(|((hit, document), stored)| {
            let stored = stored.ok_or_else(|| orphan(reader, course, hit, document))?;
            Ok(stored.value)
        });
        values = Some(found.collect::<Result<_, Error>>()?);
    }
    hits.set_documents(wanted, values);
    Ok(())
}

/// X3.
fn orphan(reader: &Reader<'_>, course: &Course, hit: Hit<'_>, document: &[u8]) -> Error {
    let spelled = |path: &crate::catalog::Path, key: &[u8]| {
        let text = path.unpack(key).and_then(|values| path.render(&values));
        text.unwrap_or_else(|_| key.escape_ascii().to_string())
    };
    let collection = reader.collection;
    let at = stretch_of(course, hit).at;
    let (label, key) = match Candidate::of(collection, at) {
        Some(candidate) => (candidate.label(), spelled(candidate.path, hit.key)),
        None => ("a path".to_owned(), hit.key.escape_ascii().to_string()),
    };
    Error::corrupt(format!(
        "{label} of `{}` has the key `{key}`, but there is no document `{}`",
        collection.name,
        spelled(&collection.key, document)
    ))
}

/// Whether a document satisfies what the ranges left over, and counts at this key.
fn passes(reader: &Reader<'_>, course: &Course, hit: Hit<'_>) -> Result<bool, Error> {
    let collection = reader.collection;
    let head = HeadRecord::decode(hit.value)?;
    let record = Record::stored(collection, head.data)?;
    if let Some((residue, _)) = &course.residue {
        let key = collection.key.respell(hit.document)?;
        if !residue.holds(&key, &record, &head) {
            return Ok(false);
        }
    }
    if course.once {
        let stretch = stretch_of(course, hit);
        return is_first_key(collection, course, stretch, hit.key, (&record, &head));
    }
    Ok(true)
}

async fn is_first(reader: &mut Reader<'_>, course: &Course, hit: Hit<'_>) -> Result<bool, Error> {
    match &course.probe {
        None => Ok(true),
        Some(probe) => {
            is_first_of_group(reader, course, probe, stretch_of(course, hit), hit.key).await
        }
    }
}

fn stretch_of<'c>(course: &'c Course, hit: Hit<'_>) -> &'c Stretch {
    course.stretches.get(hit.stretch).expect("a stream counts the ranges of its course")
}

/// Refuses an answer for which more keys would have to be read than may be.
async fn ends_within_budget(reader: &mut Reader<'_>, stream: &mut Stream<'_>) -> Result<(), Error> {
    let (max, found) = (reader.keys_max, reader.cost.keys_read);
    if !stream.has_more(reader).await? {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what: "the scan has read all keys that it may, and is not at the end".to_owned(),
        found: usize::try_from(found).unwrap_or(usize::MAX),
        max,
    })
}
