//! `keyloom replace`: all documents of a set, swapped in one commit.

use keyloom_api::Deleted;
use keyloom_engine::limits::SET_DOCUMENTS_MAX;
use keyloom_engine::{SetReplacement, Written};
use serde_json::Value as Json;

use super::Session;
use crate::args::Replace;
use crate::input::Lines;
use crate::output::{Format, counted};
use crate::problem::Failure;
use keyloom_server::typed::{kind_of, value};
use keyloom_server::wire;

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
    let written = session.engine.replace_set(&session.actor, &replacement).await?;
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

fn tell(session: &mut Session<'_>, written: Vec<Written>) -> Result<(), Failure> {
    let (mut documents, mut deleted) = (Vec::new(), Vec::new());
    for written in written {
        match written {
            Written::Created(document) | Written::Updated(document) => documents.push(document),
            Written::Deleted { key, version } => {
                deleted.push(Deleted { key, deleted: true, version: Some(version) });
            }
            Written::Absent { .. } => {}
        }
    }
    if session.output.format() == Format::Json {
        let documents: Result<Vec<_>, _> = documents.into_iter().map(wire::document).collect();
        return session
            .output
            .json(&serde_json::json!({ "written": documents?, "deleted": deleted }));
    }
    let count = |number: usize| counted(u64::try_from(number).unwrap_or(u64::MAX), "document");
    session.output.line(format_args!(
        "{} written, {} deleted, in one commit",
        count(documents.len()),
        count(deleted.len()),
    ))
}
