//! Chooses the plan of a request: pure, and the same for the same catalog and request.
//!
//! A path serves a branch if equalities fill its leading components, the one range sits on the
//! next, nothing is left over, and what follows is in the order asked for or its reverse.
//!
//! P1: Of the paths that serve, the one with the longest bound prefix is taken, then one that
//!     covers the selection, then the one with the fewest components, then the one declared first.
//! P2: Several ranges run one after the other where that is the order; otherwise they are merged,
//!     and then all have tails of the same shape.
//! P3: Only what the caller allowed as a scan leaves conditions to the documents.

use std::cmp::Reverse;
use std::sync::Arc;

use keyloom_key::Each;

use super::candidate::{Candidate, PathRef, candidates};
use super::course::{Course, Mode, joined, stretches};
use super::distinct::{Probed, by_groups, by_probe};
use super::filter::Residue;
use super::fit::{Aim, Alone, Binding, Repeats, Until, bind, fixed, serves};
use super::plan::{Plan, Refusal};
use super::request::{Asked, Request};
use super::suggest;
use super::term::{Branch, Term};
use crate::catalog::{Collection, Source};
use crate::error::Error;
use crate::limits::RANGES_MAX;

/// The plan of a request, or what stands in its way.
pub(crate) fn plan(collection: &Arc<Collection>, request: &Request) -> Result<Plan, Refusal> {
    let branches = request.branches();
    if branches.is_empty() {
        return Ok(Plan::nothing(collection));
    }
    let candidates = candidates(collection);
    let mut course = None;
    if request.matchers.is_empty() {
        course = serve(collection, &candidates, request, &branches)?;
    }
    if let (None, Some(budget), None) = (&course, request.scan, request.distinct) {
        course = scan(collection, &candidates, request, budget)?;
    }
    let Some(mut course) = course else {
        return Err(suggest::refuse(collection, &candidates, request, &branches));
    };
    let select = request.select.as_deref();
    // Documents are needed to test them, whatever the keys hold.
    let by_keys = course.residue.is_none() && !course.once;
    let covers = |at| Candidate::of(collection, at).is_some_and(|c| c.covers(collection, select));
    let covering = by_keys
        && !course.stretches.is_empty()
        && course.stretches.iter().all(|stretch| covers(stretch.at));
    course.select.clone_from(&request.select);
    Ok(Plan::new(collection, course, request.limit, covering))
}

/// A course that answers the request from keys alone.
pub(super) fn serve(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branches: &[Branch],
) -> Result<Option<Course>, Error> {
    match (request.distinct, branches) {
        (None, [branch]) => serve_one(collection, candidates, request, branch),
        (None, _) => match chain_any(collection, candidates, request, branches)? {
            Some(course) => Ok(Some(course)),
            None => merge_any(collection, candidates, request, branches),
        },
        (Some(group), _) => {
            let course = by_groups(collection, candidates, branches, (group, request.asked))?;
            match (course, branches) {
                (None, [branch]) => match by_probe(collection, candidates, branch, request, group)?
                {
                    Probed::Course(course) => Ok(Some(course)),
                    Probed::Unanswered(_) | Probed::Unserved => Ok(None),
                },
                (course, _) => Ok(course),
            }
        }
    }
}

/// What P1 goes by; the smallest is the best.
pub(super) type Rank = (Reverse<usize>, Reverse<bool>, usize, PathRef);

pub(super) fn rank(
    collection: &Collection,
    binding: &Binding<'_>,
    select: Option<&[Source]>,
) -> Rank {
    let candidate = &binding.candidate;
    // The keys of documents lead to the whole document at no further cost.
    let covers = candidate.is_document_key() || candidate.covers(collection, select);
    (Reverse(binding.score), Reverse(covers), candidate.components().len(), candidate.at)
}

/// For each branch the best binding, all with tails of one shape and direction.
pub(super) fn same_tails<'b, 'a>(
    collection: &Collection,
    per_branch: &'b [Vec<Binding<'a>>],
    select: Option<&[Source]>,
) -> Result<Option<Vec<&'b Binding<'a>>>, Error> {
    let shape = |binding: &Binding<'a>| binding.candidate.tail_shape(binding.slots.len());
    let Some((first, others)) = per_branch.split_first() else { return Ok(None) };
    let mut best: Option<(Vec<Rank>, Vec<&Binding<'a>>)> = None;
    let mut ranges_fewest = None;
    for lead in first.iter().filter(|lead| lead.merge.is_some()) {
        let mut chosen = Vec::with_capacity(per_branch.len());
        chosen.push(lead);
        for bindings in others {
            let fitting = bindings
                .iter()
                .filter(|binding| binding.merge == lead.merge && shape(binding).eq(shape(lead)));
            chosen.extend(fitting.min_by_key(|binding| rank(collection, binding, select)));
        }
        if chosen.len() < per_branch.len() {
            continue;
        }
        let ranges = chosen.iter().map(|binding| binding.ranges).fold(0, usize::saturating_add);
        ranges_fewest = Some(ranges_fewest.unwrap_or(usize::MAX).min(ranges));
        let ranks: Vec<Rank> =
            chosen.iter().map(|binding| rank(collection, binding, select)).collect();
        if ranges <= RANGES_MAX && best.as_ref().is_none_or(|(known, _)| ranks < *known) {
            best = Some((ranks, chosen));
        }
    }
    match (best, ranges_fewest) {
        (Some((_, chosen)), _) => Ok(Some(chosen)),
        (None, None) => Ok(None),
        (None, Some(found)) => Err(too_many_ranges(found)),
    }
}

fn serve_one(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branch: &Branch,
) -> Result<Option<Course>, Error> {
    let fixed = fixed(std::slice::from_ref(branch));
    let aims = aims(request, std::slice::from_ref(branch), &fixed, Alone::Yes);
    let serving = serving(collection, candidates, branch, &aims);
    match best(collection, serving, request.select.as_deref())? {
        Some(binding) => course_of(&binding, branch).map(Some),
        None => Ok(None),
    }
}

/// The ways to bind paths for a request: as far as the terms reach, or up to a field whose values
/// are asked for but have to stay in the tail, for the order or for the tails to agree.
fn aims<'f>(
    request: &Request,
    branches: &[Branch],
    fixed: &'f [Source],
    alone: Alone,
) -> Vec<Aim<'f>> {
    let whole = Aim { asked: request.asked, fixed, alone, until: Until::Exhausted };
    let is_asked_for = |wanted| branches.iter().flatten().any(|(source, _)| *source == wanted);
    let mut before: Vec<Source> = match request.asked {
        Asked::By(source, _) if is_asked_for(source) => vec![source],
        Asked::By(..) | Asked::Any | Asked::Key(_) => Vec::new(),
    };
    if alone == Alone::No {
        let listed = branches.iter().flatten().filter(|(_, term)| matches!(term, Term::OneOf(_)));
        for (source, _) in listed {
            if !fixed.contains(source) && !before.contains(source) {
                before.push(*source);
            }
        }
    }
    let before = before.into_iter().map(|source| Aim { until: Until::Before(source), ..whole });
    std::iter::once(whole).chain(before).collect()
}

/// The bindings that leave no term over.
fn serving<'a>(
    collection: &Collection,
    candidates: &[Candidate<'a>],
    branch: &Branch,
    aims: &[Aim<'_>],
) -> impl Iterator<Item = Binding<'a>> {
    // Most paths know nothing of what is asked: that is seen before they are bound.
    let knowing = candidates.iter().filter(|candidate| candidate.concerns_all(branch));
    bindings(collection, knowing, branch, aims).filter(|binding| binding.left.is_empty())
}

fn bindings<'a: 'c, 'c>(
    collection: &Collection,
    candidates: impl Iterator<Item = &'c Candidate<'a>> + Clone,
    branch: &Branch,
    aims: &[Aim<'_>],
) -> impl Iterator<Item = Binding<'a>> {
    let pairs = aims.iter().flat_map(move |aim| candidates.clone().map(move |path| (path, aim)));
    pairs.filter_map(move |(path, aim)| bind(collection, *path, branch, *aim))
}

/// The best binding that brings the order asked for.
fn best<'a>(
    collection: &Collection,
    bindings: impl Iterator<Item = Binding<'a>>,
    select: Option<&[Source]>,
) -> Result<Option<Binding<'a>>, Error> {
    let mut excessive = None;
    let ordered = bindings.filter(|found| found.chain.is_some() || found.merge.is_some());
    let fitting = ordered.filter(|binding| {
        let fits = binding.ranges <= RANGES_MAX;
        if !fits {
            excessive = Some(excessive.unwrap_or(usize::MAX).min(binding.ranges));
        }
        fits
    });
    let found = fitting.min_by_key(|binding| rank(collection, binding, select));
    match (found, excessive) {
        (None, Some(found)) => Err(too_many_ranges(found)),
        (found, _) => Ok(found),
    }
}

fn course_of(binding: &Binding<'_>, branch: &Branch) -> Result<Course, Error> {
    let stretches = stretches(binding, branch)?;
    let (mode, direction) = match (binding.chain, binding.merge) {
        (Some(direction), _) => (Mode::Chain, direction),
        (None, Some(direction)) if stretches.len() < 2 => (Mode::Chain, direction),
        (None, direction) => (Mode::Merge, direction.expect("`best` has seen to an order")),
    };
    Ok(Course {
        mode,
        direction,
        stretches,
        once: binding.repeats == Repeats::WithinRange,
        repeats: binding.repeats == Repeats::AcrossRanges,
        ..Course::empty()
    })
}

/// A union whose ranges lie in one path and run one after the other.
fn chain_any(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branches: &[Branch],
) -> Result<Option<Course>, Error> {
    let fixed = fixed(branches);
    let aim =
        Aim { asked: request.asked, fixed: &fixed, alone: Alone::No, until: Until::Exhausted };
    for candidate in candidates {
        // Branches may ask for different elements of the same array.
        if candidate.components().any(|(component, _)| component.each == Each::Element) {
            continue;
        }
        if !branches.iter().all(|branch| candidate.concerns_all(branch)) {
            continue;
        }
        let order = Aim { fixed: &[], ..aim };
        let Some(direction) = serves(collection, *candidate, 0, order) else { continue };
        let bindings: Option<Vec<Binding<'_>>> = branches
            .iter()
            .map(|branch| {
                let binding = bind(collection, *candidate, branch, aim);
                binding.filter(|binding| binding.left.is_empty())
            })
            .collect();
        let Some(bindings) = bindings else { continue };
        let ranges = bindings.iter().map(|binding| binding.ranges).fold(0, usize::saturating_add);
        if ranges > RANGES_MAX {
            continue;
        }
        let mut found = Vec::with_capacity(ranges);
        for (binding, branch) in bindings.iter().zip(branches) {
            found.extend(stretches(binding, branch)?);
        }
        let stretches = joined(found, Mode::Chain);
        return Ok(Some(Course { direction, stretches, ..Course::empty() }));
    }
    Ok(None)
}

/// A union whose ranges are merged by their tails.
fn merge_any(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branches: &[Branch],
) -> Result<Option<Course>, Error> {
    let fixed = fixed(branches);
    let aims = aims(request, branches, &fixed, Alone::No);
    let per_branch: Vec<Vec<Binding<'_>>> = branches
        .iter()
        .map(|branch| serving(collection, candidates, branch, &aims).collect())
        .collect();
    let Some(chosen) = same_tails(collection, &per_branch, request.select.as_deref())? else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for (binding, branch) in chosen.iter().zip(branches) {
        found.extend(stretches(binding, branch)?);
    }
    let direction = chosen.first().and_then(|binding| binding.merge);
    let stretches = joined(found, Mode::Merge);
    Ok(Some(Course {
        mode: if stretches.len() > 1 { Mode::Merge } else { Mode::Chain },
        direction: direction.expect("`same_tails` compares directions"),
        stretches,
        once: chosen.iter().any(|binding| binding.repeats == Repeats::WithinRange),
        repeats: true,
        ..Course::empty()
    }))
}

/// A scan along the path that narrows best and is in order; the rest is left to the documents.
fn scan(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    budget: usize,
) -> Result<Option<Course>, Error> {
    let Some(filter) = &request.filter else { return Ok(None) };
    let fixed = fixed(std::slice::from_ref(filter));
    let aims = aims(request, std::slice::from_ref(filter), &fixed, Alone::Yes);
    let bindings = bindings(collection, candidates.iter(), filter, &aims);
    let Some(binding) = best(collection, bindings, None)? else { return Ok(None) };
    let left = binding.left.iter().filter_map(|place| filter.get(*place).cloned());
    let residue = Residue {
        all: left.collect(),
        // With the filter, not beside it: of an array, one element has to pass both.
        any: request.any.as_ref().map(|_| request.branches().into_owned()),
        matchers: request.matchers.clone(),
    };
    let course = course_of(&binding, filter)?;
    if course.mode == Mode::Merge && budget <= course.stretches.len() {
        // Each range is read one key ahead: with less, a page would never get on.
        return Err(Error::invalid(format!(
            "scan = {budget} is too little: it reads {} ranges side by side",
            course.stretches.len()
        )));
    }
    Ok(Some(Course { residue: Some((residue, budget)), ..course }))
}

fn too_many_ranges(found: usize) -> Error {
    Error::LimitExceeded { what: "ranges of a query".to_owned(), found, max: RANGES_MAX }
}
