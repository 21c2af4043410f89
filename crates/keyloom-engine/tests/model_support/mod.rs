//! The plain map that the engine is compared with, and the steps that both take.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test is a panic")]

mod grid;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use keyloom_engine::{
    Action, Actor, Engine, Error, Operation, Precondition, SetReplacement, System,
};
use keyloom_store::conformance::Random;
use serde_json::{Value as Json, json};

pub(crate) use grid::{GRID, GridModel, GridStep};

/// Small domains, so that steps meet each other all the time.
pub(crate) const SCHEMA: &str = r#"
[collections.items]
key = "item:{group}:{id}"
[collections.items.fields]
group = { type = "id", required = true }
id    = { type = "text", required = true, length = { max = 8 } }
n     = { type = "i64", default = 0 }
slug  = { type = "id" }
tags  = { type = "text[]", length = { max = 8 }, elements = { max = 4 } }
state = { type = "enum", values = ["open", "done"], default = "open" }
[collections.items.unique]
slug = "slug:{slug}"
[collections.items.indexes]
by_n = "n:{group}:{n desc}:{id}"
tag  = "tag:{tags[]}:{group}:{id}"
open = { key = "open:{n}:{group}:{id}", when = { state = "open" }, include = ["tags"] }
[collections.items.sets]
group = { by = ["group"], min = 0, max = 10 }

[collections.totals]
key = "total:{group}"
[collections.totals.fields]
group = { type = "id", required = true }
sum   = { type = "i64" }
items = { type = "i64" }
[collections.totals.derive]
from  = "items"
group = { group = "group" }
sum   = { sum = "n" }
count = "items"
"#;

/// What the store holds, as a map from (group, id).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    items: BTreeMap<Name, Item>,
    /// Groups that ever had an item: their totals stay, at zero if need be.
    groups: BTreeSet<String>,
}

type Name = (String, String);

/// The fields of an item that are not part of its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    n: i64,
    slug: Option<String>,
    tags: Vec<String>,
    state: &'static str,
}

/// One thing that is done to both.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Batch(Vec<Edit>),
    Replace { group: String, items: Vec<(Name, Item)> },
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Create(Name, Item),
    /// Replaces the first by the second, which may have another key.
    Put(Name, Name, Item, Says),
    PatchNumber(Name, i64, Says),
    Delete(Name, Says),
}

/// What an edit says of the version of the stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Nothing,
    Right,
    Wrong,
    Any,
}

/// The state after a step, or the codes of the errors that may refuse it.
pub(crate) type Expected = Result<Model, Vec<&'static str>>;

impl Step {
    /// Draws a step that has a fair chance to succeed.
    pub(crate) fn draw(random: &mut Random) -> Step {
        if random.below(8) == 0 {
            let group = draw_group(random);
            let names = (0..random.below(4)).map(|_| (group.clone(), draw_id(random)));
            let names: BTreeSet<Name> = names.collect::<Vec<_>>().into_iter().collect();
            let items = names.into_iter().map(|name| (name, draw_item(random))).collect();
            return Step::Replace { group, items };
        }
        let count = if random.below(3) == 0 { 2 + random.below(2) } else { 1 };
        Step::Batch((0..count).map(|_| Edit::draw(random)).collect())
    }

    /// Does it to the engine.
    pub(crate) async fn execute(&self, engine: &Engine) -> Result<(), Error> {
        let actor = Actor::User("u1".to_owned());
        match self {
            Step::Replace { group, items } => {
                let leading = [json!(group)];
                let documents: Vec<Vec<u8>> =
                    items.iter().map(|(name, item)| item.data(name)).collect();
                let replacement = SetReplacement {
                    collection: "items",
                    set: "group",
                    leading: &leading,
                    documents: &documents,
                };
                engine.replace_set(&actor, &replacement).await.map(drop)
            }
            Step::Batch(edits) => {
                let mut operations = Vec::with_capacity(edits.len());
                for edit in edits {
                    let collection = "items".to_owned();
                    operations.push(Operation { collection, action: edit.action(engine).await? });
                }
                engine.batch(&actor, &operations).await.map(drop)
            }
        }
    }
}

impl Edit {
    fn draw(random: &mut Random) -> Edit {
        let name = (draw_group(random), draw_id(random));
        match random.below(10) {
            0..4 => Edit::Create(name, draw_item(random)),
            4..6 => Edit::Put(name.clone(), name, draw_item(random), draw_says(random)),
            6 => {
                let to = (draw_group(random), draw_id(random));
                Edit::Put(name, to, draw_item(random), Says::Right)
            }
            7 => Edit::PatchNumber(name, draw_number(random), draw_says(random)),
            _ => Edit::Delete(name, draw_says(random)),
        }
    }

    async fn action(&self, engine: &Engine) -> Result<Action, Error> {
        Ok(match self {
            Edit::Create(name, item) => {
                Action::Create { key: None, data: item.data(name), description: None }
            }
            Edit::Put(name, to, item, says) => Action::Put {
                key: key(name),
                precondition: says.precondition(engine, name).await?,
                data: item.data(to),
                description: None,
            },
            Edit::PatchNumber(name, n, says) => Action::Patch {
                key: key(name),
                precondition: says.precondition(engine, name).await?,
                patch: json!({ "n": n }).to_string().into_bytes(),
            },
            Edit::Delete(name, says) => Action::Delete {
                key: key(name),
                precondition: says.precondition(engine, name).await?,
            },
        })
    }

    /// Does it to the map.
    fn apply(&self, model: &mut Model) -> Result<(), &'static str> {
        let exists = |name: &Name, model: &Model| model.items.contains_key(name);
        match self {
            Edit::Create(name, item) => {
                if exists(name, model) {
                    return Err("unique_violation");
                }
                model.insert(name, item);
            }
            Edit::Put(name, to, item, says) => {
                match (says, exists(name, model)) {
                    (Says::Nothing, true) => return Err("precondition_required"),
                    (Says::Wrong, _) | (Says::Any, false) => return Err("version_conflict"),
                    _ => {}
                }
                if name != to && !exists(name, model) {
                    return Err("invalid_argument");
                }
                model.items.remove(name);
                if exists(to, model) {
                    return Err("unique_violation");
                }
                model.insert(to, item);
            }
            Edit::PatchNumber(name, n, says) => {
                let Some(item) = model.items.get_mut(name) else { return Err("not_found") };
                says.allows()?;
                item.n = *n;
            }
            Edit::Delete(name, says) => {
                if exists(name, model) {
                    says.allows()?;
                    model.items.remove(name);
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> Vec<&Name> {
        match self {
            Edit::Create(name, _) | Edit::PatchNumber(name, ..) | Edit::Delete(name, _) => {
                vec![name]
            }
            Edit::Put(name, to, ..) if name == to => vec![name],
            Edit::Put(name, to, ..) => vec![name, to],
        }
    }
}

impl Says {
    fn allows(self) -> Result<(), &'static str> {
        match self {
            Says::Nothing => Err("precondition_required"),
            Says::Wrong => Err("version_conflict"),
            Says::Right | Says::Any => Ok(()),
        }
    }

    async fn precondition(self, engine: &Engine, name: &Name) -> Result<Precondition, Error> {
        let version =
            engine.get(&Actor::Local, "items", &key(name)).await?.map(|document| document.version);
        Ok(match (self, version) {
            (Says::Any, _) => Precondition::Any,
            (Says::Right, Some(version)) => Precondition::Version(version),
            (Says::Wrong, version) => Precondition::Version(version.unwrap_or(7) + 1),
            (Says::Nothing, _) | (Says::Right, None) => Precondition::Unsaid,
        })
    }
}

impl Model {
    /// What a step does to the map.
    pub(crate) fn predict(&self, step: &Step) -> Expected {
        let mut next = self.clone();
        let mut errors = Vec::new();
        match step {
            Step::Replace { group, items } => {
                next.items.retain(|(held, _), _| held != group);
                items.iter().for_each(|(name, item)| next.insert(name, item));
            }
            Step::Batch(edits) => {
                let mut seen = BTreeSet::new();
                if !edits.iter().flat_map(Edit::names).all(|name| seen.insert(name)) {
                    errors.push("invalid_argument");
                }
                // Each operation meets the documents as they are before the batch.
                for edit in edits {
                    errors.extend(edit.apply(&mut self.clone()).err());
                    errors.extend(edit.apply(&mut next).err().filter(|_| !errors.is_empty()));
                }
            }
        }
        let slugs: Vec<&String> = next.items.values().filter_map(|i| i.slug.as_ref()).collect();
        if slugs.iter().collect::<BTreeSet<_>>().len() < slugs.len() {
            errors.push("unique_violation");
        }
        if errors.is_empty() { Ok(next) } else { Err(errors) }
    }

    /// The step was acknowledged.
    pub(crate) fn acknowledge(&mut self, expected: Expected, step: &Step) {
        match expected {
            Ok(next) => *self = next,
            Err(codes) => panic!("{step:?} went through, the map refuses it: {codes:?}"),
        }
    }

    /// The step was refused.
    pub(crate) fn refuse(&self, expected: Expected, error: &Error, step: &Step) {
        match expected {
            Ok(_) => panic!("{step:?} was refused, the map takes it: {error}"),
            Err(codes) => {
                assert!(codes.contains(&error.code()), "{step:?}: {error}, not {codes:?}");
            }
        }
    }

    /// It is not known whether the step happened: the store holds the state before or after.
    pub(crate) async fn settle(&mut self, expected: Expected, engine: &Engine) {
        let Ok(next) = expected else { return };
        let stored = stored_items(engine, &[&*self, &next]).await;
        if stored == next.items {
            *self = next;
        }
        assert_eq!(stored, self.items, "an unknown commit is there in part");
    }

    /// Everything that can be asked gives what the map gives.
    pub(crate) async fn compare(&self, engine: &Engine) {
        assert_eq!(stored_items(engine, &[self]).await, self.items);
        for (name, item) in &self.items {
            let Some(slug) = &item.slug else { continue };
            let holder = engine
                .lookup(&Actor::Local, "items", "slug", &[json!(slug)])
                .await
                .unwrap()
                .unwrap();
            assert_eq!(holder.key, key(name));
        }
        for group in &self.groups {
            let total = engine
                .get(&Actor::Local, "totals", &format!("total:{group}"))
                .await
                .unwrap()
                .unwrap();
            let total: Json = serde_json::from_slice(&total.data).unwrap();
            let members = self.items.iter().filter(|((held, _), _)| held == group);
            let numbers: Vec<i64> = members.map(|(_, item)| item.n).collect();
            assert_eq!(total["sum"], numbers.iter().sum::<i64>(), "{group}");
            assert_eq!(total["items"], numbers.len(), "{group}");
        }
    }

    /// How many documents the store holds: items and totals.
    pub(crate) fn document_count(&self) -> u64 {
        (self.items.len() + self.groups.len()) as u64
    }

    fn insert(&mut self, name: &Name, item: &Item) {
        self.groups.insert(name.0.clone());
        self.items.insert(name.clone(), item.clone());
    }
}

impl Item {
    fn data(&self, (group, id): &Name) -> Vec<u8> {
        let mut data = json!({ "group": group, "id": id, "n": self.n, "tags": self.tags,
                               "state": self.state });
        if let Some(slug) = &self.slug {
            data["slug"] = json!(slug);
        }
        data.to_string().into_bytes()
    }
}

/// The items that are stored under any key that a model or its successor knows.
async fn stored_items(engine: &Engine, models: &[&Model]) -> BTreeMap<Name, Item> {
    let names: BTreeSet<&Name> = models.iter().flat_map(|model| model.items.keys()).collect();
    let mut items = BTreeMap::new();
    for name in names {
        let Some(document) = engine.get(&Actor::Local, "items", &key(name)).await.unwrap() else {
            continue;
        };
        let data: Json = serde_json::from_slice(&document.data).unwrap();
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let item = Item {
            n: data["n"].as_i64().unwrap(),
            slug: text(&data["slug"]),
            tags: data["tags"].as_array().unwrap().iter().filter_map(text).collect(),
            state: if data["state"] == "open" { "open" } else { "done" },
        };
        items.insert(name.clone(), item);
    }
    items
}

fn key((group, id): &Name) -> String {
    format!("item:{}:{id}", group.replace(':', "%3A"))
}

fn draw_group(random: &mut Random) -> String {
    ["g", "g:h", "h"][random.below(3)].to_owned()
}

fn draw_id(random: &mut Random) -> String {
    ["", "a", "ab", "é", "b#c"][random.below(5)].to_owned()
}

fn draw_number(random: &mut Random) -> i64 {
    [-1, 0, 1, 1000, i64::from(i32::MAX)][random.below(5)]
}

fn draw_says(random: &mut Random) -> Says {
    [Says::Right, Says::Right, Says::Any, Says::Wrong, Says::Nothing][random.below(5)]
}

fn draw_item(random: &mut Random) -> Item {
    let tags = (0..random.below(4)).map(|_| ["x", "y", "xy"][random.below(3)].to_owned());
    Item {
        tags: tags.collect(),
        n: draw_number(random),
        slug: (random.below(3) == 0).then(|| ["s", "t", "u", "v"][random.below(4)].to_owned()),
        state: ["open", "done"][random.below(2)],
    }
}

/// A clock that moves by itself, sometimes backwards, and randomness from a seed.
pub(crate) fn seeded_system(seed: u64) -> Arc<dyn System> {
    Arc::new(SeededSystem { state: AtomicU64::new(seed) })
}

struct SeededSystem {
    state: AtomicU64,
}

#[async_trait]
impl System for SeededSystem {
    fn now_micros(&self) -> u64 {
        let step = self.state.fetch_add(1, Ordering::Relaxed);
        1_700_000_000_000_000 + Random::new(step).next_u64() % 5_000
    }

    fn random(&self, bytes: &mut [u8]) {
        let seed = self.state.fetch_add(1, Ordering::Relaxed);
        bytes.copy_from_slice(&Random::new(seed).bytes(bytes.len()));
    }

    async fn sleep(&self, _: Duration) {}
}
