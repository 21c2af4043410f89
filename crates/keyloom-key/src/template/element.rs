//! Packed elements: the FoundationDB tuple encoding of one value.
//!
//! ```text
//! text        02 <UTF-8 without NUL> 00
//! int         14 ± n <n bytes, big-endian, as few as possible; one's complement if negative>
//! bool        26 false, 27 true
//! ulid, uuid  30 <16 bytes>
//! descending  the same bytes, each complemented
//! ```
//!
//! I1: Elements of one kind and direction compare as their values do, none is a prefix of another,
//!     and none begins with 00 or FF.
//! I2: Reading accepts only what writing produces, and never panics.

use foundationdb_tuple::{TuplePack, Uuid as TupleUuid};

use super::component::{Component, Cut, Order};
use super::error::DecodeError;
use crate::identity::{Ulid, Uuid};
use crate::value::{Kind, Value};

const TEXT: u8 = 0x02;
const INT_ZERO: u8 = 0x14;
const INT_BYTES_MAX: u8 = 8;
const FALSE: u8 = 0x26;
const TRUE: u8 = 0x27;
const UUID: u8 = 0x30;
const UUID_ELEMENT_BYTES: usize = 17;

/// Appends the element of a value.
pub(super) fn write(value: &Value, order: Order, out: &mut Vec<u8>) {
    let start = out.len();
    match value {
        Value::Ulid(ulid) => append(&TupleUuid::from_bytes(ulid.to_bytes()), out),
        Value::Uuid(uuid) => append(&TupleUuid::from_bytes(uuid.to_bytes()), out),
        Value::Text(text) => append(&text.as_str(), out),
        Value::Int(number) => append(number, out),
        Value::Unsigned(number) => append(number, out),
        Value::Bool(truth) => append(truth, out),
    }
    direct(order, out, start);
}

/// Appends the beginning of the elements of all texts that begin with `prefix`.
pub(super) fn write_prefix(prefix: &str, order: Order, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(TEXT);
    out.extend_from_slice(prefix.as_bytes());
    direct(order, out, start);
}

/// Splits the element of a component off packed bytes.
pub(super) fn read<'p>(
    packed: &'p [u8],
    component: &Component,
) -> Result<(Value, &'p [u8]), DecodeError> {
    let (value, rest) =
        split(packed, component, |value| value).ok_or_else(|| problem(packed, component))?;
    if is_checked(component) {
        component.check(&value).map_err(DecodeError::Value)?;
    }
    Ok((value, rest))
}

/// Splits the element of a component off packed bytes, appends its value, and says what follows.
#[inline]
pub(super) fn read_into<'p>(
    packed: &'p [u8],
    component: &Component,
    values: &mut Vec<Value>,
) -> Option<&'p [u8]> {
    let ((), rest) = split(packed, component, |value| values.push(value))?;
    if is_checked(component) {
        component.check(values.last()?).ok()?;
    }
    Some(rest)
}

/// A whole number, truth or identity that was decoded as its kind is of that kind.
fn is_checked(component: &Component) -> bool {
    component.stored().is_text() || component.cut != Cut::Whole
}

/// What becomes of the value that packed bytes begin with, and what follows it. Why there is none,
/// is for [`problem`] to say. Each kind hands its value over by itself, so that it is written once,
/// where it is wanted.
#[inline]
fn split<'p, R>(
    packed: &'p [u8],
    component: &Component,
    mut take: impl FnMut(Value) -> R,
) -> Option<(R, &'p [u8])> {
    let mask = mask(component.order);
    Some(match component.stored() {
        Kind::Ulid => {
            let (bytes, rest) = split_identity(packed, mask)?;
            (take(Value::Ulid(Ulid::from_bytes(bytes))), rest)
        }
        Kind::Uuid => {
            let (bytes, rest) = split_identity(packed, mask)?;
            (take(Value::Uuid(Uuid::from_bytes(bytes).ok()?)), rest)
        }
        Kind::Millis | Kind::I64 => {
            let (sign, magnitude, rest) = split_int(packed, mask)?;
            let number = match sign {
                Sign::Positive => i64::try_from(magnitude).ok()?,
                Sign::Negative => 0_i64.checked_sub_unsigned(magnitude)?,
            };
            (take(Value::Int(number)), rest)
        }
        Kind::U64 => match split_int(packed, mask)? {
            (Sign::Positive, magnitude, rest) => (take(Value::Unsigned(magnitude)), rest),
            (Sign::Negative, ..) => return None,
        },
        Kind::Bool => {
            let (code, rest) = packed.split_first()?;
            match code ^ mask {
                FALSE => (take(Value::Bool(false)), rest),
                TRUE => (take(Value::Bool(true)), rest),
                _ => return None,
            }
        }
        Kind::Name | Kind::Id | Kind::Text | Kind::Enum(_) => {
            let (text, rest) = split_text(packed, mask)?;
            (take(Value::Text(text)), rest)
        }
    })
}

fn split_identity(packed: &[u8], mask: u8) -> Option<([u8; 16], &[u8])> {
    let ([code, bytes @ ..], rest) = packed.split_first_chunk::<UUID_ELEMENT_BYTES>()?;
    // All bytes at once.
    let bits = u128::from_ne_bytes(*bytes) ^ u128::from_ne_bytes([mask; 16]);
    (code ^ mask == UUID).then_some((bits.to_ne_bytes(), rest))
}

/// On which side of zero a number lies; zero is positive.
enum Sign {
    Positive,
    Negative,
}

/// The number; none if it is written with more bytes than it needs.
fn split_int(packed: &[u8], mask: u8) -> Option<(Sign, u64, &[u8])> {
    let (first, behind) = packed.split_first()?;
    let code = first ^ mask;
    let bytes = int_bytes(code)?;
    let (body, rest) = behind.split_at_checked(bytes)?;
    if bytes == 0 {
        return Some((Sign::Positive, 0, rest));
    }
    let bits = 8 * u32::from(code.abs_diff(INT_ZERO));
    let written = match behind.first_chunk() {
        // All bytes at once, with those that follow, which are dropped.
        Some(bytes) => (u64::from_be_bytes(*bytes) ^ u64::from_ne_bytes([mask; 8])) >> (64 - bits),
        None => body.iter().fold(0, |number, byte| (number << 8) | u64::from(byte ^ mask)),
    };
    let highest = written >> (bits - 8);
    if code > INT_ZERO {
        return (highest != 0x00).then_some((Sign::Positive, written, rest));
    }
    // One's complement: with n bytes, minus one is n times FF less one.
    let magnitude = (u64::MAX >> (64 - bits)) - written;
    (highest != 0xFF).then_some((Sign::Negative, magnitude, rest))
}

/// The text before the NUL that ends it.
fn split_text(packed: &[u8], mask: u8) -> Option<(String, &[u8])> {
    let (code, behind) = packed.split_first()?;
    let (body, rest) = behind.split_at_checked(text_bytes(behind, mask)?)?;
    let (_nul, text) = body.split_last()?;
    let text = String::from_utf8(text.iter().map(|byte| byte ^ mask).collect()).ok()?;
    (code ^ mask == TEXT).then_some((text, rest))
}

/// How many bytes follow the code of an element.
fn body_bytes(behind: &[u8], kind: &Kind, code: u8, mask: u8) -> Option<usize> {
    match kind {
        Kind::Ulid | Kind::Uuid => Some(UUID_ELEMENT_BYTES - 1),
        Kind::Bool => Some(0),
        Kind::Millis | Kind::I64 | Kind::U64 => int_bytes(code),
        Kind::Name | Kind::Id | Kind::Text | Kind::Enum(_) => text_bytes(behind, mask),
    }
}

/// Why packed bytes do not begin with an element of the component.
#[cold]
fn problem(packed: &[u8], component: &Component) -> DecodeError {
    let kind = component.stored();
    let mask = mask(component.order);
    let Some((first, behind)) = packed.split_first() else {
        return DecodeError::Truncated { wanted: 1, found: 0 };
    };
    match body_bytes(behind, kind, first ^ mask, mask) {
        Some(bytes) if behind.len() < bytes => {
            DecodeError::Truncated { wanted: 1 + bytes, found: packed.len() }
        }
        _ => DecodeError::Element { field: component.field.clone(), expected: kind.clone() },
    }
}

/// What the bytes of an element are combined with.
fn mask(order: Order) -> u8 {
    match order {
        Order::Ascending => 0x00,
        Order::Descending => 0xFF,
    }
}

fn append<T: TuplePack>(element: &T, out: &mut Vec<u8>) {
    element.pack_into_vec(out);
}

/// Complements what was appended since `start`, if the order asks for it.
fn direct(order: Order, out: &mut [u8], start: usize) {
    if order == Order::Descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

fn int_bytes(code: u8) -> Option<usize> {
    let bytes = code.abs_diff(INT_ZERO);
    (bytes <= INT_BYTES_MAX).then_some(usize::from(bytes))
}

/// Texts hold no NUL, so the first one is the end.
fn text_bytes(behind: &[u8], mask: u8) -> Option<usize> {
    behind.iter().position(|byte| *byte == mask).map(|nul| nul + 1)
}
