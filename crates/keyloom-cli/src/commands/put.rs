//! `keyloom put`: create, replace or patch a document, or tell which keys that would write.

use keyloom_api::{BatchResult, Outcome, WritePlan};
use keyloom_engine::{Action, Operation, Precondition};

use super::Session;
use crate::args::Put;
use crate::input;
use crate::output::{Format, Output, counted, visible};
use crate::problem::Failure;
use crate::table::Table;

pub(super) async fn run(session: &mut Session<'_>, put: Put) -> Result<(), Failure> {
    let Put { collection, document, key, if_version, patch, description, explain } = put;
    let data = input::document(&document)?;
    let precondition = if_version.unwrap_or(Precondition::Unsaid);
    let old_key = key.clone();
    let action = match key {
        None => Action::Create { key: None, data, description },
        Some(key) if patch => Action::Patch { key, precondition, patch: data },
        Some(key) => Action::Put { key, precondition, data, description },
    };
    let operations = [Operation { collection, action }];
    if explain {
        let plan = session.backend.explain_write(&operations).await?;
        return tell_plan(session.output, plan);
    }
    let written = session.backend.write(None, &operations).await?;
    let written = written.into_iter().next();
    written.map_or(Ok(()), |written| tell_written(session.output, written, old_key.as_deref()))
}

fn tell_written(
    output: &mut Output,
    written: BatchResult,
    old_key: Option<&str>,
) -> Result<(), Failure> {
    let verb = if written.outcome == Outcome::Created { "created" } else { "updated" };
    let Some(document) = written.document else { return Ok(()) };
    match output.format() {
        Format::Json => output.json(&document),
        Format::Text => {
            let moved = old_key.filter(|old| *old != document.key && verb == "updated");
            let from = moved.map(|old| format!("{} → ", visible(old))).unwrap_or_default();
            output.line(format_args!("{verb} {from}{}", visible(&document.key)))?;
            output.dim(format_args!("version {}", document.version))
        }
    }
}

fn tell_plan(output: &mut Output, plan: WritePlan) -> Result<(), Failure> {
    if output.format() == Format::Json {
        return output.json(&plan);
    }
    let WritePlan { puts, deletes, checks, changes } = plan;
    let mut table = Table::new(["", "role", "key", "key bytes", "value bytes"]);
    let counts = (count(puts.len()), count(deletes.len()));
    let puts = puts.into_iter().map(|key| ("put", key));
    let deletes = deletes.into_iter().map(|key| ("delete", key));
    for (verb, key) in puts.chain(deletes) {
        let (key_bytes, value_bytes) = (key.key_bytes.to_string(), key.value_bytes.to_string());
        table.row([verb.to_owned(), key.role, visible(&key.key), key_bytes, value_bytes]);
    }
    output.table(&table)?;
    output.dim(format_args!(
        "{} put, {} deleted · {} · {} in the feed · one commit · nothing was written",
        counted(counts.0, "key"),
        counts.1,
        counted(count(checks), "check"),
        counted(count(changes), "change"),
    ))
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
