//! The rows of a group of commits, in the bytes that go into a journal.
//!
//! ```text
//! record: | checksum u64 | bytes u32 | row | row | …             all big-endian
//! row:    | key bytes u16 | 00 | key                             is removed
//!         | key bytes u16 | 01 | value bytes u32 | key | value   is put
//! ```
//!
//! The checksum is the XXH3-64 of the rows, seeded with the XXH3-64 of generation and place (16
//! bytes big-endian): a record is good at the place and for the generation it was written for.
//!
//! C1: Whatever bytes are read as a record give rows, nothing, or `Corrupt`, never a panic.

use std::iter::Peekable;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::StoreError;
use crate::group::Rows;
use crate::limits::RECORD_BYTES_KEPT;

const HEAD_BYTES: usize = size_of::<u64>() + size_of::<u32>();

const REMOVED: u8 = 0;
const PUT: u8 = 1;

/// Where a record stands in the life of a journal.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Records of other generations are none.
    pub generation: u64,
    /// The first of its bytes in the journal.
    pub offset: usize,
}

/// The rows of one group.
#[derive(Debug, Default)]
pub struct Record {
    bytes: Vec<u8>,
    count: usize,
}

/// A row: its key, and its value unless it is removed.
pub type Row<'a> = (&'a [u8], Option<&'a [u8]>);

impl Record {
    /// Takes down other rows.
    pub fn fill(&mut self, rows: &Rows<'_>) -> Result<(), StoreError> {
        if self.bytes.capacity() > RECORD_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        self.count = 0;
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        rows.for_each(|key, value| self.push((key, value)))
    }

    fn push(&mut self, (key, value): Row<'_>) -> Result<(), StoreError> {
        self.count += 1;
        let too_long = |_| StoreError::Invalid { what: "a row is too long".into() };
        let key_bytes = u16::try_from(key.len()).map_err(too_long)?.to_be_bytes();
        self.bytes.extend_from_slice(&key_bytes);
        match value {
            None => self.bytes.push(REMOVED),
            Some(value) => {
                let value_bytes = u32::try_from(value.len()).map_err(too_long)?.to_be_bytes();
                self.bytes.push(PUT);
                self.bytes.extend_from_slice(&value_bytes);
            }
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        Ok(())
    }

    /// A record of rows that a test has made up.
    #[cfg(feature = "conformance")]
    pub fn of<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> Self {
        let mut record = Record { bytes: vec![0; HEAD_BYTES], count: 0 };
        rows.into_iter().for_each(|row| record.push(row).expect("its rows are short"));
        record
    }

    /// How many bytes it takes in the journal.
    #[expect(clippy::len_without_is_empty, reason = "a record has at least its head")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The rows that were taken down, in the order of their keys.
    pub fn rows(&self) -> RowsIn<'_> {
        RowsIn { left: self.bytes.get(HEAD_BYTES..).unwrap_or_default() }
    }

    /// The bytes of the record for this place; `None` if a journal cannot hold it.
    pub fn seal(&mut self, place: Place) -> Option<&[u8]> {
        let (head, rows) = self.bytes.split_first_chunk_mut::<HEAD_BYTES>()?;
        let [a, b, c, d, e, f, g, h] = checksum(rows, place).to_be_bytes();
        let [i, j, k, l] = u32::try_from(rows.len()).ok()?.to_be_bytes();
        *head = [a, b, c, d, e, f, g, h, i, j, k, l];
        Some(&self.bytes)
    }
}

/// The rows and the length of the record that these bytes begin with, if it is whole and belongs
/// here.
pub fn read(bytes: &[u8], place: Place) -> Option<(RowsIn<'_>, usize)> {
    let (found, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let left = rest.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    // Zeros are no record: their checksum would have to be zero, too.
    let belongs_here = checksum(left, place) == u64::from_be_bytes(*found);
    belongs_here.then_some((RowsIn { left }, HEAD_BYTES + left.len()))
}

fn checksum(rows: &[u8], Place { generation, offset }: Place) -> u64 {
    let place = (u128::from(generation) << u64::BITS) | offset as u128;
    xxh3_64_with_seed(rows, xxh3_64(&place.to_be_bytes()))
}

/// The rows of a record, one after the other.
#[derive(Debug)]
pub struct RowsIn<'a> {
    left: &'a [u8],
}

/// Rows of which the next one can be looked at.
pub type RowsAhead<'a> = Peekable<RowsIn<'a>>;

impl<'a> Iterator for RowsIn<'a> {
    type Item = Result<Row<'a>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let Some((row, left)) = read_row(self.left) else {
            self.left = &[];
            let detail = "a record of the journal holds something else than rows".into();
            return Some(Err(StoreError::Corrupt { detail }));
        };
        self.left = left;
        Some(Ok(row))
    }
}

/// The first row, and what is behind it.
fn read_row(bytes: &[u8]) -> Option<(Row<'_>, &[u8])> {
    let (key_len, rest) = bytes.split_first_chunk()?;
    let key_len = usize::from(u16::from_be_bytes(*key_len));
    match rest.split_first()? {
        (&REMOVED, rest) => {
            let (key, rest) = rest.split_at_checked(key_len)?;
            Some(((key, None), rest))
        }
        (&PUT, rest) => {
            let (value_len, rest) = rest.split_first_chunk()?;
            let value_len = usize::try_from(u32::from_be_bytes(*value_len)).ok()?;
            let (key, rest) = rest.split_at_checked(key_len)?;
            let (value, rest) = rest.split_at_checked(value_len)?;
            Some(((key, Some(value)), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Random;

    const PLACE: Place = Place { generation: 7, offset: 4096 };

    fn sample() -> Record {
        Record::of([(&b"key"[..], Some(&b"value"[..])), (b"gone", None), (b"none", Some(b""))])
    }

    #[test]
    fn the_bytes_of_a_record_are_fixed() {
        let mut record = sample();
        let expected = b"\0\x03\x01\0\0\0\x05keyvalue\0\x04\0gone\0\x04\x01\0\0\0\0none";
        let head = [b"\xFD\xA5\x7A\x6C\xCB\x20\x94\x1E".as_slice(), &[0, 0, 0, 33]].concat();
        assert_eq!(record.seal(PLACE).unwrap(), [&head, expected.as_slice()].concat());
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_only_where_it_belongs() {
        let mut record = sample();
        let rows: Vec<Row<'_>> =
            vec![(b"key", Some(b"value")), (b"gone", None), (b"none", Some(b""))];
        let sealed = record.seal(PLACE).unwrap().to_vec();
        let (found, len) = read(&sealed, PLACE).unwrap();
        assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), rows);
        assert_eq!(len, sealed.len());
        assert!(read(&sealed, Place { generation: 8, ..PLACE }).is_none());
        assert!(read(&sealed, Place { offset: 4097, ..PLACE }).is_none());
    }

    #[test]
    fn c1_whatever_is_changed_in_a_record_is_noticed() {
        let sealed = sample().seal(PLACE).unwrap().to_vec();
        for bit in 0..8 * sealed.len() {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged, PLACE).is_none(), "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(read(&sealed[..len], PLACE).is_none(), "cut at {len}");
        }
        assert!(read(&[0; 100], PLACE).is_none());
    }

    #[test]
    fn c1_rows_that_cannot_be_read_are_damage() {
        let mut random = Random::from_environment();
        for _ in 0..10_000 {
            let len = random.below(40);
            let bytes = random.bytes(len);
            let rows: Vec<_> = RowsIn { left: &bytes }.collect();
            assert!(rows.iter().rev().skip(1).all(Result::is_ok), "{random}");
        }
        assert!(RowsIn { left: b"\0\x01\x02k" }.any(|row| row.is_err()));
    }
}
