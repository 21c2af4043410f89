//! The objects of the grid, for callers on a network.
//!
//! O1: A request names an object, and an entry, in one form: by number or by text.
//! O2: Objects have no owners; whoever has a token for a class has all of its objects. Without one,
//!     only the administrator on this machine has.

use std::sync::Arc;

use keyloom_engine::schema::{ClassSchema, Schema};
use keyloom_engine::{
    Actor, EntriesRead, EntryBatch, EntryKey, EntryList, EntryPage, Error, Identity, Object,
    ObjectAt, ObjectContent, ObjectId, ObjectList, ObjectPage, ObjectStats, ObjectWritten,
    Partition, Right, Rollout, SchemaChange, Terms, Val,
};
use tokio::time::Instant;
use tracing::Span;

use crate::metrics::Variant;

use super::{Service, administering, with_right};

/// One entry with the version of its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRead {
    /// The version of the object.
    pub version: u64,
    /// The value.
    pub val: Val,
}

impl Service {
    /// The object that a request names in one of two fields (O1).
    pub fn object_id(&self, number: Option<u64>, text: Option<&str>) -> Result<ObjectId, Error> {
        match (number, text) {
            (Some(number), None) if self.engine.rollout().takes_numeric_fields() => {
                Span::current().record("object.id", number);
                Ok(ObjectId::Numeric(number))
            }
            (Some(_), None) => Err(invalid(
                "numeric object ids are gone in rollout phase 6: name the object in object_id_str",
            )),
            // As in an address, so that every object has one.
            (None, Some(text)) => self.object_segment(text),
            (Some(_), Some(_)) => Err(invalid(
                "the request names the object twice: set object_id or object_id_str, not both",
            )),
            (None, None) => Err(invalid(
                "the request names no object: set object_id (zero, too, has to be sent) or \
                 object_id_str",
            )),
        }
    }

    /// The object that a segment of an address names: digits are a number.
    pub fn object_segment(&self, text: &str) -> Result<ObjectId, Error> {
        self.normalized(text, || self.engine.object_segment(text))
    }

    /// The entry that a request names in one of two fields (O1). Digits are a number everywhere.
    pub fn entry_key(&self, number: Option<u32>, text: Option<&str>) -> Result<EntryKey, Error> {
        match (number, text) {
            (Some(number), None) => Ok(EntryKey::Numeric(number)),
            (None, Some(text)) => self.entry_segment(text),
            (Some(_), Some(_)) => {
                Err(invalid("the request names the entry twice: set key or key_str, not both"))
            }
            (None, None) => Err(invalid(
                "the request names no entry: set key (zero, too, has to be sent) or key_str",
            )),
        }
    }

    /// The entry that a segment of an address, or a key of a batch, names: digits are a number.
    pub fn entry_segment(&self, text: &str) -> Result<EntryKey, Error> {
        self.engine.entry_segment(text)
    }

    /// A whole object.
    pub async fn object(&self, caller: &Identity, at: ObjectAt<'_>) -> Result<Object, Error> {
        reading(caller, at.class)?;
        self.engine.object(at).await?.ok_or_else(|| missing(at))
    }

    /// Replaces an object, or creates it.
    pub async fn set_object(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let written = self.engine.set_object(at, content, terms).await?;
        Ok(self.changed(at, written))
    }

    /// Merges into an object, or creates it.
    pub async fn merge_object(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let written = self.engine.merge_object(at, content, terms).await?;
        Ok(self.changed(at, written))
    }

    /// Deletes an object.
    pub async fn delete_object(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let written = self.engine.delete_object(at, terms).await?;
        Ok(self.changed(at, written.ok_or_else(|| missing(at))?))
    }

    /// One entry.
    pub async fn entry(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        key: &EntryKey,
    ) -> Result<EntryRead, Error> {
        reading(caller, at.class)?;
        let (version, val) = self.engine.entry(at, key).await?.ok_or_else(|| missing(at))?;
        let val = val.ok_or_else(|| missing_entry(at, key))?;
        Ok(EntryRead { version, val })
    }

    /// Several entries of one object, each in its place.
    pub async fn entries(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        keys: &[EntryKey],
    ) -> Result<EntriesRead, Error> {
        reading(caller, at.class)?;
        self.engine.entries(at, keys).await?.ok_or_else(|| missing(at))
    }

    /// Sets one entry.
    pub async fn set_entry(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        (key, val): (EntryKey, Val),
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let written = self.engine.set_entry(at, key, val, terms).await?;
        Ok(self.changed(at, written))
    }

    /// Deletes one entry.
    pub async fn delete_entry(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        key: EntryKey,
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let gone = missing_entry(at, &key);
        let written = self.engine.delete_entry(at, key, terms).await?;
        Ok(self.changed(at, written.ok_or(gone)?))
    }

    /// Sets and deletes entries in one commit.
    pub async fn batch_entries(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        batch: EntryBatch,
        terms: Terms,
    ) -> Result<ObjectWritten, Error> {
        writing(caller, at.class)?;
        let written = self.engine.batch_entries(at, batch, terms).await?;
        Ok(self.changed(at, written))
    }

    /// Merges an object with what is stored; the whole object as it is then. Who may not read it
    /// may not ask for that.
    pub async fn merged_object(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        content: ObjectContent,
        terms: Terms,
    ) -> Result<Object, Error> {
        reading(caller, at.class)?;
        writing(caller, at.class)?;
        let (written, object) = self.engine.merged_object(at, content, terms).await?;
        self.changed(at, written);
        Ok(object)
    }

    /// One page of the objects of a partition. It is empty only at the end.
    pub async fn list_objects(
        &self,
        caller: &Identity,
        list: ObjectList<'_>,
    ) -> Result<ObjectPage, Error> {
        reading(caller, list.class)?;
        let mut page = self.engine.list_objects(list).await?;
        // Objects that are hidden can fill a page.
        while let (true, Some(next)) = (page.items.is_empty(), page.next.clone()) {
            let list = ObjectList { after: Some(&next), ..list };
            page = self.engine.list_objects(list).await?;
        }
        Ok(page)
    }

    /// One page of the entries of an object.
    pub async fn list_entries(
        &self,
        caller: &Identity,
        at: ObjectAt<'_>,
        list: EntryList<'_>,
    ) -> Result<EntryPage, Error> {
        reading(caller, at.class)?;
        self.engine.list_entries(at, list).await?.ok_or_else(|| missing(at))
    }

    /// The classes that a caller may read.
    pub fn classes(&self, caller: &Identity) -> Vec<String> {
        let mut names = self.engine.classes();
        names.retain(|name| reading(caller, name).is_ok());
        names
    }

    /// What a class says.
    pub fn class(&self, caller: &Identity, name: &str) -> Result<Arc<ClassSchema>, Error> {
        reading(caller, name)?;
        self.engine.class(name)
    }

    /// Puts a class in force.
    pub async fn put_class(
        &self,
        caller: &Identity,
        name: &str,
        class: ClassSchema,
    ) -> Result<SchemaChange, Error> {
        let mut schema = Schema::default();
        schema.classes.insert(name.to_owned(), class);
        self.apply_schema(caller, &schema).await
    }

    /// Moves the objects of a class that lie in an older layout to the new one; how many.
    pub async fn rewrite_objects(&self, caller: &Identity, class: &str) -> Result<u64, Error> {
        administering(caller)?;
        self.engine.rewrite_legacy(class, &mut |_| {}).await
    }

    /// How much there is of a class, by partition.
    pub async fn class_stats(
        &self,
        caller: &Identity,
        class: &str,
    ) -> Result<Vec<(u16, ObjectStats)>, Error> {
        reading(caller, class)?;
        self.engine.class_stats(class).await
    }

    /// The number of the partition that an object is in.
    pub fn partition(&self, caller: &Identity, at: ObjectAt<'_>) -> Result<u16, Error> {
        reading(caller, at.class)?;
        self.engine.partition(at)
    }

    /// The number of the partition that `auto` stands for; where a call is, is no secret.
    pub(crate) fn auto_partition(&self, class: &str, id: Option<&ObjectId>) -> Result<u16, Error> {
        let none = ObjectId::Numeric(0);
        let id = id.unwrap_or(&none);
        self.engine.partition(ObjectAt { class, partition: Partition::Auto, id })
    }

    /// How far string identities are rolled out.
    pub fn rollout(&self) -> Rollout {
        self.engine.rollout()
    }

    /// Sets how far string identities are rolled out.
    pub async fn set_rollout(&self, caller: &Identity, rollout: Rollout) -> Result<(), Error> {
        administering(caller)?;
        self.engine.set_rollout(rollout).await
    }

    /// Reads an identity and measures it.
    fn normalized(
        &self,
        text: &str,
        read: impl FnOnce() -> Result<ObjectId, Error>,
    ) -> Result<ObjectId, Error> {
        let begun = Instant::now();
        let id = read();
        self.metrics.normalized(text.len(), begun.elapsed(), id.is_ok());
        if let Ok(id) = &id {
            let field =
                if matches!(id, ObjectId::Numeric(_)) { "object.id" } else { "object.id_str" };
            Span::current().record(field, tracing::field::display(id));
        }
        id
    }

    /// Counts a change of an object and wakes those who wait for changes.
    fn changed(&self, at: ObjectAt<'_>, written: ObjectWritten) -> ObjectWritten {
        let variant = match at.id {
            ObjectId::Numeric(_) => Variant::Numeric,
            ObjectId::String(_) => Variant::String,
        };
        self.metrics.object_changed(variant, written.kind);
        if written.events > 0 {
            self.fired.add(at.class, written.partition);
        }
        self.wake();
        written
    }
}

/// Refuses whoever may not read a class (O2).
pub(super) fn reading(caller: &Identity, class: &str) -> Result<(), Error> {
    having(caller, class, Right::Read)
}

/// Refuses whoever may not write a class (O2).
pub(super) fn writing(caller: &Identity, class: &str) -> Result<(), Error> {
    having(caller, class, Right::Write)
}

fn having(caller: &Identity, class: &str, right: Right) -> Result<(), Error> {
    if matches!(caller.actor, Actor::Anonymous) {
        return Err(Error::forbidden(&caller.actor, class, "objects need a token"));
    }
    with_right(caller, class, right).map(|_| ())
}

fn missing(at: ObjectAt<'_>) -> Error {
    Error::NotFound { collection: at.class.to_owned(), key: at.id.to_string() }
}

fn missing_entry(at: ObjectAt<'_>, key: &EntryKey) -> Error {
    Error::NotFound { collection: at.class.to_owned(), key: format!("{}/{key}", at.id) }
}

fn invalid(detail: &str) -> Error {
    Error::Invalid { detail: detail.to_owned() }
}
