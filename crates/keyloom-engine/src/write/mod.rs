//! Writes: operations become one commit of checks, writes and changes.
//!
//! ```text
//! Operation ──intent──► DocumentChange ──facts──► Draft ──► Commit
//!            (rules)     (old, new)     (claims, references, derived documents, counters)
//! ```
//!
//! W1: A document, its index keys, its claims, its counter and its change are in one commit.
//! W2: Whatever a write depends on is a check of its commit: the old document, the absence of a new
//!     one, claims, references, derived documents, the catalog.
//! W3: Old keys are computed from the old document.

mod capacity;
mod change;
mod derive;
mod draft;
mod drive;
mod explain;
mod fill;
mod intent;
mod keys;
mod patch;
mod permit;
mod prepare;
mod quota;
mod rules;
mod set;
mod update;

pub(crate) use change::tombstone_key;
pub(crate) use draft::Witness;
pub(crate) use drive::Landed;
pub use explain::{PlannedKey, WritePlan};
pub(crate) use rules::{check_defaults, check_rules};
pub use set::SetReplacement;
pub use update::Update;

use crate::document::Document;
use crate::engine::{Actor, Engine};
use crate::error::Error;

/// One operation on one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The collection.
    pub collection: String,
    /// What to do there.
    pub action: Action,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a document; its key must be absent.
    Create {
        /// The key, if the caller knows it: it must be the one that follows from the data.
        key: Option<String>,
        /// JSON object.
        data: Vec<u8>,
        /// A free text beside the data.
        description: Option<String>,
    },
    /// Creates or replaces a document.
    Put {
        /// The key of the document as it is stored; the data may move it to another one.
        key: String,
        /// What must hold of the stored document.
        precondition: Precondition,
        /// JSON object.
        data: Vec<u8>,
        /// A free text beside the data; `None` clears it.
        description: Option<String>,
    },
    /// Changes members of a document: JSON merge patch.
    Patch {
        /// The key of the document.
        key: String,
        /// What must hold of the stored document.
        precondition: Precondition,
        /// JSON object; a member that is `null` is removed.
        patch: Vec<u8>,
    },
    /// Deletes a document; no effect if it is absent.
    Delete {
        /// The key of the document.
        key: String,
        /// What must hold of the stored document.
        precondition: Precondition,
    },
}

/// What must hold of the stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing was said: fine for a new document, refused for an existing one.
    Unsaid,
    /// There is none.
    Absent,
    /// It has this version.
    Version(u64),
    /// It exists, whatever its version: the caller means to overwrite.
    Any,
}

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The document is new.
    Created(Document),
    /// The document has changed.
    Updated(Document),
    /// The document is gone; this version will never be used again.
    Deleted {
        /// Its key.
        key: String,
        /// The version of the deletion.
        version: u64,
    },
    /// There was nothing to delete.
    Absent {
        /// The key that was asked for.
        key: String,
    },
}

impl Written {
    /// The document, if there is one.
    pub fn document(&self) -> Option<&Document> {
        match self {
            Written::Created(document) | Written::Updated(document) => Some(document),
            Written::Deleted { .. } | Written::Absent { .. } => None,
        }
    }

    /// The document, if there is one.
    pub fn into_document(self) -> Option<Document> {
        match self {
            Written::Created(document) | Written::Updated(document) => Some(document),
            Written::Deleted { .. } | Written::Absent { .. } => None,
        }
    }
}

impl Engine {
    /// Creates a document from its data; the key follows from it.
    pub async fn create(
        &self,
        actor: &Actor,
        collection: &str,
        data: &[u8],
    ) -> Result<Document, Error> {
        let action = Action::Create { key: None, data: data.to_vec(), description: None };
        let written = self.execute(actor, collection, action).await?;
        Ok(written.into_document().expect("a create gives a document"))
    }

    /// Deletes a document; no effect if it is absent.
    pub async fn delete(
        &self,
        actor: &Actor,
        collection: &str,
        key: &str,
        precondition: Precondition,
    ) -> Result<Written, Error> {
        let action = Action::Delete { key: key.to_owned(), precondition };
        self.execute(actor, collection, action).await
    }

    /// Executes one operation.
    pub async fn execute(
        &self,
        actor: &Actor,
        collection: &str,
        action: Action,
    ) -> Result<Written, Error> {
        let operation = Operation { collection: collection.to_owned(), action };
        let mut written = self.write(actor, std::slice::from_ref(&operation)).await?;
        Ok(written.pop().expect("one operation gives one result"))
    }

    /// Executes all operations in one commit, or none of them.
    pub async fn batch(
        &self,
        actor: &Actor,
        operations: &[Operation],
    ) -> Result<Vec<Written>, Error> {
        self.write(actor, operations).await
    }
}
