//! `keyloom export`: all documents of a collection, one JSON object per line, in key order.
//!
//! X1: Memory is bounded by one page.
//! X2: An export that may have seen nothing for want of a token fails: it would pass for a backup.

use keyloom_api::Item;
use keyloom_engine::Query;
use keyloom_engine::limits::PAGE_LIMIT_MAX;

use super::Session;
use crate::args::Export;
use crate::problem::Failure;
use crate::progress::Progress;

pub(super) async fn run(session: &mut Session<'_>, export: Export) -> Result<(), Failure> {
    let Export { collection } = export;
    let info = session.backend.collection(&collection).await?;
    let total = info.documents.unwrap_or(0);
    let mut progress = Progress::start("export");
    let mut query = Query { limit: Some(PAGE_LIMIT_MAX), ..Query::default() };
    let mut exported = 0;
    loop {
        let page = session.backend.query(&collection, &query).await?;
        for item in page.items {
            if let Item::Document(document) = item {
                session.output.json(&document)?;
                exported += 1;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "shown in percent")]
        progress.step(exported, (total > 0).then(|| exported as f64 / total as f64));
        match page.next {
            None => break,
            next => query.after = next,
        }
    }
    progress.finish();
    // X2: nobody counts what he may not read.
    if exported == 0 && info.documents.is_none() && session.backend.is_anonymous() {
        return Err(Failure::Invalid(format!(
            "nothing of `{collection}` is public, and no token was sent: set KEYLOOM_TOKEN or \
             --token-file"
        )));
    }
    Ok(())
}
