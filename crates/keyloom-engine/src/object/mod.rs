//! Objects of the grid: an identity, a version and entries, each under a key of its own.
//!
//! O1: One call is one commit is one version step: the metadata, the entries it touches, the
//!     counters, the events it fires and its change are written together.
//! O2: Every write of an object checks and moves its metadata, so whatever was read of the object
//!     still holds when the commit does.
//! O3: A version is never used twice: a tombstone keeps the last one of a deleted object.
//! O4: An object lies in one layout or in the oldest one, never in both; a write moves it to the
//!     new one.

mod counter;
mod draft;
mod envelope;
mod invocation;
mod legacy;
mod letters;
mod list;
mod outbox;
mod read;
mod record;
mod rewrite;
mod rollout;
mod trigger;
mod write;

use std::sync::Arc;

use keyloom_key::ObjectId;

use crate::catalog::{Catalog, Class};
use crate::engine::Engine;
use crate::error::Error;
use crate::schema::{ClassSchema, Event};

pub use counter::ObjectStats;
pub(crate) use counter::{Counted, counter_key, has_objects, uncreated};
pub use list::{EntryList, EntryPage, ObjectItem, ObjectList, ObjectOrder, ObjectPage};
pub(crate) use outbox::EventList;
pub use outbox::{EventCause, EventPage, Failed, OutboxAt, OutboxEvent};
pub use read::{EntriesRead, Object};
pub(crate) use record::{LegacyObject, Metadata};
pub use rollout::Rollout;
pub(crate) use rollout::is_number_like;
pub use trigger::{Completion, Ended};
pub use write::{EntryBatch, ObjectContent, ObjectWritten, Terms};

/// Where an object is.
#[derive(Clone, Copy, Debug)]
pub struct ObjectAt<'a> {
    /// The name of its class.
    pub class: &'a str,
    /// Its partition.
    pub partition: Partition,
    /// Its identity.
    pub id: &'a ObjectId,
}

/// Which partition of a class is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The one with this number.
    Number(u32),
    /// The one that follows from the identity.
    Auto,
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Val {
    /// What the data is.
    pub kind: ValKind,
    /// The data as it came.
    pub data: Vec<u8>,
}

/// What the data of a value is. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ValKind {
    /// Bytes.
    #[default]
    Byte = 0,
    /// A CRDT map; Keyloom does not look into it.
    CrdtMap = 1,
}

impl Val {
    /// Bytes as a value.
    pub fn bytes(data: impl Into<Vec<u8>>) -> Val {
        Val { kind: ValKind::Byte, data: data.into() }
    }
}

impl Engine {
    /// The names of all classes.
    pub fn classes(&self) -> Vec<String> {
        self.catalog().classes.keys().cloned().collect()
    }

    /// What a class says.
    pub fn class(&self, name: &str) -> Result<Arc<ClassSchema>, Error> {
        Ok(Arc::clone(&self.catalog().class(name)?.schema))
    }

    /// The number of the partition that an object is in.
    pub fn partition(&self, at: ObjectAt<'_>) -> Result<u16, Error> {
        partition(self.catalog().class(at.class)?, at.partition, at.id)
    }
}

/// The number of a partition.
fn partition(class: &Class, partition: Partition, id: &ObjectId) -> Result<u16, Error> {
    match partition {
        Partition::Number(number) => class.partition(number).map_err(Error::invalid),
        Partition::Auto => Ok(id.partition(class.schema.partitions)),
    }
}

/// An event that is about to be stored: its keys normalized, its functions known.
fn checked_event(catalog: &Catalog, event: Event) -> Result<Event, Error> {
    let event = event.normalized(usize::from(catalog.record.rollout.id_len_max))?;
    crate::catalog::check_targets(&catalog.classes, &event).map_err(Error::invalid)?;
    Ok(event)
}
