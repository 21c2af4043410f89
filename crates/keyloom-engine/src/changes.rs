//! The change feed: one item per document or object of a commit, written in that commit.
//!
//! ```text
//! 01 | kind u8 | collection u16 | version u64 |            packed components of the document key
//! 02 | kind u8 | collection u16 | version u64 | subjects | packed components of the document key
//!      kind 1 created, 2 updated, 3 deleted; numbers big-endian
//!      subjects: count u16, each as length u16 and UTF-8; they are written where the collection
//!      shows documents to their owners only
//! 03 | …  a change of an object, in its canonical encoding: see `ObjectStep` in `keyloom-key`
//! ```
//!
//! F1: A change tells whose document it was, before and after, so that it can be shown to them when
//!     the document is gone. Where it does not tell, it is shown only to who may read everything.

use std::borrow::Cow;
use std::time::Duration;

use keyloom_key::{EntryStep, ObjectId, ObjectStep, Touched};
use keyloom_store::{Feed, Position};

use crate::catalog::Catalog;
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::PAGE_LIMIT_MAX;

/// The format of a change that anyone may hear of, its first byte.
const FORMAT: u8 = 1;

/// The format of a change that says whose document it is.
const FORMAT_PERSONAL: u8 = 2;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of a document.
    Document(DocumentChange),
    /// Of an object.
    Object(ObjectChange),
}

/// One version step of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// Where it stands in the feed; pass it on to continue behind it.
    pub position: Position,
    /// What happened to the object.
    pub kind: Touched,
    /// Its class.
    pub class: String,
    /// Its partition.
    pub partition: u16,
    /// Its identity.
    pub id: ObjectId,
    /// The version that the change gave it.
    pub version: u64,
    /// The entries that were touched, ascending by key.
    pub entries: Vec<EntryStep>,
}

/// One change of one document. A document that moves to another key is deleted there and created
/// here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// Where it stands in the feed; pass it on to continue behind it.
    pub position: Position,
    /// What happened.
    pub kind: ChangeKind,
    /// The collection.
    pub collection: String,
    /// The key of the document in text spelling.
    pub key: String,
    /// The version that the change gave it.
    pub version: u64,
    /// Whose document it is or was, where only they may hear of it: for [`Engine::shows`].
    pub subjects: Vec<String>,
}

/// What happened to a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeKind {
    /// It is new under this key.
    Created = 1,
    /// It changed.
    Updated = 2,
    /// It is gone from this key: deleted, evicted or moved away.
    Deleted = 3,
}

/// Which changes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// All of them.
    All,
    /// So many of the newest.
    Count(u64),
    /// Those that are not older.
    Age(Duration),
}

impl Change {
    /// Where it stands in the feed.
    pub fn position(&self) -> Position {
        match self {
            Change::Document(change) => change.position,
            Change::Object(change) => change.position,
        }
    }

    /// The collection or the class that it belongs to.
    pub fn home(&self) -> &str {
        match self {
            Change::Document(change) => &change.collection,
            Change::Object(change) => &change.class,
        }
    }

    /// The change of a document, if it is one.
    pub fn into_document(self) -> Option<DocumentChange> {
        match self {
            Change::Document(change) => Some(change),
            Change::Object(_) => None,
        }
    }

    /// The change of an object, if it is one.
    pub fn into_object(self) -> Option<ObjectChange> {
        match self {
            Change::Document(_) => None,
            Change::Object(change) => Some(change),
        }
    }
}

impl Engine {
    /// Which changes there still are.
    pub async fn feed(&self) -> Result<Feed, Error> {
        Ok(self.store.feed().await?)
    }

    /// Forgets the changes that need not be kept. Readers that still stand before them are told.
    pub async fn trim_changes(&self, retention: Retention) -> Result<(), Error> {
        let Feed { trimmed, last } = self.store.feed().await?;
        let through = match retention {
            Retention::All => return Ok(()),
            Retention::Count(kept) => Position(last.0.saturating_sub(kept)),
            Retention::Age(age) => self.last_older_than(age, trimmed, last).await?,
        };
        let mut begins = trimmed;
        while begins < through {
            self.store.trim(through).await?;
            let now = self.store.feed().await?.trimmed;
            if now <= begins {
                break;
            }
            begins = now;
        }
        Ok(())
    }

    /// The last change that is older than `age`: versions are times and grow along the feed, but
    /// for writers that were held up a moment, which does not matter here.
    async fn last_older_than(
        &self,
        age: Duration,
        trimmed: Position,
        last: Position,
    ) -> Result<Position, Error> {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let oldest = self.options.system.now_micros().saturating_sub(age);
        let (mut low, mut high) = (trimmed.0, last.0);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.store.changes(Position(middle), 1).await?;
            match found.first().and_then(|change| version_of(&change.bytes)) {
                Some(version) if version < oldest => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(Position(low))
    }

    /// Whether a caller may hear of a change: he may read the document, or could before it went.
    /// Objects have no owners; who may read those of a class is up to the scopes of his token.
    pub fn shows(&self, actor: &Actor, change: &Change) -> bool {
        let Change::Document(change) = change else { return *actor != Actor::Anonymous };
        let catalog = self.catalog();
        let collection = catalog.collections.get(&change.collection);
        collection.is_some_and(|known| known.readable(actor).covers_subjects(&change.subjects))
    }

    /// At most `limit` changes behind a position, in commit order; of all callers: what is passed
    /// on goes through [`Engine::shows`].
    pub async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, Error> {
        if limit > PAGE_LIMIT_MAX {
            return Err(Error::LimitExceeded {
                what: "changes of a page".to_owned(),
                found: limit,
                max: PAGE_LIMIT_MAX,
            });
        }
        let changes = self.store.changes(after, limit).await?;
        let mut catalog = self.catalog();
        let known = |bytes: &[u8]| {
            let known = |id| catalog.by_id(id).is_some() || catalog.class_by_id(id).is_some();
            collection_of(bytes).is_none_or(known)
        };
        // Somebody else may have added a collection or a class since the catalog was read.
        if !changes.iter().all(|change| known(&change.bytes)) {
            catalog = self.reload_catalog().await?;
        }
        let mut decoded = Vec::with_capacity(changes.len());
        for change in changes {
            let (position, bytes) = (change.position, change.bytes.as_slice());
            decoded.push(if ObjectStep::is_step(bytes) {
                Change::Object(decode_step(&catalog, position, bytes)?)
            } else {
                Change::Document(decode_change(&catalog, position, bytes)?)
            });
        }
        Ok(decoded)
    }
}

/// A change as bytes.
pub(crate) fn encode_change(
    kind: ChangeKind,
    collection: u16,
    version: u64,
    subjects: Option<&[Cow<'_, str>]>,
    packed: &[u8],
) -> Vec<u8> {
    let subjects_len = subjects.into_iter().flatten().map(|subject| 2 + subject.len());
    let mut bytes = Vec::with_capacity(14 + subjects_len.sum::<usize>() + packed.len());
    bytes.push(if subjects.is_some() { FORMAT_PERSONAL } else { FORMAT });
    bytes.push(kind as u8);
    bytes.extend_from_slice(&collection.to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    if let Some(subjects) = subjects {
        let length = |length: usize| u16::try_from(length).expect("subjects are few and short");
        bytes.extend_from_slice(&length(subjects.len()).to_be_bytes());
        for subject in subjects {
            bytes.extend_from_slice(&length(subject.len()).to_be_bytes());
            bytes.extend_from_slice(subject.as_bytes());
        }
    }
    bytes.extend_from_slice(packed);
    bytes
}

/// The collection or class that a change belongs to, as far as its bytes tell.
fn collection_of(bytes: &[u8]) -> Option<u16> {
    let (_, rest) = bytes.split_first_chunk::<2>()?;
    rest.first_chunk().map(|id| u16::from_be_bytes(*id))
}

/// The version that a change gave its document or object, as far as its bytes tell.
fn version_of(bytes: &[u8]) -> Option<u64> {
    let before = if ObjectStep::is_step(bytes) { 6 } else { 4 };
    let (_, rest) = bytes.split_at_checked(before)?;
    rest.first_chunk().map(|version| u64::from_be_bytes(*version))
}

fn decode_step(catalog: &Catalog, position: Position, bytes: &[u8]) -> Result<ObjectChange, Error> {
    let damaged = |detail: String| Error::corrupt(format!("change {}: {detail}", position.0));
    let step = ObjectStep::read(bytes).map_err(|error| damaged(error.to_string()))?;
    let ObjectStep { kind, class, partition, version, id, entries } = step;
    let class = catalog.class_by_id(class);
    let class = class.ok_or_else(|| damaged("its class is unknown".to_owned()))?.name.clone();
    Ok(ObjectChange { position, kind, class, partition, id, version, entries })
}

fn decode_change(
    catalog: &Catalog,
    position: Position,
    bytes: &[u8],
) -> Result<DocumentChange, Error> {
    let damaged = |detail: &str| Error::corrupt(format!("change {}: {detail}", position.0));
    let Some(([format @ (FORMAT | FORMAT_PERSONAL), kind], rest)) = bytes.split_first_chunk()
    else {
        return Err(damaged("it is cut off or has a newer format"));
    };
    let kind = match kind {
        1 => ChangeKind::Created,
        2 => ChangeKind::Updated,
        3 => ChangeKind::Deleted,
        _ => return Err(damaged("its kind is unknown")),
    };
    let (id, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    let (version, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    let (subjects, packed) = match *format {
        FORMAT_PERSONAL => {
            read_subjects(rest).ok_or_else(|| damaged("its subjects are cut off"))?
        }
        _ => (Vec::new(), rest),
    };
    let collection = catalog
        .by_id(u16::from_be_bytes(*id))
        .ok_or_else(|| damaged("its collection is unknown"))?;
    // A document that is gone may have had a key that the present schema cannot spell.
    let spelled = collection.key.respell_packed(packed);
    Ok(DocumentChange {
        position,
        kind,
        collection: collection.name.clone(),
        key: spelled.unwrap_or_else(|_| packed.escape_ascii().to_string()),
        version: u64::from_be_bytes(*version),
        subjects,
    })
}

fn read_subjects(bytes: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let (count, mut rest) = bytes.split_first_chunk()?;
    let mut subjects = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, behind) = rest.split_first_chunk()?;
        let (subject, behind) =
            behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        subjects.push(std::str::from_utf8(subject).ok()?.to_owned());
        rest = behind;
    }
    Some((subjects, rest))
}
