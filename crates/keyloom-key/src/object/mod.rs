//! Identities, keys and changes of the object grid.
//!
//! I1: One object has one [`ObjectId`]: a text that is the decimal spelling of a `u64` is the
//!     numeric identity, so `42` as a number and `"42"` as a text are the same object and the same
//!     bytes.
//! I2: A text inside an envelope is normalized ([`StringId`]).
//! I3: `Ord` is the byte order of the spelling for objects. Entries with numeric keys come first,
//!     in the order of their numbers, then those with string keys in byte order: as they are
//!     stored.

mod change;
mod key;
mod varint;

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;
use thiserror::Error;

use crate::identity::{IdentityError, NumericId, StringId};

pub use change::{EntryStep, ObjectStep, Touched};
pub use key::{ObjectKey, ObjectRecord, StoredKey};

/// What identifies an object within its class and partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ObjectId {
    /// A number.
    Numeric(u64),
    /// A text.
    String(ObjectText),
}

/// A normalized text that is not the decimal spelling of a `u64`; made by [`ObjectId::string`]
/// (I1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectText(StringId);

/// What identifies an entry within its object. The numeric key 1 and the string key `1` are two;
/// the engine reads string keys that spell a number, but no longer writes them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKey {
    /// A number.
    Numeric(u32),
    /// A text.
    String(StringId),
}

/// Why bytes are no key or change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("damaged object key or change: {problem}")]
pub struct ObjectDecodeError {
    /// What is wrong.
    pub problem: &'static str,
}

impl ObjectId {
    /// Normalizes a text and checks it; the decimal spelling of a `u64` is the numeric identity
    /// (I1).
    pub fn string(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        let id = StringId::parse(text, bytes_max)?;
        match NumericId::read(id.as_str()) {
            Ok(number) => Ok(Self::Numeric(number.get())),
            Err(_) => Ok(Self::String(ObjectText(id))),
        }
    }

    /// Reads a segment of a path: digits that fit 64 bits are numeric, anything else is a text.
    /// Digits with zeros before them are refused, since nobody can say which of the two they mean.
    pub fn segment(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if is_digits && text.starts_with('0') && text.len() > 1 {
            NumericId::parse(text)?;
        }
        Self::string(text, bytes_max)
    }

    /// The partition out of `count` (1 to 65,536) that the identity falls into: SipHash-2-4 with a
    /// zero key over its spelling, modulo the count. The same on every machine and in every
    /// release.
    #[must_use]
    pub fn partition(&self, count: u32) -> u16 {
        let rest = self.hash64() % u64::from(count.max(1));
        u16::try_from(rest).expect("there are at most 65,536 partitions")
    }

    /// SipHash-2-4 with a zero key over the spelling.
    #[must_use]
    pub fn hash64(&self) -> u64 {
        let mut hasher = SipHasher24::new();
        self.with_spelling(|spelling| hasher.write(spelling));
        hasher.finish()
    }

    /// Hands out the bytes of the spelling: decimal ASCII, or the text.
    fn with_spelling<T>(&self, use_it: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Numeric(number) => {
                let mut digits = [0; DIGITS_MAX];
                let at = write_decimal(*number, &mut digits);
                use_it(digits.get(at..).unwrap_or_default())
            }
            Self::String(text) => use_it(text.as_str().as_bytes()),
        }
    }

    /// Reads the spelling as it is stored.
    fn from_spelling(bytes: &[u8]) -> Result<Self, ObjectDecodeError> {
        let text = text_of(bytes)?;
        let id = Self::string(text, bytes.len()).map_err(|_| NOT_NORMALIZED)?;
        if id.with_spelling(|spelling| spelling == bytes) { Ok(id) } else { Err(NOT_NORMALIZED) }
    }
}

impl ObjectText {
    /// The normalized text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl EntryKey {
    /// Normalizes a text and checks it.
    pub fn string(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        StringId::parse(text, bytes_max).map(Self::String)
    }

    /// Reads a segment of a path: digits that fit 32 bits are numeric, anything else is a text.
    /// Digits with zeros before them are refused.
    pub fn segment(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Self::string(text, bytes_max);
        }
        if text.starts_with('0') && text.len() > 1 {
            NumericId::parse(text)?;
        }
        text.parse().map_or_else(|_| Self::string(text, bytes_max), |key| Ok(Self::Numeric(key)))
    }
}

impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.with_spelling(|one| other.with_spelling(|two| one.cmp(two)))
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(number) => fmt::Display::fmt(number, formatter),
            Self::String(text) => fmt::Display::fmt(&text.0, formatter),
        }
    }
}

impl fmt::Display for EntryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(number) => fmt::Display::fmt(number, formatter),
            Self::String(text) => fmt::Display::fmt(text, formatter),
        }
    }
}

/// Digits of the largest `u64`.
const DIGITS_MAX: usize = 20;

const CUT_OFF: ObjectDecodeError = ObjectDecodeError { problem: "it is cut off" };
const NOT_NORMALIZED: ObjectDecodeError =
    ObjectDecodeError { problem: "an identity is not in its normal form" };

/// Writes a number to the end of `digits` and tells where it begins.
fn write_decimal(mut number: u64, digits: &mut [u8; DIGITS_MAX]) -> usize {
    let mut at = DIGITS_MAX;
    for digit in digits.iter_mut().rev() {
        let last = u8::try_from(number % 10).expect("a remainder of ten is a digit");
        *digit = b'0' + last;
        number /= 10;
        at -= 1;
        if number == 0 {
            break;
        }
    }
    at
}

fn text_of(bytes: &[u8]) -> Result<&str, ObjectDecodeError> {
    std::str::from_utf8(bytes)
        .map_err(|_| ObjectDecodeError { problem: "an identity is not UTF-8" })
}

/// The text that is stored as it is.
fn stored_text(bytes: &[u8]) -> Result<StringId, ObjectDecodeError> {
    let text = text_of(bytes)?;
    let id = StringId::parse(text, bytes.len()).map_err(|_| NOT_NORMALIZED)?;
    if id.as_str() == text { Ok(id) } else { Err(NOT_NORMALIZED) }
}
