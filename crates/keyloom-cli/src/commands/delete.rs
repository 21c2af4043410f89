//! `keyloom delete`: deletes a document; one that is not there is no error.

use keyloom_api::Deleted;
use keyloom_engine::{Precondition, Written};

use super::Session;
use crate::args::Delete;
use crate::output::{Format, visible};
use crate::problem::Failure;

pub(super) async fn run(session: &mut Session<'_>, delete: Delete) -> Result<(), Failure> {
    let Delete { collection, key, if_version } = delete;
    let precondition = if_version.unwrap_or(Precondition::Unsaid);
    let written = session.engine.delete(&session.actor, &collection, &key, precondition).await?;
    let deleted = match written {
        Written::Deleted { key, version } => Deleted { key, deleted: true, version: Some(version) },
        Written::Absent { key } => Deleted { key, deleted: false, version: None },
        Written::Created(document) | Written::Updated(document) => {
            unreachable!("a delete does not write `{}`", document.key)
        }
    };
    match session.output.format() {
        Format::Json => session.output.json(&deleted),
        Format::Text if deleted.deleted => {
            session.output.line(format_args!("deleted {}", visible(&deleted.key)))
        }
        Format::Text => {
            let key = visible(&deleted.key);
            session.output.line(format_args!("there is no {key}: nothing to delete"))
        }
    }
}
