//! The text of one component.
//!
//! ```text
//! ulid    26 characters            uuid   32 hex digits        bool  true, false
//! name    lower case               enum   one of its words     u64, i64, bucket  plain decimal
//! millis       at least 13 digits; "-" and plain digits below zero
//! millis desc  the same of 9999999999999 - t
//! id, text     as it is, but %XX for "%", ASCII control characters and the separator
//! ```
//!
//! I1: A value has one text, and reading accepts no other.
//! I2: The separator that follows a component cannot occur in its text ([`ends`] sees to it).
//! I3: The text of a value begins with the text of each of its prefixes, if it is a text.

use std::fmt::Write as _;

use super::component::{Component, Order};
use crate::identity::{Ulid, Uuid};
use crate::value::{Kind, Value, parse_int};

const ULID_CHARACTERS: usize = 26;
const UUID_CHARACTERS: usize = 32;
const MILLIS_DIGITS: usize = 13;
/// Inverts a time: the latest that has 13 digits becomes zero.
const MILLIS_INVERTED_FROM: i128 = 9_999_999_999_999;

/// The length of the component's text, if all its values have the same.
pub(super) fn fixed_length(component: &Component) -> Option<usize> {
    match component.stored() {
        Kind::Ulid => Some(ULID_CHARACTERS),
        Kind::Uuid => Some(UUID_CHARACTERS),
        _ => None,
    }
}

/// Whether `separator` tells where the component ends, because its text cannot contain it.
pub(super) fn ends(component: &Component, separator: char) -> bool {
    match component.stored() {
        // It is escaped in them, and no escape is made of punctuation other than `%`.
        Kind::Id | Kind::Text => separator.is_ascii_punctuation() && separator != '%',
        Kind::Name => !separator.is_ascii_alphanumeric() && separator != '-',
        Kind::Millis | Kind::I64 => !separator.is_ascii_digit() && separator != '-',
        Kind::U64 => !separator.is_ascii_digit(),
        Kind::Bool => !separator.is_ascii_alphabetic(),
        Kind::Enum(words) => !words.iter().any(|word| word.contains(separator)),
        Kind::Ulid | Kind::Uuid => true,
    }
}

/// Appends the text of a value.
pub(super) fn write(
    component: &Component,
    separator: Option<char>,
    value: &Value,
    out: &mut String,
) {
    match (component.stored(), value) {
        (Kind::Id | Kind::Text, Value::Text(text)) => escape(text, separator, out),
        (Kind::Millis, Value::Int(millis)) => write_millis(*millis, component.order, out),
        (_, Value::Text(text)) => out.push_str(text),
        (_, Value::Ulid(ulid)) => {
            out.push_str(str::from_utf8(&ulid.characters()).expect("the alphabet is ASCII"));
        }
        (_, value) => write!(out, "{value}").expect("a string takes all that is written to it"),
    }
}

/// Splits the text of a component off a text that begins with it.
pub(super) fn split<'t>(
    component: &Component,
    separator: Option<char>,
    text: &'t str,
) -> (&'t str, &'t str) {
    let end = match (fixed_length(component), separator) {
        (Some(length), _) => length,
        (None, Some(separator)) => text.find(separator).unwrap_or(text.len()),
        (None, None) => text.len(),
    };
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Reads the text of a value, all of it.
pub(super) fn read(component: &Component, separator: Option<char>, text: &str) -> Option<Value> {
    let value = match component.stored() {
        Kind::Ulid => Value::Ulid(Ulid::parse(text).ok()?),
        Kind::Uuid => Value::Uuid(Uuid::parse(text).ok()?),
        Kind::Millis => Value::Int(read_millis(text, component.order)?),
        Kind::I64 => Value::Int(parse_int(text)?),
        Kind::Id | Kind::Text => Value::Text(unescape(text, separator)?),
        // A name is checked as it is: parsing it would fold it.
        Kind::Name | Kind::Enum(_) => Value::Text(text.to_owned()),
        kind @ (Kind::U64 | Kind::Bool) => kind.parse_text(text).ok()?,
    };
    component.check(&value).ok()?;
    Some(value)
}

/// Appends a text with escapes for what could be mistaken.
fn escape(text: &str, separator: Option<char>, out: &mut String) {
    if !has_escaped(text, separator) {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        if is_escaped(character, separator) {
            write!(out, "%{:02X}", u32::from(character))
                .expect("a string takes all that is written to it");
        } else {
            out.push(character);
        }
    }
}

/// The text without its escapes; none if an escape is missing, broken, or not needed.
pub(super) fn unescape(text: &str, separator: Option<char>) -> Option<String> {
    if !has_escaped(text, separator) {
        return Some(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            if is_escaped(character, separator) {
                return None;
            }
            plain.push(character);
            continue;
        }
        let code = 16 * hex_digit(characters.next()?)? + hex_digit(characters.next()?)?;
        let escaped = char::from(code);
        if !is_escaped(escaped, separator) {
            return None;
        }
        plain.push(escaped);
    }
    Some(plain)
}

/// Whether a character of the text is escaped. All of those are ASCII, so bytes tell; looking at
/// all of them without a branch is fast.
fn has_escaped(text: &str, separator: Option<char>) -> bool {
    let separator = separator.and_then(|separator| u8::try_from(separator).ok()).unwrap_or(b'%');
    text.bytes().fold(false, |found, byte| {
        found | (byte == b'%') | (byte == separator) | byte.is_ascii_control()
    })
}

fn is_escaped(character: char, separator: Option<char>) -> bool {
    character == '%' || character.is_ascii_control() || Some(character) == separator
}

fn hex_digit(character: char) -> Option<u8> {
    match character {
        '0'..='9' => u8::try_from(u32::from(character) - u32::from('0')).ok(),
        'A'..='F' => u8::try_from(u32::from(character) - u32::from('A') + 10).ok(),
        _ => None,
    }
}

fn write_millis(millis: i64, order: Order, out: &mut String) {
    let number = match order {
        Order::Ascending => i128::from(millis),
        Order::Descending => MILLIS_INVERTED_FROM - i128::from(millis),
    };
    let written =
        if number < 0 { write!(out, "{number}") } else { write!(out, "{number:0MILLIS_DIGITS$}") };
    written.expect("a string takes all that is written to it");
}

fn read_millis(text: &str, order: Order) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && if digits.len() == text.len() {
            digits.len() == MILLIS_DIGITS
                || (digits.len() > MILLIS_DIGITS && !digits.starts_with('0'))
        } else {
            !digits.starts_with('0')
        };
    if !is_canonical {
        return None;
    }
    let number: i128 = text.parse().ok()?;
    i64::try_from(match order {
        Order::Ascending => number,
        Order::Descending => MILLIS_INVERTED_FROM - number,
    })
    .ok()
}
