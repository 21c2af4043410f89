//! From an operation and the stored document to what the document becomes.

use std::sync::Arc;

use super::change::{DocumentChange, NewDocument, OldDocument};
use super::fill::Supply;
use super::permit::{check_caller, check_new, check_old, unseen};
use super::rules::{check_change, check_delete, check_rules};
use super::{Action, Precondition, patch};
use crate::catalog::Collection;
use crate::document::{Members, Record};
use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::DESCRIPTION_CHARS_MAX;

/// One operation with what it needs to be decided.
pub(super) struct Intent<'a> {
    pub(super) operation: usize,
    pub(super) collection: &'a Arc<Collection>,
    pub(super) actor: &'a Actor,
    pub(super) action: &'a Action,
    /// The document that is stored under the operation's key.
    pub(super) old: Option<OldDocument>,
    pub(super) supply: Supply<'a>,
}

impl Engine {
    /// What an operation does to its document; `None` if there is nothing to do.
    pub(super) fn decide(&self, intent: Intent<'_>) -> Result<Option<DocumentChange>, Error> {
        let Intent { operation, collection, actor, action, old, supply } = intent;
        check_caller(collection, actor)?;
        if let Some(old) = &old {
            if !collection.readable(actor).covers_record(&old.record, old.head().owner) {
                return unseen(collection, action, old).map(|()| None);
            }
            check_old(collection, actor, old)?;
        }
        let new = match action {
            Action::Create { key, data, description } => {
                let mut new = self.new_document(collection, data, None, supply)?;
                if let Some(key) = key {
                    check_given_key(collection, key, &new)?;
                }
                set_description(&mut new, description.as_deref())?;
                Some(new)
            }
            Action::Put { key, precondition, data, description } => {
                check_precondition(key, *precondition, old.as_ref())?;
                let mut new = self.new_document(collection, data, old.as_ref(), supply)?;
                if old.is_none() {
                    check_given_key(collection, key, &new)?;
                }
                set_description(&mut new, description.as_deref())?;
                Some(new)
            }
            Action::Patch { key, precondition, patch } => {
                let Some(old) = old.as_ref() else {
                    let (collection, key) = (collection.name.clone(), key.clone());
                    return Err(Error::NotFound { collection, key });
                };
                check_precondition(key, *precondition, Some(old))?;
                let data = patch::merge(old.head().data, patch)?;
                let mut new = self.new_document(collection, &data, Some(old), supply)?;
                new.description = old.head().description.map(str::to_owned);
                Some(new)
            }
            Action::Delete { key, precondition } => {
                let Some(old) = &old else { return Ok(None) };
                check_precondition(key, *precondition, Some(old))?;
                check_delete(collection, &old.record)?;
                None
            }
        };
        let new = new.map(|mut new| {
            new.owner = match (&old, actor) {
                (Some(old), _) => old.head().owner.map(str::to_owned),
                (None, actor) => actor.subject().map(str::to_owned),
            };
            new
        });
        if let Some(new) = &new {
            check_new(collection, actor, old.as_ref(), new)?;
        }
        let collection = Arc::clone(collection);
        Ok(Some(DocumentChange { operation: Some(operation), collection, old, new }))
    }

    /// A new state of a document that obeys all rules which need no other document.
    fn new_document(
        &self,
        collection: &Collection,
        data: &[u8],
        old: Option<&OldDocument>,
        supply: Supply<'_>,
    ) -> Result<NewDocument, Error> {
        let old_data = old.map(|old| old.head().data);
        let members = Members::parse_for(&collection.fields, data)?;
        let additions = self.additions(collection, &members, old_data, supply)?;
        let data = members.completed_data(data, &additions.members)?;
        let members = members.completed(&additions.members)?;
        let record = Record::read(collection, &members)?;
        check_rules(collection, &members, &record)?;
        if let Some(next) = &collection.next_fields {
            let members = members.matched_to(next);
            let record = Record::read(collection, &members)?;
            check_rules(collection, &members, &record)?;
        }
        check_change(collection, old.map(|old| &old.record), &record)?;
        let mut new = NewDocument::new(collection, record, data)?;
        new.generated = additions.generated;
        Ok(new)
    }
}

pub(super) fn check_precondition(
    key: &str,
    precondition: Precondition,
    old: Option<&OldDocument>,
) -> Result<(), Error> {
    let stored = old.map(|old| old.head().version);
    let conflict = |expected| Error::VersionConflict { key: key.to_owned(), expected, stored };
    match (precondition, stored) {
        (Precondition::Unsaid, Some(stored)) => {
            Err(Error::PreconditionRequired { key: key.to_owned(), stored })
        }
        (Precondition::Absent, Some(_)) => Err(conflict(None)),
        (Precondition::Version(wanted), stored) if stored != Some(wanted) => {
            Err(conflict(Some(wanted)))
        }
        (Precondition::Any, None) => Err(conflict(None)),
        _ => Ok(()),
    }
}

/// A key that the caller names must be the key of the data.
fn check_given_key(collection: &Collection, key: &str, new: &NewDocument) -> Result<(), Error> {
    let values = collection.key.parse(key)?;
    let computed = collection.key.unpack(&new.key)?;
    if values == computed {
        return Ok(());
    }
    let computed = collection.key.render(&computed)?;
    Err(Error::invalid(format!("key `{key}` is not the key of the data, which is `{computed}`")))
}

fn set_description(new: &mut NewDocument, description: Option<&str>) -> Result<(), Error> {
    let found = description.map_or(0, |text| text.chars().count());
    if found > DESCRIPTION_CHARS_MAX {
        return Err(Error::LimitExceeded {
            what: "characters of the description".to_owned(),
            found,
            max: DESCRIPTION_CHARS_MAX,
        });
    }
    new.description = description.map(str::to_owned);
    Ok(())
}
