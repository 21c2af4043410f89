//! Key templates: typed components between literals.
//!
//! I1: A compiled template is unambiguous: two different keys have two different texts
//!     (the proof is in [`compile`]).
//! I2: `parse(render(k)) == k` and `unpack(pack(k)) == k`; nothing but the canonical spelling of a
//!     key parses or unpacks.
//! I3: The byte order of packed keys is the order of their components, each in its direction.
//! I4: No packed key of a template is a prefix of another one.

mod compile;
mod component;
mod element;
mod error;
mod locate;
mod span;
mod spelling;

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use crate::head::Head;
use crate::limits::{KEY_BYTES_MAX, TEXT_KEY_BYTES_MAX};
use crate::value::{Kind, Value};

pub use component::{Component, Cut, Each, Order};
pub use error::{DecodeError, PackError, ParseError, TemplateError, TemplateProblem};
pub use locate::{Anchors, Constraint, Located};
pub use span::{Span, Tail};

/// The packed components of a key share [`KEY_BYTES_MAX`] with the head.
const COMPONENTS_BYTES_MAX: usize = KEY_BYTES_MAX - Head::BYTES;

/// A compiled key template. Cloning it is cheap.
#[derive(Clone)]
pub struct Template(Arc<Parts>);

/// What a template text says.
struct Parts {
    text: String,
    components: Vec<Component>,
    /// `literals[i]` stands before component `i`, and one more ends the key. They may be empty.
    literals: Vec<String>,
}

impl Template {
    /// Compiles a template text; `kind_of` knows the fields.
    ///
    /// The error points at the character and says what to do about it.
    pub fn compile(
        text: &str,
        kind_of: &dyn Fn(&str) -> Option<Kind>,
    ) -> Result<Self, TemplateError> {
        compile::compile(text, kind_of).map(|parts| Self(Arc::new(parts)))
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The components, in the order of the key.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.0.components
    }

    /// Appends the packed components; on an error, `out` is left as it was.
    pub fn pack(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), PackError> {
        self.check(values)?;
        let start = out.len();
        for (component, value) in self.0.components.iter().zip(values) {
            element::write(value, component.order, out);
        }
        self.check_bytes(start, out)
    }

    /// Appends the packed components of the key that a document has whose fields hold these values,
    /// by component. Without one of them there is no key: `false`, and `out` is left as it was, as
    /// on an error.
    pub fn pack_fields<'v>(
        &self,
        mut field_value: impl FnMut(usize) -> Option<Cow<'v, Value>>,
        out: &mut Vec<u8>,
    ) -> Result<bool, PackError> {
        let start = out.len();
        for (index, component) in self.0.components.iter().enumerate() {
            let Some(value) = field_value(index) else {
                out.truncate(start);
                return Ok(false);
            };
            let packed = match component.cut {
                Cut::Whole => component.pack(&value, out),
                Cut::Prefix(_) | Cut::Shard(_) => component.pack(&component.value_of(&value), out),
            };
            packed.inspect_err(|_| out.truncate(start))?;
        }
        self.check_bytes(start, out).map(|()| true)
    }

    /// Reads packed components. Only what [`pack`](Self::pack) writes is accepted.
    pub fn unpack(&self, packed: &[u8]) -> Result<Vec<Value>, DecodeError> {
        if packed.len() > COMPONENTS_BYTES_MAX {
            return Err(DecodeError::TooLong { found: packed.len(), max: COMPONENTS_BYTES_MAX });
        }
        let mut values = Vec::with_capacity(self.0.components.len());
        let mut rest = packed;
        for component in &self.0.components {
            let (value, tail) = element::read(rest, component)?;
            values.push(value);
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { found: rest.len() });
        }
        Ok(values)
    }

    /// The text spelling of a key.
    pub fn render<V: Borrow<Value>>(&self, values: &[V]) -> Result<String, PackError> {
        self.check(values)?;
        let mut text = String::with_capacity(2 * self.0.text.len());
        text.push_str(self.0.literal(0));
        self.0.spell(values, &mut text);
        Ok(text)
    }

    /// The text spelling of packed components: what [`unpack`](Self::unpack) and
    /// [`render`](Self::render) give one after the other, without the values in between.
    pub fn respell(&self, packed: &[u8]) -> Result<String, DecodeError> {
        if packed.len() > COMPONENTS_BYTES_MAX {
            return Err(DecodeError::TooLong { found: packed.len(), max: COMPONENTS_BYTES_MAX });
        }
        let mut text = String::with_capacity(self.0.text.len() + 2 * packed.len());
        text.push_str(self.0.literal(0));
        let mut rest = packed;
        for (index, component) in self.0.components.iter().enumerate() {
            let (value, tail) = element::read(rest, component)?;
            spelling::write(component, self.0.separator(index), &value, &mut text);
            text.push_str(self.0.literal(index + 1));
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { found: rest.len() });
        }
        Ok(text)
    }

    /// Reads the text spelling of a key. Only what [`render`](Self::render) writes is accepted.
    pub fn parse(&self, text: &str) -> Result<Vec<Value>, ParseError> {
        if text.len() > TEXT_KEY_BYTES_MAX {
            return Err(ParseError::TooLong { found: text.len(), max: TEXT_KEY_BYTES_MAX });
        }
        let mut values = Vec::with_capacity(self.0.components.len());
        let mut rest = self.strip_literal(text, text, 0)?;
        for (index, component) in self.0.components.iter().enumerate() {
            let separator = self.0.separator(index);
            let (own, tail) = spelling::split(component, separator, rest);
            let Some(value) = spelling::read(component, separator, own) else {
                return Err(self.mismatch(text, rest, component.to_string()));
            };
            values.push(value);
            rest = self.strip_literal(text, tail, index + 1)?;
        }
        if !rest.is_empty() {
            return Err(self.mismatch(text, rest, "the end of the key".to_owned()));
        }
        Ok(values)
    }

    /// The range of all keys whose leading components equal `bound` and whose next component
    /// satisfies `tail`.
    pub fn span(&self, bound: &[Value], tail: &Tail) -> Result<Span, PackError> {
        span::span(&self.0, bound, tail)
    }

    /// Where [`span`](Self::span) begins and ends, for people. A trailing `*` stands for everything
    /// that begins so.
    pub fn spell_span(&self, bound: &[Value], tail: &Tail) -> Result<(String, String), PackError> {
        span::spell(&self.0, bound, tail)
    }

    /// Where the text of keys of this template can contain the literal, and what that says about
    /// their components.
    #[must_use]
    pub fn locate(&self, literal: &str, anchors: Anchors) -> Located {
        locate::locate(&self.0, &[literal], anchors)
    }

    /// Like [`locate`](Self::locate) for several literals that follow each other with anything in
    /// between; the anchors are those of the first one's start and of the last one's end.
    #[must_use]
    pub fn locate_in_order(&self, literals: &[&str], anchors: Anchors) -> Located {
        locate::locate(&self.0, literals, anchors)
    }

    /// Takes back what was appended since `start` if it is too long.
    fn check_bytes(&self, start: usize, out: &mut Vec<u8>) -> Result<(), PackError> {
        let bytes = out.len() - start;
        if bytes > COMPONENTS_BYTES_MAX {
            out.truncate(start);
            return Err(PackError::KeyTooLong { bytes, max: COMPONENTS_BYTES_MAX });
        }
        Ok(())
    }

    fn check<V: Borrow<Value>>(&self, values: &[V]) -> Result<(), PackError> {
        let expected = self.0.components.len();
        if values.len() != expected {
            return Err(PackError::WrongCount { expected, found: values.len() });
        }
        self.0
            .components
            .iter()
            .zip(values)
            .try_for_each(|(component, value)| component.check(value.borrow()))
    }

    fn strip_literal<'t>(
        &self,
        text: &str,
        rest: &'t str,
        index: usize,
    ) -> Result<&'t str, ParseError> {
        let literal = self.0.literal(index);
        rest.strip_prefix(literal).ok_or_else(|| {
            let same = literal.bytes().zip(rest.bytes()).take_while(|(a, b)| a == b).count();
            // Literals are ASCII, so the first difference lies between two characters.
            let differing = rest.get(same..).unwrap_or_default();
            self.mismatch(text, differing, format!("{literal:?}"))
        })
    }

    fn mismatch(&self, text: &str, rest: &str, expected: String) -> ParseError {
        let read = text.get(..text.len() - rest.len()).unwrap_or_default();
        ParseError::Mismatch {
            position: read.chars().count(),
            expected,
            template: self.0.text.clone(),
        }
    }
}

impl Parts {
    fn literal(&self, index: usize) -> &str {
        self.literals.get(index).expect("there is one literal more than components")
    }

    /// The character that ends a component in the text; none where the component has a fixed length
    /// and another one follows at once, or where it ends the key.
    fn separator(&self, component: usize) -> Option<char> {
        self.literal(component + 1).chars().next()
    }

    /// Appends leading components, each with the literal that follows it.
    fn spell<V: Borrow<Value>>(&self, values: &[V], text: &mut String) {
        for (index, (component, value)) in self.components.iter().zip(values).enumerate() {
            spelling::write(component, self.separator(index), value.borrow(), text);
            text.push_str(self.literal(index + 1));
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Template")
            .field("text", &self.0.text)
            .field("components", &self.0.components)
            .finish()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text && self.0.components == other.0.components
    }
}

impl Eq for Template {}
