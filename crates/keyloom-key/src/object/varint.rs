//! Lengths as LEB128: seven bits in each byte, the lowest first; the high bit says that more
//! follow.
//!
//! I1: A length has one spelling: what is longer than needed is refused.

use super::{CUT_OFF, ObjectDecodeError};

/// Appends a length.
pub(super) fn write(length: usize, out: &mut Vec<u8>) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7F).expect("seven bits fit a byte") | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).expect("seven bits fit a byte"));
}

/// Splits off a length of at most two bytes: no identity is longer than 16,383 bytes.
pub(super) fn read(bytes: &[u8]) -> Result<(usize, &[u8]), ObjectDecodeError> {
    match bytes {
        [low @ 0..=0x7F, rest @ ..] => Ok((usize::from(*low), rest)),
        [low, high @ 1..=0x7F, rest @ ..] => {
            Ok((usize::from(low & 0x7F) | (usize::from(*high) << 7), rest))
        }
        [] | [_] => Err(CUT_OFF),
        _ => Err(ObjectDecodeError { problem: "a length has more bytes than it needs" }),
    }
}
