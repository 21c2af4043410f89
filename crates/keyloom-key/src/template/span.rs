//! Ranges of keys.
//!
//! I1: A span holds exactly the keys whose leading components equal the bound values and whose next
//!     component satisfies the tail.
//! I2: `from` is at most `to`; they are equal if nothing can be in between.
//!
//! No element begins with FF (see `element`), so `prefix FF` ends everything under a prefix.

use std::ops::Bound;

use super::component::{Component, Order};
use super::error::PackError;
use super::{COMPONENTS_BYTES_MAX, Parts, element, spelling};
use crate::value::{Kind, Value};

/// Comes after everything that begins with what stands before it.
const AFTER: u8 = 0xFF;

/// What the component after the bound ones has to satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    All,
    /// Its text begins so. A prefix of names is folded, as names are.
    Prefix(String),
    /// It lies between the bounds, in the order of values, whatever the order of the keys.
    Range {
        /// Where the values begin.
        lower: Bound<Value>,
        /// Where the values end.
        upper: Bound<Value>,
    },
}

/// A range of packed components, without the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The first key that may be in it.
    pub from: Vec<u8>,
    /// The end, which is not in it.
    pub to: Vec<u8>,
    /// `from` for people.
    pub from_text: String,
    /// `to` for people. A trailing `*` stands for everything that begins so.
    pub to_text: String,
}

/// One end of a span in both spellings.
#[derive(Clone)]
struct End {
    bytes: Vec<u8>,
    text: String,
}

/// The component that the tail is about, behind the bound ones.
struct Next<'p> {
    parts: &'p Parts,
    index: usize,
    component: &'p Component,
    lead: &'p End,
}

pub(super) fn span(parts: &Parts, bound: &[Value], tail: &Tail) -> Result<Span, PackError> {
    let lead = lead(parts, bound)?;
    match tail {
        Tail::All => finish(lead.clone(), lead.after()),
        Tail::Prefix(prefix) => Next::of(parts, bound.len(), &lead)?.beginning_with(prefix),
        Tail::Range { lower, upper } => Next::of(parts, bound.len(), &lead)?.between(lower, upper),
    }
}

fn lead(parts: &Parts, bound: &[Value]) -> Result<End, PackError> {
    let expected = parts.components.len();
    if bound.len() > expected {
        return Err(PackError::WrongCount { expected, found: bound.len() });
    }
    let mut lead = End { bytes: Vec::new(), text: parts.literal(0).to_owned() };
    for (component, value) in parts.components.iter().zip(bound) {
        component.check(value)?;
        element::write(value, component.order, &mut lead.bytes);
    }
    parts.spell(bound, &mut lead.text);
    Ok(lead)
}

fn finish(from: End, mut to: End) -> Result<Span, PackError> {
    // One more byte than a key may have: the end of a range is not a key.
    let bytes = from.bytes.len().max(to.bytes.len());
    if bytes > COMPONENTS_BYTES_MAX + 1 {
        return Err(PackError::KeyTooLong { bytes, max: COMPONENTS_BYTES_MAX });
    }
    if to.bytes < from.bytes {
        to = from.clone();
    }
    Ok(Span { from: from.bytes, to: to.bytes, from_text: from.text, to_text: to.text })
}

impl<'p> Next<'p> {
    fn of(parts: &'p Parts, index: usize, lead: &'p End) -> Result<Self, PackError> {
        let component = parts
            .components
            .get(index)
            .ok_or(PackError::WrongCount { expected: index, found: index + 1 })?;
        Ok(Self { parts, index, component, lead })
    }

    fn between(&self, lower: &Bound<Value>, upper: &Bound<Value>) -> Result<Span, PackError> {
        let (near, far) = match self.component.order {
            Order::Ascending => (lower, upper),
            Order::Descending => (upper, lower),
        };
        let from = match near {
            Bound::Unbounded => self.lead.clone(),
            Bound::Included(value) => self.at(value)?,
            Bound::Excluded(value) => self.at(value)?.after(),
        };
        let to = match far {
            Bound::Unbounded => self.lead.after(),
            Bound::Included(value) => self.at(value)?.after(),
            Bound::Excluded(value) => self.at(value)?,
        };
        finish(from, to)
    }

    fn beginning_with(&self, prefix: &str) -> Result<Span, PackError> {
        let Component { field, order, .. } = self.component;
        let kind = self.component.stored();
        if !kind.is_text() {
            return Err(PackError::NotText { field: field.clone(), kind: kind.clone() });
        }
        let prefix = match kind {
            Kind::Name => prefix.to_ascii_lowercase(),
            _ => prefix.to_owned(),
        };
        let value = Value::Text(prefix.clone());
        self.component.check_bound(&value)?;
        let mut from = self.lead.clone();
        element::write_prefix(&prefix, *order, &mut from.bytes);
        spelling::write(self.component, self.parts.separator(self.index), &value, &mut from.text);
        // Not `prefix FF`: a descending text ends with FF, and the one that equals the prefix
        // belongs to the range. The last byte is never FF: there is no NUL, and none in UTF-8.
        let mut to = End { bytes: from.bytes.clone(), text: format!("{}*", from.text) };
        *to.bytes.last_mut().expect("an element begins with its code") += 1;
        finish(from, to)
    }

    /// Where the keys with this value begin.
    fn at(&self, value: &Value) -> Result<End, PackError> {
        self.component.check_bound(value)?;
        let mut end = self.lead.clone();
        element::write(value, self.component.order, &mut end.bytes);
        let separator = self.parts.separator(self.index);
        spelling::write(self.component, separator, value, &mut end.text);
        end.text.push_str(self.parts.literal(self.index + 1));
        Ok(end)
    }
}

impl End {
    /// After everything that begins so.
    fn after(&self) -> Self {
        let mut end = self.clone();
        end.bytes.push(AFTER);
        end.text.push('*');
        end
    }
}
