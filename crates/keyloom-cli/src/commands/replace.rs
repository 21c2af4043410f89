//! `keyloom replace`: all documents of a set, swapped in one commit.

use keyloom_api::{BatchResult, Deleted, Document, Outcome};
use keyloom_engine::SetReplacement;
use keyloom_engine::limits::SET_DOCUMENTS_MAX;
use serde::Serialize;
use serde_json::Value as Json;

use super::Session;
use crate::args::Replace;
use crate::input::Lines;
use crate::output::{Format, counted};
use crate::problem::Failure;
use keyloom_server::typed::{kind_of, value};

pub(super) async fn run(session: &mut Session<'_>, replace: Replace) -> Result<(), Failure> {
    let Replace { collection, set, leading, from } = replace;
    let schema = session.schema(&collection).await?;
    let by: &[String] = schema.sets.get(&set).map_or(&[], |set| &set.by);
    let leading: Result<Vec<Json>, Failure> = leading
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let kind = by.get(place).and_then(|field| kind_of(&schema, field));
            value(kind, text).map_err(Failure::Invalid)
        })
        .collect();
    let documents = read_documents(&from)?;
    let replacement = SetReplacement {
        collection: &collection,
        set: &set,
        leading: &leading?,
        documents: &documents,
    };
    let written = session.backend.replace_set(&replacement).await?;
    tell(session, written)
}

fn read_documents(from: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let mut lines = Lines::open(from)?;
    let mut documents = Vec::new();
    while let Some((_, line)) = lines.next()? {
        documents.push(line.trim_ascii().to_vec());
        if documents.len() > SET_DOCUMENTS_MAX {
            let detail = format!("a set has at most {SET_DOCUMENTS_MAX} documents");
            return Err(Failure::Invalid(detail));
        }
    }
    Ok(documents)
}

/// What a replacement did.
#[derive(Serialize)]
struct Replaced<'a> {
    written: &'a [Document],
    deleted: &'a [Deleted],
}

fn tell(session: &mut Session<'_>, written: Vec<BatchResult>) -> Result<(), Failure> {
    let (mut documents, mut deleted) = (Vec::new(), Vec::new());
    for BatchResult { outcome, key, version, document } in written {
        match outcome {
            Outcome::Created | Outcome::Updated => documents.extend(document),
            Outcome::Deleted => deleted.push(Deleted { key, deleted: true, version }),
            Outcome::Absent => {}
        }
    }
    if session.output.format() == Format::Json {
        let done = Replaced { written: &documents, deleted: &deleted };
        return session.output.json(&done);
    }
    let count = |number: usize| counted(u64::try_from(number).unwrap_or(u64::MAX), "document");
    session.output.line(format_args!(
        "{} written, {} deleted, in one commit",
        count(documents.len()),
        count(deleted.len()),
    ))
}
