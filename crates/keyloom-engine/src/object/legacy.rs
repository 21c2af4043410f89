//! Objects in the oldest layout, listed in the order of all others.
//!
//! The oldest keys are in the order of their numbers, lists in the order of their spellings. Among
//! numbers with equally many digits the two orders are the same, so a list merges one range for
//! each number of digits.

use std::cmp::Reverse;
use std::sync::Arc;

use keyloom_key::{Head, ObjectId, StoredKey};
use keyloom_store::{Direction, Entry, KeyRange, ScanOptions, Snapshot};

use super::record::LegacyObject;
use crate::error::Error;

/// Digits of the largest `u64`.
const DIGITS_MAX: u32 = 20;

/// A list of the objects in the oldest layout, in the order of their spellings.
pub(super) struct LegacyList<'a> {
    snapshot: &'a dyn Snapshot,
    head: Head,
    /// For each number of digits, the first object that was not listed yet, and the last number.
    streams: Vec<Stream>,
}

struct Stream {
    first: (u64, Arc<LegacyObject>),
    last: u64,
}

impl<'a> LegacyList<'a> {
    /// The objects whose spelling begins with `prefix` and comes after `after`.
    pub(super) async fn open(
        snapshot: &'a dyn Snapshot,
        head: Head,
        prefix: &str,
        after: Option<&[u8]>,
    ) -> Result<LegacyList<'a>, Error> {
        let mut list = LegacyList { snapshot, head, streams: Vec::new() };
        // Almost every partition has none, and one look tells.
        if list.seek(0, u64::MAX).await?.is_none() {
            return Ok(list);
        }
        for digits in 1..=DIGITS_MAX {
            let Some((low, high)) = span(prefix, digits) else { continue };
            let low = match after {
                None => Some(low),
                Some(after) => first_behind(low, high, after),
            };
            let Some(low) = low else { continue };
            if let Some(first) = list.seek(low, high).await? {
                list.streams.push(Stream { first, last: high });
            }
        }
        list.sort();
        Ok(list)
    }

    /// The number that [`LegacyList::next`] gives.
    pub(super) fn peek(&self) -> Option<u64> {
        self.streams.last().map(|stream| stream.first.0)
    }

    /// The next object.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, Arc<LegacyObject>)>, Error> {
        let Some(mut stream) = self.streams.pop() else { return Ok(None) };
        let (number, object) = stream.first;
        if number < stream.last
            && let Some(first) = self.seek(number + 1, stream.last).await?
        {
            stream.first = first;
            self.streams.push(stream);
            self.sort();
        }
        Ok(Some((number, object)))
    }

    /// The first object from one number to another.
    async fn seek(&self, low: u64, high: u64) -> Result<Option<(u64, Arc<LegacyObject>)>, Error> {
        let key = |number: u64| [&self.head.whole().0[..], &number.to_be_bytes()].concat();
        let range = KeyRange { from: key(low), to: [&key(high)[..], &[0]].concat() };
        let options = ScanOptions { direction: Direction::Forward, limit: 1 };
        let found = self.snapshot.scan(&range, options).await?.next(1).await?;
        let Some(Entry { key, stored }) = found.into_iter().next() else { return Ok(None) };
        let (.., read) = StoredKey::read(&key).map_err(|e| Error::corrupt(e.to_string()))?;
        let StoredKey::Legacy(number) = read else {
            return Err(Error::corrupt("a key of another space"));
        };
        Ok(Some((number, Arc::new(LegacyObject::decode(&stored.value)?))))
    }

    /// Puts the stream with the smallest spelling last.
    fn sort(&mut self) {
        self.streams.sort_by_key(|stream| Reverse(ObjectId::Numeric(stream.first.0)));
    }
}

/// The numbers with so many digits whose spelling begins with `prefix`: the first and the last.
fn span(prefix: &str, digits: u32) -> Option<(u64, u64)> {
    let ten = |power: u32| 10_u128.pow(power);
    let (low, high) = if prefix.is_empty() {
        (if digits == 1 { 0 } else { ten(digits - 1) }, ten(digits) - 1)
    } else {
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit())
            && (prefix == "0" || !prefix.starts_with('0'));
        let length = u32::try_from(prefix.len()).ok()?;
        if !is_number || length > digits || (prefix == "0" && digits > 1) {
            return None;
        }
        let (begins, open) = (prefix.parse::<u128>().ok()?, ten(digits - length));
        (begins * open, begins * open + open - 1)
    };
    let low = u64::try_from(low).ok()?;
    Some((low, u64::try_from(high).unwrap_or(u64::MAX)))
}

/// The first of these numbers, which have equally many digits, whose spelling comes after `after`.
fn first_behind(low: u64, high: u64, after: &[u8]) -> Option<u64> {
    let is_behind = |number: u64| number.to_string().as_bytes() > after;
    if !is_behind(high) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_behind(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_is_in_the_span_of_its_digits_and_in_no_other(
            number in prop_oneof![any::<u64>(), 0..2000_u64], prefix in "[0-9]{0,3}",
        ) {
            let spelled = number.to_string();
            for digits in 1..=DIGITS_MAX {
                let inside = span(&prefix, digits)
                    .is_some_and(|(low, high)| (low..=high).contains(&number));
                let expected =
                    spelled.len() == digits as usize && spelled.starts_with(&prefix);
                prop_assert_eq!(inside, expected, "{} {}", digits, prefix);
            }
        }

        #[test]
        fn the_first_number_behind_a_text_is_behind_it_and_the_one_before_is_not(
            digits in 1..=4_u32, after in "[0-9a-z -]{0,5}",
        ) {
            let (low, high) = span("", digits).unwrap();
            let behind = |number: u64| number.to_string().as_bytes() > after.as_bytes();
            let expected = (low..=high).find(|number| behind(*number));
            prop_assert_eq!(first_behind(low, high, after.as_bytes()), expected);
        }
    }

    #[test]
    fn texts_and_padded_numbers_have_no_span() {
        assert_eq!(span("a", 3), None);
        assert_eq!(span("01", 2), None);
        assert_eq!(span("0", 1), Some((0, 0)));
        assert_eq!(span("0", 2), None);
        assert_eq!(span("", 20), Some((10_000_000_000_000_000_000, u64::MAX)));
        assert_eq!(span("2", 20), None);
    }
}
