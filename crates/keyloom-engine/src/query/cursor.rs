//! Cursors: a position in the keys of a plan, sealed.
//!
//! ```text
//! base64, URL-safe, without padding, of
//! 01 | fingerprint of the plan, 16 | position | seal, 16
//! position   01 | key after its head
//!            02 | length of the tail, u16 | tail | document key after its head
//! ```
//!
//! The fingerprint is SipHash-2-4-128 with a zero key over all that decides which keys a plan reads
//! in which order; the seal is the same hash over all bytes before it, with the catalog's secret.
//!
//! U1: A cursor holds a position, not a document: it survives that what it stands on is gone.
//! U2: Whatever was not sealed by this database is refused, and so is a cursor of another query.
//! U3: A position lies in the ranges of its plan.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keyloom_key::Head;
use keyloom_store::Direction;
use siphasher::sip128::SipHasher24;

use super::course::{Course, Mode};
use super::plan::Plan;
use crate::catalog::Collection;
use crate::error::Error;

const FORMAT: u8 = 1;
const TAG_KEY: u8 = 1;
const TAG_TAIL: u8 = 2;
const HASH_BYTES: usize = 16;

/// The longest cursor that is looked at: two keys of 1 KiB, their frame, and a third for base64.
const CURSOR_BYTES_MAX: usize = 4096;

/// The bytes that most cursors have room in.
const CURSOR_BYTES_USUAL: usize = 160;

/// A place in the results of a plan. The next page begins behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// In a chain: behind everything that begins with this key.
    Key(Vec<u8>),
    /// In a merge: behind this tail; where several documents share it, behind this one of them.
    /// Behind everything that begins with this tail, if the document is empty.
    Tail {
        /// What follows the bound components.
        tail: Vec<u8>,
        /// The key of the document.
        document: Vec<u8>,
    },
}

/// Where the next page of a query begins. It is sealed when somebody asks for the cursor.
#[derive(Clone)]
pub struct UnsealedCursor {
    secret: [u8; 16],
    position: Position,
}

impl UnsealedCursor {
    pub(super) fn new(secret: &[u8; 16], position: Position) -> UnsealedCursor {
        UnsealedCursor { secret: *secret, position }
    }

    /// The cursor, for the plan that was run.
    pub(super) fn seal(&self, plan: &Plan) -> String {
        write_cursor(&self.secret, plan, plan.collection(), &self.position)
    }
}

/// Without what seals it: that is nothing for a log.
impl fmt::Debug for UnsealedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.position.fmt(f)
    }
}

/// The cursor for a position.
pub(crate) fn write_cursor(
    secret: &[u8; 16],
    plan: &Plan,
    collection: &Collection,
    position: &Position,
) -> String {
    seal(secret, &fingerprint(&plan.course, collection), position)
}

/// The position in a cursor of this plan.
pub(crate) fn read_cursor(
    secret: &[u8; 16],
    plan: &Plan,
    collection: &Collection,
    text: &str,
) -> Result<Position, Error> {
    let (print, body) = unseal(secret, text)?;
    if print != fingerprint(&plan.course, collection) {
        return Err(Error::invalid(
            "the cursor belongs to another query: send the query that it came from, or start over",
        ));
    }
    let position = read_position(&plan.course, collection, &body);
    position.filter(|position| is_inside(&plan.course, position)).ok_or_else(not_a_cursor)
}

/// The cursor for a key in a list that is no query; `print` tells the list from all others.
pub(crate) fn write_list_cursor(secret: &[u8; 16], print: &[u8; 16], key: &[u8]) -> String {
    seal(secret, print, &Position::Key(key.to_vec()))
}

/// What stands behind the head of the key in a cursor of this list.
pub(crate) fn read_list_cursor(
    secret: &[u8; 16],
    print: &[u8; 16],
    text: &str,
) -> Result<Vec<u8>, Error> {
    let (found, body) = unseal(secret, text)?;
    match body.split_first() {
        Some((&TAG_KEY, key)) if found == *print => Ok(key.to_vec()),
        _ => Err(Error::invalid(
            "the cursor belongs to another list: send the list that it came from, or start over",
        )),
    }
}

/// Whether the text is a cursor of this database, of whatever query.
pub(crate) fn is_cursor(secret: &[u8; 16], text: &str) -> bool {
    unseal(secret, text).is_ok()
}

fn seal(secret: &[u8; 16], fingerprint: &[u8; HASH_BYTES], position: &Position) -> String {
    let mut bytes = Vec::with_capacity(CURSOR_BYTES_USUAL);
    bytes.push(FORMAT);
    bytes.extend_from_slice(fingerprint);
    match position {
        Position::Key(key) => {
            bytes.push(TAG_KEY);
            bytes.extend_from_slice(after_head(key));
        }
        Position::Tail { tail, document } => {
            bytes.push(TAG_TAIL);
            let length = u16::try_from(tail.len()).expect("keys have at most 1 KiB");
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(tail);
            bytes.extend_from_slice(after_head(document));
        }
    }
    let seal = SipHasher24::new_with_key(secret).hash(&bytes).as_bytes();
    bytes.extend_from_slice(&seal);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The fingerprint and the position's bytes.
fn unseal(secret: &[u8; 16], text: &str) -> Result<([u8; HASH_BYTES], Vec<u8>), Error> {
    if text.len() > CURSOR_BYTES_MAX {
        return Err(not_a_cursor());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| not_a_cursor())?;
    let (sealed, seal) = bytes.split_last_chunk::<HASH_BYTES>().ok_or_else(not_a_cursor)?;
    let Some((&FORMAT, rest)) = sealed.split_first() else { return Err(not_a_cursor()) };
    let (print, body) = rest.split_first_chunk::<HASH_BYTES>().ok_or_else(not_a_cursor)?;
    let expected = SipHasher24::new_with_key(secret).hash(sealed).as_bytes();
    // All bytes are compared, so that the time says nothing about how many are right.
    let difference = expected.iter().zip(seal).fold(0, |sum, (one, other)| sum | (one ^ other));
    if difference != 0 {
        return Err(Error::invalid(
            "the cursor was changed, or comes from another database: start over without it",
        ));
    }
    Ok((*print, body.to_vec()))
}

fn read_position(course: &Course, collection: &Collection, body: &[u8]) -> Option<Position> {
    let with_head = |head: &[u8], rest: &[u8]| [head, rest].concat();
    match body.split_first()? {
        (&TAG_KEY, key) => {
            let first = &course.stretches.first()?.range.from;
            Some(Position::Key(with_head(first.get(..Head::BYTES)?, key)))
        }
        (&TAG_TAIL, rest) => {
            let (length, rest) = rest.split_first_chunk()?;
            let (tail, document) =
                rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            let mut head = Vec::with_capacity(Head::BYTES);
            collection.key.head.write(&mut head);
            let document =
                if document.is_empty() { Vec::new() } else { with_head(&head, document) };
            Some(Position::Tail { tail: tail.to_vec(), document })
        }
        _ => None,
    }
}

/// U3. A mode reads positions of its own kind only.
fn is_inside(course: &Course, position: &Position) -> bool {
    match (course.mode, position) {
        (Mode::Chain, Position::Key(key)) => {
            course.stretches.iter().any(|stretch| stretch.range.contains(key))
        }
        (Mode::Merge | Mode::Groups, Position::Tail { tail, .. }) => {
            course.stretches.iter().any(|stretch| stretch.range.contains(&stretch.key_with(tail)))
        }
        _ => false,
    }
}

/// What decides which keys a plan reads in which order; not how many.
fn fingerprint(course: &Course, collection: &Collection) -> [u8; HASH_BYTES] {
    let Course { mode, direction, stretches, once, repeats: _, probe, residue, select: _ } = course;
    let mut bytes = Vec::with_capacity(256);
    let mut part = |part: &[u8]| {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(part);
    };
    part(&collection.id.to_be_bytes());
    part(&[
        match mode {
            Mode::Chain => 1,
            Mode::Merge => 2,
            Mode::Groups => 3,
        },
        match direction {
            Direction::Forward => 1,
            Direction::Reverse => 2,
        },
        u8::from(*once),
    ]);
    for stretch in stretches {
        part(&stretch.range.from);
        part(&stretch.range.to);
        part(&stretch.bound_bytes.to_be_bytes());
    }
    if let Some(probe) = probe {
        part(probe.label.as_bytes());
    }
    if let Some((residue, _)) = residue {
        for line in residue.describe(collection) {
            part(line.as_bytes());
        }
    }
    SipHasher24::new().hash(&bytes).as_bytes()
}

fn after_head(key: &[u8]) -> &[u8] {
    key.get(Head::BYTES..).unwrap_or_default()
}

fn not_a_cursor() -> Error {
    Error::invalid("this is not a cursor: send the `next` of a page as it came")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: [u8; 16] = *b"a fixed secret!!";

    /// `position <tab> fingerprint <tab> cursor`, bytes in hexadecimal.
    const GOLDEN: &str = include_str!("../../../../tests/golden/cursors.txt");

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    }

    #[test]
    fn cursors_stay_as_the_golden_file_has_them() {
        let lines = GOLDEN.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut count = 0;
        for line in lines {
            let [position, print, cursor] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}");
            };
            let position = match position.split(' ').collect::<Vec<_>>()[..] {
                ["key", key] => Position::Key(bytes(key)),
                ["tail", tail, document] => {
                    Position::Tail { tail: bytes(tail), document: bytes(document) }
                }
                _ => panic!("`key HEX` or `tail HEX HEX`: {line}"),
            };
            let print: [u8; 16] = bytes(print).try_into().unwrap();
            assert_eq!(seal(&SECRET, &print, &position), cursor);
            assert_eq!(unseal(&SECRET, cursor).unwrap().0, print);
            count += 1;
        }
        assert_eq!(count, 4);
    }

    #[test]
    fn another_secret_does_not_open_a_cursor() {
        let cursor = seal(&SECRET, &[7; 16], &Position::Key(vec![0; 9]));
        assert!(is_cursor(&SECRET, &cursor));
        let error = unseal(b"another secret!!", &cursor).unwrap_err().to_string();
        assert!(error.contains("another database"), "{error}");
    }

    proptest! {
        #[test]
        fn every_changed_cursor_is_refused(
            key in prop::collection::vec(any::<u8>(), 5..40), place: usize, flip in 1_u8..,
        ) {
            let cursor = seal(&SECRET, &[3; 16], &Position::Key(key));
            let mut raw = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
            let place = place % raw.len();
            raw[place] ^= flip;
            prop_assert!(unseal(&SECRET, &URL_SAFE_NO_PAD.encode(&raw)).is_err());
            raw[place] ^= flip;
            raw.truncate(place);
            prop_assert!(unseal(&SECRET, &URL_SAFE_NO_PAD.encode(&raw)).is_err());
        }

        #[test]
        fn any_text_is_a_cursor_or_refused(text in ".{0,80}", raw: Vec<u8>) {
            prop_assert!(unseal(&SECRET, &text).is_err());
            prop_assert!(unseal(&SECRET, &URL_SAFE_NO_PAD.encode(&raw)).is_err());
        }
    }
}
