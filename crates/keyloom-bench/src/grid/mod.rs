//! The object grid: what its identities cost, and how many calls it answers over gRPC.
//!
//! ```text
//! grid ─► parts, in this process
//!      ─► host processes: Keyloom on redb, on fjall, on fjall buffered ◄─ gRPC ─ calls
//! ```
//!
//! G1: The stores take turns in every round, so that whatever the machine does meanwhile meets all
//!     of them.
//! G2: A call that is not answered with what it asked for ends the run.

mod calls;
mod parts;
mod report;
mod wire;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, ObjectAt, ObjectContent, Partition, Precondition, Rollout, Val};
use tokio::task::JoinSet;

use crate::host::{Host, Kind};
use crate::outcome::Outcome;
use calls::Call;
use parts::Parts;

pub(crate) use report::render;

/// The class of all objects.
const CLASS: &str = "order";
const SCHEMA: &str = "[classes.order]\nabout = \"objects of the benchmark\"\n";

/// How many entries an object has.
const ENTRIES: u64 = 16;

/// How many bytes a value has.
const VALUE_BYTES: usize = 128;

/// How many objects are loaded at the same time.
const LOADERS: u64 = 64;

/// How a run is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) objects: u64,
    pub(crate) rounds: u64,
    /// How long one kind of call to one store takes in a round.
    pub(crate) turn: Duration,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Findings {
    parts: Parts,
    /// Calls per second of each round, by call and store.
    rates: BTreeMap<(Call, Kind), Vec<f64>>,
}

/// The stores that are compared.
const STORES: [Kind; 3] = [Kind::GridBuffered, Kind::GridFjall, Kind::GridRedb];

/// Runs everything.
pub(crate) fn run(program: &Path, settings: Settings, log: &mut dyn Write) -> Outcome<Findings> {
    let Settings { objects, rounds, turn } = settings;
    let folder = tempfile::Builder::new().prefix("keyloom-grid-").tempdir_in(crate::scratch()?)?;
    writeln!(log, "identities, lookups and changes")?;
    let parts = parts::measure(&folder.path().join("parts"), objects)?;
    let mut hosts = Vec::new();
    for kind in STORES {
        writeln!(log, "loading {objects} objects: {}", kind.title())?;
        hosts.push((kind, Host::start(program, kind, folder.path(), objects)?));
    }
    let mut rates: BTreeMap<(Call, Kind), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        writeln!(log, "round {} of {rounds}", round + 1)?;
        for call in Call::ALL {
            for (kind, host) in &hosts {
                let errand = calls::Errand { call, objects, round };
                let rate = calls::drive(host.address, errand, turn)?;
                rates.entry((call, *kind)).or_default().push(rate);
            }
        }
    }
    Ok(Findings { parts, rates })
}

impl Kind {
    /// What stands in the table.
    fn title(self) -> &'static str {
        match self {
            Kind::Bare => "bare handler",
            Kind::Keyloom => "approvals on redb",
            Kind::GridRedb => "redb",
            Kind::GridFjall => "fjall",
            Kind::GridBuffered => "fjall, buffered",
        }
    }
}

/// Declares the class, takes string ids, and creates the objects.
pub(crate) async fn prepare(engine: &Arc<Engine>, objects: u64) -> Outcome<()> {
    engine.apply_schema(&Schema::from_toml(SCHEMA)?, &mut |_| {}).await?;
    engine.set_rollout(Rollout::phase(3)).await?;
    let mut loaders = JoinSet::new();
    for loader in 0..LOADERS.min(objects) {
        let engine = Arc::clone(engine);
        loaders.spawn(async move {
            for number in (loader..objects).step_by(usize::try_from(LOADERS)?) {
                create(&engine, &string_id(number), number).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(loaded) = loaders.join_next().await {
        loaded??;
    }
    Ok(())
}

/// Creates one object with all its entries.
async fn create(engine: &Engine, id: &str, number: u64) -> Outcome<()> {
    let mut content = ObjectContent::default();
    for entry in 0..ENTRIES {
        let value = Val::bytes(value(number, entry));
        content.entries.insert(engine.entry_key(&entry_key(entry))?, value);
    }
    let id = engine.object_id(id)?;
    let at = ObjectAt { class: CLASS, partition: Partition::Number(0), id: &id };
    engine.set_object(at, content, Precondition::Unsaid).await?;
    Ok(())
}

/// The name of an object, as long as the number of another.
fn string_id(number: u64) -> String {
    format!("order-{number:07}")
}

fn entry_key(entry: u64) -> String {
    format!("field-{entry:02}")
}

/// A value that is different for each object, entry and round.
fn value(number: u64, entry: u64) -> Vec<u8> {
    let mut value = vec![b'v'; VALUE_BYTES];
    let marks = [number.to_be_bytes(), entry.to_be_bytes()].concat();
    for (byte, mark) in value.iter_mut().zip(marks) {
        *byte = mark;
    }
    value
}
