//! What the ranges of a plan leave to test on the documents themselves.

use keyloom_key::Value;
use regex::Regex;

use super::candidate::{Candidate, PathRef};
use super::course::{Course, Mode, Stretch};
use super::term::{Branch, Term};
use crate::catalog::{Collection, Source};
use crate::document::{Facts, FieldValue, HeadRecord, Record, path_keys};
use crate::error::Error;
use keyloom_store::Direction;

/// What the documents of a scan have to satisfy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Residue {
    pub(crate) all: Branch,
    pub(crate) any: Option<Vec<Branch>>,
    pub(crate) matchers: Matchers,
}

/// Regular expressions of the list matcher.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matchers {
    /// On the text spelling of the key.
    pub(crate) key: Option<Regex>,
    /// On the description; a document without one does not match.
    pub(crate) description: Option<Regex>,
}

impl Matchers {
    pub(crate) fn is_empty(&self) -> bool {
        self.key.is_none() && self.description.is_none()
    }
}

impl Residue {
    /// The conditions for people, one line each; a cursor's fingerprint is made of them, too.
    pub(crate) fn describe(&self, collection: &Collection) -> Vec<String> {
        let term =
            |(source, term): &(Source, Term)| format!("{} {term}", collection.source_name(*source));
        let mut lines: Vec<String> = self.all.iter().map(term).collect();
        if let Some(any) = &self.any {
            let alternative =
                |branch: &Branch| branch.iter().map(term).collect::<Vec<_>>().join(" and ");
            let any: Vec<String> = any.iter().map(alternative).collect();
            lines.push(format!("any of ({})", any.join(") or (")));
        }
        let Matchers { key, description } = &self.matchers;
        lines.extend(key.as_ref().map(|regex| format!("key matches {:?}", regex.as_str())));
        lines.extend(
            description.as_ref().map(|regex| format!("description matches {:?}", regex.as_str())),
        );
        lines
    }

    /// Whether a document satisfies it.
    pub(crate) fn holds(&self, key: &str, record: &Record, head: &HeadRecord<'_>) -> bool {
        let facts = Facts::from(*head);
        let holds = |branch: &Branch| {
            branch.iter().all(|(source, term)| term.holds_of(*source, record, &facts))
        };
        let Matchers { key: key_matcher, description } = &self.matchers;
        holds(&self.all)
            && self.any.as_ref().is_none_or(|any| any.iter().any(holds))
            && key_matcher.as_ref().is_none_or(|regex| regex.is_match(key))
            && description.as_ref().is_none_or(|regex| {
                head.description.is_some_and(|description| regex.is_match(description))
            })
    }
}

/// Whether this key of a document is the first of its keys in the ranges of the course, so that
/// the document counts here and nowhere else.
pub(crate) fn is_first_key(
    collection: &Collection,
    course: &Course,
    stretch: &Stretch,
    key: &[u8],
    (record, head): (&Record, &HeadRecord<'_>),
) -> Result<bool, Error> {
    let facts = Facts::from(*head);
    let mut paths: Vec<PathRef> = course.stretches.iter().map(|stretch| stretch.at).collect();
    paths.dedup();
    let place = |stretch: &Stretch, key: &[u8]| match course.mode {
        Mode::Chain => key.to_vec(),
        Mode::Merge | Mode::Groups => stretch.tail(key).to_vec(),
    };
    let own = place(stretch, key);
    for at in paths {
        let Some(candidate) = Candidate::of(collection, at).filter(|c| !c.is_document_key()) else {
            continue;
        };
        for other in path_keys(candidate.path, record, &facts)? {
            let ranges = course.stretches.iter().filter(|stretch| stretch.range.contains(&other));
            for range in ranges {
                let earlier = match course.direction {
                    Direction::Forward => place(range, &other) < own,
                    Direction::Reverse => place(range, &other) > own,
                };
                if earlier {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

impl Term {
    /// Whether a document satisfies it; of an array, one element.
    pub(crate) fn holds_of(&self, source: Source, record: &Record, facts: &Facts<'_>) -> bool {
        if let Source::Field(field) = source
            && let Some(FieldValue::Array(elements)) = record.get(field)
        {
            return elements.iter().any(|element: &Value| self.holds(element));
        }
        record.source(source, facts).is_some_and(|value| self.holds(&value))
    }
}
