//! The first document of each group.
//!
//! ```text
//! groups   [equal …][group …]…          one seek per group: after a key, jump behind its group
//! probe    [equal …][range][group]…     each key asks a second path, [equal …][group][range]…,
//!                                       whether the group has an earlier key in the range
//! ```
//!
//! D1: A probe needs no memory of earlier pages: a key is the first of its group in the whole
//!     range, or it is not.
//! D2: Both paths of a probe order the keys of one group alike: by the range's component, then by
//!     all that follows in the same sequence.

use keyloom_store::{Direction, KeyRange, ScanOptions};

use super::candidate::{Candidate, is_whole};
use super::course::{Course, Mode, Stretch, joined, stretches};
use super::element::Elements;
use super::execute::Reader;
use super::fit::{Aim, Alone, Binding, Until, bind};
use super::request::{Asked, Request};
use super::term::{Branch, Term};
use crate::catalog::{Collection, Source};
use crate::error::Error;

/// How a key is known to be the first of its group.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// The path that is asked.
    pub(crate) label: String,
    /// Its key up to the group.
    lead: Vec<u8>,
    group: Source,
    /// What turns the group's element in one path into the one in the other: they may run in
    /// opposite orders, and then are complements.
    mask: u8,
}

/// A course by seeking from group to group.
pub(super) fn by_groups(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    branches: &[Branch],
    (group, asked): (Source, Asked),
) -> Result<Option<Course>, Error> {
    let fixed = super::fit::fixed(branches);
    if !matches!(asked, Asked::Any) && !matches!(asked, Asked::By(source, _) if source == group) {
        return Ok(None);
    }
    // An order by the group itself is never void here: groups of one value are still in order.
    let fixed: Vec<Source> = fixed.into_iter().filter(|source| *source != group).collect();
    let aim = Aim { asked, fixed: &fixed, alone: Alone::No, until: Until::Before(group) };
    let per_branch: Vec<Vec<Binding<'_>>> = branches
        .iter()
        .map(|branch| {
            let bindings =
                candidates.iter().filter_map(|candidate| bind(collection, *candidate, branch, aim));
            let stops_there = |binding: &Binding<'_>| {
                let next = binding.candidate.component(binding.slots.len());
                next.is_some_and(|(component, source)| source == group && is_whole(component))
            };
            bindings.filter(|found| found.left.is_empty() && stops_there(found)).collect()
        })
        .collect();
    let Some(chosen) = super::choose::same_tails(collection, &per_branch, None)? else {
        return Ok(None);
    };
    let Some(direction) = chosen.first().and_then(|binding| binding.merge) else {
        return Ok(None);
    };
    let mut found = Vec::new();
    for (binding, branch) in chosen.iter().zip(branches) {
        found.extend(stretches(binding, branch)?);
    }
    let stretches = joined(found, Mode::Groups);
    Ok(Some(Course { mode: Mode::Groups, direction, stretches, ..Course::empty() }))
}

/// A path with the range before the group, and the second one that can be asked for earlier keys.
pub(super) enum Probed<'a> {
    Course(Course),
    /// There is a first path, but no second one.
    Unanswered(Binding<'a>),
    Unserved,
}

/// A course along a range of another source than the group.
pub(super) fn by_probe<'a>(
    collection: &Collection,
    candidates: &[Candidate<'a>],
    branch: &Branch,
    request: &Request,
    group: Source,
) -> Result<Probed<'a>, Error> {
    let Some(ranged) = ranged_source(branch) else { return Ok(Probed::Unserved) };
    if let Asked::By(source, _) = request.asked
        && source != ranged
    {
        return Ok(Probed::Unserved);
    }
    let fixed = super::fit::fixed(std::slice::from_ref(branch));
    let aim =
        Aim { asked: request.asked, fixed: &fixed, alone: Alone::Yes, until: Until::Exhausted };
    let along = candidates.iter().filter_map(|candidate| bind(collection, *candidate, branch, aim));
    let mut along: Vec<Binding<'_>> = along
        .filter(|found| found.left.is_empty() && found.ranges == 1 && found.chain.is_some())
        .filter(|found| {
            let next = found.candidate.component(found.slots.len());
            next.is_some_and(|(component, source)| source == ranged && is_whole(component))
                && found.candidate.place_of(group).is_some_and(|place| place > found.slots.len())
        })
        .collect();
    along.sort_by_key(|found| super::choose::rank(collection, found, request.select.as_deref()));
    for found in &along {
        let second = candidates
            .iter()
            .find_map(|candidate| answers(collection, *candidate, branch, (found, ranged, group)));
        if let Some(second) = second {
            return probed_course(found, &second, branch, group).map(Probed::Course);
        }
    }
    Ok(along.into_iter().next().map_or(Probed::Unserved, Probed::Unanswered))
}

/// The one source of a branch that is asked for by a range.
pub(super) fn ranged_source(branch: &Branch) -> Option<Source> {
    let mut ranged = branch.iter().filter(|(_, term)| matches!(term, Term::Within(_)));
    match (ranged.next(), ranged.next()) {
        (Some((source, _)), None) => Some(*source),
        _ => None,
    }
}

/// Whether a key of the plan's path is the first of its group in the range.
pub(super) async fn is_first_of_group(
    reader: &mut Reader<'_>,
    course: &Course,
    probe: &Probe,
    stretch: &Stretch,
    key: &[u8],
) -> Result<bool, Error> {
    let Some(candidate) = Candidate::of(reader.collection, stretch.at) else {
        return Err(Error::corrupt("a plan names a path that is not there"));
    };
    let range = earlier_keys(candidate, course.direction, probe, stretch, key)?;
    let options = ScanOptions { direction: Direction::Forward, limit: 1 };
    let mut scan = reader.snapshot.scan(&range, options).await?;
    let found = scan.next(1).await?;
    reader.cost.ranges += 1;
    reader.cost.keys_read += u64::try_from(found.len()).unwrap_or(u64::MAX);
    Ok(found.is_empty())
}

/// The keys of the second path that belong to the same group and range and come earlier.
fn earlier_keys(
    candidate: Candidate<'_>,
    direction: Direction,
    probe: &Probe,
    stretch: &Stretch,
    key: &[u8],
) -> Result<KeyRange, Error> {
    let elements = Elements::of(candidate.path, key)?;
    let place = candidate.place_of(probe.group).expect("by_probe has found it");
    let mut lead = probe.lead.clone();
    lead.extend(elements.get(place).iter().map(|byte| byte ^ probe.mask));
    let mut own = lead.clone();
    for (place, (_, source)) in candidate.components().enumerate().skip(stretch.bound()) {
        if source != probe.group {
            own.extend_from_slice(elements.get(place));
        }
    }
    // D2: the range's component is packed alike in both paths, so its ends can be taken over.
    let end = |end: &[u8]| [lead.as_slice(), end].concat();
    Ok(match direction {
        Direction::Forward => KeyRange { from: end(stretch.tail(&stretch.range.from)), to: own },
        Direction::Reverse => {
            own.push(0xFF);
            KeyRange { from: own, to: end(stretch.tail(&stretch.range.to)) }
        }
    })
}

/// The binding of a second path that can be asked for earlier keys of a group (D2).
fn answers<'a>(
    collection: &Collection,
    candidate: Candidate<'a>,
    branch: &Branch,
    (first, ranged, group): (&Binding<'_>, Source, Source),
) -> Option<Binding<'a>> {
    let aim = Aim { asked: Asked::Any, fixed: &[], alone: Alone::Yes, until: Until::Before(group) };
    let second = bind(collection, candidate, branch, aim)?;
    let only_range_left = second
        .left
        .iter()
        .all(|place| branch.get(*place).is_some_and(|(source, _)| *source == ranged));
    let bound = second.slots.len();
    let (component, source) = candidate.component(bound)?;
    let leads_with_group = source == group && is_whole(component);
    if !only_range_left || second.ranges != 1 || !leads_with_group {
        return None;
    }
    let wanted = first.candidate.tail_shape(first.slots.len());
    let wanted = wanted.filter(|(source, ..)| *source != group);
    candidate.tail_shape(bound + 1).eq(wanted).then_some(second)
}

fn probed_course(
    first: &Binding<'_>,
    second: &Binding<'_>,
    branch: &Branch,
    group: Source,
) -> Result<Course, Error> {
    let asked = stretches(second, branch)?;
    let order = |binding: &Binding<'_>| {
        let place = binding.candidate.place_of(group)?;
        Some(binding.candidate.component(place)?.0.order)
    };
    let mask = if order(first) == order(second) { 0x00 } else { 0xFF };
    let lead = asked.first().map(|stretch| stretch.key_with(&[])).unwrap_or_default();
    Ok(Course {
        direction: first.chain.expect("by_probe takes chains only"),
        stretches: stretches(first, branch)?,
        probe: Some(Probe { label: second.candidate.label(), lead, group, mask }),
        ..Course::empty()
    })
}
