//! Logs: one line per event on standard error, as text or as JSON.
//!
//! T1: Nothing secret is logged: no bodies, no headers, no addresses with their parameters.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Begins to log. `filter` is a level, or levels by module as in `info,keyloom_server=debug`;
/// requests are logged at `debug`, failures at `warn`.
pub fn log(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| LogError::Filter(error.to_string()))?;
    let is_terminal = io::stderr().is_terminal();
    let registry = tracing_subscriber::registry().with(filter);
    let begun = match format {
        LogFormat::Text => registry
            .with(fmt::layer().with_writer(io::stderr).with_ansi(is_terminal).with_target(false))
            .try_init(),
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(io::stderr)).try_init(),
    };
    begun.map_err(LogError::Begun)
}

/// Why nothing is logged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter makes no sense.
    #[error("--log: {0}")]
    Filter(String),
    /// Something logs already.
    #[error("logs have begun already: {0}")]
    Begun(#[source] TryInitError),
}
