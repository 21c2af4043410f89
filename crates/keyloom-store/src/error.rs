//! What can go wrong in a store, sorted by what the caller would do about it.

use std::error::Error;

use thiserror::Error;

use crate::Position;

/// The cause below a [`StoreError`], as the technology reported it.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// Why a store could not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing happened; the same call may succeed later.
    #[error("store unavailable: {reason}")]
    Unavailable {
        /// What stands in the way.
        reason: String,
        /// What the technology reported.
        #[source]
        source: Option<Cause>,
    },
    /// The reply to a commit was lost: it may have happened. Read back to find out.
    #[error("commit outcome unknown: {reason}")]
    OutcomeUnknown {
        /// How the reply was lost.
        reason: String,
        /// What the technology reported.
        #[source]
        source: Option<Cause>,
    },
    /// The commit is larger than [`Limits`](crate::Limits) allows; nothing happened.
    #[error("{what} is {found}, the store takes at most {max}")]
    LimitExceeded {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// How large it may be.
        max: usize,
    },
    /// The commit contradicts the contract, whatever the store holds; nothing happened.
    #[error("invalid commit: {what}")]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// Changes that were asked for are no longer in the feed.
    #[error("changes up to position {} are gone", .trimmed.0)]
    Trimmed {
        /// Everything up to and including this position is gone.
        trimmed: Position,
    },
    /// What is stored is damaged. Restore a backup, or run `keyloom check`.
    #[error("stored data is corrupt: {detail}")]
    Corrupt {
        /// What was found, and where.
        detail: String,
    },
    /// Another process has the data open.
    #[error("{folder} is in use by another process: stop it, or choose another folder")]
    Locked {
        /// The folder.
        folder: String,
    },
    /// The data folder cannot be used by this program as it is.
    #[error("{folder}: {reason}")]
    Folder {
        /// The folder.
        folder: String,
        /// What is wrong with it and what to do.
        reason: String,
        /// What the system reported.
        #[source]
        source: Option<Cause>,
    },
}
