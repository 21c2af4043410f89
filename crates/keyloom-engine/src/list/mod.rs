//! The list matcher: documents by expressions on key and description, by times and by owner.
//!
//! ```text
//! key expression ──► literal pieces ──locate──► conditions on the fields of the key ──► Plan
//!                └─► anything else: left over, and then refused, or tested in a scan
//! ```
//!
//! L1: What a matcher says about keys is answered from ranges, refused with the key to add, or
//!     tested within the budget that the caller gave; never by reading everything in silence.
//! L2: An expression that no key can match is an error, so that a misspelt segment is not taken for
//!     an empty list.

mod matcher;
mod start;

use std::ops::Bound;
use std::sync::Arc;

use keyloom_key::{Kind, Value};

use crate::access::Reach;
use crate::catalog::{Collection, Source};
use crate::document::Document;
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::query::{
    Asked, Branch, Cost, Counted, Matchers, Plan, Reader, Refusal, Request, Sort, Term, Wanted,
    check_limit, check_scan, count_matches, documents, narrow, planned, read_page, write_cursor,
};
use crate::read::document_count;

/// Which documents are listed, and in which order. All that is given holds together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// A regular expression that the text of the key matches somewhere; case-sensitive.
    pub key: Option<String>,
    /// A regular expression that the description matches somewhere. Documents without a
    /// description do not match. Needs `scan`.
    pub description: Option<String>,
    /// When the document was created.
    pub created_at: Option<TimeMatcher>,
    /// When the document was changed last.
    pub updated_at: Option<TimeMatcher>,
    /// Who owns it.
    pub owner: Option<String>,
    /// The order. Without one, the order of the document keys if a path that serves the list has
    /// it, otherwise the order of the path that serves it.
    pub order: Option<ListOrder>,
    /// Where the page before ended: the key of its last document, or its `next`. By key order the
    /// document may be gone; otherwise its place in the order is looked up, so a document that is
    /// gone is an error that says to send `next`, which always works.
    pub start_after: Option<String>,
    /// The most documents of the page, one at least;
    /// [`PAGE_LIMIT_DEFAULT`](crate::limits::PAGE_LIMIT_DEFAULT) if `None`.
    pub limit: Option<usize>,
    /// Allows a scan that reads at most so many keys for the page and tests them, if no key serves
    /// the list.
    pub scan: Option<usize>,
}

/// A condition on a time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMatcher {
    /// At this time.
    Equal(u64),
    /// Later.
    After(u64),
    /// Earlier.
    Before(u64),
    /// From the first to the second, both included; nothing if the first is later.
    Between(u64, u64),
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOrder {
    /// What it goes by.
    pub field: ListField,
    /// Which end comes first.
    pub direction: Sort,
}

/// What the order of a list goes by. Documents that agree in it come in the order of their keys in
/// the path that serves the list, the same on every page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListField {
    /// The document key.
    Keys,
    /// The time of creation.
    CreatedAt,
    /// The time of the last change.
    UpdatedAt,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The documents, in order.
    pub items: Vec<Document>,
    /// How many there are on this page.
    pub items_length: u64,
    /// The number of this page, counted from zero; `None` behind a `start_after`, because the pages
    /// before it are not counted.
    pub items_page: Option<u64>,
    /// How many documents match. Known only if this page holds all of them: otherwise counting
    /// would read every match, which [`Engine::count_list`] does when asked.
    pub matches_length: Option<u64>,
    /// How many pages of the same limit all matches fill; known when `matches_length` is.
    pub matches_pages: Option<u64>,
    /// Where the next page begins; `None` at the end. After a scan, what follows may be empty.
    pub next: Option<String>,
    /// What the page has cost.
    pub cost: Cost,
    /// The plan that was run.
    pub plan: Plan,
}

/// The expression that matches exactly this text, whatever characters it has.
pub fn literal(text: &str) -> String {
    regex::escape(text)
}

impl Engine {
    /// A page of the documents that match.
    pub async fn list(
        &self,
        actor: &Actor,
        collection: &str,
        list: &List,
    ) -> Result<Listed, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let request = read_list(collection, list)?;
        let readable = collection.readable(actor);
        let own = with_order(collection, request.within(&readable), list.order);
        let own = Request { asked: own.asked, ..request.clone() };
        let request = with_order(collection, request, list.order);
        let wanted = Wanted::Page { asked: &request, own: &own };
        let plan = planned(&*snapshot, collection, &readable, wanted).await?;
        let mut reader = Reader::new(&*snapshot, collection);
        let secret = &catalog.record.secret;
        let after = match &list.start_after {
            None => None,
            Some(text) => Some(start::position(&mut reader, &readable, secret, &plan, text).await?),
        };
        let is_first = after.is_none();
        let found = read_page(&mut reader, &plan, request.limit, after).await?;
        let next = found.next.map(|position| write_cursor(secret, &plan, collection, &position));
        let items = documents(collection, found.hits)?;
        let items_length = u64::try_from(items.len()).unwrap_or(u64::MAX);
        let limit = u64::try_from(request.limit).unwrap_or(u64::MAX);
        let is_all = is_first && next.is_none();
        Ok(Listed {
            items,
            items_length,
            items_page: is_first.then_some(0),
            matches_length: is_all.then_some(items_length),
            matches_pages: is_all.then(|| items_length.div_ceil(limit)),
            next,
            cost: reader.cost,
            plan,
        })
    }

    /// How many documents match, whatever the limit; order and `start_after` do not matter.
    pub async fn count_list(
        &self,
        actor: &Actor,
        collection: &str,
        list: &List,
    ) -> Result<Counted, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let request = read_list(collection, list)?;
        let readable = collection.readable(actor);
        if request.asks_for_all() && readable == Reach::All {
            let count = document_count(&*snapshot, collection).await?;
            let cost = Cost { keys_read: 1, documents_read: 0, ranges: 1 };
            return Ok(Counted { count, cost, plan: Plan::counter(collection) });
        }
        let plan = planned(&*snapshot, collection, &readable, Wanted::Exactly(&request)).await?;
        let mut reader = Reader::new(&*snapshot, collection);
        let count = count_matches(&mut reader, &plan).await?;
        let plan = plan.for_count(reader.cost.keys_read);
        Ok(Counted { count, cost: reader.cost, plan })
    }
}

/// What is asked, without an order.
fn read_list(collection: &Collection, list: &List) -> Result<Request, Error> {
    let List { key, description, created_at, updated_at, owner, limit, scan, .. } = list;
    let mut matchers = Matchers::default();
    let mut filter = Some(Branch::new());
    let mut add = |source: Source, term: Option<Term>| {
        filter = match (filter.take(), term) {
            (Some(branch), Some(term)) => narrow(branch, source, term),
            _ => None,
        };
    };
    if let Some(pattern) = key {
        let read = matcher::read_key(collection, pattern)?;
        matchers.key = read.left;
        read.terms.into_iter().for_each(|(source, term)| add(source, term));
    }
    if let Some(pattern) = description {
        matchers.description = Some(matcher::compile("description", pattern)?);
    }
    for (source, time) in [(Source::CreatedAt, created_at), (Source::UpdatedAt, updated_at)] {
        if let Some(time) = time {
            add(source, time_term(*time));
        }
    }
    if let Some(owner) = owner {
        let owner = Kind::Id
            .parse_text(owner)
            .map_err(|error| Error::invalid(format!("owner: {error}")))?;
        add(Source::Owner, Term::one_of(vec![owner]));
    }
    Ok(Request {
        filter,
        any: None,
        asked: Asked::Any,
        distinct: None,
        select: None,
        limit: check_limit(*limit)?,
        scan: check_scan(*scan)?,
        matchers,
    })
}

/// Without an order: that of the keys if it is served, then whatever is, and a scan last.
fn with_order(collection: &Arc<Collection>, request: Request, order: Option<ListOrder>) -> Request {
    let by = |source, direction| Asked::By(source, direction);
    let asked = match order {
        Some(ListOrder { field: ListField::Keys, direction }) => Asked::Key(direction),
        Some(ListOrder { field: ListField::CreatedAt, direction }) => {
            by(Source::CreatedAt, direction)
        }
        Some(ListOrder { field: ListField::UpdatedAt, direction }) => {
            by(Source::UpdatedAt, direction)
        }
        None => {
            let served = |asked| {
                let request = Request { asked, scan: None, ..request.clone() };
                !matches!(
                    crate::query::plan(collection, &request),
                    Err(Refusal::NoIndex { .. } | Refusal::Invalid(_))
                )
            };
            let by_key = Asked::Key(Sort::Ascending);
            if served(by_key) || (request.scan.is_some() && !served(Asked::Any)) {
                by_key
            } else {
                Asked::Any
            }
        }
    };
    Request { asked, ..request }
}

fn time_term(time: TimeMatcher) -> Option<Term> {
    let at = |millis: u64| Value::Int(i64::try_from(millis).unwrap_or(i64::MAX));
    match time {
        TimeMatcher::Equal(time) => Term::one_of(vec![at(time)]),
        TimeMatcher::After(time) => Term::range(Bound::Excluded(at(time)), Bound::Unbounded),
        TimeMatcher::Before(time) => Term::range(Bound::Unbounded, Bound::Excluded(at(time))),
        TimeMatcher::Between(from, to) => {
            Term::range(Bound::Included(at(from)), Bound::Included(at(to)))
        }
    }
}
