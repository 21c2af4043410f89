//! Random 128-bit identities of the earlier key formats.
//!
//! I1: Every [`Uuid`] has version 4 and variant 1; its text has 32 lower-case hex digits.

use std::fmt;

use super::IdentityError;
use crate::excerpt::excerpt;

const CHARACTERS: usize = 32;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A UUID of version 4 and variant 1; bytes for the same reason as [`Ulid`](super::Ulid).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Reads the canonical spelling: 32 lower-case hex digits, no hyphens.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let invalid = |problem| IdentityError::Uuid { found: excerpt(text), problem };
        if text.len() != CHARACTERS {
            return Err(invalid("it does not have 32 digits"));
        }
        let mut bits = 0_u128;
        for byte in text.bytes() {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Err(invalid("it has a character that is not a lower-case hex digit")),
            };
            bits = (bits << 4) | u128::from(digit);
        }
        Self::checked(bits).map_err(invalid)
    }

    /// The UUID with these 16 bytes, if version and variant are right.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, IdentityError> {
        let bits = u128::from_be_bytes(bytes);
        Self::checked(bits)
            .map_err(|problem| IdentityError::Uuid { found: format!("{bits:032x}"), problem })
    }

    /// The 16 bytes, in the order that sorts.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    fn checked(bits: u128) -> Result<Self, &'static str> {
        if (bits >> 76) & 0xF != 4 {
            return Err("its version is not 4");
        }
        if (bits >> 62) & 0b11 != 0b10 {
            return Err("its variant is not 1");
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; CHARACTERS];
        let mut bits = u128::from_be_bytes(self.0);
        for character in text.iter_mut().rev() {
            let digit = usize::try_from(bits & 15).expect("four bits fit");
            *character = *HEX.get(digit).expect("four bits choose one of 16");
            bits >>= 4;
        }
        formatter.pad(str::from_utf8(&text).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Uuid({self})")
    }
}
