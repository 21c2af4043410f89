//! What identities cost without a network: normalizing, looking up, writing down changes.

use std::path::Path;
use std::sync::Arc;

use keyloom_engine::{Engine, ObjectAt, Options, Partition};
use keyloom_key::limits::STRING_ID_BYTES_MAX;
use keyloom_key::{EntryKey, EntryStep, ObjectId, ObjectStep, Touched};
use keyloom_store_fjall::{Durability, FjallStore};
use tokio::runtime::Runtime;

use super::{CLASS, create, entry_key, prepare, string_id};
use crate::component::{BATCHES, repeat};
use crate::load::percentile;
use crate::outcome::Outcome;
use crate::stopwatch::{Stopwatch, nanos};

/// Ids whose normalization is measured: plain, upper case, composed and not composed.
const IDS: [(&str, &str); 4] = [
    ("8 bytes", "order-42"),
    ("32 bytes, upper case", "Order_2025-09-12_CUSTOMER-000042"),
    ("32 bytes, composed accents", "commande_été_2025-09-12_n°-0042"),
    ("27 bytes, decomposed accents", "commande_e\u{301}te\u{301}_2025-0042"),
];

/// How often each thing is done in a batch.
const TIMES: u64 = 2000;

/// How many lookups of each kind.
const LOOKUPS: u64 = 40_000;

/// What was found.
#[derive(Debug)]
pub(super) struct Parts {
    /// Nanoseconds to normalize.
    pub(super) normalize: Vec<(&'static str, f64)>,
    /// Nanoseconds to encode a change of a numeric and of a string object.
    pub(super) change: [f64; 2],
    /// Nanoseconds of each lookup: by number, by name, and each of them half of the time.
    pub(super) lookups: [Vec<u64>; 3],
    /// Bytes of an id in memory beside its text.
    pub(super) id_bytes: usize,
}

/// Measures all of it.
pub(super) fn measure(folder: &Path, objects: u64) -> Outcome<Parts> {
    let mut normalize = Vec::new();
    for (title, id) in IDS {
        let nanos = fastest(|| {
            repeat(TIMES, || {
                std::hint::black_box(ObjectId::string(
                    std::hint::black_box(id),
                    STRING_ID_BYTES_MAX,
                )?);
                Ok(())
            })
        })?;
        normalize.push((title, nanos));
    }
    let string = ObjectId::string(&string_id(42), STRING_ID_BYTES_MAX)?;
    let change = [encode_change(ObjectId::Numeric(42))?, encode_change(string)?];
    let lookups = Runtime::new()?.block_on(lookups(folder, objects))?;
    Ok(Parts { normalize, change, lookups, id_bytes: size_of::<ObjectId>() })
}

fn encode_change(id: ObjectId) -> Outcome<f64> {
    let key = EntryKey::string(&entry_key(1), STRING_ID_BYTES_MAX)?;
    let entries = vec![EntryStep { kind: Touched::Updated, key }];
    let (kind, class, partition, version) = (Touched::Updated, 1, 0, 1_700_000_000_000_000);
    let step = ObjectStep { kind, class, partition, version, id, entries };
    fastest(|| {
        repeat(TIMES, || {
            std::hint::black_box(std::hint::black_box(&step).write());
            Ok(())
        })
    })
}

/// The batch that was disturbed least.
fn fastest(mut batch: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..BATCHES {
        least = least.min(batch()?);
    }
    Ok(least)
}

/// Lookups of one entry, in turns, in a database that holds as many objects of either kind.
async fn lookups(folder: &Path, objects: u64) -> Outcome<[Vec<u64>; 3]> {
    let store = FjallStore::open(folder, Durability::Buffered)?;
    let engine = Arc::new(Engine::open(Arc::new(store), Options::default()).await?);
    prepare(&engine, objects).await?;
    for number in 0..objects {
        create(&engine, &numeric_id(number), number).await?;
    }
    let mut found: [Vec<u64>; 3] = Default::default();
    let [numeric, string, mixed] = &mut found;
    for turn in 0..LOOKUPS {
        // Far apart, so that a lookup does not find what the one before it has brought near.
        let number = turn.wrapping_mul(7_919) % objects;
        numeric.push(lookup(&engine, &numeric_id(number)).await?);
        string.push(lookup(&engine, &string_id(number)).await?);
        let other = number.wrapping_add(objects / 2) % objects;
        let id = if turn % 2 == 0 { numeric_id(other) } else { string_id(other) };
        mixed.push(lookup(&engine, &id).await?);
    }
    for kind in &mut found {
        percentile(kind, 50);
    }
    Ok(found)
}

/// The nanoseconds of one lookup, from the text of the id on.
async fn lookup(engine: &Engine, id: &str) -> Outcome<u64> {
    let key = engine.entry_key(&entry_key(7))?;
    let stopwatch = Stopwatch::start();
    let id = engine.object_id(id)?;
    let at = ObjectAt { class: CLASS, partition: Partition::Number(0), id: &id };
    let found = engine.entry(at, &key).await?;
    let taken = nanos(stopwatch.elapsed());
    found.and_then(|(_, value)| value).ok_or("there is no such entry")?;
    Ok(taken)
}

/// The number of an object, as long as the name of another.
fn numeric_id(number: u64) -> String {
    (100_000_000_000 + number).to_string() + "0"
}
