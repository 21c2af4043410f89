//! Logs: one line per event on standard error, as text or as JSON; and traces, if they are wanted.
//!
//! T1: Nothing secret is logged or traced: no bodies, no headers, no addresses with their
//!     parameters.

use std::io::{self, IsTerminal};

use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

use crate::traces::Traces;

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Begins to log, and to send traces if the environment names a collector. `filter` is a level, or
/// levels by module as in `info,keyloom_server=debug`; requests are logged at `debug`, failures at
/// `warn`. Traces do not depend on it.
pub fn log(filter: &str, format: LogFormat) -> Result<Traces, LogError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| LogError::Filter(error.to_string()))?;
    let traces = Traces::begin().map_err(LogError::Traces)?;
    let is_terminal = io::stderr().is_terminal();
    let lines = match format {
        LogFormat::Text => {
            fmt::layer().with_writer(io::stderr).with_ansi(is_terminal).with_target(false).boxed()
        }
        LogFormat::Json => fmt::layer().json().with_writer(io::stderr).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.layer())
        .try_init()
        .map_err(LogError::Begun)?;
    Ok(traces)
}

/// Why nothing is logged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter makes no sense.
    #[error("--log: {0}")]
    Filter(String),
    /// The collector of traces cannot be used as it is named.
    #[error("traces: {0}")]
    Traces(String),
    /// Something logs already.
    #[error("logs have begun already: {0}")]
    Begun(#[source] TryInitError),
}
