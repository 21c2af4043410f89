//! From a template's text to its parts, and the proof that its keys can be read in one way only.
//!
//! ```text
//! template   = { literal | component }
//! literal    = printable ASCII without { } %
//! component  = "{" field [ "[]" ] { " " modifier } "}"
//! field      = [ "@" ] ( letter | "_" ) { letter | digit | "_" }
//! modifier   = "desc" | "prefix" " " number | "shard" " " number
//! ```
//!
//! The proof. Reading goes from left to right; a key is read in one way if the end of each
//! component is known. It is known
//!
//! P1: of a component of fixed length (ULID, UUID),
//! P2: of a component that ends the key,
//! P3: of a component before a literal whose first character cannot occur in its text.
//!
//! P3 holds for text and id because that character is escaped in them, which needs a character that
//! no escape is made of: punctuation other than `%`. Whatever is neither P1, P2 nor P3 does not
//! compile.

use super::Parts;
use super::component::{Component, Cut, Each, Order};
use super::error::{TemplateError, TemplateProblem as Problem};
use super::spelling;
use crate::limits::{
    PREFIX_CHARACTERS_MAX, SHARDS_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_COMPONENTS_MAX,
};
use crate::value::Kind;

/// What is wrong, and the byte of the template at which it is.
type Fault = (usize, Problem);

/// A piece of the template with the byte at which it begins.
enum Piece<'t> {
    Literal(&'t str),
    Component(Component),
}

pub(super) fn compile(
    text: &str,
    kind_of: &dyn Fn(&str) -> Option<Kind>,
) -> Result<Parts, TemplateError> {
    let parts = pieces(text, kind_of).and_then(|pieces| {
        prove(&pieces)?;
        assemble(text, pieces)
    });
    parts.map_err(|(at, problem)| TemplateError {
        template: text.to_owned(),
        position: text.char_indices().take_while(|(index, _)| *index < at).count(),
        problem,
    })
}

fn pieces<'t>(
    text: &'t str,
    kind_of: &dyn Fn(&str) -> Option<Kind>,
) -> Result<Vec<(usize, Piece<'t>)>, Fault> {
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err((TEMPLATE_BYTES_MAX, Problem::TooLong));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        if let Some(opened) = rest.strip_prefix('{') {
            let (body, tail) = opened.split_once('}').ok_or((at, Problem::Unclosed))?;
            pieces.push((at, Piece::Component(component(body, at + 1, kind_of)?)));
            rest = tail;
        } else {
            let (literal, tail) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
            check_literal(literal, at)?;
            pieces.push((at, Piece::Literal(literal)));
            rest = tail;
        }
    }
    Ok(pieces)
}

fn check_literal(literal: &str, at: usize) -> Result<(), Fault> {
    let allowed =
        |character: &char| matches!(character, ' '..='~') && !matches!(character, '{' | '}' | '%');
    match literal.char_indices().find(|(_, character)| !allowed(character)) {
        Some((offset, character)) => Err((at + offset, Problem::LiteralCharacter { character })),
        None => Ok(()),
    }
}

/// Reads what stands between the braces; `at` is the byte after the opening one.
fn component(
    body: &str,
    at: usize,
    kind_of: &dyn Fn(&str) -> Option<Kind>,
) -> Result<Component, Fault> {
    let (subject, modifiers) = match body.split_once(' ') {
        Some((subject, modifiers)) => (subject, Some(modifiers)),
        None => (body, None),
    };
    let (field, each) = match subject.strip_suffix("[]") {
        Some(field) => (field, Each::Element),
        None => (subject, Each::One),
    };
    check_field_name(field, at)?;
    let kind =
        kind_of(field).ok_or_else(|| (at, Problem::UnknownField { field: field.to_owned() }))?;
    check_enum(field, &kind, at)?;
    let mut component =
        Component { field: field.to_owned(), kind, order: Order::Ascending, cut: Cut::Whole, each };
    if let Some(modifiers) = modifiers {
        modify(&mut component, modifiers, at + subject.len() + 1)?;
    }
    Ok(component)
}

fn check_field_name(field: &str, at: usize) -> Result<(), Fault> {
    let name = field.strip_prefix('@').unwrap_or(field);
    let name_at = at + field.len() - name.len();
    let mut expects_letter = true;
    for (offset, character) in name.char_indices() {
        let is_letter = character.is_ascii_alphabetic() || character == '_';
        if !is_letter && (expects_letter || !character.is_ascii_digit()) {
            return Err((name_at + offset, Problem::FieldName));
        }
        expects_letter = false;
    }
    if expects_letter { Err((name_at, Problem::FieldName)) } else { Ok(()) }
}

fn check_enum(field: &str, kind: &Kind, at: usize) -> Result<(), Fault> {
    let Kind::Enum(words) = kind else {
        return Ok(());
    };
    if words.is_empty() {
        return Err((at, Problem::EnumEmpty { field: field.to_owned() }));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    match words.iter().find(|word| word.is_empty() || !word.bytes().all(allowed)) {
        Some(word) => Err((at, Problem::EnumWord { field: field.to_owned(), word: word.clone() })),
        None => Ok(()),
    }
}

/// Reads the modifiers; `at` is the byte of the first one.
fn modify(component: &mut Component, modifiers: &str, at: usize) -> Result<(), Fault> {
    let mut words = words(modifiers, at);
    while let Some((word_at, word)) = words.next() {
        let sharded = matches!(component.cut, Cut::Shard(_));
        match word {
            "desc" | "prefix" if sharded => return Err((word_at, Problem::ShardNotAlone)),
            "desc" if component.order == Order::Descending => {
                return Err((word_at, Problem::RepeatedModifier { word: "desc" }));
            }
            "desc" => component.order = Order::Descending,
            "prefix" if component.cut != Cut::Whole => {
                return Err((word_at, Problem::RepeatedModifier { word: "prefix" }));
            }
            "prefix" if !matches!(component.kind, Kind::Text | Kind::Id) => {
                let Component { field, kind, .. } = component.clone();
                return Err((word_at, Problem::PrefixOfKind { field, kind }));
            }
            "prefix" => {
                let characters = number(words.next(), 1, PREFIX_CHARACTERS_MAX)
                    .map_err(|at| (at.unwrap_or(word_at), Problem::prefix_number()))?;
                component.cut = Cut::Prefix(characters);
            }
            "shard" if is_modified(component) => return Err((word_at, Problem::ShardNotAlone)),
            "shard" => {
                let count = number(words.next(), 2, SHARDS_MAX)
                    .map_err(|at| (at.unwrap_or(word_at), Problem::shard_number()))?;
                component.cut = Cut::Shard(count);
            }
            _ => return Err((word_at, Problem::UnknownModifier { word: word.to_owned() })),
        }
    }
    Ok(())
}

fn is_modified(component: &Component) -> bool {
    component.order != Order::Ascending
        || component.cut != Cut::Whole
        || component.each != Each::One
}

/// The words between single spaces, each with the byte at which it begins.
fn words(text: &str, at: usize) -> impl Iterator<Item = (usize, &str)> {
    text.split(' ').scan(at, |next, word| {
        let word_at = *next;
        *next += word.len() + 1;
        Some((word_at, word))
    })
}

/// The number in a word, or the byte of the word that is not one.
fn number(word: Option<(usize, &str)>, min: u16, max: u16) -> Result<u16, Option<usize>> {
    let (at, word) = word.ok_or(None)?;
    let plain = word.bytes().all(|byte| byte.is_ascii_digit()) && !word.starts_with('0');
    match word.parse() {
        Ok(number) if plain && (min..=max).contains(&number) => Ok(number),
        _ => Err(Some(at)),
    }
}

/// The proof of the module docs.
fn prove(pieces: &[(usize, Piece<'_>)]) -> Result<(), Fault> {
    for pair in pieces.windows(2) {
        let [(_, Piece::Component(component)), (at, next)] = pair else {
            continue;
        };
        if spelling::fixed_length(component).is_some() {
            continue;
        }
        let (field, kind) = (component.field.clone(), component.kind_stored());
        match next {
            Piece::Component(next) => {
                return Err((*at, Problem::RunsOn { field, kind, next: next.field.clone() }));
            }
            Piece::Literal(literal) => {
                let character = literal.chars().next().expect("pieces are not empty");
                if !spelling::ends(component, character) {
                    return Err((*at, Problem::Separator { field, kind, character }));
                }
            }
        }
    }
    Ok(())
}

fn assemble(text: &str, pieces: Vec<(usize, Piece<'_>)>) -> Result<Parts, Fault> {
    let mut components: Vec<Component> = Vec::new();
    let mut literals = vec![String::new()];
    for (at, piece) in pieces {
        match piece {
            Piece::Literal(literal) => {
                literals.last_mut().expect("it begins with one").push_str(literal);
            }
            Piece::Component(component) => {
                if components.len() == TEMPLATE_COMPONENTS_MAX {
                    return Err((at, Problem::TooManyComponents));
                }
                let is_second = component.each == Each::Element
                    && components.iter().any(|earlier| earlier.each == Each::Element);
                if is_second {
                    return Err((at, Problem::SecondElement));
                }
                components.push(component);
                literals.push(String::new());
            }
        }
    }
    if components.is_empty() {
        return Err((text.len(), Problem::NoComponent));
    }
    Ok(Parts { text: text.to_owned(), components, literals })
}
