//! Why a task did not do what it was asked.

use std::error::Error;
use std::fmt;

/// What a person reads when a task ends badly.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The command line was not understood: nothing was done.
    Usage(String),
    /// The task ran and failed, or could not run.
    Failed(String),
}

impl Failure {
    /// The exit code that the shell sees.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Failed(message) => f.write_str(message),
        }
    }
}

impl Error for Failure {}
