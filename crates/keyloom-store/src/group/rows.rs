//! How a store lies in the one ordered map that an engine offers.
//!
//! ```text
//! 00                    → sequence u64 | position u64     the tip
//! 01 <key>              → stamp LEB128 | value            what the contract stores
//! 02 <position u64>     → stamp LEB128 | change           the feed
//! ```
//! Numbers outside of LEB128 are big-endian. The stamp is the sequence number of the commit.
//!
//! R1: The three spaces do not mix: a scan of one never leaves it, whatever its keys are.
//! R2: Whatever bytes an engine returns, decoding them gives a value or `Corrupt`, never a panic.
//! R3: The last numbers of the store are those of the tip or of the last change, whichever is
//!     later. A batch that ends with a change writes no tip, which saves a row of nearly every
//!     commit; whoever trims the feed has to write the tip.
//!
//! One map instead of three tables: where an engine divides it, if it does so at all, is up to the
//! engine, and no part can fall behind another in a crash.

use std::ops::RangeInclusive;

use super::{Cursor as _, Shown, View};
use crate::batch::{Appended, Batch, Tip};
use crate::{Direction, Position, Stamp, StoreError, Stored};

const TIP: u8 = 0x00;
const VALUE: u8 = 0x01;
const CHANGE: u8 = 0x02;

const TIP_KEY: [u8; 1] = [TIP];

/// The bytes that the keys and the values of most rows have room in.
const ROW_USUAL: usize = 128;
const VALUE_USUAL: usize = 1024;

/// The rows that a batch writes, in key order, each key once.
pub struct Rows<'a> {
    batch: &'a Batch<'a>,
    /// Changes that are forgotten.
    trimmed: Option<RangeInclusive<Position>>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(batch: &'a Batch<'a>) -> Self {
        Rows { batch, trimmed: None }
    }

    /// The rows of a batch, and changes that are removed.
    pub(super) fn without(batch: &'a Batch<'a>, trimmed: RangeInclusive<Position>) -> Self {
        Rows { batch, trimmed: Some(trimmed) }
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        let trimmed = self.trimmed().count();
        usize::from(self.has_tip())
            + self.batch.slots().count()
            + trimmed
            + self.batch.changes().len()
    }

    /// Hands over each row; a row without a value is to be removed. Stops at the first error.
    pub fn for_each<E>(
        &self,
        mut write: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.has_tip() {
            write(&TIP_KEY, Some(&encode_tip(self.batch.tip())))?;
        }
        // Two buffers for all rows: an allocation for each would cost more than the copying.
        let (mut row, mut bytes) = (Vec::with_capacity(ROW_USUAL), Vec::with_capacity(VALUE_USUAL));
        for (key, slot) in self.batch.slots() {
            value_key(key, &mut row);
            match slot {
                Some(slot) => {
                    encode_value(slot.stamp, &slot.value, &mut bytes);
                    write(&row, Some(&bytes))?;
                }
                None => write(&row, None)?,
            }
        }
        for position in self.trimmed() {
            write(&change_key(position), None)?;
        }
        for Appended { position, stamp, bytes: change } in self.batch.changes() {
            encode_value(*stamp, change, &mut bytes);
            write(&change_key(*position), Some(&bytes))?;
        }
        Ok(())
    }

    fn trimmed(&self) -> impl Iterator<Item = Position> {
        let trimmed = self.trimmed.iter();
        trimmed.flat_map(|range| (range.start().0..=range.end().0).map(Position))
    }

    /// Whether the last change does not tell the last sequence number (R3).
    fn has_tip(&self) -> bool {
        if self.trimmed.is_some() {
            return true;
        }
        let last = self.batch.changes().last().map(|change| change.stamp.0);
        last != Some(self.batch.tip().sequence)
    }
}

/// The last numbers of a store (R3).
pub(super) fn read_tip(shown: &Shown<impl View>) -> Result<Tip, StoreError> {
    let tip = shown.get(&TIP_KEY, decode_tip)?.unwrap_or_default();
    let mut changes = shown.range(&change_key(Position::default()), &CHANGES_END)?;
    let last = changes.next(Direction::Reverse, |row, bytes| {
        let (stamp, _) = decode_value(bytes)?;
        Ok(Tip { sequence: stamp.0, position: decode_change_key(row)? })
    })?;
    Ok(last.filter(|last| last.sequence > tip.sequence).unwrap_or(tip))
}

/// The oldest change that is kept.
pub(super) fn first_change(shown: &Shown<impl View>) -> Result<Option<Position>, StoreError> {
    let mut changes = shown.range(&change_key(Position::default()), &CHANGES_END)?;
    changes.next(Direction::Forward, |row, _| decode_change_key(row))
}

/// The row key of a key of the contract, written into `row`.
pub(super) fn value_key(key: &[u8], row: &mut Vec<u8>) {
    row.clear();
    row.push(VALUE);
    row.extend_from_slice(key);
}

/// The row key of a change.
pub(super) fn change_key(position: Position) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = position.0.to_be_bytes();
    [CHANGE, a, b, c, d, e, f, g, h]
}

/// The first row key behind all changes.
pub(super) const CHANGES_END: [u8; 1] = [CHANGE + 1];

/// The key of the contract in a row key.
pub(super) fn decode_value_key(row: &[u8]) -> Result<&[u8], StoreError> {
    match row.split_first() {
        Some((&VALUE, key)) => Ok(key),
        _ => Err(corrupt("a row key outside of its space", row)),
    }
}

/// The position in a row key.
pub(super) fn decode_change_key(row: &[u8]) -> Result<Position, StoreError> {
    match row.split_first() {
        Some((&CHANGE, position)) => match position.try_into() {
            Ok(position) => Ok(Position(u64::from_be_bytes(position))),
            Err(_) => Err(corrupt("a position that is not 8 bytes", row)),
        },
        _ => Err(corrupt("a row key outside of its space", row)),
    }
}

/// The stamp in front of a stored value or change, and the rest.
pub(super) fn decode_value(bytes: &[u8]) -> Result<(Stamp, &[u8]), StoreError> {
    let mut stamp = 0_u64;
    let mut rest = bytes;
    for shift in (0..u64::BITS).step_by(7) {
        let Some((byte, tail)) = rest.split_first() else { break };
        rest = tail;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part {
            break;
        }
        stamp |= part << shift;
        if byte & 0x80 == 0 {
            return Ok((Stamp(stamp), rest));
        }
    }
    Err(corrupt("a value without a whole stamp", bytes))
}

/// A stored value as the contract returns it.
pub(super) fn decode_stored(bytes: &[u8]) -> Result<Stored, StoreError> {
    let (stamp, value) = decode_value(bytes)?;
    Ok(Stored { value: value.to_vec(), stamp })
}

fn decode_tip(bytes: &[u8]) -> Result<Tip, StoreError> {
    let parts = bytes.split_first_chunk::<8>().and_then(|(sequence, rest)| {
        let position: [u8; 8] = rest.try_into().ok()?;
        Some((u64::from_be_bytes(*sequence), u64::from_be_bytes(position)))
    });
    match parts {
        Some((sequence, position)) => Ok(Tip { sequence, position: Position(position) }),
        None => Err(corrupt("a tip that is not 16 bytes", bytes)),
    }
}

fn encode_tip(tip: Tip) -> [u8; 16] {
    ((u128::from(tip.sequence) << 64) | u128::from(tip.position.0)).to_be_bytes()
}

fn encode_value(stamp: Stamp, value: &[u8], bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut left = stamp.0;
    while left >= 0x80 {
        bytes.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    bytes.push(left.to_le_bytes()[0]);
    bytes.extend_from_slice(value);
}

fn corrupt(what: &str, bytes: &[u8]) -> StoreError {
    // A few bytes are enough to find the place; a whole value would drown the message.
    let shown = bytes.get(..40).unwrap_or(bytes);
    StoreError::Corrupt { detail: format!("{what}: {}", shown.escape_ascii()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Empty;
    use crate::{Commit, Write};

    #[test]
    fn the_bytes_of_all_rows_are_fixed() {
        let commit = Commit {
            writes: vec![
                Write::Put { key: b"b".into(), value: b"B".into() },
                Write::Add { key: b"n".into(), delta: -2 },
                Write::Delete { key: b"a".into() },
            ],
            changes: vec![b"one".into(), b"two".into()],
            ..Commit::default()
        };
        let mut batch = Batch::new(Tip { sequence: 299, position: Position(0x0102) });
        batch.add(&commit, &Empty).unwrap();
        let found = rows(&batch);
        let expected: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![
            (b"\x01a".into(), None),
            (b"\x01b".into(), Some(b"\xAC\x02B".into())),
            (b"\x01n".into(), Some(b"\xAC\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE".into())),
            (b"\x02\0\0\0\0\0\0\x01\x03".into(), Some(b"\xAC\x02one".into())),
            (b"\x02\0\0\0\0\0\0\x01\x04".into(), Some(b"\xAC\x02two".into())),
        ];
        assert_eq!(found, expected);
        assert!(found.is_sorted());
    }

    #[test]
    fn r3_the_tip_is_written_only_if_the_last_change_does_not_tell_it() {
        let write = Write::Delete { key: b"a".into() };
        let quiet = Commit { writes: vec![write], ..Commit::default() };
        let loud = Commit { changes: vec![b"c".into()], ..Commit::default() };
        let tip_of = |commits: &[&Commit]| {
            let mut batch = Batch::new(Tip { sequence: 6, position: Position(8) });
            for commit in commits {
                batch.add(commit, &Empty).unwrap();
            }
            rows(&batch).remove(0)
        };
        let tip = (b"\x00".to_vec(), Some(b"\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08".to_vec()));
        assert_eq!(tip_of(&[&quiet]), tip);
        let tip = (b"\x00".to_vec(), Some(b"\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x09".to_vec()));
        assert_eq!(tip_of(&[&loud, &quiet]), tip);
        assert_eq!(tip_of(&[&loud]).0, b"\x02\0\0\0\0\0\0\0\x09");
        assert_eq!(tip_of(&[&quiet, &loud]).0, b"\x01a");
    }

    #[test]
    fn r3_a_trim_writes_the_tip_before_the_changes_that_it_removes() {
        let batch = Batch::new(Tip { sequence: 6, position: Position(8) });
        let found = written(&Rows::without(&batch, Position(7)..=Position(8)));
        let expected = vec![
            (b"\x00".to_vec(), Some(b"\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x08".to_vec())),
            (b"\x02\0\0\0\0\0\0\0\x07".to_vec(), None),
            (b"\x02\0\0\0\0\0\0\0\x08".to_vec(), None),
        ];
        assert_eq!(found, expected);
    }

    fn rows(batch: &Batch<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        written(&Rows::new(batch))
    }

    fn written(rows: &Rows<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let all: Result<(), ()> = rows.for_each(|key, value| {
            found.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        });
        all.unwrap();
        assert_eq!(rows.count(), found.len());
        found
    }

    #[test]
    fn every_stamp_comes_back_with_its_value() {
        for shift in 0..64 {
            for stamp in [(1_u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                encode_value(Stamp(stamp), b"value", &mut bytes);
                assert_eq!(decode_value(&bytes).unwrap(), (Stamp(stamp), &b"value"[..]));
            }
        }
    }

    #[test]
    fn r2_broken_rows_are_corrupt() {
        for bytes in [&b""[..], b"\x80", b"\xFF\xFF", &[0xFF; 10], &[0xFF; 40]] {
            assert!(matches!(decode_value(bytes), Err(StoreError::Corrupt { .. })), "{bytes:?}");
        }
        // The tenth byte has room for one bit only.
        let mut largest = [0xFF; 10];
        largest[9] = 0x02;
        assert!(decode_value(&largest).is_err());
        largest[9] = 0x01;
        assert_eq!(decode_value(&largest).unwrap().0, Stamp(u64::MAX));
        for bytes in [&b""[..], &[0; 8], &[0; 15], &[0; 17]] {
            assert!(matches!(decode_tip(bytes), Err(StoreError::Corrupt { .. })), "{bytes:?}");
        }
        for row in [&b""[..], b"\x00", b"\x02", b"\x02\0\0\0\0\0\0\0", b"\x03\0\0\0\0\0\0\0\0"] {
            assert!(decode_value_key(row).is_err(), "{row:?}");
            assert!(decode_change_key(row).is_err(), "{row:?}");
        }
    }

    #[test]
    fn r1_no_key_leaves_its_space() {
        let mut row = Vec::new();
        for key in [&b""[..], b"\0", &[0xFF; 1024]] {
            value_key(key, &mut row);
            assert!(row.as_slice() > &TIP_KEY[..]);
            assert!(row.as_slice() < &change_key(Position(0))[..]);
            assert_eq!(decode_value_key(&row).unwrap(), key);
        }
        assert!(change_key(Position(u64::MAX))[..] < CHANGES_END[..]);
    }
}
