//! How the terms of a branch fit one path: what they bind, what is left over, which orders result.
//!
//! F1: A binding loses no document: every document that satisfies the branch has a key in its
//!     ranges. For that the components that it does not bind must have a value in every document.
//! F2: A term that is not left over is exactly the condition "the key is in the ranges".
//! F3: A document has one key in all ranges together, unless the binding says that it may repeat.

use keyloom_key::{Cut, Each, Order};
use keyloom_store::Direction;

use super::Sort;
use super::candidate::{Candidate, is_whole};
use super::request::Asked;
use super::term::{Branch, Term, is_shorter};
use crate::catalog::{Collection, Source};

/// How a branch fits a path.
#[derive(Clone, Debug)]
pub(super) struct Binding<'a> {
    pub(super) candidate: Candidate<'a>,
    /// What each of the leading components is bound to.
    pub(super) slots: Vec<Slot>,
    /// The term that narrows the component behind them, by its place in the branch.
    pub(super) tail: Option<usize>,
    /// The terms that the ranges do not see to.
    pub(super) left: Vec<usize>,
    /// How many ranges it makes, at most.
    pub(super) ranges: usize,
    /// How many components the terms bind.
    pub(super) score: usize,
    /// The direction in which the ranges, one after the other, come in the order asked for.
    pub(super) chain: Option<Direction>,
    /// The direction in which the ranges, merged by what follows the bound components, do.
    pub(super) merge: Option<Direction>,
    pub(super) repeats: Repeats,
}

/// What a leading component is bound to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slot {
    /// Each value of a term, cut as the component cuts it.
    Term(usize),
    /// Each of so many buckets.
    Buckets(u16),
    /// The beginning of a longer prefix.
    Cut(String),
}

/// Whether a document may have several keys in the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    Never,
    /// One in each of several ranges: different elements of an array were asked for.
    AcrossRanges,
    /// Several in one range: a range over the elements of an array.
    WithinRange,
}

/// What a binding is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'f> {
    pub(super) asked: Asked,
    /// The sources that have one and the same value in all results.
    pub(super) fixed: &'f [Source],
    pub(super) alone: Alone,
    pub(super) until: Until,
}

/// Whether the branch is the only one, so that a single key is in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    Yes,
    No,
}

/// Where binding stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Where the terms end.
    Exhausted,
    /// Before the whole of this source: groups or a merge go by it, whatever is asked of it.
    Before(Source),
}

/// How the branch fits the path; `None` if the path may lack documents that satisfy it.
pub(super) fn bind<'a>(
    collection: &Collection,
    candidate: Candidate<'a>,
    branch: &Branch,
    aim: Aim<'_>,
) -> Option<Binding<'a>> {
    let Aim { asked, fixed, alone, until } = aim;
    let mut used = candidate.admits(branch)?;
    let Walk { mut slots, tail } = walk(candidate, branch, &mut used, until);
    let void = matches!(asked, Asked::By(source, _) if fixed.contains(&source));
    if until == Until::Exhausted && tail.is_none() && (asked == Asked::Any || void) {
        // Buckets at the end narrow nothing; without them it is one range.
        while let Some(Slot::Buckets(_)) = slots.last() {
            slots.pop();
        }
    }
    if !is_complete(collection, candidate, branch, &slots, tail) {
        return None;
    }
    let bound = slots.len();
    if candidate.is_claim() && bound < candidate.components().len() {
        return None;
    }
    let repeats = repeats(candidate, branch, &slots, tail);
    let is_point = bound == candidate.components().len();
    let varying = slots.iter().position(|slot| choices(slot, branch) > 1).unwrap_or(bound);
    let mut ranges: usize =
        distinct_slots(&slots).map(|slot| choices(slot, branch)).fold(1, usize::saturating_mul);
    if let (Until::Before(_), Some((_, Term::OneOf(values)))) =
        (until, tail.and_then(|tail| branch.get(tail)))
    {
        ranges = ranges.saturating_mul(values.len());
    }
    let asked =
        if void || (alone == Alone::Yes && is_point && ranges == 1) { Asked::Any } else { asked };
    let in_order = |place| serves(collection, candidate, place, Aim { asked, ..aim });
    let left = used.iter().enumerate().filter(|(_, used)| !**used).map(|(place, _)| place);
    Some(Binding {
        candidate,
        tail,
        left: left.collect(),
        ranges,
        score: slots.iter().filter(|slot| !matches!(slot, Slot::Buckets(_))).count()
            + usize::from(tail.is_some()),
        chain: in_order(varying).filter(|_| repeats != Repeats::AcrossRanges),
        merge: in_order(bound),
        repeats,
        slots,
    })
}

/// The direction in which keys that agree in the components before `place` come in the order asked
/// for.
pub(super) fn serves(
    collection: &Collection,
    candidate: Candidate<'_>,
    place: usize,
    aim: Aim<'_>,
) -> Option<Direction> {
    match aim.asked {
        Asked::Any => Some(Direction::Forward),
        Asked::By(source, sort) => {
            let (component, filled) = candidate.component(place)?;
            (filled == source && is_whole(component)).then(|| direction(sort, component.order))
        }
        Asked::Key(sort) => {
            let key = collection.key.template.components().iter().zip(&collection.key.sources);
            let open = key.filter(|(_, source)| !aim.fixed.contains(source));
            let mut found = None;
            for (offset, (wanted, source)) in open.enumerate() {
                let (component, filled) = candidate.component(place + offset)?;
                let same = filled == *source && is_whole(component);
                // The key's own component may descend; the path then has to descend with it.
                let sort = if component.order == wanted.order { sort } else { opposite(sort) };
                let own = direction(sort, Order::Ascending);
                if !same || found.is_some_and(|found| found != own) {
                    return None;
                }
                found = Some(own);
            }
            found.or(Some(Direction::Forward))
        }
    }
}

struct Walk {
    slots: Vec<Slot>,
    tail: Option<usize>,
}

/// Binds components from the left for as long as the terms reach.
fn walk(candidate: Candidate<'_>, branch: &Branch, used: &mut [bool], until: Until) -> Walk {
    let mut slots = Vec::with_capacity(candidate.components().len());
    let mut mark = |place: usize| {
        if let Some(used) = used.get_mut(place) {
            *used = true;
        }
    };
    for (component, source) in candidate.components() {
        let place = branch.iter().position(|(asked, _)| *asked == source);
        if until == Until::Before(source) && is_whole(component) {
            place.iter().for_each(|place| mark(*place));
            return Walk { slots, tail: place };
        }
        let term = place.and_then(|place| Some((place, &branch.get(place)?.1)));
        match (term, component.cut) {
            (None | Some((_, Term::Within(_))), Cut::Shard(count)) => {
                slots.push(Slot::Buckets(count));
            }
            (None, Cut::Whole | Cut::Prefix(_)) => break,
            (Some((place, Term::OneOf(values))), cut) => {
                slots.push(Slot::Term(place));
                let decided = match cut {
                    Cut::Whole => true,
                    Cut::Prefix(characters) => {
                        values.iter().all(|value| is_shorter(value, usize::from(characters)))
                    }
                    Cut::Shard(_) => false,
                };
                if decided {
                    mark(place);
                }
            }
            (Some((place, Term::Within(_))), Cut::Whole) => {
                mark(place);
                return Walk { slots, tail: Some(place) };
            }
            (Some((place, Term::Within(interval))), Cut::Prefix(characters)) => {
                if interval.is_decided_by(characters) {
                    mark(place);
                    return Walk { slots, tail: Some(place) };
                }
                let wanted = usize::from(characters);
                let prefix = interval.prefix.as_deref().unwrap_or_default();
                if prefix.chars().count() < wanted {
                    break;
                }
                slots.push(Slot::Cut(prefix.chars().take(wanted).collect()));
            }
        }
    }
    Walk { slots, tail: None }
}

/// Whether every document that satisfies the branch has a key under the path, and not many keys by
/// a component that nothing narrows (F1, F3).
fn is_complete(
    collection: &Collection,
    candidate: Candidate<'_>,
    branch: &Branch,
    slots: &[Slot],
    tail: Option<usize>,
) -> bool {
    let narrowed = slots.len() + usize::from(tail.is_some());
    candidate.components().enumerate().all(|(place, (component, source))| {
        let asked = branch.iter().any(|(asked, _)| *asked == source);
        if component.each == Each::Element {
            return place < narrowed;
        }
        asked || collection.always_present(source)
    })
}

fn repeats(
    candidate: Candidate<'_>,
    branch: &Branch,
    slots: &[Slot],
    tail: Option<usize>,
) -> Repeats {
    let element = candidate.components().position(|(component, _)| component.each == Each::Element);
    match element {
        None => Repeats::Never,
        Some(place) if place == slots.len() && tail.is_some() => Repeats::WithinRange,
        Some(place) => match slots.get(place) {
            Some(slot) if choices(slot, branch) > 1 => Repeats::AcrossRanges,
            _ => Repeats::Never,
        },
    }
}

/// Slots that vary on their own: a source that fills two components is chosen once.
fn distinct_slots(slots: &[Slot]) -> impl Iterator<Item = &Slot> {
    slots.iter().enumerate().filter_map(|(place, slot)| {
        let earlier = slots.iter().take(place);
        let repeated = matches!(slot, Slot::Term(_)) && earlier.into_iter().any(|s| s == slot);
        (!repeated).then_some(slot)
    })
}

fn choices(slot: &Slot, branch: &Branch) -> usize {
    match slot {
        Slot::Term(place) => match branch.get(*place) {
            Some((_, Term::OneOf(values))) => values.len(),
            _ => 1,
        },
        Slot::Buckets(count) => usize::from(*count),
        Slot::Cut(_) => 1,
    }
}

/// The sources that have one and the same value wherever one of the branches holds.
pub(super) fn fixed(branches: &[Branch]) -> Vec<Source> {
    let Some((first, others)) = branches.split_first() else { return Vec::new() };
    let single = first.iter().filter(|(_, term)| term.is_single());
    let common = single.filter(|wanted| others.iter().all(|branch| branch.contains(wanted)));
    common.map(|(source, _)| *source).collect()
}

fn direction(sort: Sort, order: Order) -> Direction {
    match (sort, order) {
        (Sort::Ascending, Order::Ascending) | (Sort::Descending, Order::Descending) => {
            Direction::Forward
        }
        _ => Direction::Reverse,
    }
}

fn opposite(sort: Sort) -> Sort {
    match sort {
        Sort::Ascending => Sort::Descending,
        Sort::Descending => Sort::Ascending,
    }
}
