//! From a query as it is asked to a request with types: names resolved, values read, limits held.
//!
//! T1: A value that its field can never have is an error, so that a misspelt word or a malformed
//!     identity is not taken for an empty result. Names are the exception: what people type as a
//!     name is text, and text that is no name matches nothing.

use std::borrow::Cow;
use std::ops::Bound;

use keyloom_key::{Kind, Value};
use serde_json::Value as Json;

use super::filter::Matchers;
use super::term::{Branch, Term, narrow};
use super::{Filter, OrderBy, Query, Sort, Test};
use crate::access::Reach;
use crate::catalog::{CREATED_AT, Collection, OWNER, Source, UPDATED_AT, scalar};
use crate::error::Error;
use crate::limits::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, RANGES_MAX, SCAN_BUDGET_MAX};

/// What is asked, with types.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// What every result satisfies; `None` if nothing can.
    pub(crate) filter: Option<Branch>,
    /// What every result satisfies one of; what nothing can satisfy is left out.
    pub(crate) any: Option<Vec<Branch>>,
    pub(crate) asked: Asked,
    pub(crate) distinct: Option<Source>,
    pub(crate) select: Option<Vec<Source>>,
    pub(crate) limit: usize,
    pub(crate) scan: Option<usize>,
    /// What no key can answer: expressions of the list matcher.
    pub(crate) matchers: Matchers,
}

/// The order that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// None: whatever the path brings.
    Any,
    /// By one source.
    By(Source, Sort),
    /// By the document key.
    Key(Sort),
}

impl Request {
    /// Reads a query.
    pub(crate) fn read(collection: &Collection, query: &Query) -> Result<Request, Error> {
        let Query { filter, any, order, limit, after: _, distinct, select, scan } = query;
        let request = Request {
            filter: read_filter(collection, filter)?,
            any: match any.as_slice() {
                [] => None,
                any if any.len() > RANGES_MAX => {
                    let what = "alternatives of `any`".to_owned();
                    return Err(Error::LimitExceeded { what, found: any.len(), max: RANGES_MAX });
                }
                any => {
                    let branches: Result<Vec<_>, _> =
                        any.iter().map(|filter| read_filter(collection, filter)).collect();
                    Some(branches?.into_iter().flatten().collect())
                }
            },
            asked: match order {
                None => Asked::Any,
                Some(OrderBy { field, direction }) => {
                    Asked::By(sortable(collection, field, "order")?, *direction)
                }
            },
            distinct: match distinct {
                None => None,
                Some(field) => Some(sortable(collection, field, "distinct")?),
            },
            select: match select {
                None => None,
                Some(names) => Some(read_select(collection, names)?),
            },
            limit: check_limit(*limit)?,
            scan: check_scan(*scan)?,
            matchers: Matchers::default(),
        };
        request.check_arrays(collection)?;
        request.check_presence(collection)?;
        Ok(request)
    }

    /// The same request, for the documents within a caller's reach.
    pub(crate) fn within(&self, reach: &Reach) -> Request {
        let mut request = self.clone();
        match reach {
            Reach::All => {}
            Reach::Nothing => request.filter = None,
            Reach::Own(terms) => match terms.as_slice() {
                [(source, term)] => {
                    let filter = request.filter.take();
                    request.filter =
                        filter.and_then(|branch| narrow(branch, *source, term.clone()));
                }
                // What is asked for is his already.
                terms if request.filter.iter().flatten().any(|asked| terms.contains(asked)) => {}
                terms => {
                    let asked = request.any.take().unwrap_or_else(|| vec![Branch::new()]);
                    let each = asked.iter().flat_map(|branch| {
                        let own = terms.iter().filter_map(|(source, term)| {
                            narrow(branch.clone(), *source, term.clone())
                        });
                        own.collect::<Vec<_>>()
                    });
                    request.any = Some(each.collect());
                }
            },
        }
        request
    }

    /// The conjunctions of which a result satisfies at least one; empty if nothing can match.
    pub(crate) fn branches(&self) -> Cow<'_, [Branch]> {
        let Some(filter) = &self.filter else { return Cow::Borrowed(&[]) };
        let Some(any) = &self.any else { return Cow::Borrowed(std::slice::from_ref(filter)) };
        let mut branches: Vec<Branch> = Vec::with_capacity(any.len());
        for alternative in any {
            let both = alternative.iter().try_fold(filter.clone(), |branch, (source, term)| {
                narrow(branch, *source, term.clone())
            });
            // A branch that asks for more than another brings nothing that the other does not.
            let Some(branch) = both else { continue };
            let asks_more = |one: &Branch, other: &Branch| other.iter().all(|t| one.contains(t));
            if !branches.iter().any(|known| asks_more(&branch, known)) {
                branches.retain(|known| !asks_more(known, &branch));
                branches.push(branch);
            }
        }
        Cow::Owned(branches)
    }

    /// Whether every document of the collection is asked for.
    pub(crate) fn asks_for_all(&self) -> bool {
        self.filter.as_ref().is_some_and(Vec::is_empty)
            && self.any.is_none()
            && self.distinct.is_none()
            && self.matchers.is_empty()
    }

    /// One element of an array passes all tests of its field. Where two places ask for the field,
    /// each may mean another element, and no key names two.
    fn check_arrays(&self, collection: &Collection) -> Result<(), Error> {
        let everywhere = self.filter.iter().flatten().map(|(source, _)| *source);
        let alternatives = self.any.iter().flatten().flatten();
        let alternatives: Vec<Source> = alternatives.map(|(source, _)| *source).collect();
        let mut both = everywhere.filter(|source| alternatives.contains(source));
        match both.find(|source| is_array(collection, *source)) {
            None => Ok(()),
            Some(source) => Err(Error::invalid(format!(
                "the array `{}` is asked for in `where` and in `any`: keys hold one element of it; \
                 ask in one of them, and test the other in the results",
                collection.source_name(source)
            ))),
        }
    }

    /// The same where an element of the array makes documents the caller's.
    pub(crate) fn check_own(&self, collection: &Collection, reach: &Reach) -> Result<(), Error> {
        let Reach::Own(terms) = reach else { return Ok(()) };
        let asked = self.filter.iter().flatten().chain(self.any.iter().flatten().flatten());
        let is_apart = |(source, term): &&(Source, Term)| {
            let mut own = terms.iter().filter(|(own, _)| own == source);
            is_array(collection, *source) && own.any(|(_, own)| own != term)
        };
        match asked.into_iter().find(is_apart) {
            None => Ok(()),
            Some((source, _)) => Err(Error::invalid(format!(
                "an element of `{}` makes documents yours, and keys hold one element of it: ask \
                 for your own, and test the others in the results",
                collection.source_name(*source)
            ))),
        }
    }

    /// Documents without the field have no place in its order and are in no group: a result
    /// without them would be incomplete in silence.
    fn check_presence(&self, collection: &Collection) -> Result<(), Error> {
        let asked = match self.asked {
            Asked::By(source, _) => Some((source, "order")),
            Asked::Any | Asked::Key(_) => None,
        };
        let grouped = self.distinct.map(|source| (source, "distinct"));
        for (source, role) in asked.into_iter().chain(grouped) {
            let in_all = |branch: &Branch| branch.iter().any(|(known, _)| *known == source);
            if !collection.always_present(source) && !self.branches().iter().all(in_all) {
                let name = collection.source_name(source);
                return Err(Error::invalid(format!(
                    "{role} by `{name}`: documents without it have no place there; make it \
                     required, give it a default, or add a range of it to the filter"
                )));
            }
        }
        Ok(())
    }
}

/// The results that a page may have.
pub(crate) fn check_limit(limit: Option<usize>) -> Result<usize, Error> {
    match limit {
        None => Ok(PAGE_LIMIT_DEFAULT),
        Some(0) => Err(Error::invalid(format!("the limit of a page is 1 to {PAGE_LIMIT_MAX}"))),
        Some(limit) if limit <= PAGE_LIMIT_MAX => Ok(limit),
        Some(found) => {
            let what = "results of a page".to_owned();
            Err(Error::LimitExceeded { what, found, max: PAGE_LIMIT_MAX })
        }
    }
}

/// The keys that a scan may read.
pub(crate) fn check_scan(scan: Option<usize>) -> Result<Option<usize>, Error> {
    match scan {
        Some(0) => Err(Error::invalid("`scan` is the number of keys to read: at least 1")),
        Some(found) if found > SCAN_BUDGET_MAX => {
            let what = "keys of a scan".to_owned();
            Err(Error::LimitExceeded { what, found, max: SCAN_BUDGET_MAX })
        }
        scan => Ok(scan),
    }
}

/// What a name stands for.
fn named(collection: &Collection, name: &str) -> Result<Source, Error> {
    collection.source(name).ok_or_else(|| {
        let fields = collection.fields.iter().map(|field| field.name.as_str());
        let known: Vec<&str> = fields.chain([CREATED_AT, UPDATED_AT, OWNER]).collect();
        Error::invalid(format!(
            "`{}` has no field `{name}`; there are: {}",
            collection.name,
            known.join(", ")
        ))
    })
}

/// The kind of a source that keys can hold.
fn kind_of(collection: &Collection, source: Source) -> Result<&Kind, Error> {
    collection.source_kind(source).ok_or_else(|| {
        let name = collection.source_name(source);
        Error::invalid(format!(
            "`{name}` has a type that no key can hold, so it cannot be asked for"
        ))
    })
}

/// Whether a source is an array.
pub(super) fn is_array(collection: &Collection, source: Source) -> bool {
    match source {
        Source::Field(field) => collection.fields.get(field).is_some_and(|field| field.array),
        Source::CreatedAt | Source::UpdatedAt | Source::Owner => false,
    }
}

fn sortable(collection: &Collection, name: &str, role: &str) -> Result<Source, Error> {
    let source = named(collection, name)?;
    kind_of(collection, source)?;
    if is_array(collection, source) {
        let detail = format!("{role} by `{name}`: an array has no place in an order");
        return Err(Error::invalid(detail));
    }
    Ok(source)
}

fn read_select(collection: &Collection, names: &[String]) -> Result<Vec<Source>, Error> {
    let mut selected = Vec::with_capacity(names.len());
    for name in names {
        let source = named(collection, name)?;
        if !selected.contains(&source) {
            selected.push(source);
        }
    }
    Ok(selected)
}

fn read_filter(collection: &Collection, filter: &Filter) -> Result<Option<Branch>, Error> {
    let mut branch = Some(Branch::new());
    for (name, tests) in filter {
        let source = named(collection, name)?;
        let kind = kind_of(collection, source)?;
        for test in tests {
            let term = read_test(kind, test)
                .map_err(|detail| Error::invalid(format!("`{name}`: {detail}")))?;
            // Go on after a contradiction: what follows may be malformed, and that is an error.
            branch = match (branch, term) {
                (Some(branch), Some(term)) => narrow(branch, source, term),
                _ => None,
            };
        }
    }
    Ok(branch)
}

fn read_test(kind: &Kind, test: &Test) -> Result<Option<Term>, String> {
    match test {
        Test::Equal(value) => Ok(Term::one_of(equal(kind, value)?.into_iter().collect())),
        Test::In(values) => {
            let values: Result<Vec<_>, _> = values.iter().map(|value| equal(kind, value)).collect();
            Ok(Term::one_of(values?.into_iter().flatten().collect()))
        }
        Test::Prefix(prefix) if kind.is_text() => {
            let folded = *kind == Kind::Name;
            let prefix = if folded { prefix.to_ascii_lowercase() } else { prefix.clone() };
            Ok(Some(Term::prefix(prefix)))
        }
        Test::Prefix(_) => Err(format!("prefix fits text, and this is of type {kind}")),
        Test::Greater(value) => {
            Ok(Term::range(Bound::Excluded(limit(kind, value)?), Bound::Unbounded))
        }
        Test::GreaterOrEqual(value) => {
            Ok(Term::range(Bound::Included(limit(kind, value)?), Bound::Unbounded))
        }
        Test::Less(value) => {
            Ok(Term::range(Bound::Unbounded, Bound::Excluded(limit(kind, value)?)))
        }
        Test::LessOrEqual(value) => {
            Ok(Term::range(Bound::Unbounded, Bound::Included(limit(kind, value)?)))
        }
    }
}

/// The value to equal; `None` for text that can be no name (T1).
fn equal(kind: &Kind, value: &Json) -> Result<Option<Value>, String> {
    match (kind, value) {
        (Kind::Name, Json::String(text)) => Ok(kind.parse_text(text).ok()),
        _ => scalar(kind, value).map(Some),
    }
}

/// The value that bounds a range. It need not be one that the field can have: `m` is no name, but
/// names begin behind it.
fn limit(kind: &Kind, value: &Json) -> Result<Value, String> {
    match (kind, value) {
        (Kind::Name, Json::String(text)) => Ok(Value::Text(text.to_ascii_lowercase())),
        (Kind::Id | Kind::Text, Json::String(text)) => Ok(Value::Text(text.clone())),
        _ => scalar(kind, value),
    }
}
