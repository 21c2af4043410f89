//! The keys of a course, in its order.
//!
//! S1: A stream reads no key before it is asked for it: `take(n)` reads at most `n` keys in a
//!     chain, and one more per range in a merge.
//! S2: A stream reads no key beyond what its reader may still read.

use std::borrow::Cow;
use std::mem::take;
use std::ops::Range;

use keyloom_store::{Direction, Entries, KeyRange, Scan, ScanOptions, Stored};

use super::course::{Course, Mode};
use super::cursor::Position;
use super::execute::Reader;
use super::merge::Merge;
use crate::error::Error;

/// Comes after everything that begins with what stands before it.
const AFTER: u8 = 0xFF;

/// Keys that a stream yields, one behind the other in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hits {
    keys: Vec<u8>,
    hits: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    stretch: usize,
    key: Range<usize>,
    value: Vec<u8>,
    document: Vec<u8>,
}

/// A key that a stream yields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit<'h> {
    /// The place of its range in the course.
    pub(crate) stretch: usize,
    pub(crate) key: &'h [u8],
    /// What is stored under the key; after documents were fetched, what is stored of its document.
    pub(crate) value: &'h [u8],
    /// The key of its document, if that had to be found out; empty otherwise.
    pub(crate) document: &'h [u8],
}

impl Hits {
    pub(crate) fn len(&self) -> usize {
        self.hits.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Hit<'_>> {
        self.hits.iter().map(|row| self.read(row))
    }

    pub(crate) fn get(&self, place: usize) -> Option<Hit<'_>> {
        self.hits.get(place).map(|row| self.read(row))
    }

    pub(crate) fn last(&self) -> Option<Hit<'_>> {
        self.hits.last().map(|row| self.read(row))
    }

    /// The values, and the keys of their documents.
    pub(crate) fn into_documents(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.hits.into_iter().map(|Row { value, document, .. }| (document, value))
    }

    /// Moves a hit behind others.
    pub(super) fn hand_over(&mut self, place: usize, to: &mut Hits) {
        let row = self.hits.get_mut(place).expect("whoever moves a hit has seen it");
        let key = self.keys.get(row.key.clone()).expect("a row has its key");
        to.push(row.stretch, key, take(&mut row.value), take(&mut row.document));
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.hits.truncate(len);
    }

    pub(super) fn push(&mut self, stretch: usize, key: &[u8], value: Vec<u8>, document: Vec<u8>) {
        let from = self.keys.len();
        self.keys.extend_from_slice(key);
        self.hits.push(Row { stretch, key: from..self.keys.len(), value, document });
    }

    /// Appends what a scan of a range has read.
    fn add(&mut self, stretch: usize, entries: Entries) {
        let (mut keys, rows) = entries.into_parts();
        let base = self.keys.len();
        if base == 0 {
            self.keys = keys;
        } else {
            self.keys.append(&mut keys);
        }
        let mut from = base;
        self.hits.extend(rows.into_iter().map(|(to, Stored { value, .. })| {
            let key = from..base + to;
            from = key.end;
            Row { stretch, key, value, document: Vec::new() }
        }));
    }

    /// Appends others.
    pub(super) fn append(&mut self, mut others: Hits) {
        if self.is_empty() {
            *self = others;
            return;
        }
        let base = self.keys.len();
        self.keys.append(&mut others.keys);
        self.hits.extend(others.hits.into_iter().map(|row| {
            let key = base + row.key.start..base + row.key.end;
            Row { key, ..row }
        }));
    }

    /// The keys of the documents of all hits, as far as they are known.
    pub(super) fn take_documents(&mut self) -> Vec<Vec<u8>> {
        self.hits.iter_mut().map(|row| take(&mut row.document)).collect()
    }

    /// Sets the documents of all hits, and what is stored of them, if that was read.
    pub(super) fn set_documents(&mut self, documents: Vec<Vec<u8>>, values: Option<Vec<Vec<u8>>>) {
        for (row, document) in self.hits.iter_mut().zip(documents) {
            row.document = document;
        }
        for (row, value) in self.hits.iter_mut().zip(values.into_iter().flatten()) {
            row.value = value;
        }
    }

    fn read<'h>(&'h self, row: &'h Row) -> Hit<'h> {
        let key = self.keys.get(row.key.clone()).expect("a row has its key");
        Hit { stretch: row.stretch, key, value: &row.value, document: &row.document }
    }
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
    pending: Vec<(usize, Cow<'p, KeyRange>)>,
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
    ) -> Result<Hits, Error> {
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
        let mut pending = Vec::with_capacity(course.stretches.len());
        for (place, stretch) in course.stretches.iter().enumerate() {
            let mut range = Cow::Borrowed(&stretch.range);
            if let Some(Position::Key(key)) = after {
                skip(range.to_mut(), key, course.direction);
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

    async fn take(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<Hits, Error> {
        let count = count.min(reader.keys_left());
        let mut hits = Hits::default();
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
            hits.add(stretch, entries);
        }
        Ok(hits)
    }

    /// Where every range is one key, keys are looked up instead.
    async fn take_points(&mut self, reader: &mut Reader<'_>, count: usize) -> Result<Hits, Error> {
        let mut hits = Hits::default();
        while hits.len() < count {
            let asked = (count - hits.len()).min(self.pending.len()).min(reader.keys_left());
            let batch = self.pending.split_off(self.pending.len() - asked);
            let (places, keys): (Vec<usize>, Vec<Vec<u8>>) = batch
                .into_iter()
                .rev()
                .map(|(place, range)| (place, range.into_owned().from))
                .unzip();
            reader.count_keys(keys.len());
            reader.cost.ranges += u64::try_from(keys.len()).unwrap_or(u64::MAX);
            let values = match keys.as_slice() {
                [] => break,
                [key] => vec![reader.snapshot.get(key).await?],
                keys => reader.snapshot.get_many(keys).await?,
            };
            self.looked_up = keys.last().cloned();
            for ((stretch, key), stored) in places.into_iter().zip(keys).zip(values) {
                if let Some(Stored { value, .. }) = stored {
                    hits.push(stretch, &key, value, Vec::new());
                }
            }
        }
        Ok(hits)
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
