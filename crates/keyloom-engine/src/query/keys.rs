//! The stored keys of a path, in text spelling.

use keyloom_key::{Anchors, Constraint, Located, Tail};
use std::ops::Bound;

use super::candidate::{Candidate, PathRef};
use super::course::{Course, Extent, stretch};
use super::cursor::{read_cursor, write_cursor};
use super::execute::{Reader, read_page};
use super::request::check_limit;
use super::{Cost, Plan};
use crate::access::Reach;
use crate::catalog::Collection;
use crate::engine::{Actor, Engine};
use crate::error::Error;

/// Which stored keys are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyQuery {
    /// The path: `index:name`, `unique:name`, or the name alone; the document keys if `None`.
    pub path: Option<String>,
    /// Only keys whose text begins so.
    pub prefix: Option<String>,
    /// The most keys of the page.
    pub limit: Option<usize>,
    /// The `next` of the page before.
    pub after: Option<String>,
}

/// A page of stored keys.
#[derive(Clone, Debug)]
pub struct KeyPage {
    /// The keys in text spelling, in the order in which they are stored.
    pub keys: Vec<String>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
    /// What the page has cost.
    pub cost: Cost,
    /// The plan that was run.
    pub plan: Plan,
}

impl Engine {
    /// The keys that are stored under one path of a collection, for callers who may read all of its
    /// documents.
    pub async fn keys(
        &self,
        actor: &Actor,
        collection: &str,
        query: &KeyQuery,
    ) -> Result<KeyPage, Error> {
        let KeyQuery { path, prefix, limit, after } = query;
        let limit = check_limit(*limit)?;
        let (catalog, snapshot) = self.begin_read().await?;
        let collection = catalog.collection(collection)?;
        if collection.readable(actor) != Reach::All {
            let detail = "keys are for those who may read all documents";
            return Err(Error::forbidden(actor, &collection.name, detail));
        }
        let candidate = named_path(collection, path.as_deref())?;
        let extent = match prefix {
            None => Extent { bound: Vec::new(), tails: Vec::new() },
            Some(prefix) => narrowed(&candidate, prefix)?,
        };
        let stretches = vec![stretch(&candidate, extent)?];
        let course = Course { stretches, ..Course::empty() };
        // The keys are all that is asked for, so they cover it.
        let plan = Plan::new(collection, course, limit, true);
        let secret = &catalog.record.secret;
        let after = match after {
            Some(text) => Some(read_cursor(secret, &plan, collection, text)?),
            None => None,
        };
        let mut reader = Reader::new(&*snapshot, collection);
        let found = read_page(&mut reader, &plan, limit, after).await?;
        let mut keys = Vec::with_capacity(found.hits.len());
        for hit in found.hits.iter() {
            keys.push(candidate.path.respell(hit.key)?);
        }
        let next = found.next.map(|position| write_cursor(secret, &plan, collection, &position));
        Ok(KeyPage { keys, next, cost: reader.cost, plan })
    }
}

fn named_path<'c>(collection: &'c Collection, name: Option<&str>) -> Result<Candidate<'c>, Error> {
    let places = |count: usize, at: fn(usize) -> PathRef| (0..count).map(at);
    let indexes = places(collection.indexes.len(), PathRef::Index);
    let uniques = places(collection.uniques.len(), PathRef::Unique);
    let paths: Vec<Candidate<'_>> = std::iter::once(PathRef::Key)
        .chain(indexes)
        .chain(uniques)
        .filter_map(|at| Candidate::of(collection, at))
        .collect();
    let name = name.unwrap_or("key");
    let found = paths.iter().find(|path| path.label() == name || path.path.name == name);
    found.copied().ok_or_else(|| {
        let known: Vec<String> = paths.iter().map(Candidate::label).collect();
        Error::invalid(format!(
            "`{}` has no index or unique claim `{name}`; there are: {}",
            collection.name,
            known.join(", ")
        ))
    })
}

/// The components that the beginning of a key's text says something about.
fn narrowed(candidate: &Candidate<'_>, prefix: &str) -> Result<Extent, Error> {
    let template = &candidate.path.template;
    let constraints = match template.locate(prefix, Anchors::START) {
        Located::Once(constraints) => constraints,
        Located::Nowhere => {
            return Err(Error::invalid(format!(
                "no key of `{}` begins with {prefix:?}; keys look like {}",
                candidate.label(),
                template.text()
            )));
        }
        Located::Several => {
            return Err(Error::invalid(format!(
                "{prefix:?} ends inside a number or an escape: end it before, or behind; keys look \
                 like {}",
                template.text()
            )));
        }
    };
    let mut bound = Vec::new();
    let mut tails = Vec::new();
    for (_, constraint) in constraints {
        match constraint {
            Constraint::Equal(value) => bound.push(value),
            Constraint::Prefix(text) => tails.push(Tail::Prefix(text)),
            Constraint::Between(least, greatest) => tails.push(Tail::Range {
                lower: Bound::Included(least),
                upper: Bound::Included(greatest),
            }),
        }
    }
    Ok(Extent { bound, tails })
}
