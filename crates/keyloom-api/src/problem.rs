//! Errors on the wire: problem documents (RFC 9457) with a stable code.
//!
//! P1: The code decides statuses and title, whatever door is used; the table is here and nowhere
//!     else.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

/// What went wrong, as a word that programs may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request makes no sense as it stands.
    InvalidArgument,
    /// It is not known who asks.
    Unauthenticated,
    /// Who asks may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// Another document holds what only one may hold.
    UniqueViolation,
    /// A rule of the schema forbids it.
    RuleViolation,
    /// Somebody else was first.
    VersionConflict,
    /// The request does not say which version it is based on.
    PreconditionRequired,
    /// No declared key serves the query.
    NoIndex,
    /// Something is larger than it may be.
    LimitExceeded,
    /// Too many requests.
    RateLimited,
    /// The race was lost too often.
    ConflictRetriesExhausted,
    /// It may or may not have happened.
    OutcomeUnknown,
    /// The store does not work at the moment.
    Unavailable,
    /// Stored data is damaged, or the program has an error.
    Internal,
}

/// A word that is not a code.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not an error code")]
pub struct UnknownCode(pub String);

/// What went wrong, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A name for the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in words, always the same.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: Code,
    /// What is wrong here, and what to do.
    pub detail: String,
    /// What a program may want to know.
    #[serde(flatten)]
    pub details: Details,
}

/// What a program may want to know of a problem; each code has its own members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Details {
    /// The collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The key of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The unique claim that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The field that breaks a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The rule, by its name in the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The versions that disagree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// The key that would serve the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggest: Option<Suggestion>,
    /// How large something may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// How often it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Which operation of a batch it was, counted from zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<usize>,
}

/// The versions that a conflict is about; `null` is "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    /// What the caller expected.
    pub expected: Option<u64>,
    /// What is stored.
    pub stored: Option<u64>,
}

/// What to add so that a refused query would be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Suggestion {
    /// The collection.
    pub collection: String,
    /// The template of the index to add.
    pub index: String,
    /// How many stored documents would have to be indexed.
    pub backfill_documents: u64,
    /// How many keys it would add to each write.
    pub keys_per_write: u32,
}

/// A code with its word, its status over HTTP, its status over gRPC, and its title.
type Row = (Code, &'static str, u16, i32, &'static str);

/// Every code (P1).
const TABLE: [Row; 15] = [
    (Code::InvalidArgument, "invalid_argument", 400, 3, "The request is not valid"),
    (Code::Unauthenticated, "unauthenticated", 401, 16, "A valid token is needed"),
    (Code::Forbidden, "forbidden", 403, 7, "This is not allowed"),
    (Code::NotFound, "not_found", 404, 5, "There is no such thing"),
    (Code::UniqueViolation, "unique_violation", 409, 6, "Another document holds this value"),
    (Code::RuleViolation, "rule_violation", 422, 9, "A rule of the schema is broken"),
    (Code::VersionConflict, "version_conflict", 412, 10, "Somebody else was first"),
    (Code::PreconditionRequired, "precondition_required", 428, 9, "The version is not named"),
    (Code::NoIndex, "no_index", 400, 3, "No key serves this query"),
    (Code::LimitExceeded, "limit_exceeded", 413, 8, "Something is too large"),
    (Code::RateLimited, "rate_limited", 429, 8, "Too many requests"),
    (
        Code::ConflictRetriesExhausted,
        "conflict_retries_exhausted",
        409,
        10,
        "Other writers were first each time",
    ),
    (Code::OutcomeUnknown, "outcome_unknown", 503, 2, "The outcome is not known"),
    (Code::Unavailable, "unavailable", 503, 14, "The store is not available"),
    (Code::Internal, "internal", 500, 13, "Something is damaged"),
];

impl Problem {
    /// A problem; status and title follow from the code.
    pub fn new(code: Code, detail: impl Into<String>, details: Details) -> Problem {
        Problem {
            kind: format!("urn:keyloom:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            details,
        }
    }
}

impl Code {
    /// The word that programs see.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The HTTP status.
    pub fn status(self) -> u16 {
        self.row().2
    }

    /// The status of gRPC, by its number.
    pub fn grpc_status(self) -> i32 {
        self.row().3
    }

    /// The kind of problem in words.
    pub fn title(self) -> &'static str {
        self.row().4
    }

    fn row(self) -> &'static Row {
        let row = TABLE.iter().find(|(code, ..)| *code == self);
        row.expect("a test sees that every code has a row")
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(word: &str) -> Result<Code, UnknownCode> {
        let row = TABLE.iter().find(|(_, known, ..)| *known == word);
        row.map(|(code, ..)| *code).ok_or_else(|| UnknownCode(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All codes; the `match` does not compile when one is missing.
    fn all() -> Vec<Code> {
        let all: Vec<Code> = TABLE.iter().map(|(code, ..)| *code).collect();
        for code in &all {
            match code {
                Code::InvalidArgument
                | Code::Unauthenticated
                | Code::Forbidden
                | Code::NotFound
                | Code::UniqueViolation
                | Code::RuleViolation
                | Code::VersionConflict
                | Code::PreconditionRequired
                | Code::NoIndex
                | Code::LimitExceeded
                | Code::RateLimited
                | Code::ConflictRetriesExhausted
                | Code::OutcomeUnknown
                | Code::Unavailable
                | Code::Internal => {}
            }
        }
        all
    }

    #[test]
    fn every_code_has_one_row_and_its_word_is_its_name_on_the_wire() {
        let words: Vec<&str> = all().iter().map(|code| code.as_str()).collect();
        let different: std::collections::BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(different.len(), 15);
        for code in all() {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(code.as_str().parse::<Code>().unwrap(), code);
        }
    }

    #[test]
    fn the_documented_statuses_hold() {
        let show =
            |code: &Code| format!("{} {} {}", code.as_str(), code.status(), code.grpc_status());
        let statuses: Vec<String> = all().iter().map(show).collect();
        expect_test::expect![[r"
            invalid_argument 400 3
            unauthenticated 401 16
            forbidden 403 7
            not_found 404 5
            unique_violation 409 6
            rule_violation 422 9
            version_conflict 412 10
            precondition_required 428 9
            no_index 400 3
            limit_exceeded 413 8
            rate_limited 429 8
            conflict_retries_exhausted 409 10
            outcome_unknown 503 2
            unavailable 503 14
            internal 500 13"]]
        .assert_eq(&statuses.join("\n"));
    }

    #[test]
    fn a_word_that_is_no_code_is_refused() {
        assert_eq!("oops".parse::<Code>(), Err(UnknownCode("oops".to_owned())));
    }

    #[test]
    fn a_refused_query_carries_the_key_to_add() {
        let suggest = Suggestion {
            collection: "approvals".to_owned(),
            index: "approvals:comment:{comment}:{id}".to_owned(),
            backfill_documents: 12,
            keys_per_write: 1,
        };
        let details = Details { suggest: Some(suggest), ..Details::default() };
        let problem = Problem::new(Code::NoIndex, "nothing leads with `comment`", details);
        let text = serde_json::to_string(&problem).unwrap();
        let head = r#"{"type":"urn:keyloom:problem:no_index","title":"No key serves this query","#;
        let what = r#""status":400,"code":"no_index","detail":"nothing leads with `comment`","#;
        let suggest = r#""suggest":{"collection":"approvals","#;
        let index = r#""index":"approvals:comment:{comment}:{id}","#;
        let cost = r#""backfill_documents":12,"keys_per_write":1}}"#;
        assert_eq!(text, [head, what, suggest, index, cost].concat());
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
    }

    #[test]
    fn a_conflict_carries_both_versions_and_an_absent_document_is_null() {
        let versions = Versions { expected: Some(7), stored: None };
        let details = Details { versions: Some(versions), ..Details::default() };
        let text = serde_json::to_string(&Problem::new(Code::VersionConflict, "", details));
        let text = text.unwrap();
        assert!(text.ends_with(r#""versions":{"expected":7,"stored":null}}"#), "{text}");
    }
}
