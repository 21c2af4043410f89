//! What the engine's tests stand on: a database in memory that counts, fails and waits as told.
//!
//! X1: Time moves only when a test moves it; randomness follows from a seed or from a script.
//! X2: A [`Database`] looks at what is stored behind the faults, so that looking never fails.

mod database;
mod faults;
mod system;

pub(crate) use database::{Database, action, code, operation};
pub(crate) use faults::{at_every_call, every_fault};
pub(crate) use system::{Seconds, TestSystem};

use keyloom_engine::schema::Schema;

/// The schemas as users get them.
pub(crate) const APPROVALS: &str = include_str!("../../../../schemas/approvals.toml");
pub(crate) const GRID: &str = include_str!("../../../../schemas/grid.toml");
pub(crate) const REPUTATION: &str = include_str!("../../../../schemas/reputation.toml");
pub(crate) const STICKERS: &str = include_str!("../../../../schemas/stickers.toml");

/// Reads a schema that is known to be well-formed TOML.
pub(crate) fn schema(text: &str) -> Schema {
    Schema::from_toml(text).expect("the test's schema is well-formed")
}
