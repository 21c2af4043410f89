//! One typed part of a template.
//!
//! I1: [`Component::check`] decides what a key may hold; packing, spelling and reading all ask it.
//! I2: The bucket of a sharded component depends on the value alone, on every machine and in every
//!     release: SipHash-2-4 with a zero key over the packed ascending element, modulo the count.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use super::element;
use super::error::PackError;
use crate::value::{Kind, Value};

/// One typed part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The field whose value it holds.
    pub field: String,
    /// What the field holds (an element of it, for [`Each::Element`]).
    pub kind: Kind,
    /// The direction in which keys are ordered by it.
    pub order: Order,
    /// How much of the value it holds.
    pub cut: Cut,
    /// Whether a document has one key by it, or one for each element of the field.
    pub each: Each,
}

/// The direction in which keys are ordered by a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// How much of a field's value a component holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// All of it.
    Whole,
    /// The first characters of it, at most so many.
    Prefix(u16),
    /// Which of so many buckets it falls into.
    Shard(u16),
}

/// How many keys a document has by a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Each {
    /// One.
    One,
    /// One for each element of the field, which is an array.
    Element,
}

/// What the bucket of a sharded component is stored as.
const SHARD_KIND: &Kind = &Kind::U64;

impl Component {
    /// What the component holds for a value of its field: the value, its first characters, or its
    /// bucket.
    #[must_use]
    pub fn value_of(&self, field_value: &Value) -> Value {
        match (self.cut, field_value) {
            (Cut::Prefix(characters), Value::Text(text)) => {
                Value::Text(text.chars().take(usize::from(characters)).collect())
            }
            (Cut::Shard(count), value) => Value::Unsigned(bucket_of(value, count)),
            (_, value) => value.clone(),
        }
    }

    /// The kind of what the component holds: `u64` for a bucket, otherwise the kind of its field.
    #[must_use]
    pub fn kind_stored(&self) -> Kind {
        self.stored().clone()
    }

    pub(super) fn stored(&self) -> &Kind {
        match self.cut {
            Cut::Shard(_) => SHARD_KIND,
            Cut::Whole | Cut::Prefix(_) => &self.kind,
        }
    }

    /// Appends the value of this component at the beginning of packed bytes, if there is one, and
    /// says what follows it there.
    #[inline]
    #[must_use]
    pub fn unpack_into<'p>(&self, packed: &'p [u8], values: &mut Vec<Value>) -> Option<&'p [u8]> {
        element::read_into(packed, self, values)
    }

    /// Appends the element of a value, if a key may hold it here.
    pub(super) fn pack(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), PackError> {
        self.check(value)?;
        element::write(value, self.order, out);
        Ok(())
    }

    /// Whether a key may hold this value here.
    pub(super) fn check(&self, value: &Value) -> Result<(), PackError> {
        if !self.stored().accepts(value) {
            return Err(self.wrong_kind(value));
        }
        if let (Cut::Shard(count), Value::Unsigned(bucket)) = (self.cut, value)
            && *bucket >= u64::from(count)
        {
            return Err(self.wrong_kind(value));
        }
        // The other kinds have refused NUL by now, and what is whole needs no cutting.
        if matches!(self.kind, Kind::Text) || self.cut != Cut::Whole {
            self.check_text(value)?;
        }
        Ok(())
    }

    /// Whether this value may bound a range here. It need not be one that a key may hold: names
    /// have three characters, yet `m` is a fine place to begin.
    pub(super) fn check_bound(&self, value: &Value) -> Result<(), PackError> {
        let comparable = self.stored().is_text() && matches!(value, Value::Text(_));
        if !comparable && !self.stored().accepts(value) {
            return Err(self.wrong_kind(value));
        }
        self.check_text(value)
    }

    fn check_text(&self, value: &Value) -> Result<(), PackError> {
        let Value::Text(text) = value else {
            return Ok(());
        };
        // A packed string ends with NUL. Escaping it inside, as the tuple layer does, would make
        // `a` a prefix of `a\0` and, in descending order, put them the wrong way round.
        if text.as_bytes().contains(&0) {
            return Err(PackError::ContainsNul { field: self.field.clone() });
        }
        if let Cut::Prefix(characters) = self.cut
            && text.chars().nth(usize::from(characters)).is_some()
        {
            return Err(PackError::NotCut { field: self.field.clone(), characters });
        }
        Ok(())
    }

    fn wrong_kind(&self, value: &Value) -> PackError {
        PackError::WrongKind {
            field: self.field.clone(),
            expected: self.stored().clone(),
            found: value.clone(),
        }
    }
}

impl fmt::Display for Component {
    /// As messages name it: `created_at (millis)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stored() {
            Kind::Enum(words) => {
                write!(formatter, "{} (one of {})", self.field, words.join(", "))
            }
            kind => write!(formatter, "{} ({kind})", self.field),
        }
    }
}

fn bucket_of(value: &Value, count: u16) -> u64 {
    let mut packed = Vec::new();
    element::write(value, Order::Ascending, &mut packed);
    let mut hasher = SipHasher24::new();
    hasher.write(&packed);
    hasher.finish() % u64::from(count.max(1))
}
