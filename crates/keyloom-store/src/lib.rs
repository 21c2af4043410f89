//! The ordered store that Keyloom runs on: bytes in, bytes out.
//!
//! [`contract`] is the whole of what a technology has to do to carry Keyloom.

mod contract;
mod error;

pub use contract::{
    Change, Check, Commit, CommitOutcome, Direction, Entry, Expect, Isolation, KeyRange, Limits,
    OrderedStore, Position, Scan, ScanOptions, Sharing, Snapshot, Stamp, Stored, Write,
};
pub use error::StoreError;
