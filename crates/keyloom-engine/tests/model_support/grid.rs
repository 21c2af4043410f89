//! Objects as a plain map, and the steps that it and the engine take.

use std::collections::BTreeMap;

use keyloom_engine::{
    Engine, EntryBatch, EntryKey, EntryList, Error, EventCause, ObjectAt, ObjectContent, ObjectId,
    ObjectList, ObjectOrder, ObjectStats, ObjectWritten, OutboxAt, Partition, Precondition,
    Touched, Val,
};
use keyloom_store::conformance::Random;

/// Two partitions, and a class that watches two entries of all its objects.
pub(crate) const GRID: &str = r#"
[classes.grid]
partitions = 2
[classes.grid.functions.note]
url = "http://127.0.0.1:1"
[classes.grid.event.data_trigger.1]
on_create = [{ class = "grid", function = "note" }]
on_update = [{ class = "grid", function = "note" }]
[classes.grid.event.data_trigger_str.x]
on_update = [{ class = "grid", function = "note" }]
on_delete = [{ class = "grid", function = "note" }]
"#;

/// Small domains, so that steps meet each other all the time. The order is that of lists.
const IDS: [&str; 6] = ["1", "10", "9", "a", "ab", "b"];
const KEYS: [&str; 5] = ["1", "2", "x", "xy", "y"];
const VALUES: [&str; 3] = ["", "u", "v"];

/// What the store holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct GridModel {
    objects: BTreeMap<Place, Stored>,
    /// The last version of each object that ever was.
    versions: BTreeMap<Place, u64>,
    /// What waits for delivery in each partition, in its order.
    events: BTreeMap<u16, Vec<Event>>,
}

/// Partition and identity.
type Place = (u16, String);

/// What happened to which entry of which object, and its new value.
type Event = (Touched, EntryKey, String, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Stored {
    version: u64,
    entries: BTreeMap<EntryKey, Vec<u8>>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct GridStep {
    place: Place,
    verb: Verb,
    set: BTreeMap<EntryKey, Vec<u8>>,
    delete: Vec<EntryKey>,
    precondition: Precondition,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Set,
    Merge,
    Batch,
    DeleteEntry,
    Delete,
}

/// What a step should do.
#[derive(Clone, Debug)]
pub(crate) enum GridExpected {
    /// The object becomes this, or is gone.
    Change(Option<BTreeMap<EntryKey, Vec<u8>>>),
    /// There is nothing to do.
    Nothing,
    /// It is refused with this code.
    Refused(&'static str),
}

fn key(text: &str) -> EntryKey {
    EntryKey::segment(text, 160).unwrap()
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len())]
}

impl GridStep {
    pub(crate) fn draw(random: &mut Random, model: &GridModel) -> GridStep {
        let partition = u16::try_from(random.below(2)).unwrap();
        let place = (partition, pick(random, &IDS).to_owned());
        let verbs = [Verb::Set, Verb::Merge, Verb::Batch, Verb::DeleteEntry, Verb::Delete];
        let verb = verbs[random.below(verbs.len())];
        let mut set = BTreeMap::new();
        for _ in 0..random.below(4) {
            set.insert(key(pick(random, &KEYS)), pick(random, &VALUES).as_bytes().to_vec());
        }
        let mut delete: Vec<EntryKey> =
            (0..random.below(3)).map(|_| key(pick(random, &KEYS))).collect();
        delete.retain(|key| !set.contains_key(key));
        if verb == Verb::DeleteEntry {
            delete = vec![key(pick(random, &KEYS))];
        }
        let known = model.versions.get(&place).copied().unwrap_or(1);
        let precondition = match random.below(8) {
            0 => Precondition::Version(known),
            1 => Precondition::Version(known + 1),
            2 => Precondition::Absent,
            3 => Precondition::Any,
            _ => Precondition::Unsaid,
        };
        GridStep { place, verb, set, delete, precondition }
    }

    pub(crate) async fn execute(&self, engine: &Engine) -> Result<Option<ObjectWritten>, Error> {
        let id = ObjectId::string(&self.place.1, 160).unwrap();
        let at = at(self.place.0, &id);
        let set: BTreeMap<EntryKey, Val> =
            self.set.iter().map(|(key, data)| (key.clone(), Val::bytes(data.clone()))).collect();
        let terms = self.precondition;
        match self.verb {
            Verb::Set => {
                let content = ObjectContent { entries: set, event: None };
                engine.set_object(at, content, terms).await.map(Some)
            }
            Verb::Merge => {
                let content = ObjectContent { entries: set, event: None };
                engine.merge_object(at, content, terms).await.map(Some)
            }
            Verb::Batch => {
                let batch = EntryBatch { set, delete: self.delete.clone() };
                engine.batch_entries(at, batch, terms).await.map(Some)
            }
            Verb::DeleteEntry => engine.delete_entry(at, self.delete[0].clone(), terms).await,
            Verb::Delete => engine.delete_object(at, terms).await,
        }
    }
}

impl GridModel {
    pub(crate) fn predict(&self, step: &GridStep) -> GridExpected {
        let stored = self.objects.get(&step.place);
        match (step.precondition, stored.map(|stored| stored.version)) {
            (Precondition::Absent, Some(_)) => return GridExpected::Refused("version_conflict"),
            (Precondition::Version(wanted), version) if version != Some(wanted) => {
                return GridExpected::Refused("version_conflict");
            }
            (Precondition::Any, None) => return GridExpected::Refused("version_conflict"),
            _ => {}
        }
        let mut entries = stored.map(|stored| stored.entries.clone()).unwrap_or_default();
        match step.verb {
            Verb::Delete if stored.is_none() => return GridExpected::Nothing,
            Verb::Delete => return GridExpected::Change(None),
            Verb::DeleteEntry => {
                if entries.remove(&step.delete[0]).is_none() {
                    return GridExpected::Nothing;
                }
            }
            Verb::Set => entries = step.set.clone(),
            Verb::Merge => entries.extend(step.set.clone()),
            Verb::Batch if stored.is_none() && step.set.is_empty() => {
                return GridExpected::Refused("not_found");
            }
            Verb::Batch => {
                entries.extend(step.set.clone());
                entries.retain(|key, _| !step.delete.contains(key));
            }
        }
        GridExpected::Change(Some(entries))
    }

    /// Takes over what the engine says that it has done.
    pub(crate) fn acknowledge(
        &mut self,
        expected: GridExpected,
        step: &GridStep,
        written: Option<ObjectWritten>,
    ) {
        match (expected, written) {
            (GridExpected::Nothing, None) => {}
            (GridExpected::Change(after), Some(written)) => {
                self.apply(step, after, written.version);
            }
            (expected, written) => panic!("{step:?}: {expected:?}, but {written:?}"),
        }
    }

    pub(crate) fn refuse(&self, expected: GridExpected, step: &GridStep, error: &Error) {
        match expected {
            GridExpected::Refused(code) if code == error.code() => {}
            expected => panic!("{step:?}: {expected:?}, but {error}"),
        }
    }

    /// Finds out whether a step of unknown outcome was taken: whole, or not at all.
    pub(crate) async fn settle(
        &mut self,
        expected: GridExpected,
        step: &GridStep,
        engine: &Engine,
    ) {
        let GridExpected::Change(after) = expected else { return };
        let id = ObjectId::string(&step.place.1, 160).unwrap();
        let found = engine.object(at(step.place.0, &id)).await.unwrap();
        let before = self.objects.get(&step.place).map(|stored| stored.version);
        let version = found.as_ref().map(|found| found.version);
        if version == before {
            return;
        }
        // A deleted object does not tell its version: it is above the last one.
        let version = version.unwrap_or_else(|| before.unwrap() + 1);
        self.apply(step, after, version);
    }

    fn apply(&mut self, step: &GridStep, after: Option<BTreeMap<EntryKey, Vec<u8>>>, version: u64) {
        let last = self.versions.insert(step.place.clone(), version).unwrap_or(0);
        assert!(version > last, "{step:?}: version {version} after {last}");
        let before = self.objects.remove(&step.place).unwrap_or_default().entries;
        let new = after.clone().unwrap_or_default();
        let events = self.events.entry(step.place.0).or_default();
        let mut keys: Vec<&EntryKey> = before.keys().chain(new.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let touched = match (before.get(key), new.get(key)) {
                (None, Some(_)) => Touched::Created,
                (Some(_), None) => Touched::Deleted,
                (one, two) if one != two => Touched::Updated,
                _ => continue,
            };
            let is_watched = matches!(
                (key.to_string().as_str(), touched),
                ("1", Touched::Created | Touched::Updated)
                    | ("x", Touched::Updated | Touched::Deleted)
            );
            if is_watched {
                let payload = new.get(key).cloned().unwrap_or_default();
                events.push((touched, key.clone(), step.place.1.clone(), payload));
            }
        }
        if let Some(entries) = after {
            self.objects.insert(step.place.clone(), Stored { version, entries });
        }
    }

    /// Compares everything that can be read with the map.
    pub(crate) async fn compare(&self, engine: &Engine) {
        let mut stats = Vec::new();
        for partition in 0..2 {
            self.compare_objects(engine, partition).await;
            self.compare_list(engine, partition).await;
            let waiting = OutboxAt { class: "grid", partition };
            let events = engine.outbox(waiting, 1000).await.unwrap();
            let expected = self.events.get(&partition).cloned().unwrap_or_default();
            assert_eq!(events.len(), expected.len(), "events of partition {partition}");
            let waiting_events = expected.len() as u64;
            for (place, (event, expected)) in events.into_iter().zip(expected).enumerate() {
                let EventCause::Entry(touched, key) = event.cause else { panic!("an entry") };
                let object = event.object.unwrap().to_string();
                assert_eq!((touched, key, object, event.payload), expected);
                assert_eq!(event.sequence, place as u64 + 1);
            }
            let own =
                self.objects.iter().filter(|((in_partition, _), _)| *in_partition == partition);
            let mut found = ObjectStats { waiting_events, ..ObjectStats::default() };
            for ((_, id), stored) in own {
                let is_number = id.parse::<u64>().is_ok();
                *if is_number { &mut found.numeric_objects } else { &mut found.string_objects } +=
                    1;
                for key in stored.entries.keys() {
                    let is_number = matches!(key, EntryKey::Numeric(_));
                    *if is_number {
                        &mut found.numeric_entries
                    } else {
                        &mut found.string_entries
                    } += 1;
                }
            }
            if found != ObjectStats::default() {
                stats.push((partition, found));
            }
        }
        assert_eq!(engine.class_stats("grid").await.unwrap(), stats);
    }

    async fn compare_objects(&self, engine: &Engine, partition: u16) {
        for id in IDS {
            let name = ObjectId::string(id, 160).unwrap();
            let found = engine.object(at(partition, &name)).await.unwrap();
            let stored = self.objects.get(&(partition, id.to_owned()));
            assert_eq!(found.is_some(), stored.is_some(), "{partition} {id}");
            let (Some(found), Some(stored)) = (found, stored) else { continue };
            let expected: Vec<(EntryKey, Val)> = stored
                .entries
                .iter()
                .map(|(key, data)| (key.clone(), Val::bytes(data.clone())))
                .collect();
            assert_eq!((found.version, &found.entries), (stored.version, &expected));
            let mut listed = Vec::new();
            let mut after: Option<String> = None;
            loop {
                let list = EntryList { prefix: "", limit: 2, after: after.as_deref() };
                let page = engine.list_entries(at(partition, &name), list).await.unwrap().unwrap();
                listed.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed, expected);
            for text in KEYS {
                let value = engine.entry(at(partition, &name), &key(text)).await.unwrap().unwrap();
                let expected = stored.entries.get(&key(text)).cloned().map(Val::bytes);
                assert_eq!(value, (stored.version, expected));
            }
        }
    }

    async fn compare_list(&self, engine: &Engine, partition: u16) {
        for (order, prefix) in [
            (ObjectOrder::Bytes, ""),
            (ObjectOrder::Bytes, "1"),
            (ObjectOrder::Bytes, "a"),
            (ObjectOrder::Numeric, ""),
        ] {
            let own = self
                .objects
                .keys()
                .filter(|(in_partition, id)| *in_partition == partition && id.starts_with(prefix));
            let mut expected: Vec<String> = own.map(|(_, id)| id.clone()).collect();
            if order == ObjectOrder::Numeric {
                expected.retain(|id| id.parse::<u64>().is_ok());
                expected.sort_by_key(|id| id.parse::<u64>().unwrap());
            }
            let (mut found, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
            loop {
                let (partition, after_page) = (u32::from(partition), after.as_deref());
                let list = ObjectList {
                    class: "grid",
                    partition,
                    prefix,
                    order,
                    limit: 2,
                    after: after_page,
                };
                let page = engine.list_objects(list).await.unwrap();
                found.extend(page.items.into_iter().map(|item| item.id.to_string()));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{order:?} {prefix}");
        }
    }

    pub(crate) fn object_count(&self) -> u64 {
        self.objects.len() as u64
    }
}

fn at(partition: u16, id: &ObjectId) -> ObjectAt<'_> {
    ObjectAt { class: "grid", partition: Partition::Number(u32::from(partition)), id }
}
