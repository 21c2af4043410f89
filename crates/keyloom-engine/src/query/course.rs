//! What a plan does, step by step: the ranges, how they are run, and what is done with their keys.
//!
//! C1: The ranges of a chain belong to one path, ascend, and do not overlap.
//! C2: The ranges of a merge have tails of the same shape: what follows their bound components.
//! C3: No range is empty.

use std::borrow::Cow;
use std::ops::Bound;

use keyloom_key::{PackError, Span, Tail, Value};
use keyloom_store::{Direction, KeyRange};

use super::candidate::{Candidate, PathRef};
use super::distinct::Probe;
use super::filter::Residue;
use super::fit::{Binding, Slot};
use super::term::{Branch, Term};
use super::{Plan, PlanRange};
use crate::catalog::Source;
use crate::error::Error;

/// What a plan does.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) mode: Mode,
    pub(crate) direction: Direction,
    pub(crate) stretches: Vec<Stretch>,
    /// Whether a document may have several keys in one range and counts at the first of them.
    pub(crate) once: bool,
    /// Whether several ranges may bring the same document.
    pub(crate) repeats: bool,
    /// How a key is known to be the first of its group.
    pub(crate) probe: Option<Probe>,
    /// What is left to test on the documents, with the keys that this may cost.
    pub(crate) residue: Option<(Residue, usize)>,
    pub(crate) select: Option<Vec<Source>>,
}

/// How the ranges are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One after the other.
    Chain,
    /// All at once, ordered by their tails; what several of them bring comes once.
    Merge,
    /// All at once, and of each group by the first component of the tail only the first key.
    Groups,
}

/// One range of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) at: PathRef,
    pub(crate) range: KeyRange,
    /// How many components are bound, and the length of a key up to their end.
    pub(crate) bound: usize,
    pub(crate) bound_bytes: usize,
    /// Whether all components are bound, so that `range.from` is the only key.
    pub(crate) is_point: bool,
    /// How it is shown; handed over to the plan.
    pub(crate) shown: PlanRange,
}

/// Whether the ranges of a plan run one after the other.
pub(crate) fn is_chain(plan: &Plan) -> bool {
    plan.course.mode == Mode::Chain
}

impl Stretch {
    /// What follows the bound components in a key of this range.
    pub(crate) fn tail<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.bound_bytes..).unwrap_or_default()
    }

    /// The key of this range with the given tail.
    pub(crate) fn key_with(&self, tail: &[u8]) -> Vec<u8> {
        let bound = self.range.from.get(..self.bound_bytes).unwrap_or_default();
        [bound, tail].concat()
    }
}

/// The ranges of a binding, in ascending order.
pub(super) fn stretches(binding: &Binding<'_>, branch: &Branch) -> Result<Vec<Stretch>, Error> {
    let tails = tail_choices(binding, branch);
    let mut found: Vec<Stretch> = Vec::with_capacity(binding.ranges);
    for bound in bound_values(binding, branch) {
        for tails in &tails {
            let stretch = stretch(&binding.candidate, &bound, tails)?;
            if !stretch.range.is_empty() {
                found.push(stretch);
            }
        }
    }
    Ok(joined(found, Mode::Merge))
}

/// Sorts ranges; what overlaps in one path becomes one range. Ranges of a merge are told apart by
/// where their tails begin, so only those that agree in it are joined.
pub(super) fn joined(mut stretches: Vec<Stretch>, mode: Mode) -> Vec<Stretch> {
    stretches.sort_by(|one, other| {
        let (one, other) = (&one.range, &other.range);
        one.from.cmp(&other.from).then_with(|| other.to.cmp(&one.to))
    });
    let mut joined: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        match joined.last_mut() {
            Some(last)
                if stretch.range.from < last.range.to
                    && (mode == Mode::Chain || stretch.bound_bytes == last.bound_bytes) =>
            {
                if last.range.to < stretch.range.to {
                    last.range.to = stretch.range.to;
                    last.shown.to = stretch.shown.to;
                }
            }
            _ => joined.push(stretch),
        }
    }
    joined
}

/// One range: its bound values, and what the next component satisfies, all of it.
pub(super) fn stretch(
    candidate: &Candidate<'_>,
    bound: &[Value],
    tails: &[Tail],
) -> Result<Stretch, Error> {
    let template = &candidate.path.template;
    let whole = template.span(bound, &Tail::All).map_err(refused)?;
    let bound_bytes = keyloom_key::Head::BYTES + whole.from.len();
    let mut span = whole;
    for tail in tails {
        span = common(span, template.span(bound, tail).map_err(refused)?);
    }
    let at_head = |packed: &[u8]| {
        let mut key = Vec::with_capacity(keyloom_key::Head::BYTES + packed.len());
        candidate.path.head.write(&mut key);
        key.extend_from_slice(packed);
        key
    };
    Ok(Stretch {
        at: candidate.at,
        range: KeyRange { from: at_head(&span.from), to: at_head(&span.to) },
        bound: bound.len(),
        bound_bytes,
        is_point: bound.len() == candidate.components().len(),
        shown: PlanRange { path: candidate.label(), from: span.from_text, to: span.to_text },
    })
}

/// For each range under the same bound components, what narrows it.
fn tail_choices(binding: &Binding<'_>, branch: &Branch) -> Vec<Vec<Tail>> {
    match binding.tail.and_then(|place| branch.get(place)) {
        None => vec![Vec::new()],
        Some((_, Term::Within(interval))) => vec![interval.tails()],
        Some((_, Term::OneOf(values))) => {
            let only = |value: &Value| {
                let (lower, upper) = (value.clone(), value.clone());
                let (lower, upper) = (Bound::Included(lower), Bound::Included(upper));
                vec![Tail::Range { lower, upper }]
            };
            values.iter().map(only).collect()
        }
    }
}

/// Values of leading components, and which value each term has been given for them.
type Combination<'b> = (Vec<Value>, Vec<(usize, &'b Value)>);

/// A value of a slot, and the term that is given it here for the first time.
type Choice<'b> = (Cow<'b, Value>, Option<(usize, &'b Value)>);

/// Every combination of values that the slots allow.
fn bound_values(binding: &Binding<'_>, branch: &Branch) -> Vec<Vec<Value>> {
    let mut combinations: Vec<Combination<'_>> = vec![(Vec::new(), Vec::new())];
    for (slot, (component, _)) in binding.slots.iter().zip(binding.candidate.components()) {
        let mut next = Vec::with_capacity(combinations.len());
        for (bound, given) in combinations {
            for (value, term) in choices(slot, branch, &given) {
                let mut bound = bound.clone();
                bound.push(match slot {
                    Slot::Term(_) => component.value_of(&value),
                    Slot::Buckets(_) | Slot::Cut(_) => value.into_owned(),
                });
                let given = given.iter().copied().chain(term).collect();
                next.push((bound, given));
            }
        }
        combinations = next;
    }
    let mut values: Vec<Vec<Value>> = combinations.into_iter().map(|(bound, _)| bound).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The values of a slot; a term that fills two components has the same value in both.
fn choices<'b>(slot: &Slot, branch: &'b Branch, given: &[(usize, &'b Value)]) -> Vec<Choice<'b>> {
    match slot {
        Slot::Cut(text) => vec![(Cow::Owned(Value::Text(text.clone())), None)],
        Slot::Buckets(count) => {
            let buckets = (0..*count).map(|bucket| Value::Unsigned(u64::from(bucket)));
            buckets.map(|bucket| (Cow::Owned(bucket), None)).collect()
        }
        Slot::Term(place) => {
            if let Some((_, value)) = given.iter().find(|(known, _)| known == place) {
                return vec![(Cow::Borrowed(*value), None)];
            }
            match branch.get(*place) {
                Some((_, Term::OneOf(values))) => values
                    .iter()
                    .map(|value| (Cow::Borrowed(value), Some((*place, value))))
                    .collect(),
                _ => Vec::new(),
            }
        }
    }
}

/// What is in both spans.
fn common(one: Span, other: Span) -> Span {
    let (from, from_text) = if one.from < other.from {
        (other.from, other.from_text)
    } else {
        (one.from, one.from_text)
    };
    let (to, to_text) =
        if other.to < one.to { (other.to, other.to_text) } else { (one.to, one.to_text) };
    Span { from, to, from_text, to_text }
}

fn refused(error: PackError) -> Error {
    match error {
        PackError::KeyTooLong { bytes, max } => {
            Error::LimitExceeded { what: "bytes of a key".to_owned(), found: bytes, max }
        }
        other => Error::invalid(other.to_string()),
    }
}
