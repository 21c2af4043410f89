//! `keyloom delete`: deletes a document; one that is not there is no error.

use keyloom_api::Deleted;
use keyloom_engine::{Action, Operation, Precondition};

use super::Session;
use crate::args::Delete;
use crate::output::{Format, visible};
use crate::problem::Failure;

pub(super) async fn run(session: &mut Session<'_>, delete: Delete) -> Result<(), Failure> {
    let Delete { collection, key, if_version } = delete;
    let precondition = if_version.unwrap_or(Precondition::Unsaid);
    let action = Action::Delete { key: key.clone(), precondition };
    let written = session.backend.write(None, &[Operation { collection, action }]).await?;
    let version = written.first().and_then(|result| result.version);
    let deleted = Deleted { key, deleted: version.is_some(), version };
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
