//! Texts that identify objects and entries.
//!
//! I1: A [`StringId`] is in normal form C, has no ASCII upper case and no control characters, and
//!     is not empty; parsing it again gives the same.

use std::fmt;

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use super::{IdentityError, has_control};
use crate::excerpt::excerpt;

/// A string identity, normalized.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(Box<str>);

impl StringId {
    /// Normalizes a text and checks it; `bytes_max` counts after normalization and is usually
    /// [`STRING_ID_BYTES_MAX`](crate::limits::STRING_ID_BYTES_MAX).
    pub fn parse(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        let invalid = |problem| IdentityError::StringId { found: excerpt(text), problem };
        let too_long = || IdentityError::StringIdTooLong { found: excerpt(text), bytes_max };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if has_control(text) {
            return Err(invalid("it has a control character"));
        }
        let id = if text.is_ascii() {
            if text.len() > bytes_max {
                return Err(too_long());
            }
            text.to_ascii_lowercase()
        } else {
            normalize(text, bytes_max).ok_or_else(too_long)?
        };
        Ok(Self(id.into_boxed_str()))
    }

    /// The normalized text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StringId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Composes, folds, and composes again: `J` with a caron has no composed form but `j` with one has,
/// so folding alone could leave what the next parse would change. Where nothing can be composed,
/// nothing can be after folding either: what composes are marks behind a letter, and there are
/// none.
///
/// The characters are drawn one by one, so that a huge input costs no more than the limit.
fn normalize(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() <= bytes_max && is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return Some(text.to_ascii_lowercase());
    }
    let folded = text.nfc().map(|character| character.to_ascii_lowercase());
    let mut id = String::with_capacity(text.len().min(bytes_max));
    for character in folded.nfc() {
        id.push(character);
        if id.len() > bytes_max {
            return None;
        }
    }
    Some(id)
}
