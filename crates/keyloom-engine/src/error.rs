//! What can go wrong, sorted by what a caller would do about it.

use std::fmt;

use keyloom_store::StoreError;
use thiserror::Error;

use crate::engine::Actor;
use crate::limits::REPLAN_ATTEMPTS_MAX;

/// Why the engine did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense as it stands: change it.
    #[error("{detail}")]
    Invalid {
        /// What is wrong, and what would be right.
        detail: String,
    },
    /// The schema cannot be used.
    #[error("{at}: {detail}")]
    Schema {
        /// Where in the schema, as a dotted path, or line and column of the text.
        at: String,
        /// What is wrong, and what would be right.
        detail: String,
    },
    /// There is no such collection.
    #[error("there is no collection `{collection}`; there are: {known}")]
    UnknownCollection {
        /// The name that was asked for.
        collection: String,
        /// The names that exist.
        known: String,
    },
    /// There is no such class.
    #[error("there is no class `{class}`; there are: {known}")]
    UnknownClass {
        /// The name that was asked for.
        class: String,
        /// The names that exist.
        known: String,
    },
    /// There is nothing with this key.
    #[error("`{key}` does not exist in `{collection}`")]
    NotFound {
        /// The collection.
        collection: String,
        /// The key that was asked for.
        key: String,
    },
    /// Another document holds what only one may hold.
    #[error("{claim} `{value}` is taken in `{collection}`")]
    UniqueViolation {
        /// The collection.
        collection: String,
        /// The name of the unique claim; `key` for the document's own key.
        claim: String,
        /// The claim's key in text spelling.
        value: String,
    },
    /// A rule of the schema forbids the document.
    #[error("{collection}.{field}: {rule}: {detail}")]
    RuleViolation {
        /// The collection.
        collection: String,
        /// The field that breaks the rule.
        field: String,
        /// The rule, by its name in the schema.
        rule: &'static str,
        /// What was found, and what is allowed.
        detail: String,
    },
    /// Nobody knows who the caller is, and only some may do this: send a token.
    #[error("`{collection}`: {detail}; send a token")]
    Unauthenticated {
        /// The collection; `*` if it is about all of them.
        collection: String,
        /// Who may.
        detail: String,
    },
    /// The caller may not do this, whatever the request looks like.
    #[error("`{collection}`: {detail}")]
    Forbidden {
        /// The collection; `*` if it is about all of them.
        collection: String,
        /// Who may.
        detail: String,
    },
    /// Somebody else was first: read again, then retry.
    #[error("version conflict on `{key}`: {}", versions(*.expected, *.stored))]
    VersionConflict {
        /// The key of the document.
        key: String,
        /// The version that the caller named; `None` is "absent", and if nothing is stored, "any".
        expected: Option<u64>,
        /// The version that is stored; `None` is "absent".
        stored: Option<u64>,
    },
    /// The document exists, and the caller did not say which version the change is based on.
    #[error("`{key}` exists at version {stored}: name the version your change is based on, or `*`")]
    PreconditionRequired {
        /// The key of the document.
        key: String,
        /// The version that is stored.
        stored: u64,
    },
    /// Changes that were asked for are no longer kept: read the documents again, then go on from
    /// the end of the feed.
    #[error(
        "changes up to position {trimmed} are no longer kept: read the documents again, and go \
             on after a position from there on"
    )]
    ChangesGone {
        /// Everything up to and including this position is gone.
        trimmed: u64,
    },
    /// No declared key serves the query.
    #[error("{0}")]
    NoIndex(Box<NoIndex>),
    /// Something is larger than it may be.
    #[error("{what}: {found}, at most {max} allowed")]
    LimitExceeded {
        /// What is too large.
        what: String,
        /// How large it is.
        found: usize,
        /// How large it may be.
        max: usize,
    },
    /// The race was lost too often; nothing is written.
    #[error("gave up after {attempts} attempts: other writers were first each time")]
    RetriesExhausted {
        /// How often it was tried.
        attempts: u32,
    },
    /// The commit may have happened: read before you retry.
    #[error("it is not known whether the commit happened: read before you retry ({0})")]
    OutcomeUnknown(#[source] StoreError),
    /// The store failed; nothing is written.
    #[error("the store failed, nothing is written: {0}")]
    Unavailable(#[source] StoreError),
    /// What is stored is damaged.
    #[error("stored data is corrupt: {detail}")]
    Corrupt {
        /// What was found, and where.
        detail: String,
    },
    /// One operation of a batch failed, and so nothing of the batch is written.
    #[error("operation {operation}: {source}")]
    Batch {
        /// Which one, counted from zero.
        operation: usize,
        /// Why.
        #[source]
        source: Box<Error>,
    },
}

/// What to add so that a refused query would be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoIndex {
    /// The collection that was asked.
    pub collection: String,
    /// Why nothing that is declared serves it.
    pub reason: String,
    /// The template of the index to add; `None` if it is there and only not complete yet.
    pub suggest: Option<String>,
    /// How many stored documents would have to be indexed.
    pub backfill_documents: u64,
    /// How many keys the index would add to each write.
    pub keys_per_write: u32,
}

impl fmt::Display for NoIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoIndex { collection, reason, suggest, .. } = self;
        match suggest {
            Some(suggest) => {
                write!(f, "no key serves this query ({reason}); add to `{collection}`: {suggest}")
            }
            None => write!(f, "no key serves this query ({reason}); apply the schema again"),
        }
    }
}

impl Error {
    /// The stable code of this error, the same on every surface.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Invalid { .. } | Error::Schema { .. } | Error::ChangesGone { .. } => {
                "invalid_argument"
            }
            Error::UnknownCollection { .. }
            | Error::UnknownClass { .. }
            | Error::NotFound { .. } => "not_found",
            Error::UniqueViolation { .. } => "unique_violation",
            Error::RuleViolation { .. } => "rule_violation",
            Error::Unauthenticated { .. } => "unauthenticated",
            Error::Forbidden { .. } => "forbidden",
            Error::VersionConflict { .. } => "version_conflict",
            Error::PreconditionRequired { .. } => "precondition_required",
            Error::NoIndex(_) => "no_index",
            Error::LimitExceeded { .. } => "limit_exceeded",
            Error::RetriesExhausted { .. } => "conflict_retries_exhausted",
            Error::OutcomeUnknown(_) => "outcome_unknown",
            Error::Unavailable(_) => "unavailable",
            Error::Corrupt { .. } => "internal",
            Error::Batch { source, .. } => source.code(),
        }
    }

    /// That a caller may not do something: [`Error::Unauthenticated`] if nobody knows who he is,
    /// otherwise [`Error::Forbidden`].
    pub fn forbidden(actor: &Actor, collection: &str, detail: impl Into<String>) -> Error {
        let (collection, detail) = (collection.to_owned(), detail.into());
        match actor {
            Actor::Anonymous => Error::Unauthenticated { collection, detail },
            Actor::Local | Actor::Admin(_) | Actor::User(_) => {
                Error::Forbidden { collection, detail }
            }
        }
    }

    /// That others were faster as often as a write is planned.
    pub(crate) fn exhausted() -> Error {
        let attempts = u32::try_from(REPLAN_ATTEMPTS_MAX).unwrap_or(u32::MAX);
        Error::RetriesExhausted { attempts }
    }

    /// An [`Error::Invalid`] with this detail.
    pub(crate) fn invalid(detail: impl Into<String>) -> Error {
        Error::Invalid { detail: detail.into() }
    }

    /// An [`Error::Corrupt`] with this detail.
    pub(crate) fn corrupt(detail: impl Into<String>) -> Error {
        Error::Corrupt { detail: detail.into() }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::OutcomeUnknown { .. } => Error::OutcomeUnknown(error),
            StoreError::Corrupt { detail } => Error::Corrupt { detail },
            StoreError::Trimmed { trimmed } => Error::ChangesGone { trimmed: trimmed.0 },
            StoreError::LimitExceeded { what, found, max } => {
                Error::LimitExceeded { what: what.to_owned(), found, max }
            }
            other => Error::Unavailable(other),
        }
    }
}

fn versions(expected: Option<u64>, stored: Option<u64>) -> String {
    let spelled = |version: Option<u64>| {
        version.map_or_else(|| "none".to_owned(), |version| format!("version {version}"))
    };
    match (expected, stored) {
        (None, None) => "expected any version, stored none".to_owned(),
        _ => format!("expected {}, stored {}", spelled(expected), spelled(stored)),
    }
}
