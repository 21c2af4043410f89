//! What can go wrong on the command line, and how it is told.
//!
//! F1: People read `keyloom: …` on standard error; with `--json` it is a problem document.
//! F2: 0 is success, and also that nobody reads the output any more; 1 is an error; 2 is a command
//!     line that makes no sense.

use std::io::Write;
use std::process::ExitCode;

use keyloom_api::{Code, Details, Problem, Suggestion};
use keyloom_engine::Error;
use keyloom_server::ServeError;
use keyloom_server::problem::details;
use keyloom_server::typed::template_fields;
use keyloom_store::StoreError;
use thiserror::Error as ThisError;

use crate::output::{Format, counted, visible};

/// Why a command failed.
#[derive(Debug, ThisError)]
pub(crate) enum Failure {
    /// The engine refused, or could not.
    #[error("{0}")]
    Engine(#[from] Error),
    /// The server refused, or could not.
    #[error("{}", .0.detail)]
    Remote(Box<Problem>),
    /// The server does not answer, or not as it should.
    #[error("{0}")]
    Unreachable(String),
    /// The store cannot be opened.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The server does not start.
    #[error("{0}")]
    Serve(#[from] ServeError),
    /// What was given is not what is needed.
    #[error("{0}")]
    Invalid(String),
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// There is no database where one is expected.
    #[error("{0}")]
    Absent(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system reported.
        source: std::io::Error,
    },
    /// Something inside of a file is wrong.
    #[error("{place}: {source}")]
    At {
        /// Where.
        place: String,
        /// What.
        source: Box<Failure>,
    },
    /// An import stopped.
    #[error("{source}\n{imported} imported before it{}", hint(.source, *.skip, *.unsure))]
    Import {
        /// What is wrong, and in which line.
        source: Box<Failure>,
        /// The documents that were imported, counted.
        imported: String,
        /// How many lines are done.
        skip: u64,
        /// Up to which line it may be done, too, because nobody answered.
        unsure: Option<u64>,
    },
    /// A check found problems that remain.
    #[error("{0} found; `keyloom check --repair` mends keys, never documents")]
    Damaged(String),
    /// The program itself is wrong.
    #[error("this is an error of the program, please report it: {0}")]
    Internal(String),
    /// The answer cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(std::io::Error),
}

impl Failure {
    /// The same failure, with the place where it happened.
    pub(crate) fn at(self, place: impl Into<String>) -> Failure {
        Failure::At { place: place.into(), source: Box::new(self) }
    }

    /// A failure of a file.
    pub(crate) fn file(path: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let path = path.into();
        move |source| Failure::File { path, source }
    }

    /// What a program may want to know of it.
    fn details(&self) -> Details {
        match self {
            Failure::Engine(error) => details(error),
            Failure::Remote(problem) => problem.details.clone(),
            Failure::At { source, .. } | Failure::Import { source, .. } => source.details(),
            _ => Details::default(),
        }
    }

    fn code(&self) -> Code {
        match self {
            Failure::Engine(error) => error.code().parse().unwrap_or(Code::Internal),
            Failure::Remote(problem) => problem.code,
            Failure::Unreachable(_) => Code::Unavailable,
            Failure::Store(StoreError::Corrupt { .. }) => Code::Internal,
            Failure::Store(_) | Failure::Serve(_) | Failure::File { .. } | Failure::Output(_) => {
                Code::Unavailable
            }
            Failure::Invalid(_) | Failure::Usage(_) => Code::InvalidArgument,
            Failure::Absent(_) => Code::NotFound,
            Failure::At { source, .. } | Failure::Import { source, .. } => source.code(),
            Failure::Damaged(_) | Failure::Internal(_) => Code::Internal,
        }
    }

    /// What to do, where that is not what the failure itself says.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Failure::At { source, .. } | Failure::Import { source, .. } => source.advice(),
            Failure::Store(StoreError::Corrupt { .. }) | Failure::Engine(Error::Corrupt { .. }) => {
                Some("restore a backup, and keep the damaged folder: what can be read is not lost")
            }
            Failure::Output(_) => {
                Some("if it tells of a write, that is done: look before you try again")
            }
            _ if self.code() == Code::PreconditionRequired => {
                Some("`--if-version` names the version")
            }
            _ => None,
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
            Failure::Usage(_) => 2,
            _ => 1,
        }
    }
}

/// Tells of a failure on standard error; the answer is how the command ends.
pub(crate) fn report(failure: &Failure, format: Format) -> ExitCode {
    let exit = failure.exit_code();
    if exit != 0 {
        let text = match format {
            Format::Text => told(failure),
            Format::Json => {
                serde_json::to_string(&problem(failure)).unwrap_or_else(|_| told(failure))
            }
        };
        // If standard error is closed, too, there is nobody left to tell.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
    ExitCode::from(exit)
}

/// A failure for people.
pub(crate) fn told(failure: &Failure) -> String {
    let text = match failure.details().suggest {
        Some(missing) => no_index(&missing, &failure.to_string()),
        None => failure.to_string(),
    };
    let lines = text.lines().chain(failure.advice());
    let lines: Vec<String> = lines.map(visible).collect();
    format!("keyloom: {}", lines.join("\n  "))
}

/// A failure for machines.
pub(crate) fn problem(failure: &Failure) -> Problem {
    Problem::new(failure.code(), failure.to_string(), failure.details())
}

/// What to add to the schema, ready to paste.
fn no_index(missing: &Suggestion, detail: &str) -> String {
    let Suggestion { collection, index, backfill_documents, keys_per_write } = missing;
    // The detail is for one line: the reason in parentheses, then the template.
    let reason = detail.split_once("this query (").map_or(detail, |(_, reason)| reason);
    let reason = reason.split("); add to `").next().unwrap_or(reason);
    format!(
        "no key of `{collection}` serves this query: {reason}\n\
         Add this to the schema and apply it, or allow a scan with --scan N:\n\
         \x20 [collections.{collection}.indexes]\n\
         \x20 {} = {}\n\
         It would index {}, and add {} to each write.",
        index_name(index),
        toml::Value::from(index.as_str()),
        counted(*backfill_documents, "stored document"),
        counted(u64::from(*keys_per_write), "key"),
    )
}

/// A name for an index: the fields that it leads with, without the identity at its end.
fn index_name(template: &str) -> String {
    let fields = template_fields(template);
    let leading = fields.split_last().map_or(&[][..], |(_, leading)| leading);
    let named = if leading.is_empty() { &fields[..] } else { leading };
    let names: Vec<&str> = named.iter().take(2).map(|name| name.trim_start_matches('@')).collect();
    if names.is_empty() { "name".to_owned() } else { names.join("_") }
}

fn hint(source: &Failure, skip: u64, unsure: Option<u64>) -> String {
    match (skip, unsure) {
        (skip, Some(last)) => format!(
            "; lines {} to {last} may be in as well, all or none of them: look, and go on with \
             --skip {last} if they are, with --skip {skip} if not",
            skip + 1
        ),
        (0, None) => String::new(),
        (skip, None) => {
            let what = if source.code() == Code::Unavailable { "that" } else { "the line" };
            format!("; to go on, mend {what} and add --skip {skip}")
        }
    }
}

#[cfg(test)]
mod tests {
    use keyloom_engine::NoIndex;

    use super::*;

    fn missing() -> Failure {
        Failure::Engine(Error::NoIndex(Box::new(NoIndex {
            collection: "approvals".to_owned(),
            reason: "nothing leads with `comment`".to_owned(),
            suggest: Some("approvals:comment:{comment}:{created_at desc}:{id}".to_owned()),
            backfill_documents: 1234,
            keys_per_write: 1,
        })))
    }

    #[test]
    fn a_refused_query_is_answered_with_lines_to_paste() {
        expect_test::expect![[r#"
            keyloom: no key of `approvals` serves this query: nothing leads with `comment`
              Add this to the schema and apply it, or allow a scan with --scan N:
                [collections.approvals.indexes]
                comment_created_at = "approvals:comment:{comment}:{created_at desc}:{id}"
              It would index 1,234 stored documents, and add 1 key to each write."#]]
        .assert_eq(&told(&missing()));
    }

    #[test]
    fn a_problem_document_carries_the_code_and_what_programs_need() {
        let problem = problem(&missing().at("line 3"));
        assert_eq!((problem.code, problem.status), (Code::NoIndex, 400));
        assert_eq!(problem.details.suggest.unwrap().backfill_documents, 1234);
        assert!(problem.detail.starts_with("line 3: no key serves"));
    }

    #[test]
    fn an_import_that_got_no_answer_says_what_may_be_in() {
        let failure = Failure::Import {
            source: Box::new(Failure::Unreachable("line 501: no server answers".to_owned())),
            imported: "500 documents".to_owned(),
            skip: 500,
            unsure: Some(1000),
        };
        let told = told(&failure);
        assert!(told.contains("; lines 501 to 1000 may be in as well"), "{told}");
        assert!(told.ends_with("--skip 1000 if they are, with --skip 500 if not"), "{told}");
    }

    #[test]
    fn an_import_that_stopped_says_whether_the_line_is_to_blame() {
        let stopped = |source| {
            let imported = "500 documents".to_owned();
            told(&Failure::Import { source: Box::new(source), imported, skip: 500, unsure: None })
        };
        let bad = stopped(Failure::Invalid("line 501: no JSON".to_owned()));
        assert!(bad.ends_with("; to go on, mend the line and add --skip 500"), "{bad}");
        let full = StoreError::Unavailable { reason: "no space".to_owned(), source: None };
        let full = stopped(Failure::Store(full));
        assert!(full.ends_with("; to go on, mend that and add --skip 500"), "{full}");
    }

    #[test]
    fn what_to_do_about_damage_and_a_missing_version_is_said() {
        let damage = StoreError::Corrupt { detail: "a block is damaged".to_owned() };
        let damage = told(&Failure::Store(damage).at("plants"));
        assert!(damage.contains("a block is damaged\n  restore a backup"), "{damage}");
        let bare = Error::PreconditionRequired { key: "a:b".to_owned(), stored: 7 };
        assert!(told(&Failure::Engine(bare)).ends_with("`--if-version` names the version"));
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_wrong_usage_is_2() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::Output(closed).exit_code(), 0);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Failure::Output(full).exit_code(), 1);
        assert_eq!(Failure::Usage(String::new()).exit_code(), 2);
        assert_eq!(missing().exit_code(), 1);
    }

    #[test]
    fn control_characters_of_bad_input_are_shown_escaped() {
        let failure = Failure::Invalid("a\x1b[2Jb\nsecond".to_owned());
        assert_eq!(told(&failure), "keyloom: a\\u{1b}[2Jb\n  second");
    }

    #[test]
    fn every_code_of_the_engine_is_a_code_of_the_wire() {
        let errors = [
            Error::Invalid { detail: String::new() },
            Error::NotFound { collection: String::new(), key: String::new() },
            Error::PreconditionRequired { key: String::new(), stored: 1 },
            Error::VersionConflict { key: String::new(), expected: None, stored: None },
            Error::RetriesExhausted { attempts: 3 },
            Error::LimitExceeded { what: String::new(), found: 2, max: 1 },
            Error::Corrupt { detail: String::new() },
        ];
        for error in errors {
            let code = error.code();
            assert_eq!(problem(&Failure::Engine(error)).code.as_str(), code);
        }
    }
}
