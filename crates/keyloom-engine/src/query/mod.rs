//! Queries: what is asked, the plan that is decided, and the page that comes back.
//!
//! ```text
//! Query ──request──► Request ──plan──► Plan ──stream──► hits ──execute──► Page
//!        (types)              (pure)          (reads)         (documents)
//! ```
//!
//! Q1: The keys that a page reads are at most its results plus its ranges, unless documents have
//!     several keys in these ranges or the caller allowed a scan; [`Plan::keys_read_max`] bounds
//!     them in every case.
//! Q2: A page is read from one snapshot, with the catalog that was in force when it was taken.
//! Q3: What no key serves is refused; nothing is filtered in silence.

mod candidate;
mod choose;
mod course;
mod cursor;
mod distinct;
mod element;
mod execute;
mod filter;
mod fit;
mod item;
mod keys;
mod merge;
mod plan;
mod request;
mod selected;
mod stream;
mod suggest;
mod term;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_store::Snapshot;
use serde_json::Value as Json;

use crate::access::Reach;
use crate::catalog::{Catalog, Collection};
use crate::document::Document;
use crate::engine::{Actor, Engine};
use crate::error::{Error, NoIndex};
use crate::limits::{OWN_KEYS_MAX, PAGE_LIMIT_DEFAULT};
use crate::read::{document_count, told_count};

pub use cursor::UnsealedCursor;
pub use keys::{KeyPage, KeyQuery};
pub use plan::{Plan, PlanRange, ScanNote};
pub use selected::{Selected, Selection};

pub(crate) use candidate::Candidate;
pub(crate) use choose::plan;
pub(crate) use course::{Stretch, is_chain};
pub(crate) use cursor::{
    Position, is_cursor, read_cursor, read_list_cursor, write_cursor, write_list_cursor,
};
pub(crate) use execute::{Reader, count_matches, read_page};
pub(crate) use filter::Matchers;
pub(crate) use item::documents;
pub(crate) use plan::Refusal;
pub(crate) use request::{Asked, Request, check_limit, check_scan};
pub(crate) use term::{Branch, Term, narrow};

/// What is asked of a collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// What every result satisfies.
    pub filter: Filter,
    /// If not empty, every result satisfies at least one of these, too; each comes once.
    pub any: Vec<Filter>,
    /// The order of the results; without one, the order of the keys that serve the query.
    pub order: Option<OrderBy>,
    /// The most results of the page, one at least; [`PAGE_LIMIT_DEFAULT`] if `None`.
    pub limit: Option<usize>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Only the first document of each group of documents that agree in this field. Groups come
    /// in the order of the field; if the filter holds a range of another field, in its order.
    pub distinct: Option<String>,
    /// Only these fields of each document.
    pub select: Option<Vec<String>>,
    /// Allows a scan that reads at most so many keys for the page and filters them, if no key
    /// serves the query.
    pub scan: Option<usize>,
}

/// Tests by field. `@created_at`, `@updated_at` and `@owner` are fields, too. All tests of all
/// fields hold together; of an array, one element passes all tests of its field.
pub type Filter = BTreeMap<String, Vec<Test>>;

/// A test of one field. Values are JSON, read by the type of the field.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// It is this value.
    Equal(Json),
    /// It is one of these values.
    In(Vec<Json>),
    /// It is text that begins so.
    Prefix(String),
    /// It is above this value.
    Greater(Json),
    /// It is this value or above it.
    GreaterOrEqual(Json),
    /// It is below this value.
    Less(Json),
    /// It is this value or below it.
    LessOrEqual(Json),
}

/// The order of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// The field to order by.
    pub field: String,
    /// Which end comes first.
    pub direction: Sort,
}

/// Which end of an order comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// The smallest.
    Ascending,
    /// The largest.
    Descending,
}

/// A page of results.
#[derive(Clone, Debug)]
pub struct Page {
    /// The results, in order.
    pub items: Items,
    /// Where the next page begins; [`next`](Self::next) seals it.
    pub next: Option<UnsealedCursor>,
    /// What the page has cost.
    pub cost: Cost,
    /// The plan that was run.
    pub plan: Plan,
}

/// The results of a page.
#[derive(Clone, Debug)]
pub enum Items {
    /// Whole documents.
    Documents(Vec<Document>),
    /// The fields that were selected.
    Selected(Selection),
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub enum Item<'p> {
    /// A whole document.
    Document(&'p Document),
    /// The selected fields of a document.
    Selected(Selected<'p>),
}

/// What an answer has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Keys that were read in ranges or looked up in the paths of the plan.
    pub keys_read: u64,
    /// Documents that were fetched because an index or a claim named them. None where the keys are
    /// those of the documents, or hold all that was selected.
    pub documents_read: u64,
    /// Ranges that were opened, points and probes included.
    pub ranges: u64,
}

/// How many documents satisfy a query.
#[derive(Clone, Debug)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// What counting has cost.
    pub cost: Cost,
    /// The plan that was run.
    pub plan: Plan,
}

/// Whether any document satisfies a query.
#[derive(Clone, Debug)]
pub struct Existence {
    /// Whether there is one.
    pub exists: bool,
    /// What the look has cost.
    pub cost: Cost,
    /// The plan that was run.
    pub plan: Plan,
}

impl Page {
    /// Where the next page begins; `None` at the end. After a scan, what follows may be empty.
    pub fn next(&self) -> Option<String> {
        self.next.as_ref().map(|next| next.seal(&self.plan))
    }
}

impl Items {
    /// How many results there are.
    pub fn len(&self) -> usize {
        match self {
            Items::Documents(documents) => documents.len(),
            Items::Selected(rows) => rows.len(),
        }
    }

    /// Whether there is no result.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The result at this place.
    pub fn get(&self, place: usize) -> Option<Item<'_>> {
        match self {
            Items::Documents(documents) => documents.get(place).map(Item::Document),
            Items::Selected(rows) => rows.get(place).map(Item::Selected),
        }
    }

    /// All results, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Item<'_>> + Clone {
        (0..self.len()).map(|place| self.get(place).expect("there are so many"))
    }
}

impl<'p> Item<'p> {
    /// The key of the document in text spelling.
    pub fn key(&self) -> Cow<'p, str> {
        match self {
            Item::Document(document) => Cow::Borrowed(&document.key),
            Item::Selected(selected) => Cow::Owned(selected.key()),
        }
    }

    /// The data, or what was selected of it: JSON.
    pub fn data(&self) -> Cow<'p, [u8]> {
        match self {
            Item::Document(document) => Cow::Borrowed(&document.data),
            Item::Selected(selected) => Cow::Owned(selected.data()),
        }
    }
}

impl Engine {
    /// A page of the documents that satisfy a query.
    pub async fn query(
        &self,
        actor: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Page, Error> {
        self.query_within(collection, query, &|collection| collection.readable(actor)).await
    }

    /// A page of the documents that satisfy a query and that the caller may change.
    pub async fn query_writable(
        &self,
        actor: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Page, Error> {
        let reach =
            |collection: &Collection| collection.readable(actor).and(collection.writable(actor));
        self.query_within(collection, query, &reach).await
    }

    async fn query_within(
        &self,
        collection: &str,
        query: &Query,
        reach: &(dyn Fn(&Collection) -> Reach + Sync),
    ) -> Result<Page, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let request = Request::read(collection, query)?;
        let readable = reach(collection);
        let plan = planned(&*snapshot, collection, &readable, Wanted::page(&request)).await?;
        let secret = &catalog.record.secret;
        let after = match &query.after {
            Some(text) => Some(read_cursor(secret, &plan, collection, text)?),
            None => None,
        };
        let mut reader = Reader::new(&*snapshot, collection);
        let found = read_page(&mut reader, &plan, request.limit, after).await?;
        Ok(Page {
            items: item::items(collection, &plan, found.hits)?,
            next: found.next.map(|position| UnsealedCursor::new(secret, position)),
            cost: reader.cost,
            plan,
        })
    }

    /// The plan of a query, without running it.
    pub async fn explain(
        &self,
        actor: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Plan, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let request = Request::read(collection, query)?;
        let readable = collection.readable(actor);
        planned(&*snapshot, collection, &readable, Wanted::page(&request)).await
    }

    /// How many documents satisfy a query; with `distinct`, how many groups there are. Order,
    /// limit, cursor and selection do not matter. Without any condition it is one key read.
    pub async fn count(
        &self,
        actor: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Counted, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let request = Request::read(collection, &unordered(query))?;
        let readable = collection.readable(actor);
        let mut reader = Reader::new(&*snapshot, collection);
        if request.asks_for_all() && readable == Reach::All {
            let count = document_count(&*snapshot, collection).await?;
            let cost = Cost { keys_read: 1, documents_read: 0, ranges: 1 };
            return Ok(Counted { count, cost, plan: Plan::counter(collection) });
        }
        let plan = planned(&*snapshot, collection, &readable, Wanted::Exactly(&request)).await?;
        let count = count_matches(&mut reader, &plan).await?;
        let plan = plan.for_count(reader.cost.keys_read);
        Ok(Counted { count, cost: reader.cost, plan })
    }

    /// Whether any document satisfies a query: reads one key where a key serves it.
    pub async fn exists(
        &self,
        actor: &Actor,
        collection: &str,
        query: &Query,
    ) -> Result<Existence, Error> {
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        let mut request = Request::read(collection, &Query { limit: Some(1), ..unordered(query) })?;
        let readable = collection.readable(actor);
        if request.distinct.is_some() {
            // The ranges of the groups tell it, too; without them there are more to choose from.
            let plain = Request { distinct: None, ..request.clone() };
            if plan(collection, &plain.within(&readable)).is_ok() {
                request = plain;
            }
        }
        let plan = planned(&*snapshot, collection, &readable, Wanted::Exactly(&request)).await?;
        let plan = plan.for_existence();
        let mut reader = Reader::new(&*snapshot, collection);
        let exists = execute::any_match(&mut reader, &plan).await?;
        Ok(Existence { exists, cost: reader.cost, plan })
    }

    /// The catalog in force and a snapshot that agrees with it (Q2).
    ///
    /// An index that is retired loses its keys after the catalog without it is in force, and one
    /// that is new is complete before it is ready. So the two agree if the catalog is still the
    /// same after the snapshot was taken; if not, somebody has just applied a schema, and once more
    /// is enough unless he does it again.
    pub(crate) async fn begin_read(&self) -> Result<(Arc<Catalog>, Box<dyn Snapshot>), Error> {
        loop {
            let catalog = self.catalog();
            let snapshot = self.store.snapshot().await?;
            if Arc::ptr_eq(&catalog, &self.catalog()) {
                return Ok((catalog, snapshot));
            }
        }
    }
}

/// What a plan is made for.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'r> {
    /// A number or a yes: it is exact, or refused.
    Exactly(&'r Request),
    /// A page, which may be short.
    Page {
        /// What is asked.
        asked: &'r Request,
        /// The same in the order in which the caller's own documents are wanted.
        own: &'r Request,
    },
}

impl<'r> Wanted<'r> {
    /// A page, in the same order for whoever asks.
    pub(crate) fn page(asked: &'r Request) -> Wanted<'r> {
        Wanted::Page { asked, own: asked }
    }
}

/// The plan of a request within a caller's reach, or the error that says which key is missing.
///
/// Whose a document is becomes a condition like any other. For a page that keys serve, but not with
/// this condition, it is left to the documents, within a budget (Q3 holds: the plan says so).
pub(crate) async fn planned(
    snapshot: &dyn Snapshot,
    collection: &Arc<Collection>,
    readable: &Reach,
    wanted: Wanted<'_>,
) -> Result<Plan, Error> {
    let (Wanted::Exactly(own) | Wanted::Page { own, .. }) = wanted;
    own.check_own(collection, readable)?;
    let narrowed = (*readable != Reach::All).then(|| own.within(readable));
    let refusal = match plan(collection, narrowed.as_ref().unwrap_or(own)) {
        Ok(plan) => return Ok(plan),
        Err(refusal) => refusal,
    };
    if let (Reach::Own(_), Wanted::Page { asked, .. }) = (readable, wanted)
        && asked.distinct.is_none()
        && plan(collection, asked).is_ok()
    {
        let request = Request { scan: Some(OWN_KEYS_MAX), ..asked.within(readable) };
        if let Ok(plan) = plan(collection, &request) {
            return Ok(plan);
        }
    }
    match refusal {
        Refusal::Invalid(error) => Err(error),
        Refusal::NoIndex { reason, suggest, keys_per_write } => {
            let backfill_documents = told_count(snapshot, collection, readable).await?;
            let collection = collection.name.clone();
            let refused =
                NoIndex { collection, reason, suggest, backfill_documents, keys_per_write };
            Err(Error::NoIndex(Box::new(refused)))
        }
    }
}

fn unordered(query: &Query) -> Query {
    Query {
        order: None,
        limit: Some(PAGE_LIMIT_DEFAULT),
        after: None,
        select: None,
        ..query.clone()
    }
}
