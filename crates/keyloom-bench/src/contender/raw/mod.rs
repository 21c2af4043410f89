//! A raw engine doing the same keys and values as Keyloom, without any of its checks.
//!
//! R1: What is written are the commits of Keyloom, taken down before the clock runs: documents,
//!     claims, index keys, the counter and the change.
//! R2: Durable commits go through one writer thread with one sync for all that wait, as Keyloom's
//!     do; buffered ones are written by their callers.
//! R3: A read takes a view as a careful user of the engine would, and copies what it answers.

mod fjall;
mod group;
mod redb;

use std::sync::Arc;
use std::time::Duration;

use keyloom_store::{Commit, KeyRange};

pub(crate) use fjall::RawFjall;
pub(crate) use group::Group;
pub(crate) use redb::RawRedb;

use super::{Contender, LOAD_BATCH, LOAD_THREADS, writers};
use crate::outcome::Outcome;
use crate::probe::{Digest, Probe};
use crate::scribe::{Layout, commits_of_creates, commits_of_updates, document_data};
use crate::workload::{Approval, LIST_LIMIT, Reading, code, id, user};

/// What the comparison needs of an engine.
pub(crate) trait RawEngine: Sync {
    /// What the reads of one question share.
    type View: RawView;

    /// Writes a commit as durably as was asked for.
    fn commit(&self, commit: &Arc<Commit>) -> Outcome<()>;

    /// A copy of one value, by the shortest way to it.
    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Takes a view of everything that was written.
    fn view(&self) -> Outcome<Self::View>;
}

/// Reads at one point in time.
pub(crate) trait RawView {
    /// A place in a range.
    type Keys: RawKeys;

    /// A copy of a value.
    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Opens a range at its first key.
    fn keys(&self, range: &KeyRange) -> Outcome<Self::Keys>;
}

/// A place in a range of keys.
pub(crate) trait RawKeys {
    /// What `copy` takes from the next key.
    fn next<R>(&mut self, copy: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>>;
}

/// A raw engine as a contender.
pub(crate) struct Raw<E> {
    engine: E,
    layout: Layout,
    /// The head of every document key, and the bytes of an identity at the end of an index key.
    head: Vec<u8>,
    identity_bytes: usize,
}

impl<E: RawEngine> Raw<E> {
    /// Prepares the comparison.
    pub(crate) fn new(engine: E) -> Outcome<Self> {
        let layout = Layout::find()?;
        let (head, identity_bytes) = (layout.document_head(), layout.identity_bytes()?);
        Ok(Raw { engine, layout, head, identity_bytes })
    }
}

impl<E: RawEngine> Contender for Raw<E> {
    fn load(&self, approvals: &[Approval]) -> Outcome<Duration> {
        let commits = commits_of_creates(approvals, LOAD_BATCH)?;
        writers::run(LOAD_THREADS, &commits, |commit| self.engine.commit(commit))
    }

    fn create(&self, approvals: &[Approval], writers: usize) -> Outcome<Duration> {
        let commits = commits_of_creates(approvals, 1)?;
        writers::run(writers, &commits, |commit| self.engine.commit(commit))
    }

    fn update(&self, changes: &[(Approval, Approval)], writers: usize) -> Outcome<Duration> {
        let commits = commits_of_updates(changes)?;
        let keys: Outcome<Vec<_>> =
            changes.iter().map(|(old, _)| self.layout.document_key(old.id)).collect();
        let jobs: Vec<_> = keys?.into_iter().zip(commits).collect();
        writers::run(writers, &jobs, |(key, commit)| {
            // Who replaces a document has to read it: old index keys follow from it.
            self.engine.get(key)?.ok_or("a document is missing")?;
            self.engine.commit(commit)
        })
    }

    fn read(&self, reading: Reading, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        match reading {
            Reading::Get => self.read_documents(questions, probe),
            Reading::Lookup => self.read_claims(questions, probe),
            Reading::Newest => self.read_newest(questions, probe),
            Reading::Covered => self.read_covered(questions, probe),
            Reading::Merged => self.read_merged(questions, probe),
        }
    }
}

impl<E: RawEngine> Raw<E> {
    fn read_documents(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| self.layout.document_key(id(number)),
            |key| found(self.engine.get(key)?),
            |value, digest| spell_document(value, digest),
        )
    }

    fn read_claims(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| self.layout.code_key(&code(number)),
            |key| {
                let view = self.engine.view()?;
                let identity = found(view.get(key)?)?;
                found(view.get(&self.document_key(&identity))?)
            },
            |value, digest| spell_document(value, digest),
        )
    }

    fn read_newest(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| self.layout.requester_range(&user(number)),
            |range| {
                let view = self.engine.view()?;
                let mut keys = view.keys(range)?;
                let mut documents = Vec::with_capacity(LIST_LIMIT);
                while documents.len() < LIST_LIMIT
                    && let Some(key) = keys.next(|key| self.document_key_in(key))?
                {
                    documents.push(found(view.get(&key)?)?);
                }
                Ok(documents)
            },
            |values, digest| spell_documents(values, digest),
        )
    }

    fn read_covered(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| self.layout.requester_range(&user(number)),
            |range| {
                let mut keys = self.engine.view()?.keys(range)?;
                let mut copies = Vec::with_capacity(LIST_LIMIT);
                while copies.len() < LIST_LIMIT
                    && let Some(key) = keys.next(<[u8]>::to_vec)?
                {
                    copies.push(key);
                }
                Ok(copies)
            },
            |keys, digest| {
                for key in keys {
                    let (created_at, id) = self.layout.decode_covered(key)?;
                    digest.covered(created_at, &id);
                }
                Ok(())
            },
        )
    }

    fn read_merged(&self, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        probe.ask_each(
            questions,
            |number| {
                let user = user(number);
                Ok([self.layout.requester_range(&user)?, self.layout.approver_range(&user)?])
            },
            |[requester, approver]| self.merged(requester, approver),
            |values, digest| spell_documents(values, digest),
        )
    }

    fn merged(&self, requester: &KeyRange, approver: &KeyRange) -> Outcome<Vec<Vec<u8>>> {
        let view = self.engine.view()?;
        // What follows the user is time and identity: the rank in the merged list.
        let rank = |range: &KeyRange| {
            let bound = range.from.len();
            move |key: &[u8]| key.get(bound..).unwrap_or_default().to_vec()
        };
        let (mut left, mut right) = (view.keys(requester)?, view.keys(approver)?);
        let mut heads = (left.next(rank(requester))?, right.next(rank(approver))?);
        let mut documents = Vec::with_capacity(LIST_LIMIT);
        while documents.len() < LIST_LIMIT {
            let (is_left, is_right) = match &heads {
                (None, None) => break,
                (Some(_), None) => (true, false),
                (None, Some(_)) => (false, true),
                (Some(left), Some(right)) => (left <= right, right <= left),
            };
            let first = if is_left { &heads.0 } else { &heads.1 };
            let key = self.document_key_in(first.as_deref().unwrap_or_default());
            documents.push(found(view.get(&key)?)?);
            // A document that is in both ranges has the same rank in both.
            if is_left {
                heads.0 = left.next(rank(requester))?;
            }
            if is_right {
                heads.1 = right.next(rank(approver))?;
            }
        }
        Ok(documents)
    }

    fn document_key(&self, identity: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.head.len() + identity.len());
        key.extend_from_slice(&self.head);
        key.extend_from_slice(identity);
        key
    }

    /// The key of the document that an index key names at its end.
    fn document_key_in(&self, index_key: &[u8]) -> Vec<u8> {
        let start = index_key.len().saturating_sub(self.identity_bytes);
        self.document_key(index_key.get(start..).unwrap_or_default())
    }
}

fn found(value: Option<Vec<u8>>) -> Outcome<Vec<u8>> {
    value.ok_or_else(|| "a key is missing".into())
}

fn spell_document(value: &[u8], digest: &mut Digest) -> Outcome<()> {
    digest.row(document_data(value));
    Ok(())
}

fn spell_documents(values: &[Vec<u8>], digest: &mut Digest) -> Outcome<()> {
    values.iter().try_for_each(|value| spell_document(value, digest))
}
