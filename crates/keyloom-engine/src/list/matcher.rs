//! Reads expressions on keys: what is literal becomes conditions on fields.
//!
//! An expression of literal text, `.*` between the pieces, and `^` and `$` at the ends says where
//! pieces of a key's text stand. If each of them can stand in one place of the template only, that
//! is the same as conditions on its components, and nothing is left over.
//!
//! E1: The conditions, together with what is left over, are what the expression says.

use std::ops::Bound;

use keyloom_key::{Anchors, Constraint, Located};
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Dot, Hir, HirKind, Look};

use crate::catalog::{Collection, Source};
use crate::error::Error;
use crate::limits::{MATCHER_BYTES_MAX, MATCHER_PROGRAM_BYTES_MAX};
use crate::query::Term;

/// How deep an expression may nest: far above what people write.
const NESTING_MAX: u32 = 64;

/// What an expression on keys says.
pub(super) struct KeyMatcher {
    /// Conditions on fields of the key; a term that is `None` can hold for nothing.
    pub(super) terms: Vec<(Source, Option<Term>)>,
    /// What has to be tested on the text of each key.
    pub(super) left: Option<Regex>,
}

/// A piece of an expression.
#[derive(Debug, PartialEq)]
enum Piece {
    Start,
    Text(String),
    /// Anything, or nothing.
    Gap,
    End,
    /// Whatever else: a class, a repetition, an alternative.
    Other,
}

/// Reads an expression on the keys of a collection.
pub(super) fn read_key(collection: &Collection, pattern: &str) -> Result<KeyMatcher, Error> {
    let regex = compile("key", pattern)?;
    let mut pieces = Vec::new();
    flatten(&parse("key", pattern)?, &mut pieces);
    let template = &collection.key.template;
    if let Some((literals, anchors)) = literals(&pieces) {
        let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
        match template.locate_in_order(&literals, anchors) {
            Located::Once(constraints) => {
                return Ok(KeyMatcher { terms: terms(collection, constraints), left: None });
            }
            Located::Nowhere => return Err(nowhere(collection, &literals.join("…"))),
            Located::Several => {}
        }
    }
    // What the expression begins with still narrows the range.
    let terms = match pieces.as_slice() {
        [Piece::Start, Piece::Text(beginning), ..] => {
            match template.locate(beginning, Anchors::START) {
                Located::Once(constraints) => terms(collection, constraints),
                Located::Nowhere => return Err(nowhere(collection, beginning)),
                Located::Several => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    Ok(KeyMatcher { terms, left: Some(regex) })
}

/// Compiles an expression within the limits.
pub(super) fn compile(role: &str, pattern: &str) -> Result<Regex, Error> {
    parse(role, pattern)?;
    RegexBuilder::new(pattern)
        .size_limit(MATCHER_PROGRAM_BYTES_MAX)
        .nest_limit(NESTING_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(max) => Error::invalid(format!(
                "{role} matcher: it needs more than {max} bytes when compiled: repeat less"
            )),
            other => Error::invalid(format!("{role} matcher: {other}")),
        })
}

fn parse(role: &str, pattern: &str) -> Result<Hir, Error> {
    if pattern.len() > MATCHER_BYTES_MAX {
        return Err(Error::LimitExceeded {
            what: format!("bytes of the {role} matcher"),
            found: pattern.len(),
            max: MATCHER_BYTES_MAX,
        });
    }
    let parsed = regex_syntax::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(pattern);
    parsed.map_err(|error| {
        let (what, at) = match &error {
            regex_syntax::Error::Parse(error) => {
                (error.kind().to_string(), error.span().start.column)
            }
            regex_syntax::Error::Translate(error) => {
                (error.kind().to_string(), error.span().start.column)
            }
            other => (other.to_string(), 1),
        };
        Error::invalid(format!(
            "{role} matcher `{pattern}`: {what}, at character {at}; to match text as it is, escape \
             its special characters with a backslash"
        ))
    })
}

/// Splits an expression into its pieces, as far as they follow each other.
fn flatten(hir: &Hir, pieces: &mut Vec<Piece>) {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => match pieces.last_mut() {
                Some(Piece::Text(before)) => before.push_str(text),
                _ => pieces.push(Piece::Text(text.to_owned())),
            },
            Err(_) => pieces.push(Piece::Other),
        },
        HirKind::Look(Look::Start) => pieces.push(Piece::Start),
        HirKind::Look(Look::End) => pieces.push(Piece::End),
        HirKind::Capture(capture) => flatten(&capture.sub, pieces),
        HirKind::Concat(parts) => parts.iter().for_each(|part| flatten(part, pieces)),
        HirKind::Repetition(repetition)
            if repetition.min == 0 && repetition.max.is_none() && is_dot(&repetition.sub) =>
        {
            pieces.push(Piece::Gap);
        }
        _ => pieces.push(Piece::Other),
    }
}

/// Whether it matches any character. No key has a line break in its text: they are escaped.
fn is_dot(hir: &Hir) -> bool {
    let hir = match hir.kind() {
        HirKind::Capture(capture) => &*capture.sub,
        _ => hir,
    };
    [Dot::AnyChar, Dot::AnyCharExceptLF].iter().any(|dot| *hir == Hir::dot(*dot))
}

/// The texts that follow each other with anything in between; `None` if there is more to it.
fn literals(pieces: &[Piece]) -> Option<(Vec<String>, Anchors)> {
    let (start, rest) = match pieces {
        [Piece::Start, rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (end, rest) = match rest {
        [rest @ .., Piece::End] => (true, rest),
        rest => (false, rest),
    };
    let mut texts = Vec::new();
    for piece in rest {
        match piece {
            Piece::Text(text) => texts.push(text.clone()),
            Piece::Gap => {}
            Piece::Start | Piece::End | Piece::Other => return None,
        }
    }
    let anchors = Anchors {
        start: start && !matches!(rest.first(), Some(Piece::Gap)),
        end: end && !matches!(rest.last(), Some(Piece::Gap)),
    };
    if texts.is_empty() && rest.is_empty() && anchors == Anchors::BOTH {
        texts.push(String::new());
    }
    Some((texts, anchors))
}

fn terms(
    collection: &Collection,
    constraints: Vec<(usize, Constraint)>,
) -> Vec<(Source, Option<Term>)> {
    let mut terms = Vec::with_capacity(constraints.len());
    for (place, constraint) in constraints {
        let source = collection.key.sources.get(place).copied();
        let source = source.expect("a located constraint names a component of the template");
        let term = match constraint {
            Constraint::Equal(value) => Term::one_of(vec![value]),
            Constraint::Prefix(text) => Some(Term::prefix(text)),
            Constraint::Between(least, greatest) => {
                Term::range(Bound::Included(least), Bound::Included(greatest))
            }
        };
        terms.push((source, term));
    }
    terms
}

fn nowhere(collection: &Collection, literal: &str) -> Error {
    Error::invalid(format!(
        "no key of `{}` can contain {literal:?} there; keys look like {}",
        collection.name,
        collection.key.template.text()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: Option<(&[&str], Anchors)>) {
        let mut pieces = Vec::new();
        flatten(&parse("key", pattern).unwrap(), &mut pieces);
        let found = literals(&pieces);
        let found = found.as_ref().map(|(texts, anchors)| {
            (texts.iter().map(String::as_str).collect::<Vec<_>>(), *anchors)
        });
        assert_eq!(found, expected.map(|(texts, anchors)| (texts.to_vec(), anchors)), "{pattern}");
    }

    #[test]
    fn literal_text_is_read_with_its_anchors() {
        check("usr_A", Some((&["usr_A"], Anchors::NONE)));
        check("^usr_A", Some((&["usr_A"], Anchors::START)));
        check("^usr_A$", Some((&["usr_A"], Anchors::BOTH)));
        check("^.*usr_A.*$", Some((&["usr_A"], Anchors::NONE)));
        check("usr\\.A(_tag)", Some((&["usr.A_tag"], Anchors::NONE)));
        check("^a.*b.*?c$", Some((&["a", "b", "c"], Anchors::BOTH)));
        check("", Some((&[], Anchors::NONE)));
        check("^$", Some((&[""], Anchors::BOTH)));
    }

    #[test]
    fn anything_beyond_literal_text_is_left_over() {
        for pattern in ["a|b", "a+", "[ab]c", "(?i)abc", "a^b", "(?m)^a", "a.b", "\\bword"] {
            check(pattern, None);
        }
    }

    #[test]
    fn j22_an_invalid_expression_is_an_error_with_its_place() {
        let error = compile("key", "abc(").unwrap_err().to_string();
        assert!(error.contains("`abc(`") && error.contains("at character 4"), "{error}");
        assert!(compile("key", &super::super::literal("abc(")).is_ok());
    }

    #[test]
    fn an_expression_has_a_limit_in_length_and_in_program() {
        let long = "a".repeat(MATCHER_BYTES_MAX + 1);
        assert_eq!(compile("key", &long).unwrap_err().code(), "limit_exceeded");
        let error = compile("description", "(a{1000}){1000}").unwrap_err().to_string();
        assert!(error.contains("repeat less"), "{error}");
        let deep = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        assert!(compile("key", &deep).is_err());
    }
}
