//! What identifies a document, an object or an entry.
//!
//! I1: A value of these types is valid; parsing is the only way in, and it is strict.
//! I2: `Display` writes the canonical spelling, and parsing that gives the same value.
//! I3: `Ord` is the byte order of the canonical spelling (of the number, for [`NumericId`]).

mod generator;
mod name;
mod numeric_id;
mod string_id;
mod ulid;
mod uuid;

use thiserror::Error;

pub use generator::UlidGenerator;
pub use name::Name;
pub use numeric_id::NumericId;
pub use string_id::StringId;
pub use ulid::Ulid;
pub use uuid::Uuid;

pub(crate) use name::is_folded_name;
pub(crate) use ulid::is_ulid_character;

/// Why a text is not the identity it should be, or why none could be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Send a ULID in its canonical spelling.
    #[error(
        "{found:?} is not a ULID: {problem} (26 characters of 0-9 and A-Z without I, L, O and U, \
         upper case, the first at most 7)"
    )]
    Ulid {
        /// What was sent, shortened.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Send a UUID in its canonical spelling.
    #[error(
        "{found:?} is not a UUID: {problem} (version 4, variant 1, 32 lower-case hex digits \
         without hyphens)"
    )]
    Uuid {
        /// What was sent, shortened.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Choose another name.
    #[error("{found:?} is not a name: {problem} (3 to 30 of A-Z, a-z, 0-9 and -)")]
    Name {
        /// What was sent, shortened.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Choose another string identity.
    #[error("{found:?} is not a string id: {problem} (no control characters, not empty)")]
    StringId {
        /// What was sent, shortened.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Choose a shorter string identity.
    #[error("{found:?} is too long for a string id: more than {bytes_max} bytes")]
    StringIdTooLong {
        /// What was sent, shortened.
        found: String,
        /// How many bytes it may have after normalization.
        bytes_max: usize,
    },
    /// Send a number as people write it.
    #[error(
        "{found:?} is not a numeric id: {problem} (decimal digits without leading zeros, up to \
         18446744073709551615)"
    )]
    NumericId {
        /// What was sent, shortened.
        found: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Set the clock: it is past the year 10889.
    #[error("time {millis} ms does not fit a ULID: set the clock")]
    ClockOutOfRange {
        /// The time that was handed in.
        millis: u64,
    },
}

/// Whether a text has a control character.
pub(crate) fn has_control(text: &str) -> bool {
    // Almost every text is printable ASCII. Looking at all bytes without a branch is several times
    // as fast as looking at one character after the other.
    let plain = text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'));
    !plain && text.chars().any(char::is_control)
}
