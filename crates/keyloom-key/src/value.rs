//! The values that components hold, and the kinds they are of.
//!
//! I1: Values of one kind compare as their packed ascending elements do.
//! I2: `kind.parse_text(&value.to_string())` gives the value back if the kind accepts it.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::excerpt::excerpt;
use crate::identity::{IdentityError, Name, NumericId, Ulid, Uuid, has_control, is_folded_name};
use crate::limits::ID_BYTES_MAX;

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A ULID.
    Ulid,
    /// A UUID of version 4.
    Uuid,
    /// A name, folded to lower case.
    Name,
    /// 1 to 128 bytes without control characters; case counts.
    Id,
    /// Any text. It may be empty; a key takes it only without NUL.
    Text,
    /// Milliseconds since 1970; earlier times are negative.
    Millis,
    /// A number from zero up.
    U64,
    /// A number with a sign.
    I64,
    /// True or false.
    Bool,
    /// One of these words, each of `[A-Za-z0-9_.-]+`.
    Enum(Arc<[String]>),
}

/// What a component holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Of [`Kind::Ulid`].
    Ulid(Ulid),
    /// Of [`Kind::Uuid`].
    Uuid(Uuid),
    /// Of [`Kind::Name`] (folded), [`Kind::Id`], [`Kind::Text`] or [`Kind::Enum`].
    Text(String),
    /// Of [`Kind::Millis`] or [`Kind::I64`].
    Int(i64),
    /// Of [`Kind::U64`], or the bucket of a sharded component.
    Unsigned(u64),
    /// Of [`Kind::Bool`].
    Bool(bool),
}

/// Why a text is not a value of the kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Send the identity in its canonical spelling.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Choose another id.
    #[error("{found:?} is not an id: it needs 1 to 128 bytes without control characters")]
    Id {
        /// What was sent, shortened.
        found: String,
    },
    /// Send a whole number in plain decimal digits.
    #[error(
        "{found:?} is not a number of kind {kind}: it needs decimal digits without padding that \
         fit 64 bits"
    )]
    Number {
        /// What was sent, shortened.
        found: String,
        /// The kind it should have had.
        kind: Kind,
    },
    /// Send `true` or `false`.
    #[error("{found:?} is not a bool: it needs true or false")]
    Bool {
        /// What was sent, shortened.
        found: String,
    },
    /// Send one of the words.
    #[error("{found:?} is not one of the words {}", words.join(", "))]
    Enum {
        /// What was sent, shortened.
        found: String,
        /// The words that are allowed.
        words: Arc<[String]>,
    },
}

impl Kind {
    /// Reads a value from plain text, as a query or a command line has it.
    pub fn parse_text(&self, text: &str) -> Result<Value, ValueError> {
        let number = || ValueError::Number { found: excerpt(text), kind: self.clone() };
        let value = match self {
            Self::Ulid => Value::Ulid(Ulid::parse(text)?),
            Self::Uuid => Value::Uuid(Uuid::parse(text)?),
            Self::Name => Value::Text(Name::parse(text)?.into_string()),
            Self::Id if !is_id(text) => return Err(ValueError::Id { found: excerpt(text) }),
            Self::Id | Self::Text => Value::Text(text.to_owned()),
            Self::Millis | Self::I64 => Value::Int(parse_int(text).ok_or_else(number)?),
            Self::U64 => Value::Unsigned(NumericId::parse(text).map_err(|_| number())?.get()),
            Self::Bool => match text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(ValueError::Bool { found: excerpt(text) }),
            },
            Self::Enum(words) if words.iter().any(|word| word == text) => {
                Value::Text(text.to_owned())
            }
            Self::Enum(words) => {
                return Err(ValueError::Enum { found: excerpt(text), words: Arc::clone(words) });
            }
        };
        Ok(value)
    }

    /// Whether the value is one of this kind, in its canonical form (a folded name, for example).
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Ulid, Value::Ulid(_))
            | (Self::Uuid, Value::Uuid(_))
            | (Self::Text, Value::Text(_))
            | (Self::Millis | Self::I64, Value::Int(_))
            | (Self::U64, Value::Unsigned(_))
            | (Self::Bool, Value::Bool(_)) => true,
            (Self::Name, Value::Text(text)) => is_folded_name(text),
            (Self::Id, Value::Text(text)) => is_id(text),
            (Self::Enum(words), Value::Text(text)) => words.iter().any(|word| word == text),
            _ => false,
        }
    }

    /// Whether its values are [`Value::Text`], and so have prefixes.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Name | Self::Id | Self::Text | Self::Enum(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Ulid => "ulid",
            Self::Uuid => "uuid",
            Self::Name => "name",
            Self::Id => "id",
            Self::Text => "text",
            Self::Millis => "millis",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::Bool => "bool",
            Self::Enum(_) => "enum",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ulid(ulid) => fmt::Display::fmt(ulid, formatter),
            Self::Uuid(uuid) => fmt::Display::fmt(uuid, formatter),
            Self::Text(text) => fmt::Display::fmt(text, formatter),
            Self::Int(number) => fmt::Display::fmt(number, formatter),
            Self::Unsigned(number) => fmt::Display::fmt(number, formatter),
            Self::Bool(truth) => fmt::Display::fmt(truth, formatter),
        }
    }
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && !has_control(text)
}

/// Reads a number as `Display` writes it: no `+`, no padding, no negative zero.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !digits.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}
