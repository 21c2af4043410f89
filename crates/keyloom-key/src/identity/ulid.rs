//! 128-bit identities that sort by the time they were made.
//!
//! ```text
//! bytes   [ milliseconds since 1970: 6 ][ random: 10 ]   big-endian
//! text    26 characters of Crockford's base 32, five bits each; the first holds three
//! ```
//!
//! I1: Only the canonical spelling parses: no lower case, no look-alikes, no overflow.

use std::fmt;

use super::IdentityError;
use crate::excerpt::excerpt;
use crate::limits::ULID_MILLIS_MAX;

/// Crockford's base 32: digits and letters without I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHARACTERS: usize = 26;
const BITS_PER_CHARACTER: usize = 5;
/// As many characters as fit 64 bits: arithmetic with 128 is slow.
const CHUNK_CHARACTERS: usize = 12;
const CHUNK_BITS: usize = CHUNK_CHARACTERS * BITS_PER_CHARACTER;
const CHUNK_MASK: u128 = (1 << CHUNK_BITS) - 1;
/// Marks a character that is not in the alphabet; larger than any digit.
const NO_DIGIT: u8 = 0x80;
/// The digit of each character.
static DIGITS: [u8; 256] = digits();
/// The characters of each two digits: half as many steps as one by one.
static PAIRS: [[u8; 2]; 1024] = pairs();
const RANDOM_BITS: u32 = 80;

/// A ULID: time in milliseconds, then randomness.
///
/// Bytes and not a number: a number of 128 bits is aligned to 16 bytes, and so would be everything
/// that holds values of keys, for which allocators take a slower way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid([u8; 16]);

impl Ulid {
    /// Reads the canonical spelling of 26 characters.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let invalid = |problem| IdentityError::Ulid { found: excerpt(text), problem };
        if text.len() != CHARACTERS {
            return Err(invalid("it does not have 26 characters"));
        }
        // 26 characters hold 130 bits: a larger first one would be cut off silently.
        if matches!(text.bytes().next().map(digit_of), Some(8..=31)) {
            return Err(invalid("it is larger than 128 bits"));
        }
        let mut bits = 0_u128;
        let mut seen = 0;
        for characters in text.as_bytes().rchunks(CHUNK_CHARACTERS).rev() {
            let mut chunk = 0_u64;
            for digit in characters.iter().map(|byte| digit_of(*byte)) {
                seen |= digit;
                chunk = (chunk << BITS_PER_CHARACTER) | u64::from(digit);
            }
            bits = (bits << CHUNK_BITS) | u128::from(chunk);
        }
        if seen >= NO_DIGIT {
            return Err(invalid("it has a character that is not in the alphabet"));
        }
        Ok(Self::from_bits(bits))
    }

    /// The ULID with these 16 bytes; any are valid.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes, in the order that sorts.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The ULID of a time and of ten random bytes. A time past [`ULID_MILLIS_MAX`] counts as that
    /// last one.
    #[must_use]
    pub fn from_parts(millis: u64, random: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        for (target, byte) in bytes.iter_mut().skip(6).zip(random) {
            *target = byte;
        }
        let time = u128::from(millis.min(ULID_MILLIS_MAX)) << RANDOM_BITS;
        Self::from_bits(time | u128::from_be_bytes(bytes))
    }

    /// Milliseconds since 1970 at which it was made.
    #[must_use]
    pub fn millis(self) -> u64 {
        u64::try_from(self.bits() >> RANDOM_BITS).expect("48 bits are left of 128")
    }

    /// The canonical spelling: what `Display` writes, without the way through a formatter.
    #[must_use]
    pub fn characters(self) -> [u8; 26] {
        let mut text = [0_u8; CHARACTERS];
        let mut bits = self.bits();
        let (pairs, _none_left) = text.as_chunks_mut::<2>();
        for chunk in pairs.rchunks_mut(CHUNK_CHARACTERS / 2) {
            let mut low = u64::try_from(bits & CHUNK_MASK).expect("60 bits fit");
            for pair in chunk.iter_mut().rev() {
                let digits = usize::try_from(low & 1023).expect("ten bits fit");
                *pair = *PAIRS.get(digits).expect("ten bits choose one of 1024");
                low >>= 2 * BITS_PER_CHARACTER;
            }
            bits >>= CHUNK_BITS;
        }
        text
    }

    /// The next larger ULID of the same millisecond, if there is one.
    pub(super) fn successor(self) -> Option<Self> {
        let next = Self::from_bits(self.bits().checked_add(1)?);
        (next.millis() == self.millis()).then_some(next)
    }

    const fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    const fn bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(str::from_utf8(&self.characters()).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ulid({self})")
    }
}

/// Whether a ULID can contain this character.
pub(crate) fn is_ulid_character(byte: u8) -> bool {
    digit_of(byte) != NO_DIGIT
}

fn digit_of(byte: u8) -> u8 {
    *DIGITS.get(usize::from(byte)).expect("there is one for each byte")
}

#[expect(clippy::indexing_slicing, reason = "a constant: what is out of range does not compile")]
const fn digits() -> [u8; 256] {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
}

#[expect(clippy::indexing_slicing, reason = "a constant: what is out of range does not compile")]
const fn pairs() -> [[u8; 2]; 1024] {
    let mut pairs = [[0; 2]; 1024];
    let mut digits = 0;
    while digits < pairs.len() {
        pairs[digits] = [ALPHABET[digits / 32], ALPHABET[digits % 32]];
        digits += 1;
    }
    pairs
}
