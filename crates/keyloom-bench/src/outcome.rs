//! How anything here fails: with a text for the person who runs the benchmarks.

use std::error::Error;

/// A result whose error is only ever printed.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
