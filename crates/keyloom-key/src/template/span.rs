//! Ranges of keys.
//!
//! I1: A span holds exactly the keys whose leading components equal the bound values and whose next
//!     component satisfies the tail.
//! I2: `from` is at most `to`; they are equal if nothing can be in between.
//!
//! No element begins with FF (see `element`), so `prefix FF` ends everything under a prefix.

use std::borrow::Cow;
use std::ops::Bound;

use super::component::{Component, Order};
use super::error::PackError;
use super::{COMPONENTS_BYTES_MAX, Parts, element, spelling};
use crate::value::{Kind, Value};

/// Comes after everything that begins with what stands before it.
const AFTER: u8 = 0xFF;

/// The bytes that most ends have room in, behind the bound components.
const END_BYTES_USUAL: usize = 32;

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
}

/// One end of a span, behind the bound components. It is spelled in bytes for each query, and in
/// text only for people.
struct End<'t> {
    next: Next<'t>,
    /// Whether it comes after everything that begins so.
    after: bool,
}

/// What an end says of the component behind the bound ones.
enum Next<'t> {
    Nothing,
    Value(&'t Component, &'t Value),
    Prefix(&'t Component, Cow<'t, str>),
}

pub(super) fn span(parts: &Parts, bound: &[Value], tail: &Tail) -> Result<Span, PackError> {
    let lead = lead(parts, bound)?;
    let (from, to) = ends(parts, bound.len(), tail)?;
    let mut behind = Vec::with_capacity(lead.len() + END_BYTES_USUAL);
    behind.extend_from_slice(&lead);
    let (from, mut to) = (from.pack(lead), to.pack(behind));
    // One more byte than a key may have: the end of a range is not a key.
    let bytes = from.len().max(to.len());
    if bytes > COMPONENTS_BYTES_MAX + 1 {
        return Err(PackError::KeyTooLong { bytes, max: COMPONENTS_BYTES_MAX });
    }
    if to < from {
        to.clone_from(&from);
    }
    Ok(Span { from, to })
}

pub(super) fn spell(
    parts: &Parts,
    bound: &[Value],
    tail: &Tail,
) -> Result<(String, String), PackError> {
    let Span { from: first, to: end } = span(parts, bound, tail)?;
    let (from, to) = ends(parts, bound.len(), tail)?;
    let mut lead = parts.literal(0).to_owned();
    parts.spell(bound, &mut lead);
    let to = if first == end { &from } else { &to };
    let spelled = |end: &End<'_>| end.spell(parts, bound.len(), &lead);
    Ok((spelled(&from), spelled(to)))
}

/// The packed bound components.
fn lead(parts: &Parts, bound: &[Value]) -> Result<Vec<u8>, PackError> {
    let expected = parts.components.len();
    if bound.len() > expected {
        return Err(PackError::WrongCount { expected, found: bound.len() });
    }
    let mut lead = Vec::with_capacity(END_BYTES_USUAL);
    for (component, value) in parts.components.iter().zip(bound) {
        component.check(value)?;
        element::write(value, component.order, &mut lead);
    }
    Ok(lead)
}

/// Both ends of what satisfies the tail in the component at this place.
fn ends<'t>(
    parts: &'t Parts,
    place: usize,
    tail: &'t Tail,
) -> Result<(End<'t>, End<'t>), PackError> {
    let component = || {
        let missing = PackError::WrongCount { expected: place, found: place + 1 };
        parts.components.get(place).ok_or(missing)
    };
    match tail {
        Tail::All => Ok((End::at(Next::Nothing), End::after(Next::Nothing))),
        Tail::Prefix(prefix) => beginning_with(component()?, prefix),
        Tail::Range { lower, upper } => between(component()?, lower, upper),
    }
}

fn between<'t>(
    component: &'t Component,
    lower: &'t Bound<Value>,
    upper: &'t Bound<Value>,
) -> Result<(End<'t>, End<'t>), PackError> {
    let (near, far) = match component.order {
        Order::Ascending => (lower, upper),
        Order::Descending => (upper, lower),
    };
    for bound in [near, far] {
        if let Bound::Included(value) | Bound::Excluded(value) = bound {
            component.check_bound(value)?;
        }
    }
    let from = match near {
        Bound::Unbounded => End::at(Next::Nothing),
        Bound::Included(value) => End::at(Next::Value(component, value)),
        Bound::Excluded(value) => End::after(Next::Value(component, value)),
    };
    let to = match far {
        Bound::Unbounded => End::after(Next::Nothing),
        Bound::Included(value) => End::after(Next::Value(component, value)),
        Bound::Excluded(value) => End::at(Next::Value(component, value)),
    };
    Ok((from, to))
}

fn beginning_with<'t>(
    component: &'t Component,
    prefix: &'t str,
) -> Result<(End<'t>, End<'t>), PackError> {
    let kind = component.stored();
    if !kind.is_text() {
        return Err(PackError::NotText { field: component.field.clone(), kind: kind.clone() });
    }
    let prefix = match kind {
        Kind::Name => Cow::Owned(prefix.to_ascii_lowercase()),
        _ => Cow::Borrowed(prefix),
    };
    component.check_bound(&Value::Text(prefix.to_string()))?;
    let next = Next::Prefix(component, prefix.clone());
    Ok((End::at(next), End::after(Next::Prefix(component, prefix))))
}

impl<'t> End<'t> {
    fn at(next: Next<'t>) -> Self {
        Self { next, after: false }
    }

    fn after(next: Next<'t>) -> Self {
        Self { next, after: true }
    }

    /// Packs it behind the bound components.
    fn pack(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        match &self.next {
            Next::Nothing => {}
            Next::Value(component, value) => element::write(value, component.order, &mut bytes),
            Next::Prefix(component, prefix) => {
                element::write_prefix(prefix, component.order, &mut bytes);
            }
        }
        match self.next {
            _ if !self.after => {}
            Next::Nothing | Next::Value(..) => bytes.push(AFTER),
            // Not `prefix FF`: a descending text ends with FF, and the one that equals the prefix
            // belongs to the range. The last byte is never FF: there is no NUL, and none in UTF-8.
            Next::Prefix(..) => {
                *bytes.last_mut().expect("an element begins with its code") += 1;
            }
        }
        bytes
    }

    fn spell(&self, parts: &Parts, place: usize, lead: &str) -> String {
        let mut text = lead.to_owned();
        match &self.next {
            Next::Nothing => {}
            Next::Value(component, value) => {
                spelling::write(component, parts.separator(place), value, &mut text);
                text.push_str(parts.literal(place + 1));
            }
            Next::Prefix(component, prefix) => {
                let prefix = Value::Text(prefix.to_string());
                spelling::write(component, parts.separator(place), &prefix, &mut text);
            }
        }
        if self.after {
            text.push('*');
        }
        text
    }
}
