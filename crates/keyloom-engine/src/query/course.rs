//! What a plan does, step by step: the ranges, how they are run, and what is done with their keys.
//!
//! C1: The ranges of a chain belong to one path, ascend, and do not overlap.
//! C2: The ranges of a merge have tails of the same shape: what follows their bound components.
//! C3: No range is empty.

use std::borrow::Cow;
use std::ops::Bound;

use keyloom_key::{Head, PackError, Span, Tail, Value};
use keyloom_store::{Direction, KeyRange};

use super::Plan;
use super::candidate::{Candidate, PathRef};
use super::distinct::Probe;
use super::filter::Residue;
use super::fit::{Binding, Slot};
use super::term::{Branch, Term};
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
    /// The length of a key up to the end of what is bound.
    pub(crate) bound_bytes: usize,
    /// Whether all components are bound, so that `range.from` is the only key.
    pub(crate) is_point: bool,
    extent: Extent,
    /// Whose end it has, if it was joined with a range that reaches further.
    end: Option<Extent>,
}

/// What a range holds: all keys with these leading values whose next component satisfies all of
/// the tails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) bound: Vec<Value>,
    pub(super) tails: Vec<Tail>,
}

/// Whether the ranges of a plan run one after the other.
pub(crate) fn is_chain(plan: &Plan) -> bool {
    plan.course.mode == Mode::Chain
}

impl Stretch {
    /// How many components are bound.
    pub(crate) fn bound(&self) -> usize {
        self.extent.bound.len()
    }

    /// Whether a key begins with what is bound.
    pub(crate) fn binds(&self, key: &[u8]) -> bool {
        self.range.from.get(..self.bound_bytes).is_some_and(|bound| key.starts_with(bound))
    }

    /// What follows the bound components in a key of this range.
    pub(crate) fn tail<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.bound_bytes..).unwrap_or_default()
    }

    /// The key of this range with the given tail.
    pub(crate) fn key_with(&self, tail: &[u8]) -> Vec<u8> {
        let bound = self.range.from.get(..self.bound_bytes).unwrap_or_default();
        [bound, tail].concat()
    }

    /// Where it begins and ends, for people.
    pub(super) fn spell(&self, candidate: &Candidate<'_>) -> (String, String) {
        let (from, to) = self.extent.spell(candidate);
        let further = self.end.as_ref().map(|end| end.spell(candidate).1);
        (from, further.unwrap_or(to))
    }
}

impl Extent {
    fn spell(&self, candidate: &Candidate<'_>) -> (String, String) {
        let Extent { bound, tails } = self;
        let template = &candidate.path.template;
        let spelled = |tail: &Tail| {
            let ends = template.spell_span(bound, tail);
            let span = template.span(bound, tail);
            let known = "it was packed when the plan was made";
            (span.expect(known), ends.expect(known))
        };
        let (mut span, (mut from, mut to)) = spelled(&Tail::All);
        for tail in tails {
            let (other, (other_from, other_to)) = spelled(tail);
            if span.from < other.from {
                (span.from, from) = (other.from, other_from);
            }
            if other.to < span.to {
                (span.to, to) = (other.to, other_to);
            }
        }
        (from, to)
    }
}

/// The ranges of a binding, in ascending order.
pub(super) fn stretches(binding: &Binding<'_>, branch: &Branch) -> Result<Vec<Stretch>, Error> {
    let tails = tail_choices(binding, branch);
    let mut found: Vec<Stretch> = Vec::with_capacity(binding.ranges);
    for bound in bound_values(binding, branch) {
        for (bound, tails) in std::iter::repeat_n(bound, tails.len()).zip(&tails) {
            let extent = Extent { bound, tails: tails.clone() };
            let stretch = stretch(&binding.candidate, extent)?;
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
    if stretches.len() < 2 {
        return stretches;
    }
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
                    last.end = Some(stretch.end.unwrap_or(stretch.extent));
                }
            }
            _ => joined.push(stretch),
        }
    }
    joined
}

/// One range.
pub(super) fn stretch(candidate: &Candidate<'_>, extent: Extent) -> Result<Stretch, Error> {
    let Extent { bound, tails } = &extent;
    let template = &candidate.path.template;
    let Span { mut from, mut to } = template.span(bound, &Tail::All).map_err(refused)?;
    let bound_bytes = Head::BYTES + from.len();
    for tail in tails {
        let span = template.span(bound, tail).map_err(refused)?;
        from = from.max(span.from);
        to = to.min(span.to);
    }
    let at_head = |packed: &[u8]| {
        let mut key = Vec::with_capacity(Head::BYTES + packed.len());
        candidate.path.head.write(&mut key);
        key.extend_from_slice(packed);
        key
    };
    Ok(Stretch {
        at: candidate.at,
        range: KeyRange { from: at_head(&from), to: at_head(&to) },
        bound_bytes,
        is_point: bound.len() == candidate.components().len(),
        extent,
        end: None,
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
    // Most queries leave no choice.
    if let Some(values) = only_values(binding, branch) {
        return vec![values];
    }
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

/// The one combination of values that the slots allow, if they allow no other.
fn only_values(binding: &Binding<'_>, branch: &Branch) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(binding.slots.len());
    for (slot, (component, _)) in binding.slots.iter().zip(binding.candidate.components()) {
        values.push(match slot {
            Slot::Term(place) => component.value_of(branch.get(*place)?.1.single()?),
            Slot::Cut(text) => Value::Text(text.clone()),
            Slot::Buckets(_) => return None,
        });
    }
    Some(values)
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

fn refused(error: PackError) -> Error {
    match error {
        PackError::KeyTooLong { bytes, max } => {
            Error::LimitExceeded { what: "bytes of a key".to_owned(), found: bytes, max }
        }
        other => Error::invalid(other.to_string()),
    }
}
