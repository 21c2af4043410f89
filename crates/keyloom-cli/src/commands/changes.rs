//! `keyloom changes`: what was written, in the order of the commits.

use keyloom_api::{ChangeKind, Changed};

use super::Session;
use crate::args::Changes;
use crate::output::{Format, counted, visible};
use crate::problem::Failure;
use crate::table::Table;
use keyloom_server::times;

pub(super) async fn run(session: &mut Session<'_>, changes: &Changes) -> Result<(), Failure> {
    let Changes { after, limit } = changes;
    let (after, limit) = (after.as_deref(), *limit);
    let found = session.backend.changes(after, limit).await?;
    if session.output.format() == Format::Json {
        return found.iter().try_for_each(|change| session.output.json(change));
    }
    let mut table = Table::new(["position", "time", "change", "collection", "key"]);
    for change in &found {
        let kind = match change.kind {
            ChangeKind::Created => "created",
            ChangeKind::Updated => "updated",
            ChangeKind::Deleted => "deleted",
        };
        let (home, key) = match &change.what {
            Changed::Document { collection, key } => (collection.clone(), visible(key)),
            Changed::Object { class, partition, object, .. } => {
                (format!("{class}/{partition}"), visible(object))
            }
        };
        table.row([
            change.position.to_string(),
            // A version is the time of its commit in microseconds, or a little later.
            i64::try_from(change.version / 1000).map(times::render).unwrap_or_default(),
            kind.to_owned(),
            home,
            key,
        ]);
    }
    session.output.table(&table)?;
    session.output.dim(counted(u64::try_from(found.len()).unwrap_or(u64::MAX), "change"))?;
    match found.last() {
        Some(last) if found.len() == limit => {
            session.output.dim(format_args!("there may be more: add --after {}", last.position))
        }
        _ => Ok(()),
    }
}
