//! Takes down the commits that Keyloom makes, so that a raw engine can be given the very same keys
//! and values.
//!
//! S1: A commit that is taken down is the one that Keyloom's engine handed to its store.
//! S2: The layout is found in such a commit, not known beforehand: if Keyloom packs its keys in
//!     another way tomorrow, the raw engines follow.

use std::sync::{Arc, Mutex, PoisonError};

use crate::block_on::block_on;
use async_trait::async_trait;
use keyloom_engine::{Action, Actor, Engine, Operation, Options, Precondition};
use keyloom_key::{Head, Kind, Tail, Template, Value};
use keyloom_store::memory::MemoryStore;
use keyloom_store::{
    Change, Commit, CommitOutcome, Feed, KeyRange, Limits, OrderedStore, Position, Snapshot,
    StoreError, Tally, Write,
};

use crate::outcome::Outcome;
use crate::workload::{Approval, Workload, schema};

/// The collection that everything is about.
pub(crate) const COLLECTION: &str = "approvals";

/// The commits of creating these approvals, `batch` of them in each commit.
pub(crate) fn commits_of_creates(
    approvals: &[Approval],
    batch: usize,
) -> Outcome<Vec<Arc<Commit>>> {
    let (engine, scribe) = open()?;
    for approvals in approvals.chunks(batch) {
        block_on(engine.batch(&Actor::Local, &creates(approvals)))?;
    }
    Ok(scribe.take())
}

/// The commits of replacing each of these approvals by its successor.
pub(crate) fn commits_of_updates(changes: &[(Approval, Approval)]) -> Outcome<Vec<Arc<Commit>>> {
    let (engine, scribe) = open()?;
    for (old, _) in changes {
        block_on(engine.create(&Actor::Local, COLLECTION, old.json.as_bytes()))?;
    }
    scribe.take();
    for (_, new) in changes {
        block_on(engine.execute(&Actor::Local, COLLECTION, replacement(new)))?;
    }
    Ok(scribe.take())
}

/// The operations that create these approvals.
pub(crate) fn creates(approvals: &[Approval]) -> Vec<Operation> {
    let create = |approval: &Approval| Operation {
        collection: COLLECTION.to_owned(),
        action: Action::Create {
            key: None,
            data: approval.json.clone().into_bytes(),
            description: None,
        },
    };
    approvals.iter().map(create).collect()
}

/// The action that replaces a stored approval.
pub(crate) fn replacement(approval: &Approval) -> Action {
    Action::Put {
        key: approval.key(),
        precondition: Precondition::Any,
        data: approval.json.clone().into_bytes(),
        description: None,
    }
}

/// Where the packed keys of approvals lie.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    document: Place,
    code: Place,
    requester: Place,
    approver: Place,
}

/// Keys of one kind.
#[derive(Clone, Debug)]
struct Place {
    head: Head,
    template: Template,
}

/// What is found under a document key starts here: the format byte, version, creation and flags.
const DOCUMENT_HEAD_BYTES: usize = 18;

impl Layout {
    /// Finds the layout in a commit that Keyloom made.
    pub(crate) fn find() -> Outcome<Layout> {
        let sample = Workload { documents: 5000 }.approval(0);
        let commits = commits_of_creates(std::slice::from_ref(&sample), 1)?;
        let keys: Vec<&[u8]> =
            commits.iter().flat_map(|commit| commit.writes.iter().map(Write::key)).collect();
        let text = |text: &str| Value::Text(text.to_owned());
        let (id, at) = (Value::Ulid(sample.id), Value::Int(sample.created_at));
        let list = |user: &str| vec![text(user), at.clone(), id.clone()];
        Ok(Layout {
            document: place(&keys, "approval:record:{id}", std::slice::from_ref(&id))?,
            code: place(&keys, "approval:code:{code}", &[text(&sample.code)])?,
            requester: place(
                &keys,
                "r:{requester}:{created_at desc}:{id}",
                &list(&sample.requester),
            )?,
            approver: place(&keys, "a:{approver}:{created_at desc}:{id}", &list(&sample.approver))?,
        })
    }

    /// The key of a document.
    pub(crate) fn document_key(&self, id: keyloom_key::Ulid) -> Outcome<Vec<u8>> {
        self.document.key(&[Value::Ulid(id)])
    }

    /// The key of a claim to a code; its value is the components of the document key.
    pub(crate) fn code_key(&self, code: &str) -> Outcome<Vec<u8>> {
        self.code.key(&[Value::Text(code.to_owned())])
    }

    /// The range of a requester's index keys, newest first.
    pub(crate) fn requester_range(&self, user: &str) -> Outcome<KeyRange> {
        self.requester.range(user)
    }

    /// The range of an approver's index keys, newest first.
    pub(crate) fn approver_range(&self, user: &str) -> Outcome<KeyRange> {
        self.approver.range(user)
    }

    /// The head of every document key.
    pub(crate) fn document_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(Head::BYTES);
        self.document.head.write(&mut head);
        head
    }

    /// The bytes of a packed identity, which every index key ends with.
    pub(crate) fn identity_bytes(&self) -> Outcome<usize> {
        let key = self.document_key(keyloom_key::Ulid::from_bytes([0; 16]))?;
        Ok(key.len() - Head::BYTES)
    }

    /// Time and identity in an index key of a requester.
    pub(crate) fn decode_covered(&self, key: &[u8]) -> Outcome<(i64, String)> {
        let (_, components) = Head::read(key)?;
        match self.requester.template.unpack(components)?.as_slice() {
            [_, Value::Int(created_at), Value::Ulid(id)] => Ok((*created_at, id.to_string())),
            other => Err(format!("an index key holds {other:?}").into()),
        }
    }
}

/// The data in what is stored under a document key.
pub(crate) fn document_data(value: &[u8]) -> &[u8] {
    value.get(DOCUMENT_HEAD_BYTES..).unwrap_or_default()
}

impl Place {
    fn key(&self, values: &[Value]) -> Outcome<Vec<u8>> {
        let mut key = Vec::new();
        self.head.write(&mut key);
        self.template.pack(values, &mut key)?;
        Ok(key)
    }

    fn range(&self, user: &str) -> Outcome<KeyRange> {
        let span = self.template.span(&[Value::Text(user.to_owned())], &Tail::All)?;
        let under_head = |components: &[u8]| {
            let mut key = Vec::with_capacity(Head::BYTES + components.len());
            self.head.write(&mut key);
            key.extend_from_slice(components);
            key
        };
        Ok(KeyRange { from: under_head(&span.from), to: under_head(&span.to) })
    }
}

fn place(keys: &[&[u8]], template: &str, values: &[Value]) -> Outcome<Place> {
    let kind_of = |field: &str| match field {
        "id" => Some(Kind::Ulid),
        "created_at" => Some(Kind::Millis),
        _ => Some(Kind::Id),
    };
    let template = Template::compile(template, &kind_of)?;
    let holds = |key: &&&[u8]| {
        let components = Head::read(key).ok().and_then(|(_, packed)| template.unpack(packed).ok());
        components.as_deref() == Some(values)
    };
    let key = keys.iter().find(holds).ok_or_else(|| format!("no key holds {values:?}"))?;
    let (head, _) = Head::read(key)?;
    Ok(Place { head, template })
}

fn open() -> Outcome<(Engine, Arc<Scribe>)> {
    let scribe = Arc::new(Scribe { store: MemoryStore::new(), commits: Mutex::default() });
    let store: Arc<dyn OrderedStore> = Arc::<Scribe>::clone(&scribe);
    let engine = block_on(Engine::open(store, Options::default()))?;
    block_on(engine.apply_schema(&schema()?, &mut |_| {}))?;
    scribe.take();
    Ok((engine, scribe))
}

/// A memory store that remembers what was asked of it.
struct Scribe {
    store: MemoryStore,
    commits: Mutex<Vec<Arc<Commit>>>,
}

impl Scribe {
    fn take(&self) -> Vec<Arc<Commit>> {
        std::mem::take(&mut self.commits.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl OrderedStore for Scribe {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.store.snapshot().await
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&commit));
        self.store.commit(commit).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.store.changes(after, limit).await
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        self.store.feed().await
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.store.trim(through).await
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn tally(&self) -> Tally {
        self.store.tally()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload { documents: 5000 };

    fn puts(commit: &Commit) -> Vec<(&[u8], &[u8])> {
        let puts = commit.writes.iter().filter_map(|write| match write {
            Write::Put { key, value } => Some((key.as_slice(), value.as_slice())),
            Write::Delete { .. } | Write::Add { .. } => None,
        });
        puts.collect()
    }

    #[test]
    fn s1_a_create_is_a_document_a_claim_four_index_keys_a_counter_and_a_change() {
        let commits = commits_of_creates(&[WORKLOAD.approval(0)], 1).unwrap();
        let [commit] = commits.as_slice() else { panic!("{} commits", commits.len()) };
        assert_eq!(puts(commit).len(), 6);
        assert_eq!(commit.writes.len(), 7);
        assert_eq!(commit.changes.len(), 1);
    }

    #[test]
    fn s1_a_batch_is_one_commit() {
        let approvals: Vec<_> = (0..5).map(|number| WORKLOAD.approval(number)).collect();
        assert_eq!(commits_of_creates(&approvals, 2).unwrap().len(), 3);
    }

    #[test]
    fn s1_a_decision_moves_one_index_key_and_drops_another() {
        let old = WORKLOAD.undecided(0);
        let new = old.approved(old.number());
        let commits = commits_of_updates(&[(old, new)]).unwrap();
        let [commit] = commits.as_slice() else { panic!("{} commits", commits.len()) };
        let deleted = commit.writes.iter().filter(|write| matches!(write, Write::Delete { .. }));
        assert_eq!((deleted.count(), puts(commit).len()), (2, 2));
    }

    #[test]
    fn s2_the_layout_finds_what_keyloom_wrote() {
        let layout = Layout::find().unwrap();
        let approval = WORKLOAD.approval(3);
        let commits = commits_of_creates(std::slice::from_ref(&approval), 1).unwrap();
        let puts = puts(&commits[0]);
        let value_of = |key: Vec<u8>| puts.iter().find(|(put, _)| *put == key).unwrap().1;
        let document = value_of(layout.document_key(approval.id).unwrap());
        assert_eq!(document_data(document), approval.json.as_bytes());
        let claim = value_of(layout.code_key(&approval.code).unwrap());
        let named = [layout.document_head(), claim.to_vec()].concat();
        assert_eq!(named, layout.document_key(approval.id).unwrap());
        let range = layout.requester_range(&approval.requester).unwrap();
        let (key, _) = puts.iter().find(|(key, _)| range.contains(key)).unwrap();
        let decoded = layout.decode_covered(key).unwrap();
        assert_eq!(decoded, (approval.created_at, approval.id.to_string()));
        assert!(key.ends_with(&named[Head::BYTES..]));
        assert_eq!(layout.identity_bytes().unwrap(), claim.len());
        let range = layout.approver_range(&approval.approver).unwrap();
        assert_eq!(puts.iter().filter(|(key, _)| range.contains(key)).count(), 1);
    }
}
