//! `keyloom import`: documents from lines of JSON.
//!
//! I1: Documents are created in batches, each in one commit, in the order of the lines.
//! I2: At the first line that cannot be imported it stops, all lines before it are in, and it says
//!     how to go on.
//! I3: Memory is bounded by one batch.

use std::collections::BTreeSet;

use keyloom_api::Code;
use keyloom_engine::{Action, Operation};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Session;
use crate::args::Import;
use crate::backend::Backend;
use crate::input::Lines;
use crate::limits::{IMPORT_BYTES, IMPORT_DOCUMENTS};
use crate::members::members;
use crate::output::{Format, counted};
use crate::problem::{Failure, problem};
use crate::progress::Progress;

pub(super) async fn run(session: &mut Session<'_>, import: Import) -> Result<(), Failure> {
    let Import { collection, file, skip } = import;
    // An unknown collection is an error before the first line is read.
    session.schema(&collection).await?;
    let mut lines = Lines::open(&file)?;
    let mut progress = Progress::start("import");
    let mut job = Job { session, collection: &collection, imported: 0, batch: Batch::default() };
    let done = job.all_lines(&mut lines, skip, &mut progress).await;
    let imported = job.imported;
    progress.step(imported, None);
    let summary = progress.finish();
    done.map_err(|Stopped { line, unsure, error }| Failure::Import {
        source: Box::new(error),
        imported: counted(imported, "document"),
        skip: line - 1,
        unsure,
    })?;
    match session.output.format() {
        Format::Json => session.output.json(&serde_json::json!({ "imported": imported })),
        Format::Text => session.output.line(format_args!("imported {summary}")),
    }
}

/// An import under way.
struct Job<'a, 'o> {
    session: &'a Session<'o>,
    collection: &'a str,
    imported: u64,
    batch: Batch,
}

/// Documents that wait to be created together, on behalf of one owner.
#[derive(Default)]
struct Batch {
    owner: Option<String>,
    operations: Vec<Operation>,
    /// The line of each operation.
    lines: Vec<u64>,
    bytes: usize,
}

/// Why an import stopped.
struct Stopped {
    line: u64,
    /// The last line that may have been imported although it seems not.
    unsure: Option<u64>,
    error: Failure,
}

/// A batch of which only the first operations were executed.
struct Cut {
    done: usize,
    /// How many more may have been executed.
    unsure: usize,
    error: Failure,
}

/// A document as `keyloom export` prints it.
#[derive(Deserialize)]
struct Exported<'l> {
    key: String,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow)]
    data: &'l RawValue,
}

impl Job<'_, '_> {
    async fn all_lines(
        &mut self,
        lines: &mut Lines,
        skip: u64,
        progress: &mut Progress,
    ) -> Result<(), Stopped> {
        loop {
            let (line, text) = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.flush(lines).await?;
                    return Err(Stopped { line: lines.number().max(1), unsure: None, error });
                }
            };
            if line <= skip {
                continue;
            }
            let (action, owner) = match read_line(&text) {
                Ok(read) => read,
                Err(error) => {
                    self.flush(lines).await?;
                    let error = error.at(lines.place(line));
                    return Err(Stopped { line, unsure: None, error });
                }
            };
            if self.batch.is_full() || self.batch.owner != owner {
                self.flush(lines).await?;
                progress.step(self.imported, lines.share());
            }
            let operation = Operation { collection: self.collection.to_owned(), action };
            self.batch.owner = owner;
            self.batch.operations.push(operation);
            self.batch.lines.push(line);
            self.batch.bytes += text.len();
        }
        self.flush(lines).await
    }

    /// Creates what waits.
    async fn flush(&mut self, lines: &Lines) -> Result<(), Stopped> {
        let Batch { owner, operations, lines: numbers, bytes: _ } = std::mem::take(&mut self.batch);
        if operations.is_empty() {
            return Ok(());
        }
        let done = create(&self.session.backend, owner.as_deref(), &operations).await;
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        match done {
            Ok(()) => {
                self.imported += count(operations.len());
                Ok(())
            }
            Err(Cut { done, unsure, error }) => {
                self.imported += count(done);
                let last = (done + unsure).checked_sub(1).filter(|_| unsure > 0);
                let unsure = last.and_then(|last| numbers.get(last).copied());
                let line = numbers.get(done).copied().unwrap_or_else(|| lines.number());
                let error = error.at(lines.place(line));
                Err(Stopped { line, unsure, error })
            }
        }
    }
}

impl Batch {
    fn is_full(&self) -> bool {
        self.operations.len() >= IMPORT_DOCUMENTS || self.bytes >= IMPORT_BYTES
    }
}

/// Creates documents, in one commit if that is possible. If one cannot be created, those before it
/// are (I2), and it is tried alone, so that its error is its own. A batch that is too large for one
/// commit becomes two.
async fn create(
    backend: &Backend,
    owner: Option<&str>,
    operations: &[Operation],
) -> Result<(), Cut> {
    let mut done = 0;
    let mut size = operations.len();
    while let Some(rest) = operations.get(done..).filter(|rest| !rest.is_empty()) {
        let batch = rest.get(..size).unwrap_or(rest);
        let count = batch.len();
        let Err(error) = backend.write(owner, batch).await else {
            done += count;
            size = operations.len();
            continue;
        };
        let problem = problem(&error);
        match (problem.details.operation, problem.code) {
            _ if is_unanswered(&error) => return Err(Cut { done, unsure: count, error }),
            _ if count == 1 => return Err(Cut { done, unsure: 0, error }),
            (Some(operation), _) => size = operation.max(1),
            (None, Code::LimitExceeded) => size = count / 2,
            (None, _) => return Err(Cut { done, unsure: 0, error }),
        }
    }
    Ok(())
}

/// Whether nobody can say if something was done.
fn is_unanswered(error: &Failure) -> bool {
    matches!(error, Failure::Unreachable(_)) || problem(error).code == Code::OutcomeUnknown
}

/// What a line means: a document as it is exported, or the data alone.
fn read_line(text: &[u8]) -> Result<(Action, Option<String>), Failure> {
    if !is_exported(text) {
        let data = text.trim_ascii().to_vec();
        return Ok((Action::Create { key: None, data, description: None }, None));
    }
    let exported: Exported<'_> =
        serde_json::from_slice(text).map_err(|error| Failure::Invalid(error.to_string()))?;
    let Exported { key, owner, description, data } = exported;
    let data = data.get().as_bytes().to_vec();
    Ok((Action::Create { key: Some(key), data, description }, owner))
}

/// Whether an object has a key and data, and nothing that an exported document has not.
fn is_exported(text: &[u8]) -> bool {
    const KNOWN: [&str; 7] =
        ["key", "version", "created_at", "updated_at", "owner", "description", "data"];
    let members = members(text);
    let names: BTreeSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.contains("key") && names.contains("data") && names.iter().all(|n| KNOWN.contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_exported_document_or_its_data() {
        let line = br#"{"key":"k","version":1,"created_at":1,"updated_at":1,"owner":"u",
                        "description":null,"data":{"a" : 1}}"#;
        let (action, owner) = read_line(line).unwrap();
        let data = br#"{"a" : 1}"#.to_vec();
        let key = Some("k".to_owned());
        assert_eq!(action, Action::Create { key, data, description: None });
        assert_eq!(owner.as_deref(), Some("u"));

        let (action, owner) = read_line(b"{\"key\":\"k\",\"data\":{},\"more\":1}\n").unwrap();
        let data = br#"{"key":"k","data":{},"more":1}"#.to_vec();
        assert_eq!(action, Action::Create { key: None, data, description: None });
        assert_eq!(owner, None);
    }

    #[test]
    fn an_exported_document_with_a_wrong_member_is_refused() {
        let error = read_line(br#"{"key":7,"data":{}}"#).unwrap_err().to_string();
        assert!(error.contains("invalid type: integer `7`, expected a string"), "{error}");
    }
}
