//! `check`: documents and keys compared both ways, and repaired if asked.
//!
//! Q1: Every key that follows from a document is there with the right value, every key that is
//!     there follows from a document, counters and derived documents agree.
//! Q2: A repair never touches a document. Missing keys are put and wrong ones deleted in commits
//!     that check the document, so it may run beside writers.
//!
//! Orphans are found by counting first: when a path has no more keys than those that were found to
//! follow from documents, there are none, and no key has to be looked at twice.

mod derived;
mod objects;
mod orphans;

use std::collections::{BTreeMap, BTreeSet};

use keyloom_key::{Head, Space};
use keyloom_store::{Check, Commit, CommitOutcome, Entry, Expect, Snapshot, Stored, Write};

use crate::apply::{catalog_check, documents_page};
use crate::catalog::{Catalog, Collection, Path, PathState};
use crate::document::{Facts, HeadRecord, Record, document_key, document_keys, path_keys};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::CHECK_PROBLEMS_MAX;
use crate::read::{counter_key, document_count, key_from_claim};
use crate::write::tombstone_key;

/// Whether `check` mends what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It only reports.
    No,
    /// It puts missing keys and deletes wrong ones.
    Yes,
}

/// What `check` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How many documents it read.
    pub documents: u64,
    /// How many objects it read.
    pub objects: u64,
    /// How many keys it compared.
    pub keys: u64,
    /// What is wrong; at most [`CHECK_PROBLEMS_MAX`] are listed.
    pub problems: Vec<Problem>,
    /// How many of them were mended.
    pub repaired: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The collection, or the class.
    pub collection: String,
    /// `key`, `index:name`, `unique:name`, `tombstone`, `counter` or `derived`; of objects also
    /// `metadata`, `entry`, `directory` or `legacy`.
    pub path: String,
    /// The key in text spelling, or escaped bytes if it has none.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

impl Engine {
    /// Compares all documents, objects and keys. `progress` hears how many of them were read.
    pub async fn check(
        &self,
        repair: Repair,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<CheckReport, Error> {
        self.reload_catalog().await?;
        let (catalog, snapshot) = self.begin_read().await?;
        let mut run = CheckRun {
            engine: self,
            catalog: &catalog,
            snapshot,
            repair,
            report: CheckReport::default(),
        };
        for collection in catalog.collections.values() {
            run.check_collection(collection, progress).await?;
        }
        run.check_derived(&catalog).await?;
        for class in catalog.classes.values() {
            run.check_class(class, progress).await?;
        }
        Ok(run.report)
    }
}

/// A check under way.
struct CheckRun<'a> {
    engine: &'a Engine,
    catalog: &'a Catalog,
    snapshot: Box<dyn Snapshot>,
    repair: Repair,
    report: CheckReport,
}

/// What is known of the keys of a collection once its documents were read.
#[derive(Default)]
struct Seen {
    /// How many keys of each path were found to be right, by its head.
    right: BTreeMap<Vec<u8>, u64>,
    /// Keys that follow from a document, but are missing or have a wrong value.
    wrong: BTreeSet<Vec<u8>>,
}

/// A key and the value that it should have.
type WantedKey = (Vec<u8>, Vec<u8>);

impl CheckRun<'_> {
    async fn check_collection(
        &mut self,
        collection: &Collection,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        let mut seen = Seen::default();
        let (mut documents, mut from) = (0, None);
        loop {
            let page = documents_page(&*self.snapshot, collection, from.as_deref()).await?;
            let Some(last) = page.last() else { break };
            from = Some(last.key.clone());
            for entry in &page {
                self.check_document(collection, entry, &mut seen).await?;
            }
            documents += page.len() as u64;
            progress(page.len() as u64);
        }
        self.report.documents += documents;
        self.check_counter(collection, documents).await?;
        for path in collection.further_paths() {
            self.check_orphans(collection, path, &seen).await?;
        }
        Ok(())
    }

    /// Everything that follows from one document is there.
    async fn check_document(
        &mut self,
        collection: &Collection,
        entry: &Entry,
        seen: &mut Seen,
    ) -> Result<(), Error> {
        let Some((head, record)) = readable(collection, &entry.stored.value) else {
            self.problem(collection, "key", &entry.key, "it is damaged");
            return Ok(());
        };
        if !document_key(collection, &record).is_ok_and(|key| key == entry.key) {
            self.problem(collection, "key", &entry.key, "it is not the key of its data");
            return Ok(());
        }
        let keys = document_keys(collection, &record, &Facts::from(head), head.data)?;
        let mut wanted = keys.indexes;
        wanted.append(&mut self.wanted_claims(collection, entry, keys.claims)?);
        wanted.retain(|(key, _)| is_complete(collection, key));
        let mut asked: Vec<Vec<u8>> = wanted.iter().map(|(key, _)| key.clone()).collect();
        asked.push(tombstone_key(&entry.key, collection.id));
        let found = self.snapshot.get_many(&asked).await?;
        self.report.keys += asked.len() as u64;
        let mut missing = Vec::new();
        for ((key, value), found) in wanted.iter().zip(&found) {
            let Some(what) = self.compare(collection, key, value, found.as_ref()).await? else {
                let head = key.get(..HEAD_LEN).unwrap_or_default().to_vec();
                *seen.right.entry(head).or_default() += 1;
                continue;
            };
            seen.wrong.insert(key.clone());
            let told = match found {
                Some(found) if what == HELD_BY_ANOTHER => {
                    both_want_it(collection, &found.value, &entry.key)
                }
                _ => what.to_owned(),
            };
            self.problem(collection, &role(collection, key), key, told);
            if what != HELD_BY_ANOTHER {
                let expect = found.as_ref().map_or(Expect::Absent, |f| Expect::At(f.stamp));
                let write = Write::Put { key: key.clone(), value: value.clone() };
                missing.push((Check { key: key.clone(), expect }, write));
            }
        }
        if let (Some(Some(found)), Some(key)) = (found.last(), asked.pop()) {
            self.problem(collection, "tombstone", &key, "its document exists");
            let check = Check { key: key.clone(), expect: Expect::At(found.stamp) };
            missing.push((check, Write::Delete { key }));
        }
        // One by one: a claim that somebody takes meanwhile does not stop the others.
        for (check, write) in missing {
            let document = Check { key: entry.key.clone(), expect: Expect::At(entry.stored.stamp) };
            self.mend(vec![document, check], vec![write]).await?;
        }
        Ok(())
    }

    /// The claims that the document of `entry` must hold, and their values.
    fn wanted_claims(
        &self,
        collection: &Collection,
        entry: &Entry,
        claims: Vec<(Vec<u8>, usize)>,
    ) -> Result<Vec<WantedKey>, Error> {
        let (_, packed) = Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
        let mode = self.engine.options.mode;
        // A claim per owner that is not in force may be held by any of his documents, or none.
        let wanted = |place: usize| collection.uniques.get(place).is_some_and(|u| u.in_force(mode));
        let wanted = claims.into_iter().filter(|(_, place)| wanted(*place));
        Ok(wanted.map(|(key, _)| (key, packed.to_vec())).collect())
    }

    /// What is wrong with a key that should have this value.
    async fn compare(
        &self,
        collection: &Collection,
        key: &[u8],
        value: &[u8],
        found: Option<&Stored>,
    ) -> Result<Option<&'static str>, Error> {
        let Some(found) = found else { return Ok(Some("it is missing")) };
        if found.value == value {
            return Ok(None);
        }
        let (head, _) = Head::read(key).map_err(|error| Error::corrupt(error.to_string()))?;
        let claim = collection.uniques.iter().find(|unique| unique.path.head == head);
        let Some(claim) = claim else { return Ok(Some("it has a wrong value")) };
        let holder = self.snapshot.get(&key_from_claim(collection, &found.value)).await?;
        let holds = holder.is_some_and(|holder| {
            let held = readable(collection, &holder.value).map(|(head, record)| {
                path_keys(&claim.path, &record, &Facts::from(head)).unwrap_or_default()
            });
            held.is_some_and(|held| held.iter().any(|held| held == key))
        });
        Ok(Some(if holds { HELD_BY_ANOTHER } else { "it has a wrong value" }))
    }

    async fn check_counter(&mut self, collection: &Collection, found: u64) -> Result<(), Error> {
        let key = counter_key(collection.id);
        let stored = self.snapshot.get(&key).await?;
        if document_count(&*self.snapshot, collection).await.unwrap_or(u64::MAX) == found {
            return Ok(());
        }
        self.problem(collection, "counter", &key, "it is not the number of documents");
        let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.stamp));
        let check = Check { key: key.clone(), expect };
        let value = found.to_be_bytes().to_vec();
        self.mend(vec![check], vec![Write::Put { key, value }]).await
    }

    fn problem(
        &mut self,
        collection: &Collection,
        path: &str,
        key: &[u8],
        what: impl Into<String>,
    ) {
        if self.report.problems.len() == CHECK_PROBLEMS_MAX {
            return;
        }
        self.report.problems.push(Problem {
            collection: collection.name.clone(),
            path: path.to_owned(),
            key: spelled(collection, key),
            what: what.into(),
        });
    }

    /// Writes what is needed, if that was asked and nobody changed the document meanwhile.
    async fn mend(&mut self, mut checks: Vec<Check>, writes: Vec<Write>) -> Result<(), Error> {
        if self.repair == Repair::No || writes.is_empty() {
            return Ok(());
        }
        let mended = writes.len() as u64;
        // What follows from a document, another schema may see otherwise.
        checks.push(catalog_check(self.catalog));
        let commit = Commit { checks, writes, changes: Vec::new() };
        let outcome = self.engine.store.commit(commit.into()).await?;
        if matches!(outcome, CommitOutcome::Committed { .. }) {
            self.report.repaired += mended;
        }
        Ok(())
    }
}

/// Two documents cannot both have their way: a person has to change one of them.
const HELD_BY_ANOTHER: &str = "another document holds it";

/// The same, with the keys of both: of the one that a claim names, and of the other.
fn both_want_it(collection: &Collection, claim: &[u8], other: &[u8]) -> String {
    let holder = spelled(collection, &key_from_claim(collection, claim));
    let other = spelled(collection, other);
    format!("{holder} holds it, and {other} should: change or delete one of them")
}

/// A stored document, if it can be read.
fn readable<'a>(collection: &Collection, value: &'a [u8]) -> Option<(HeadRecord<'a>, Record)> {
    let head = HeadRecord::decode(value).ok()?;
    Some((head, Record::stored(collection, head.data).ok()?))
}

/// The bytes of a key before its components.
const HEAD_LEN: usize = 5;

/// Whether every document has its keys under the path of this key.
fn is_complete(collection: &Collection, key: &[u8]) -> bool {
    let Ok((head, _)) = Head::read(key) else { return false };
    collection.further_paths().any(|path| path.head == head && path.state == PathState::Ready)
}

fn head_bytes(path: &Path) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_LEN);
    path.head.write(&mut head);
    head
}

/// The path that a key stands under, as people write it.
fn role(collection: &Collection, key: &[u8]) -> String {
    let head = Head::read(key).ok().map(|(head, _)| head);
    let path = collection.further_paths().find(|path| Some(path.head) == head);
    match (path, head.map(|head| head.space)) {
        (Some(path), Some(Space::Claim)) => format!("unique:{}", path.name),
        (Some(path), _) => format!("index:{}", path.name),
        (None, _) => "key".to_owned(),
    }
}

fn spelled(collection: &Collection, key: &[u8]) -> String {
    let Ok((head, packed)) = Head::read(key) else { return key.escape_ascii().to_string() };
    let path = match head.space {
        Space::Document | Space::Tombstone => Some(&collection.key),
        _ => collection.further_paths().find(|path| path.head == head),
    };
    let values = path.and_then(|path| path.template.unpack(packed).ok());
    let text = path.zip(values).and_then(|(path, values)| path.template.render(&values).ok());
    text.unwrap_or_else(|| key.escape_ascii().to_string())
}
