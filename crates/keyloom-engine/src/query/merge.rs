//! Several ranges at once, ordered by what follows their bound components.
//!
//! M1: Each range is read one key ahead, and only when the next key is asked for.
//! M2: Keys come in the order of (tail, document); what several ranges bring of one document, with
//!     equal tails, comes once.
//! M3: In groups, of all keys whose tails begin with the same element only the first comes, and
//!     the rest of the group is jumped over, not read.

use keyloom_store::{Direction, Entry, KeyRange, Scan, ScanOptions};

use super::candidate::Candidate;
use super::course::{Course, Mode, Stretch};
use super::cursor::Position;
use super::element::{document_key_of, element_len};
use super::execute::Reader;
use super::stream::{Hit, Hits, skip};
use crate::catalog::Collection;
use crate::error::Error;

/// Ranges that are merged.
pub(super) struct Merge<'p> {
    pub(super) course: &'p Course,
    lanes: Vec<Lane>,
    after: Option<(Vec<u8>, Vec<u8>)>,
}

/// One range of a merge.
struct Lane {
    stretch: usize,
    /// What is left of it.
    range: KeyRange,
    scan: Option<Box<dyn Scan>>,
    head: Option<LaneHead>,
}

/// The key that a range is at; it knows its document.
struct LaneHead {
    stretch: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    document: Vec<u8>,
    /// Where its tail begins.
    bound_bytes: usize,
}

impl LaneHead {
    fn hit(&self) -> Hit<'_> {
        let LaneHead { stretch, key, value, document, .. } = self;
        Hit { stretch: *stretch, key, value, document }
    }

    fn tail(&self) -> &[u8] {
        self.key.get(self.bound_bytes..).unwrap_or_default()
    }

    /// What decides the order of keys, and whether two of them bring the same (M2).
    fn rank(&self) -> (&[u8], &[u8]) {
        (self.tail(), &self.document)
    }
}

impl<'p> Merge<'p> {
    pub(super) fn open(
        collection: &Collection,
        course: &'p Course,
        after: Option<&Position>,
    ) -> Merge<'p> {
        let after = match after {
            Some(Position::Tail { tail, document }) => Some((tail.clone(), document.clone())),
            Some(Position::Key(_)) | None => None,
        };
        let lanes = course.stretches.iter().enumerate().map(|(place, stretch)| {
            let mut range = stretch.range.clone();
            if let Some(after) = &after {
                let key = stretch.key_with(&after.0);
                if is_behind(collection, course, stretch, &key, after) {
                    begin(&mut range, &key, course.direction);
                } else {
                    skip(&mut range, &key, course.direction);
                }
            }
            Lane { stretch: place, range, scan: None, head: None }
        });
        let lanes = lanes.filter(|lane| !lane.range.is_empty()).collect();
        Merge { course, lanes, after: after.filter(|(_, document)| !document.is_empty()) }
    }

    pub(super) async fn take(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
    ) -> Result<Hits, Error> {
        let mut hits = Hits::default();
        while hits.len() < count {
            if !self.fill(reader).await? {
                break;
            }
            let Some(LaneHead { stretch, key, value, document, .. }) = self.pop(reader)? else {
                break;
            };
            hits.push(stretch, &key, value, document);
        }
        Ok(hits)
    }

    /// Sees to it that every range is at a key or at its end; `false` if that may not be read.
    async fn fill(&mut self, reader: &mut Reader<'_>) -> Result<bool, Error> {
        let Merge { course, lanes, after } = self;
        for lane in lanes.iter_mut() {
            while lane.head.is_none() && !lane.range.is_empty() {
                if reader.keys_left() == 0 {
                    return Ok(false);
                }
                lane.load(reader, course).await?;
                let passed = |head: &LaneHead| {
                    after.as_ref().is_some_and(|(tail, document)| {
                        head.tail() == tail && !is_later(&head.document, document, course.direction)
                    })
                };
                lane.head = lane.head.take().filter(|head| !passed(head));
            }
        }
        Ok(true)
    }

    /// The first of the keys that the ranges are at; ranges that are at the same one go on.
    fn pop(&mut self, reader: &Reader<'_>) -> Result<Option<LaneHead>, Error> {
        let heads = self.lanes.iter().enumerate();
        let heads = heads.filter_map(|(place, lane)| Some((place, lane.head.as_ref()?.rank())));
        let first = match self.course.direction {
            Direction::Forward => heads.min_by_key(|(_, rank)| *rank),
            Direction::Reverse => heads.max_by_key(|(_, rank)| *rank),
        };
        let Some((place, _)) = first else { return Ok(None) };
        let first = self.lanes.get_mut(place).and_then(|lane| lane.head.take());
        let first = first.expect("the lane was found by its head");
        let group = match self.course.mode {
            Mode::Groups => Some(group_of(reader, self.course, first.hit())?),
            Mode::Chain | Mode::Merge => None,
        };
        for (other, lane) in self.lanes.iter_mut().enumerate() {
            let is_at = |has: &dyn Fn(&LaneHead) -> bool| lane.head.as_ref().is_some_and(has);
            match &group {
                Some(group) if other == place || is_at(&|head| head.tail().starts_with(group)) => {
                    lane.head = None;
                    lane.scan = None;
                    if let Some(stretch) = self.course.stretches.get(lane.stretch) {
                        skip(&mut lane.range, &stretch.key_with(group), self.course.direction);
                    }
                }
                None if is_at(&|head| head.rank() == first.rank()) => lane.head = None,
                _ => {}
            }
        }
        Ok(Some(first))
    }
}

impl Lane {
    async fn load(&mut self, reader: &mut Reader<'_>, course: &Course) -> Result<(), Error> {
        let mut scan = match self.scan.take() {
            Some(scan) => scan,
            None => {
                let limit = if course.mode == Mode::Groups { 1 } else { usize::MAX };
                let options = ScanOptions { direction: course.direction, limit };
                reader.cost.ranges += 1;
                reader.snapshot.scan(&self.range, options).await?
            }
        };
        let entries = scan.next(1).await?;
        reader.count_keys(entries.len());
        let entry = entries.into_iter().next();
        let (Some(Entry { key, stored }), Some(stretch)) =
            (entry, course.stretches.get(self.stretch))
        else {
            self.range.to.clone_from(&self.range.from);
            return Ok(());
        };
        self.scan = Some(scan);
        let mut head = LaneHead {
            stretch: self.stretch,
            key,
            value: stored.value,
            document: Vec::new(),
            bound_bytes: stretch.bound_bytes,
        };
        head.document = document_of(reader, stretch, head.hit())?;
        self.head = Some(head);
        Ok(())
    }
}

/// The first element of a key's tail, which its group shares.
pub(super) fn group_of(
    reader: &Reader<'_>,
    course: &Course,
    hit: Hit<'_>,
) -> Result<Vec<u8>, Error> {
    let group = || {
        let stretch = course.stretches.get(hit.stretch)?;
        let candidate = Candidate::of(reader.collection, stretch.at)?;
        let (component, _) = candidate.component(stretch.bound())?;
        let tail = stretch.tail(hit.key);
        tail.get(..element_len(tail, component.order)?)
    };
    let group = group().map(<[u8]>::to_vec);
    group.ok_or_else(|| Error::corrupt(format!("key {} has no group", hit.key.escape_ascii())))
}

/// The key of the document that a hit belongs to, from its own key or from what is stored under it.
pub(super) fn document_of(
    reader: &Reader<'_>,
    stretch: &Stretch,
    hit: Hit<'_>,
) -> Result<Vec<u8>, Error> {
    let candidate = Candidate::of(reader.collection, stretch.at);
    let candidate = candidate.expect("a plan is run with the collection that it was made for");
    document_key_of(reader.collection, &candidate, hit.key, hit.value)
}

/// Whether a key with the very tail of the position may belong to a document behind it. A claim
/// does not say whose it is before it is read.
fn is_behind(
    collection: &Collection,
    course: &Course,
    stretch: &Stretch,
    key: &[u8],
    (_, document): &(Vec<u8>, Vec<u8>),
) -> bool {
    let candidate = Candidate::of(collection, stretch.at);
    let candidate = candidate.expect("a plan is run with the collection that it was made for");
    if document.is_empty() || candidate.is_claim() {
        return !document.is_empty();
    }
    document_key_of(collection, &candidate, key, &[])
        .is_ok_and(|own| is_later(&own, document, course.direction))
}

fn is_later(one: &[u8], other: &[u8], direction: Direction) -> bool {
    match direction {
        Direction::Forward => one > other,
        Direction::Reverse => one < other,
    }
}

/// Narrows a range to what begins with `key` or comes behind it.
fn begin(range: &mut KeyRange, key: &[u8], direction: Direction) {
    match direction {
        Direction::Forward => {
            if range.from.as_slice() < key {
                range.from = key.to_vec();
            }
        }
        Direction::Reverse => {
            let behind = [key, &[0xFF]].concat();
            if behind < range.to {
                range.to = behind;
            }
        }
    }
}
