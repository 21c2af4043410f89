//! Names that people choose for users and tags.
//!
//! I1: A [`Name`] is folded: it has no upper case. The data keeps the name as it was written.

use std::fmt;

use super::IdentityError;
use crate::excerpt::excerpt;
use crate::limits::{NAME_CHARACTERS_MAX, NAME_CHARACTERS_MIN};

/// A name of 3 to 30 letters, digits and hyphens, folded to lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks and folds a name as a person wrote it.
    pub fn parse(text: &str) -> Result<Self, IdentityError> {
        let invalid = |problem| IdentityError::Name { found: excerpt(text), problem };
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(invalid("it has a character that is not allowed"));
        }
        if text.len() < NAME_CHARACTERS_MIN {
            return Err(invalid("it is too short"));
        }
        if text.len() > NAME_CHARACTERS_MAX {
            return Err(invalid("it is too long"));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// The folded name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folded name, without a copy.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Whether this is a name that is folded already, as keys hold it.
pub(crate) fn is_folded_name(text: &str) -> bool {
    (NAME_CHARACTERS_MIN..=NAME_CHARACTERS_MAX).contains(&text.len())
        && text.bytes().all(is_folded_name_character)
}

fn is_folded_name_character(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}
