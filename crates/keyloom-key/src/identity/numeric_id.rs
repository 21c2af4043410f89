//! Numbers that identify objects.
//!
//! I1: One number has one spelling, so that `7` and `007` cannot become two objects.

use std::fmt;

use super::IdentityError;
use crate::excerpt::excerpt;

/// A numeric identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumericId(u64);

impl NumericId {
    /// Reads un-padded decimal digits.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        Self::read(text)
            .map_err(|problem| IdentityError::NumericId { found: excerpt(text), problem })
    }

    /// Reads un-padded decimal digits, or tells why they are none: most texts that are asked are
    /// none, and spelling an error for each would cost more than reading it.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("it is not a row of digits");
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err("it has a leading zero");
        }
        text.parse().map(Self).map_err(|_| "it does not fit 64 bits")
    }

    /// The identity with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for NumericId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}
