//! Texts that identify objects and entries.
//!
//! I1: A [`StringId`] is in normal form C, has no ASCII upper case and no control characters, and
//!     is not empty; parsing it again gives the same.

use std::fmt;

use unicode_normalization::char::compose;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use super::{IdentityError, has_control};
use crate::excerpt::excerpt;

/// A string identity, normalized.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(Box<str>);

impl StringId {
    /// Normalizes a text and checks it; `bytes_max` counts after normalization and is usually
    /// [`STRING_ID_BYTES_MAX`](crate::limits::STRING_ID_BYTES_MAX).
    pub fn parse(text: &str, bytes_max: usize) -> Result<Self, IdentityError> {
        let invalid = |problem| IdentityError::StringId { found: excerpt(text), problem };
        let too_long = || IdentityError::StringIdTooLong { found: excerpt(text), bytes_max };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if has_control(text) {
            return Err(invalid("it has a control character"));
        }
        let id = if text.is_ascii() {
            if text.len() > bytes_max {
                return Err(too_long());
            }
            text.to_ascii_lowercase()
        } else {
            normalize(text, bytes_max).ok_or_else(too_long)?
        };
        Ok(Self(id.into_boxed_str()))
    }

    /// The normalized text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StringId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Composes, folds, and composes again: `J` with a caron has no composed form but `j` with one has,
/// so folding alone could leave what the next parse would change.
///
/// Nothing composes across the beginning of an ASCII character, so each piece from one to the next
/// is a text of its own, and most of them are that character alone. An input that is too long is
/// given up on the way, so that a huge one costs no more than the limit.
fn normalize(text: &str, bytes_max: usize) -> Option<String> {
    let mut id = String::with_capacity(text.len().min(bytes_max));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let foreign = rest.bytes().skip(first.len_utf8()).take_while(|byte| !byte.is_ascii());
        let (piece, behind) = rest.split_at_checked(first.len_utf8() + foreign.count())?;
        rest = behind;
        if piece.len() == 1 {
            id.push(first.to_ascii_lowercase());
        } else if piece.len() <= bytes_max && is_nfc_quick(piece.chars()) == IsNormalized::Yes {
            // No marks compose, so none do with a small letter.
            id.extend(piece.chars().map(|character| character.to_ascii_lowercase()));
        } else {
            push_composed(&mut id, first, piece, bytes_max);
        }
        if id.len() > bytes_max {
            return None;
        }
    }
    Some(id)
}

/// Adds a piece that is not composed, or as much of it as has room.
fn push_composed(id: &mut String, first: char, piece: &str, bytes_max: usize) {
    let mut marks = piece.chars().skip(1);
    // A letter with one accent, which is almost all there is.
    if let (true, Some(mark), None) = (first.is_ascii(), marks.next(), marks.next())
        && is_accent(mark)
    {
        let small = first.to_ascii_lowercase();
        match compose(first, mark).or_else(|| compose(small, mark)) {
            Some(composed) => id.push(composed),
            None => id.extend([small, mark]),
        }
        return;
    }
    let folded = piece.nfc().map(|character| character.to_ascii_lowercase());
    for character in folded.nfc() {
        id.push(character);
        if id.len() > bytes_max {
            return;
        }
    }
}

/// Whether a character is an accent that is not made of others.
fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{33f}' | '\u{346}'..='\u{34e}' | '\u{350}'..='\u{36f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What [`normalize`] means.
    fn meant(text: &str) -> String {
        let folded = text.nfc().map(|character| character.to_ascii_lowercase());
        folded.nfc().collect()
    }

    /// What decomposes to one character, and what composes by rules of its own.
    const MADE: &[char] =
        &['\u{212a}', '\u{212b}', '\u{1100}', '\u{1161}', '\u{11a8}', '가', '\u{9d7}', '\u{1e9e}'];

    /// Texts of letters, marks, and what is made of both.
    fn texts() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            4 => proptest::char::range('!', '~'),
            4 => proptest::char::range('\u{300}', '\u{36f}'),
            2 => proptest::char::range('\u{c0}', '\u{233}'),
            1 => proptest::sample::select(MADE),
            1 => any::<char>(),
        ];
        proptest::collection::vec(character, 0..12).prop_map(|all| all.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_text_is_normalized_piece_by_piece_as_it_is_as_a_whole(text in texts()) {
            prop_assert_eq!(normalize(&text, usize::MAX), Some(meant(&text)));
        }

        #[test]
        fn a_limit_counts_what_is_left_in_the_end(text in texts(), bytes_max in 0_usize..20) {
            let whole = meant(&text);
            let expected = (whole.len() <= bytes_max).then_some(whole);
            prop_assert_eq!(normalize(&text, bytes_max), expected);
        }
    }
}
