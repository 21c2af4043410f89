//! A grid in memory, with shorthands for what tests do all the time.

use std::collections::BTreeMap;

use keyloom_engine::schema::Event;
use keyloom_engine::{
    Change, EntryBatch, EntryKey, Error, Mode, Object, ObjectAt, ObjectChange, ObjectContent,
    ObjectId, ObjectStats, ObjectWritten, Partition, Position, Precondition, Rollout, Val,
};
use pollster::block_on;

use crate::support::Database;

/// Two classes, one of them with a function.
pub(crate) const CLASSES: &str = "\
[classes.order]\npartitions = 8\n\
[classes.order.functions.note]\nurl = \"http://127.0.0.1:1\"\n\
[classes.log]\n";

/// A database with classes. Clones share all of it.
#[derive(Clone)]
pub(crate) struct Grid(pub(crate) Database);

pub(crate) fn id(text: &str) -> ObjectId {
    ObjectId::string(text, 160).unwrap()
}

pub(crate) fn text(text: &str) -> EntryKey {
    EntryKey::string(text, 160).unwrap()
}

pub(crate) fn number(key: u32) -> EntryKey {
    EntryKey::Numeric(key)
}

pub(crate) fn content(entries: &[(EntryKey, &str)]) -> ObjectContent {
    let entries = entries.iter().map(|(key, data)| (key.clone(), Val::bytes(*data)));
    ObjectContent { entries: entries.collect(), event: None }
}

/// Partition 3 of the class `order`.
pub(crate) fn at(id: &ObjectId) -> ObjectAt<'_> {
    ObjectAt { class: "order", partition: Partition::Number(3), id }
}

impl Grid {
    /// A grid in rollout phase 3, where everything is allowed.
    pub(crate) fn new() -> Grid {
        let grid = Grid::in_phase(3);
        grid.0.faults.reset();
        grid
    }

    pub(crate) fn in_phase(phase: u8) -> Grid {
        let grid = Grid(Database::new(CLASSES));
        grid.roll(Rollout::phase(phase)).unwrap();
        grid
    }

    /// The same data after a restart.
    pub(crate) fn reopened(&self) -> Grid {
        Grid(self.0.beside(Mode::Development))
    }

    pub(crate) fn roll(&self, rollout: Rollout) -> Result<(), Error> {
        block_on(self.0.engine.set_rollout(rollout))
    }

    pub(crate) fn set(
        &self,
        name: &str,
        entries: &[(EntryKey, &str)],
    ) -> Result<ObjectWritten, Error> {
        self.set_if(name, entries, Precondition::Unsaid)
    }

    pub(crate) fn set_if(
        &self,
        name: &str,
        entries: &[(EntryKey, &str)],
        precondition: Precondition,
    ) -> Result<ObjectWritten, Error> {
        block_on(self.0.engine.set_object(at(&id(name)), content(entries), precondition))
    }

    pub(crate) fn merge(
        &self,
        name: &str,
        entries: &[(EntryKey, &str)],
    ) -> Result<ObjectWritten, Error> {
        let content = content(entries);
        block_on(self.0.engine.merge_object(at(&id(name)), content, Precondition::Unsaid))
    }

    pub(crate) fn set_entry(
        &self,
        name: &str,
        key: EntryKey,
        data: &str,
    ) -> Result<ObjectWritten, Error> {
        let (id, val) = (id(name), Val::bytes(data));
        block_on(self.0.engine.set_entry(at(&id), key, val, Precondition::Unsaid))
    }

    pub(crate) fn delete_entry(
        &self,
        name: &str,
        key: EntryKey,
    ) -> Result<Option<ObjectWritten>, Error> {
        block_on(self.0.engine.delete_entry(at(&id(name)), key, Precondition::Unsaid))
    }

    pub(crate) fn batch(
        &self,
        name: &str,
        set: &[(EntryKey, &str)],
        delete: &[EntryKey],
        precondition: Precondition,
    ) -> Result<ObjectWritten, Error> {
        let set = content(set).entries;
        let batch = EntryBatch { set, delete: delete.to_vec() };
        block_on(self.0.engine.batch_entries(at(&id(name)), batch, precondition))
    }

    pub(crate) fn set_event(&self, name: &str, event: Event) -> Result<ObjectWritten, Error> {
        block_on(self.0.engine.set_event(at(&id(name)), event, Precondition::Unsaid))
    }

    pub(crate) fn delete(&self, name: &str) -> Result<Option<ObjectWritten>, Error> {
        block_on(self.0.engine.delete_object(at(&id(name)), Precondition::Unsaid))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Object> {
        self.try_get(name).unwrap()
    }

    pub(crate) fn try_get(&self, name: &str) -> Result<Option<Object>, Error> {
        block_on(self.0.engine.object(at(&id(name))))
    }

    /// The entries of an object as texts.
    pub(crate) fn entries(&self, name: &str) -> BTreeMap<String, String> {
        let object = self.get(name).expect("the object exists");
        let spelled =
            |(key, val): (EntryKey, Val)| (key.to_string(), String::from_utf8(val.data).unwrap());
        object.entries.into_iter().map(spelled).collect()
    }

    /// An entry as text, beside the version of its object.
    pub(crate) fn entry(&self, name: &str, key: &EntryKey) -> Option<(u64, Option<String>)> {
        let found = block_on(self.0.engine.entry(at(&id(name)), key)).unwrap();
        let spelled = |val: Val| String::from_utf8(val.data).unwrap();
        found.map(|(version, val)| (version, val.map(spelled)))
    }

    /// Statistics of partition 3.
    pub(crate) fn stats(&self) -> ObjectStats {
        let stats = block_on(self.0.engine.class_stats("order")).unwrap();
        let found = stats.into_iter().find(|(partition, _)| *partition == 3);
        found.map(|(_, stats)| stats).unwrap_or_default()
    }

    pub(crate) fn changes(&self) -> Vec<ObjectChange> {
        let changes = block_on(self.0.engine.changes(Position(0), 1000)).unwrap();
        changes.into_iter().filter_map(Change::into_object).collect()
    }
}
