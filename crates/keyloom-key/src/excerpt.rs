//! Shortens what a caller sent before an error message repeats it.

/// Characters of a rejected text that a message repeats.
const EXCERPT_CHARACTERS_MAX: usize = 64;

/// The beginning of `text`, with an ellipsis where something was left out.
pub(crate) fn excerpt(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(EXCERPT_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_repeated_whole_and_a_long_one_is_cut() {
        assert_eq!(excerpt("é"), "é");
        assert_eq!(excerpt(&"é".repeat(64)), "é".repeat(64));
        assert_eq!(excerpt(&"é".repeat(65)), format!("{}…", "é".repeat(64)));
    }
}
