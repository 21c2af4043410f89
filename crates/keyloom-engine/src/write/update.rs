//! Read-modify-write with the retry policy: at most so many attempts, with waits that double.

use super::{Action, Precondition, Written};
use crate::document::Document;
use crate::engine::{Actor, Engine};
use crate::error::Error;

/// What a read-modify-write makes of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The document becomes this: JSON data; the description is kept.
    Put(Vec<u8>),
    /// The document goes.
    Delete,
    /// Nothing changes.
    Keep,
}

impl Engine {
    /// Reads a document, lets `change` decide, and writes the result if nobody else was first;
    /// otherwise it waits and tries again. After the last attempt nothing is written.
    pub async fn update(
        &self,
        actor: &Actor,
        collection: &str,
        key: &str,
        mut change: impl FnMut(Option<&Document>) -> Result<Update, Error> + Send,
    ) -> Result<Option<Written>, Error> {
        let policy = self.options.retry;
        let mut delay = policy.delay;
        for _ in 0..policy.attempts {
            let document = self.get(actor, collection, key).await?;
            let precondition = document
                .as_ref()
                .map_or(Precondition::Absent, |document| Precondition::Version(document.version));
            let key = key.to_owned();
            let action = match change(document.as_ref())? {
                Update::Keep => return Ok(None),
                Update::Delete => Action::Delete { key, precondition },
                Update::Put(data) => {
                    let description = document.and_then(|document| document.description);
                    Action::Put { key, precondition, data, description }
                }
            };
            match self.execute(actor, collection, action).await {
                Err(Error::VersionConflict { .. }) => {}
                done => return done.map(Some),
            }
            // The policy of the requirement waits after every attempt, the last one included: the
            // caller learns of the failure when the race has had time to settle.
            self.options.system.sleep(delay).await;
            delay *= 2;
        }
        Err(Error::RetriesExhausted { attempts: policy.attempts })
    }
}
