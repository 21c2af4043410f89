//! Says why a request is refused, and which key would serve it.
//!
//! G1: A suggested template compiles, fits a key and serves the request, together with what is
//!     declared; for a union, together with the ones suggested for its other branches. It is tried
//!     before it is suggested.
//! G2: Where no template could serve the request, nothing is suggested: it is said what to leave
//!     out.

use keyloom_key::{Head, Kind, Order, Space, Template};

use super::Sort;
use super::candidate::{Candidate, building};
use super::choose::serve;
use super::distinct::{Probed, by_probe, ranged_source};
use super::plan::Refusal;
use super::request::{Asked, Request, is_array};
use super::term::{Branch, Term};
use crate::catalog::{Collection, Index, Path, PathState, Source, value_bytes_max};
use crate::error::Error;
use crate::limits::ARRAY_ELEMENTS_MAX;

/// How long texts are cut in a suggestion: two of them fit a key, and people search for less.
const SUGGESTED_CUT: &str = " prefix 100";

/// The bytes of a text of a hundred characters; what may be longer is cut.
const SUGGESTED_BYTES_MAX: usize = 402;

/// A component of a template to suggest.
type Part = (Source, Order);

/// A template to suggest: what the request asks for, and then what the document key needs.
struct Draft {
    parts: Vec<Part>,
    /// How many parts the request asks for; they give the template its name.
    leading: usize,
}

/// The refusal of a request that no ready path serves.
pub(super) fn refuse(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branches: &[Branch],
) -> Refusal {
    if !request.matchers.is_empty() {
        return refuse_matchers(collection, request);
    }
    let unfinished = building(collection);
    let served = |extra: &[Candidate<'_>]| {
        let all: Vec<Candidate<'_>> = candidates.iter().chain(extra).copied().collect();
        matches!(serve(collection, &all, request, branches), Ok(Some(_)))
    };
    if let Some(path) = unfinished.iter().find(|path| served(std::slice::from_ref(*path))) {
        let reason = format!("`{}` would, but is still being built", path.label());
        return Refusal::NoIndex { reason, suggest: None, keys_per_write: 1 };
    }
    let drafts = drafts(collection, candidates, request, branches);
    // Branches that ask for the same fields are served by the same template.
    let mut spelled: Vec<(usize, String)> = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let text = spell(collection, draft);
        if spelled.iter().all(|(_, known)| *known != text) {
            spelled.push((place, text));
        }
    }
    let indexes: Option<Vec<Index>> =
        spelled.iter().map(|(_, text)| imagine(collection, text)).collect();
    let indexes = indexes.unwrap_or_default();
    let imagined: Vec<Candidate<'_>> = indexes
        .iter()
        .enumerate()
        .map(|(place, index)| Candidate::imagined(collection, place, index))
        .collect();
    if !served(&imagined) {
        return Refusal::Invalid(Error::invalid(unservable(collection, request, branches)));
    }
    // What is declared already is not needed.
    let mut kept: Vec<usize> = (0..imagined.len()).collect();
    for place in 0..imagined.len() {
        let others: Vec<Candidate<'_>> = kept
            .iter()
            .filter(|kept| **kept != place)
            .filter_map(|kept| imagined.get(*kept).copied())
            .collect();
        if served(&others) {
            kept.retain(|kept| *kept != place);
        }
    }
    let missing = kept.first().copied().unwrap_or_default();
    let Some((place, suggest)) = spelled.into_iter().nth(missing) else {
        return Refusal::Invalid(Error::invalid(unservable(collection, request, branches)));
    };
    let branch = branches.get(place).or(branches.first());
    let (Some(draft), Some(branch)) = (drafts.get(place), branch) else {
        return Refusal::Invalid(Error::invalid(unservable(collection, request, branches)));
    };
    Refusal::NoIndex {
        reason: reason(collection, request, branch, &draft.parts),
        suggest: Some(suggest),
        keys_per_write: keys_per_write(collection, &draft.parts),
    }
}

/// The templates that together would serve the request.
fn drafts(
    collection: &Collection,
    candidates: &[Candidate<'_>],
    request: &Request,
    branches: &[Branch],
) -> Vec<Draft> {
    let (Some(group), [branch]) = (request.distinct, branches) else {
        return branches
            .iter()
            .map(|branch| draft(collection, request, branch, branches))
            .collect();
    };
    let Some(ranged) = ranged_source(branch).filter(|ranged| *ranged != group) else {
        return vec![draft(collection, request, branch, branches)];
    };
    let along = match by_probe(collection, candidates, branch, request, group) {
        // The second path has to follow the first one in all that comes after the range.
        Ok(Probed::Unanswered(first)) => {
            let parts = first.candidate.components();
            let parts: Vec<Part> =
                parts.map(|(component, source)| (source, component.order)).collect();
            Draft { leading: first.slots.len() + 2, parts }
        }
        _ => {
            let mut along = equalities(branch, &[]);
            along.push((ranged, order_of(request, ranged)));
            along.push((group, Order::Ascending));
            with_key(collection, along, 0)
        }
    };
    let bound = along.parts.iter().position(|(source, _)| *source == ranged).unwrap_or_default();
    let mut second: Vec<Part> = along.parts.iter().take(bound).copied().collect();
    second.push((group, Order::Ascending));
    second.extend(along.parts.iter().skip(bound).filter(|(source, _)| *source != group).copied());
    vec![Draft { leading: bound + 2, parts: second }, along]
}

/// Equalities, then the group, then the range, then the order, then what the document key needs.
fn draft(
    collection: &Collection,
    request: &Request,
    branch: &Branch,
    branches: &[Branch],
) -> Draft {
    let ordered = match request.asked {
        Asked::By(source, _) => Some(source),
        Asked::Any | Asked::Key(_) => None,
    };
    let fixed = super::fit::fixed(branches);
    let ordered = ordered.filter(|source| !fixed.contains(source));
    let mut apart: Vec<Source> = ordered.into_iter().chain(request.distinct).collect();
    if branches.len() > 1 && apart.is_empty() && ranged_source(branch).is_none() {
        // A union without an order is merged by the keys: what they begin with stays in the tail.
        let key = collection.key.sources.iter();
        apart.extend(key.into_iter().find(|source| !fixed.contains(source)));
    }
    let mut parts = equalities(branch, &apart);
    let bound = parts.len();
    let push = |parts: &mut Vec<Part>, source: Source| {
        if !parts.iter().skip(bound).any(|(known, _)| *known == source) {
            parts.push((source, order_of(request, source)));
        }
    };
    request.distinct.iter().for_each(|group| push(&mut parts, *group));
    ranged_source(branch).iter().for_each(|ranged| push(&mut parts, *ranged));
    ordered.iter().for_each(|source| push(&mut parts, *source));
    // Tails of a union have to have the same shape, so each holds the whole key.
    with_key(collection, parts, if branches.len() > 1 { bound } else { 0 })
}

/// Adds the fields of the document key that do not stand behind the first `bound` parts yet.
fn with_key(collection: &Collection, mut parts: Vec<Part>, bound: usize) -> Draft {
    let leading = parts.len();
    let key = collection.key.template.components().iter().zip(&collection.key.sources);
    for (component, source) in key {
        if !parts.iter().skip(bound).any(|(known, _)| known == source) {
            parts.push((*source, component.order));
        }
    }
    Draft { parts, leading }
}

fn equalities(branch: &Branch, apart: &[Source]) -> Vec<Part> {
    let equal = branch.iter().filter(|(_, term)| matches!(term, Term::OneOf(_)));
    let equal = equal.filter(|(source, _)| !apart.contains(source));
    equal.map(|(source, _)| (*source, Order::Ascending)).collect()
}

fn order_of(request: &Request, source: Source) -> Order {
    match request.asked {
        Asked::By(asked, Sort::Descending) if asked == source => Order::Descending,
        _ => Order::Ascending,
    }
}

/// The text of a template: the collection, the fields that lead, and then all components.
fn spell(collection: &Collection, Draft { parts, leading }: &Draft) -> String {
    let name = |source: Source| collection.source_name(source);
    let leading = parts.iter().take(*leading).map(|(source, _)| name(*source));
    let leading: Vec<&str> = leading.map(|name| name.trim_start_matches('@')).collect();
    let mut text = format!("{}:{}", collection.name, leading.join("_"));
    for (source, order) in parts {
        let each = if is_array(collection, *source) { "[]" } else { "" };
        let order = if *order == Order::Descending { " desc" } else { "" };
        let cut = if needs_cut(collection, *source) { SUGGESTED_CUT } else { "" };
        text.push_str(&format!(":{{{}{each}{cut}{order}}}", name(*source)));
    }
    text
}

/// Whether the values of a source may be too long for a key as a whole. The fields of the document
/// key never are.
fn needs_cut(collection: &Collection, source: Source) -> bool {
    let in_key = collection.key.sources.contains(&source);
    let text = collection.source_kind(source) == Some(&Kind::Text);
    let bytes = value_bytes_max(collection, source);
    text && !in_key && bytes.is_none_or(|bytes| bytes > SUGGESTED_BYTES_MAX)
}

/// The index as if it were declared.
fn imagine(collection: &Collection, text: &str) -> Option<Index> {
    let kind_of = |name: &str| collection.source_kind(collection.source(name)?).cloned();
    let template = Template::compile(text, &kind_of).ok()?;
    let components = template.components().iter();
    let sources: Option<Vec<Source>> =
        components.map(|component| collection.source(&component.field)).collect();
    let sources = sources?;
    let held = |wanted: &Source| sources.iter().position(|source| source == wanted);
    let key_from: Option<Vec<usize>> = collection.key.sources.iter().map(held).collect();
    let head = Head { space: Space::Index, collection: collection.id, template: u16::MAX };
    let path =
        Path { name: "suggested".to_owned(), template, head, sources, state: PathState::Ready };
    Some(Index { path, when: Vec::new(), include: Vec::new(), key_from: key_from? })
}

fn keys_per_write(collection: &Collection, parts: &[Part]) -> u32 {
    let arrays = parts.iter().filter_map(|(source, _)| match source {
        Source::Field(field) => collection.fields.get(*field).filter(|field| field.array),
        Source::CreatedAt | Source::UpdatedAt | Source::Owner => None,
    });
    let elements = arrays.map(|field| {
        let bound = field.elements.and_then(|elements| elements.max);
        bound.unwrap_or(ARRAY_ELEMENTS_MAX)
    });
    elements.max().map_or(1, |elements| u32::try_from(elements).unwrap_or(u32::MAX))
}

fn reason(collection: &Collection, request: &Request, branch: &Branch, parts: &[Part]) -> String {
    let quoted = |source: Source| format!("`{}`", collection.source_name(source));
    let mut wanted = Vec::new();
    let equal: Vec<String> =
        equalities(branch, &[]).into_iter().map(|(source, _)| quoted(source)).collect();
    if !equal.is_empty() {
        wanted.push(format!("begins with {}", equal.join(", ")));
    }
    wanted.extend(request.distinct.map(|group| format!("has the groups of {}", quoted(group))));
    wanted.extend(ranged_source(branch).map(|ranged| format!("has {} in order", quoted(ranged))));
    match request.asked {
        Asked::Any => {}
        Asked::By(source, Sort::Ascending) => {
            wanted.push(format!("is in the order of {}", quoted(source)));
        }
        Asked::By(source, Sort::Descending) => {
            wanted.push(format!("is in the descending order of {}", quoted(source)));
        }
        Asked::Key(_) => wanted.push("is in the order of the document key".to_owned()),
    }
    let mut reason = format!("none that is declared {}", wanted.join(" and then "));
    let unbounded = parts.iter().filter(|(source, _)| is_unbounded(collection, *source));
    for (source, _) in unbounded {
        let name = collection.source_name(*source);
        reason.push_str(&format!("; `{name}` first needs length = {{ max = N }}"));
    }
    reason
}

/// Whether keys cannot hold a field because nothing bounds its text.
fn is_unbounded(collection: &Collection, source: Source) -> bool {
    let bound = match source {
        Source::Field(field) => collection.fields.get(field).and_then(|field| field.length?.max),
        Source::CreatedAt | Source::UpdatedAt | Source::Owner => None,
    };
    bound.is_none() && collection.source_kind(source) == Some(&Kind::Text)
}

/// Why no key at all could serve the request (G2).
fn unservable(collection: &Collection, request: &Request, branches: &[Branch]) -> String {
    let quoted = |sources: &[Source]| {
        let names = sources.iter().map(|source| format!("`{}`", collection.source_name(*source)));
        names.collect::<Vec<_>>().join(" and ")
    };
    let what_else = match request.distinct {
        None => "leave something out, or allow a scan",
        Some(_) => "leave something out",
    };
    for branch in branches {
        let ranged: Vec<Source> = branch
            .iter()
            .filter(|(_, term)| matches!(term, Term::Within(_)))
            .map(|(source, _)| *source)
            .collect();
        let arrays: Vec<Source> = branch
            .iter()
            .filter(|(source, _)| is_array(collection, *source))
            .map(|(source, _)| *source)
            .collect();
        if ranged.len() > 1 {
            return format!("ranges of {}: keys have one range; {what_else}", quoted(&ranged));
        }
        if arrays.len() > 1 {
            return format!("the arrays {}: keys hold one array; {what_else}", quoted(&arrays));
        }
        if let (Some(range), Asked::By(order, _)) = (ranged.first(), request.asked)
            && *range != order
        {
            return format!(
                "a range of {} in the order of {}: keys are in one order only; {what_else}",
                quoted(&[*range]),
                quoted(&[order])
            );
        }
    }
    if let (Some(group), Asked::By(order, _)) = (request.distinct, request.asked)
        && group != order
    {
        return format!(
            "distinct {} in the order of {}: groups come in the order of their own field, or of \
             the field that a range is asked of",
            quoted(&[group]),
            quoted(&[order])
        );
    }
    format!("no key could serve this query: {what_else}")
}

/// What is asked by expression is in no key as such.
fn refuse_matchers(collection: &Collection, request: &Request) -> Refusal {
    let what = match (&request.matchers.description, &request.matchers.key) {
        (Some(_), _) => "a description stands in no key".to_owned(),
        (None, Some(regex)) => {
            format!("no single range holds the keys that match {:?}", regex.as_str())
        }
        (None, None) => "an expression".to_owned(),
    };
    let key: String = with_key(collection, Vec::new(), 0)
        .parts
        .iter()
        .map(|(source, _)| format!(":{{{}}}", collection.source_name(*source)))
        .collect();
    Refusal::NoIndex {
        reason: format!(
            "{what}: put what you look for into a field of its own, here `topic`, or allow a scan"
        ),
        suggest: Some(format!("{}:topic:{{topic}}{key}", collection.name)),
        keys_per_write: 1,
    }
}
