//! Where a literal can stand in the text of keys, and what that says about their components.
//!
//! A list matcher names pieces of key text. If a piece can stand in one place only, "the key
//! contains it" is the same as conditions on components, and those are what ranges are made of.
//!
//! I1: `Nowhere`: no key of the template contains the literals so.
//! I2: `Once`: a key contains the literals so if and only if all constraints hold.
//! I3: Every place at which a literal can begin is tried: at each character of a template literal,
//!     at the first character of a component, and inside it.

use super::component::Component;
use super::{Parts, spelling};
use crate::identity::{Ulid, Uuid, is_ulid_character};
use crate::limits::{NAME_CHARACTERS_MAX, TEXT_KEY_BYTES_MAX};
use crate::value::{Kind, Value};

const ULID_LEAST: &str = "00000000000000000000000000";
const ULID_GREATEST: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
const UUID_LEAST: &str = "00000000000040008000000000000000";
const UUID_GREATEST: &str = "ffffffffffff4fffbfffffffffffffff";

/// Whether a literal begins or ends where the key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anchors {
    /// The key begins with the literal.
    pub start: bool,
    /// The key ends with the literal.
    pub end: bool,
}

/// Where keys of a template can contain a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// No key contains it.
    Nowhere,
    /// In one place only; a key contains it if and only if all constraints hold on the components
    /// with these indexes, which ascend.
    Once(Vec<(usize, Constraint)>),
    /// In more than one place, or in one that constraints cannot describe.
    Several,
}

/// A condition on what a component holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// It is this value.
    Equal(Value),
    /// It is a text that begins so.
    Prefix(String),
    /// It is not less than the first and not greater than the second.
    Between(Value, Value),
}

impl Anchors {
    /// Anywhere in the key.
    pub const NONE: Self = Self { start: false, end: false };
    /// At the start of the key.
    pub const START: Self = Self { start: true, end: false };
    /// At the end of the key.
    pub const END: Self = Self { start: false, end: true };
    /// The whole key.
    pub const BOTH: Self = Self { start: true, end: true };
}

/// A place between two characters of a template's keys. They compare as they follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The number of the template literal, or of the component after it.
    index: usize,
    within: Within,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Within {
    /// So many bytes into the template literal.
    Literal(usize),
    /// At the first character of the component.
    ComponentStart,
    /// Behind its first character.
    ComponentInside,
}

/// One way in which keys can contain a literal.
struct Alignment {
    start: Place,
    end: Place,
    constraints: Vec<(usize, Constraint)>,
}

/// There is a way, and constraints cannot describe it.
struct Inexpressible;

/// What a literal that ends inside a component says about it.
enum Partial {
    Impossible,
    Inexpressible,
    Free,
    Constrained(Constraint),
}

pub(super) fn locate(parts: &Parts, literals: &[&str], anchors: Anchors) -> Located {
    let last = literals.len().saturating_sub(1);
    let mut constraints = Vec::new();
    let mut reached: Option<Place> = None;
    for (number, literal) in literals.iter().enumerate() {
        let own =
            Anchors { start: anchors.start && number == 0, end: anchors.end && number == last };
        if literal.is_empty() && own != Anchors::BOTH {
            continue;
        }
        match alignments(parts, literal, own) {
            Err(Inexpressible) => return Located::Several,
            Ok(mut found) => match (found.pop(), found.is_empty()) {
                (None, _) => return Located::Nowhere,
                (Some(_), false) => return Located::Several,
                (Some(only), true) => {
                    if reached.is_some_and(|place| only.start < place) {
                        return Located::Nowhere;
                    }
                    reached = Some(only.end);
                    constraints.extend(only.constraints);
                }
            },
        }
    }
    Located::Once(constraints)
}

/// All ways in which keys can contain the literal.
fn alignments(
    parts: &Parts,
    literal: &str,
    anchors: Anchors,
) -> Result<Vec<Alignment>, Inexpressible> {
    let mut found = Vec::new();
    if literal.len() > TEXT_KEY_BYTES_MAX {
        return Ok(found);
    }
    let walk = Walk { parts, end_anchored: anchors.end };
    if anchors.start {
        let start = Place { index: 0, within: Within::Literal(0) };
        found.extend(walk.through_literal(start, start, literal, Vec::new())?);
        return Ok(found);
    }
    for (index, template_literal) in parts.literals.iter().enumerate() {
        for offset in 0..template_literal.len() {
            let start = Place { index, within: Within::Literal(offset) };
            found.extend(walk.through_literal(start, start, literal, Vec::new())?);
        }
        let Some(component) = parts.components.get(index) else {
            break;
        };
        // An empty text in the component is the same place as the literal behind it.
        let is_empty = spelling::fixed_length(component).is_none()
            && parts.separator(index).is_some_and(|separator| literal.starts_with(separator));
        if !is_empty {
            let start = Place { index, within: Within::ComponentStart };
            found.extend(walk.through_component(start, index, literal, Vec::new())?);
        }
        if walk.can_begin_inside(component, index, literal) {
            return Err(Inexpressible);
        }
    }
    Ok(found)
}

/// Follows a literal through the template.
struct Walk<'p> {
    parts: &'p Parts,
    end_anchored: bool,
}

type Followed = Result<Option<Alignment>, Inexpressible>;

impl Walk<'_> {
    /// `rest` stands at the place `at`, which is in a template literal.
    fn through_literal(
        &self,
        start: Place,
        at: Place,
        rest: &str,
        constraints: Vec<(usize, Constraint)>,
    ) -> Followed {
        let Within::Literal(offset) = at.within else {
            return Ok(None);
        };
        let literal = self.parts.literal(at.index).get(offset..).unwrap_or_default();
        if let Some(tail) = rest.strip_prefix(literal) {
            return self.through_component(start, at.index, tail, constraints);
        }
        if self.end_anchored || !literal.starts_with(rest) {
            return Ok(None);
        }
        let end = Place { index: at.index, within: Within::Literal(offset + rest.len()) };
        Ok(Some(Alignment { start, end, constraints }))
    }

    /// `rest` stands at the beginning of a component, or at the end of the key.
    fn through_component(
        &self,
        start: Place,
        index: usize,
        rest: &str,
        mut constraints: Vec<(usize, Constraint)>,
    ) -> Followed {
        let Some(component) = self.parts.components.get(index) else {
            let end = Place { index, within: Within::ComponentStart };
            return Ok(rest.is_empty().then_some(Alignment { start, end, constraints }));
        };
        let separator = self.parts.separator(index);
        if self.ends_within(component, index, rest) {
            let within =
                if rest.is_empty() { Within::ComponentStart } else { Within::ComponentInside };
            match partial(component, separator, rest) {
                Partial::Impossible => return Ok(None),
                Partial::Inexpressible => return Err(Inexpressible),
                Partial::Free => {}
                Partial::Constrained(constraint) => constraints.push((index, constraint)),
            }
            return Ok(Some(Alignment { start, end: Place { index, within }, constraints }));
        }
        let (own, tail) = spelling::split(component, separator, rest);
        let Some(value) = spelling::read(component, separator, own) else {
            return Ok(None);
        };
        constraints.push((index, Constraint::Equal(value)));
        let next = Place { index: index + 1, within: Within::Literal(0) };
        self.through_literal(start, next, tail, constraints)
    }

    /// Whether a literal that has `rest` left may end before the component does.
    fn ends_within(&self, component: &Component, index: usize, rest: &str) -> bool {
        if self.end_anchored {
            return false;
        }
        match (spelling::fixed_length(component), self.parts.separator(index)) {
            (Some(length), _) => rest.len() < length,
            (None, Some(separator)) => !rest.contains(separator),
            (None, None) => true,
        }
    }

    /// Whether keys can contain the literal so that it begins behind the first character of the
    /// component.
    fn can_begin_inside(&self, component: &Component, index: usize, literal: &str) -> bool {
        let next = Place { index: index + 1, within: Within::Literal(0) };
        // Where the literal leaves the component, the rest of it has to fit what follows.
        let goes_on =
            |tail: &str| !matches!(self.through_literal(next, next, tail, Vec::new()), Ok(None));
        if let Some(length) = spelling::fixed_length(component) {
            // A literal that ends earlier says as much as one that ends with the component.
            return (1..length).any(|left| match literal.split_at_checked(left) {
                Some((own, tail)) => can_end_component(component, own) && goes_on(tail),
                None => false,
            });
        }
        let separated = self.parts.separator(index).and_then(|separator| literal.find(separator));
        match separated.and_then(|end| literal.split_at_checked(end)) {
            Some((own, tail)) => {
                !own.is_empty() && can_end_component(component, own) && goes_on(tail)
            }
            None if self.end_anchored => can_end_component(component, literal) && goes_on(""),
            None => can_be_inside(component, literal),
        }
    }
}

/// What a literal says that ends in a component with `rest` as the beginning of its text.
fn partial(component: &Component, separator: Option<char>, rest: &str) -> Partial {
    if rest.is_empty() {
        return Partial::Free;
    }
    let prefix = |possible: bool| match possible {
        true => Partial::Constrained(Constraint::Prefix(rest.to_owned())),
        false => Partial::Impossible,
    };
    match component.stored() {
        Kind::Ulid => between(rest, (ULID_LEAST, ULID_GREATEST), |text| {
            Ulid::parse(text).ok().map(Value::Ulid)
        }),
        Kind::Uuid => between(rest, (UUID_LEAST, UUID_GREATEST), |text| {
            Uuid::parse(text).ok().map(Value::Uuid)
        }),
        Kind::Name => prefix(rest.len() <= NAME_CHARACTERS_MAX && can_be_inside(component, rest)),
        Kind::Enum(words) => prefix(words.iter().any(|word| word.starts_with(rest))),
        Kind::Bool => match ("true".starts_with(rest), "false".starts_with(rest)) {
            (true, _) => Partial::Constrained(Constraint::Equal(Value::Bool(true))),
            (_, true) => Partial::Constrained(Constraint::Equal(Value::Bool(false))),
            _ => Partial::Impossible,
        },
        Kind::Millis | Kind::I64 | Kind::U64 if can_be_inside(component, rest) => {
            Partial::Inexpressible
        }
        Kind::Millis | Kind::I64 | Kind::U64 => Partial::Impossible,
        Kind::Id | Kind::Text => partial_text(component, separator, rest),
    }
}

fn partial_text(component: &Component, separator: Option<char>, rest: &str) -> Partial {
    // An escape that the literal cuts in two says something that no prefix says.
    let cut = rest.char_indices().rev().take(2).any(|(_, character)| character == '%');
    if cut {
        return Partial::Inexpressible;
    }
    match spelling::unescape(rest, separator) {
        Some(prefix) if component.check_bound(&Value::Text(prefix.clone())).is_ok() => {
            Partial::Constrained(Constraint::Prefix(prefix))
        }
        _ => Partial::Impossible,
    }
}

/// The least and the greatest identity whose text begins with `rest`.
fn between(
    rest: &str,
    (least, greatest): (&str, &str),
    parse: impl Fn(&str) -> Option<Value>,
) -> Partial {
    let complete = |pattern: &str| {
        let tail = pattern.get(rest.len()..)?;
        parse(&format!("{rest}{tail}"))
    };
    match (complete(least), complete(greatest)) {
        (Some(from), Some(to)) => Partial::Constrained(Constraint::Between(from, to)),
        _ => Partial::Impossible,
    }
}

/// Whether the text of a component can end with `own` and begin before it.
fn can_end_component(component: &Component, own: &str) -> bool {
    match component.stored() {
        Kind::Enum(words) => words.iter().any(|word| word.len() > own.len() && word.ends_with(own)),
        Kind::Bool => ["true", "false"].iter().any(|word| *word != own && word.ends_with(own)),
        _ => can_be_inside(component, own),
    }
}

/// Whether the text of a component can contain `own` behind its first character. May say yes too
/// often, never no.
fn can_be_inside(component: &Component, own: &str) -> bool {
    match component.stored() {
        Kind::Ulid => own.bytes().all(is_ulid_character),
        Kind::Uuid => own.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        Kind::Name => own.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')),
        Kind::Millis | Kind::I64 => own.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-')),
        Kind::U64 => own.bytes().all(|byte| byte.is_ascii_digit()),
        Kind::Bool => ["true", "false"].iter().any(|word| word.contains(own)),
        Kind::Enum(words) => words.iter().any(|word| word.contains(own)),
        Kind::Id | Kind::Text => !own.chars().any(|character| character.is_ascii_control()),
    }
}
