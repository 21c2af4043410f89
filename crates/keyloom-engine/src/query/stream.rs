//! The keys of a course, in its order.
//!
//! S1: A stream reads no key before it is asked for it: `take(n)` reads at most `n` keys in a
//!     chain, and one more per range in a merge.
//! S2: A stream reads no key beyond what its reader may still read.

use keyloom_store::{Direction, Entry, KeyRange, Scan, ScanOptions};

use super::course::{Course, Mode};
use super::cursor::Position;
use super::execute::Reader;
use super::merge::Merge;
use crate::error::Error;

/// Comes after everything that begins with what stands before it.
const AFTER: u8 = 0xFF;

/// A key that a stream yields.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    /// The place of its range in the course.
    pub(crate) stretch: usize,
    pub(crate) key: Vec<u8>,
    /// What is stored under the key; after documents were fetched, what is stored of its document.
    pub(crate) value: Vec<u8>,
    /// The key of its document, if that had to be found out; empty otherwise.
    pub(crate) document: Vec<u8>,
}

/// The keys of a course.
pub(super) enum Stream<'p> {
    Chain(Chain<'p>),
    Merge(Merge<'p>),
}

/// Ranges one after the other.
pub(super) struct Chain<'p> {
    course: &'p Course,
    /// What is left to open; the next one is at the end.
    pending: Vec<(usize, KeyRange)>,
    open: Option<(usize, Box<dyn Scan>)>,
    at_most: usize,
    /// The last key that was looked up.
    looked_up: Option<Vec<u8>>,
}

impl<'p> Stream<'p> {
    /// Opens a course behind a position; it will be asked for at most so many keys.
    pub(super) fn open(
        reader: &Reader<'_>,
        course: &'p Course,
        after: Option<&Position>,
        at_most: usize,
    ) -> Stream<'p> {
        match course.mode {
            Mode::Chain => Stream::Chain(Chain::open(course, after, at_most)),
            Mode::Merge | Mode::Groups => {
                Stream::Merge(Merge::open(reader.collection, course, after))
            }
        }
    }

    /// The next keys, at most `count`; none at the end, or if the reader may read no more.
    pub(super) async fn take(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
    ) -> Result<Vec<Hit>, Error> {
        match self {
            Stream::Chain(chain) if chain.course.is_points() => {
                chain.take_points(reader, count).await
            }
            Stream::Chain(chain) => chain.take(reader, count).await,
            Stream::Merge(merge) => merge.take(reader, count).await,
        }
    }

    /// Where it stands if it has looked up keys that are not there.
    pub(super) fn behind(&self) -> Option<Position> {
        match self {
            Stream::Chain(chain) => chain.looked_up.clone().map(Position::Key),
            Stream::Merge(_) => None,
        }
    }

    /// Whether there is a further key. That may be asked when nothing more may be read: it costs
    /// one key of each range at most.
    pub(super) async fn has_more(&mut self, reader: &mut Reader<'_>) -> Result<bool, Error> {
        let (Stream::Chain(Chain { course, .. }) | Stream::Merge(Merge { course, .. })) = self;
        reader.allow(course.stretches.len());
        Ok(!self.take(reader, 1).await?.is_empty())
    }
}

impl<'p> Chain<'p> {
    fn open(course: &'p Course, after: Option<&Position>, at_most: usize) -> Chain<'p> {
        let mut pending: Vec<(usize, KeyRange)> = Vec::with_capacity(course.stretches.len());
        for (place, stretch) in course.stretches.iter().enumerate() {
            let mut range = stretch.range.clone();
            if let Some(Position::Key(key)) = after {
                skip(&mut range, key, course.direction);
            }
            if !range.is_empty() {
                pending.push((place, range));
            }
        }
        if course.direction == Direction::Forward {
            pending.reverse();
        }
        Chain { course, pending, open: None, at_most, looked_up: None }
    }

    async fn take(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<Vec<Hit>, Error> {
        let count = count.min(reader.keys_left());
        let mut hits = Vec::with_capacity(count);
        while hits.len() < count {
            let (stretch, mut scan) = match self.open.take() {
                Some(open) => open,
                None => {
                    let Some((stretch, range)) = self.pending.pop() else { break };
                    let options =
                        ScanOptions { direction: self.course.direction, limit: self.at_most };
                    reader.cost.ranges += 1;
                    (stretch, reader.snapshot.scan(&range, options).await?)
                }
            };
            let entries = scan.next(count - hits.len()).await?;
            if !entries.is_empty() {
                self.open = Some((stretch, scan));
            }
            reader.count_keys(entries.len());
            hits.extend(entries.into_iter().map(|entry| Hit::new(stretch, entry)));
        }
        Ok(hits)
    }

    /// Where every range is one key, keys are looked up instead.
    async fn take_points(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
    ) -> Result<Vec<Hit>, Error> {
        let mut hits = Vec::with_capacity(count.min(self.pending.len()));
        while hits.len() < count {
            let asked = (count - hits.len()).min(self.pending.len()).min(reader.keys_left());
            let batch = self.pending.split_off(self.pending.len() - asked);
            let (places, keys): (Vec<usize>, Vec<Vec<u8>>) =
                batch.into_iter().rev().map(|(place, range)| (place, range.from)).unzip();
            reader.count_keys(keys.len());
            reader.cost.ranges += u64::try_from(keys.len()).unwrap_or(u64::MAX);
            let values = match keys.as_slice() {
                [] => break,
                [key] => vec![reader.snapshot.get(key).await?],
                keys => reader.snapshot.get_many(keys).await?,
            };
            self.looked_up = keys.last().cloned();
            for ((stretch, key), stored) in places.into_iter().zip(keys).zip(values) {
                hits.extend(stored.map(|stored| Hit::new(stretch, Entry { key, stored })));
            }
        }
        Ok(hits)
    }
}

impl Hit {
    pub(super) fn new(stretch: usize, entry: Entry) -> Hit {
        Hit { stretch, key: entry.key, value: entry.stored.value, document: Vec::new() }
    }
}

/// Narrows a range to what comes behind everything that begins with `key`.
pub(super) fn skip(range: &mut KeyRange, key: &[u8], direction: Direction) {
    match direction {
        Direction::Forward => {
            let mut behind = key.to_vec();
            behind.push(AFTER);
            if range.from < behind {
                range.from = behind;
            }
        }
        Direction::Reverse => {
            if key < range.to.as_slice() {
                range.to = key.to_vec();
            }
        }
    }
}
