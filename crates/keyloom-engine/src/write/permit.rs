//! What the caller of a write may do.
//!
//! M1: A stored document that the caller may not read is not there for his write, either; only a
//!     create under its key is refused, because the key is taken.
//! M2: A document is his before and after: nobody takes a document, and nobody gives one away.

use super::change::{NewDocument, OldDocument};
use super::drive::key_taken;
use super::intent::check_precondition;
use super::{Action, Precondition};
use crate::access::Reach;
use crate::catalog::{Collection, Field};
use crate::document::FieldValue;
use crate::engine::Actor;
use crate::error::Error;
use crate::schema::AccessRule;

/// What becomes of an operation that meets a document which its caller may not read: nothing at
/// all, or the error that it would get if there were none.
pub(super) fn unseen(
    collection: &Collection,
    action: &Action,
    old: &OldDocument,
) -> Result<(), Error> {
    match action {
        Action::Delete { .. } | Action::Create { .. } => Ok(()),
        Action::Patch { key, .. } => {
            Err(Error::NotFound { collection: collection.name.clone(), key: key.clone() })
        }
        Action::Put { key, precondition, .. } => {
            check_precondition(key, *precondition, None)?;
            let creates = matches!(precondition, Precondition::Unsaid | Precondition::Absent);
            debug_assert!(creates, "anything else needs a document");
            Err(key_taken(collection, &old.key)?)
        }
    }
}

/// Whether a caller may write anything here; asked before anything stored is looked at.
pub(super) fn check_caller(collection: &Collection, actor: &Actor) -> Result<(), Error> {
    match collection.writable(actor) {
        Reach::All | Reach::Own(_) => Ok(()),
        Reach::Nothing => Err(refused(collection, actor)),
    }
}

/// Whether a caller may change what is stored.
pub(super) fn check_old(
    collection: &Collection,
    actor: &Actor,
    old: &OldDocument,
) -> Result<(), Error> {
    if collection.writable(actor).covers_record(&old.record, old.head().owner) {
        return Ok(());
    }
    Err(refused(collection, actor))
}

/// Whether a caller may make this of it.
pub(super) fn check_new(
    collection: &Collection,
    actor: &Actor,
    old: Option<&OldDocument>,
    new: &NewDocument,
) -> Result<(), Error> {
    if *actor == Actor::Local {
        return Ok(());
    }
    if !collection.writable(actor).covers_record(&new.record, new.owner.as_deref()) {
        let names = collection.access.subjects.iter().map(|source| collection.source_name(*source));
        let names: Vec<&str> = names.collect();
        let detail = format!("the document must be yours: {} is somebody else", names.join(" or "));
        return Err(Error::forbidden(actor, &collection.name, detail));
    }
    for (place, field) in collection.fields.iter().enumerate() {
        let before = old.and_then(|old| old.record.get(place));
        let after = new.record.get(place);
        if before != after {
            check_by(collection, actor, field, (old, new, after))?;
        }
    }
    Ok(())
}

/// Whether a caller may give a field a value that only one subject may set.
fn check_by(
    collection: &Collection,
    actor: &Actor,
    field: &Field,
    (old, new, after): (Option<&OldDocument>, &NewDocument, Option<&FieldValue>),
) -> Result<(), Error> {
    let Some(FieldValue::Scalar(word)) = after else { return Ok(()) };
    if field.by.is_empty() {
        return Ok(());
    }
    let word = word.to_string();
    let Some(holder) = field.by.get(&word) else { return Ok(()) };
    // Who it is was settled before: nobody makes himself the one who may.
    let (record, owner) = match old {
        Some(old) => (&old.record, old.head().owner),
        None => (&new.record, new.owner.as_deref()),
    };
    let term = actor.subject().and_then(|subject| collection.subject_term(*holder, subject));
    let is_he =
        term.is_some_and(|term| Reach::Own(vec![(*holder, term)]).covers_record(record, owner));
    if is_he {
        return Ok(());
    }
    let (field, holder) = (&field.name, collection.source_name(*holder));
    let detail = format!("only its `{holder}` sets `{field}` to `{word}`");
    Err(Error::forbidden(actor, &collection.name, detail))
}

fn refused(collection: &Collection, actor: &Actor) -> Error {
    let who = match collection.access.write {
        AccessRule::Public => "anyone writes here",
        AccessRule::Private => "only its owner writes a document",
        AccessRule::Managed => "only its owner and administrators write a document",
        AccessRule::Admin => "only administrators write here",
    };
    Error::forbidden(actor, &collection.name, who)
}
