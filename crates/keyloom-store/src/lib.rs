//! The ordered store that Keyloom runs on: bytes in, bytes out.
//!
//! [`OrderedStore`] is the whole of what a technology has to do to carry Keyloom. [`memory`] is the
//! model of it, the module `conformance` (behind the feature of that name) its law, and [`faults`]
//! makes any store go wrong on demand. [`group`], [`batch`], [`record`] and [`folder`] are what the
//! embedded stores share.

pub mod batch;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod error;
pub mod faults;
pub mod folder;
pub mod group;
pub mod limits;
pub mod memory;
mod patience;
pub mod record;

pub use contract::{
    Change, Check, Commit, CommitOutcome, Direction, Entries, Entry, Expect, Feed, Isolation,
    KeyRange, Limits, OrderedStore, Position, Scan, ScanOptions, Sharing, Snapshot, Stamp, Stored,
    Tally, Write,
};
pub use error::StoreError;
