//! From the engine's errors to problem documents: the one table that every surface uses.

use keyloom_api::{Code, Details, Problem, Suggestion, Versions};
use keyloom_engine::{Error, NoIndex};

/// Where the code of a problem stands beside an answer, for programs that want to know more than
/// its status.
pub(crate) const CODE: &str = "keyloom-code";

/// An error of the engine as a problem document.
pub fn problem(error: &Error) -> Problem {
    let code = error.code().parse().unwrap_or(Code::Internal);
    Problem::new(code, error.to_string(), details(error))
}

/// What a program may want to know of an error.
pub fn details(error: &Error) -> Details {
    let none = Details::default();
    match error {
        Error::NotFound { collection, key } => {
            Details { collection: Some(collection.clone()), key: Some(key.clone()), ..none }
        }
        Error::Forbidden { collection, detail: _ }
        | Error::Unauthenticated { collection, detail: _ } => {
            Details { collection: Some(collection.clone()), ..none }
        }
        Error::UnknownCollection { collection, known: _ } => {
            Details { collection: Some(collection.clone()), ..none }
        }
        Error::UniqueViolation { collection, claim, value } => Details {
            collection: Some(collection.clone()),
            claim: Some(claim.clone()),
            key: Some(value.clone()),
            ..none
        },
        Error::RuleViolation { collection, field, rule, detail: _ } => Details {
            collection: Some(collection.clone()),
            field: Some(field.clone()),
            rule: Some((*rule).to_owned()),
            ..none
        },
        Error::VersionConflict { key, expected, stored } => {
            let versions = Versions { expected: *expected, stored: *stored };
            Details { key: Some(key.clone()), versions: Some(versions), ..none }
        }
        Error::PreconditionRequired { key, stored } => {
            let versions = Versions { expected: None, stored: Some(*stored) };
            Details { key: Some(key.clone()), versions: Some(versions), ..none }
        }
        Error::NoIndex(missing) => {
            Details { suggest: suggestion(missing.as_ref().clone()), ..none }
        }
        Error::LimitExceeded { what: _, found: _, max } => Details { max: Some(*max), ..none },
        Error::RetriesExhausted { attempts } => Details { attempts: Some(*attempts), ..none },
        Error::Batch { operation, source } => {
            Details { operation: Some(*operation), ..details(source) }
        }
        _ => none,
    }
}

fn suggestion(missing: NoIndex) -> Option<Suggestion> {
    let NoIndex { collection, reason: _, suggest, backfill_documents, keys_per_write } = missing;
    Some(Suggestion { collection, index: suggest?, backfill_documents, keys_per_write })
}
