//! The engine against a plain map: random operations with random faults on every store.
//!
//! Each run has a seed, which is printed when it fails; `KEYLOOM_SEED=n` replays it alone.
//!
//! M1: An operation that was acknowledged is in the map and in the store; one that failed is in
//!     neither; one whose outcome is unknown is in the store whole or not at all.
//! M2: After each run every query gives what a filter over the map gives, and `check` finds
//!     documents and keys equal both ways.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a failed test is a panic")]

mod model_support;

use std::sync::Arc;

use keyloom_engine::{Engine, Error, Options, Repair, Rollout};
use keyloom_store::OrderedStore;
use keyloom_store::conformance::Random;
use keyloom_store::faults::{Call, Fault, FaultStore, When};
use keyloom_store::memory::MemoryStore;
use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;

use model_support::{GRID, GridModel, GridStep, Model, SCHEMA, Step, seeded_system};

const STEPS: usize = 120;

#[test]
fn memory_store_agrees_with_the_map() {
    check(300, run, || Arc::new(MemoryStore::new()));
}

#[test]
fn objects_in_memory_agree_with_the_map() {
    check(300, run_grid, || Arc::new(MemoryStore::new()));
}

#[test]
fn objects_in_redb_agree_with_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    check(10, run_grid, move || {
        number += 1;
        Arc::new(RedbStore::open(&folder.path().join(number.to_string())).unwrap())
    });
}

#[test]
fn objects_in_fjall_agree_with_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    check(10, run_grid, move || {
        number += 1;
        let path = folder.path().join(number.to_string());
        Arc::new(FjallStore::open(&path, Durability::Durable).unwrap())
    });
}

#[test]
fn redb_store_agrees_with_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    check(20, run, move || {
        number += 1;
        Arc::new(RedbStore::open(&folder.path().join(number.to_string())).unwrap())
    });
}

#[test]
fn fjall_store_agrees_with_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    check(20, run, move || {
        number += 1;
        let path = folder.path().join(number.to_string());
        Arc::new(FjallStore::open(&path, Durability::Durable).unwrap())
    });
}

fn check(
    runs: u64,
    run: fn(u64, &Arc<dyn OrderedStore>),
    mut open: impl FnMut() -> Arc<dyn OrderedStore>,
) {
    let replayed = std::env::var("KEYLOOM_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = replayed.map_or(1..runs + 1, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let store = open();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, &store)));
        if let Err(cause) = ran {
            println!("replay with KEYLOOM_SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

fn run(seed: u64, store: &Arc<dyn OrderedStore>) {
    let mut random = Random::new(seed);
    let faults = Arc::new(FaultStore::new(Arc::clone(store)));
    let options = Options { system: seeded_system(seed), ..Options::default() };
    let engine =
        pollster::block_on(Engine::open(Arc::clone(&faults) as Arc<dyn OrderedStore>, options));
    let engine = engine.unwrap();
    let schema = keyloom_engine::schema::Schema::from_toml(SCHEMA).unwrap();
    pollster::block_on(engine.apply_schema(&schema, &mut |_| {})).unwrap();
    let mut model = Model::default();
    for _ in 0..STEPS {
        let step = Step::draw(&mut random);
        inject(&faults, &mut random);
        let outcome = pollster::block_on(step.execute(&engine));
        faults.reset();
        let expected = model.predict(&step);
        match outcome {
            Ok(()) => model.acknowledge(expected, &step),
            Err(Error::OutcomeUnknown(_)) => {
                pollster::block_on(model.settle(expected, &engine));
            }
            // A failed store leaves everything as it was, whatever the step would have done.
            Err(Error::Unavailable(_) | Error::RetriesExhausted { .. }) => {}
            Err(error) => model.refuse(expected, &error, &step),
        }
    }
    pollster::block_on(model.compare(&engine));
    let report = pollster::block_on(engine.check(Repair::No, &mut |_| {})).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.documents, model.document_count());
}

fn run_grid(seed: u64, store: &Arc<dyn OrderedStore>) {
    let mut random = Random::new(seed);
    let faults = Arc::new(FaultStore::new(Arc::clone(store)));
    let options = Options { system: seeded_system(seed), ..Options::default() };
    let engine =
        pollster::block_on(Engine::open(Arc::clone(&faults) as Arc<dyn OrderedStore>, options));
    let engine = engine.unwrap();
    let schema = keyloom_engine::schema::Schema::from_toml(GRID).unwrap();
    pollster::block_on(engine.apply_schema(&schema, &mut |_| {})).unwrap();
    pollster::block_on(engine.set_rollout(Rollout::phase(3))).unwrap();
    let mut model = GridModel::default();
    for _ in 0..STEPS {
        let step = GridStep::draw(&mut random, &model);
        inject(&faults, &mut random);
        let outcome = pollster::block_on(step.execute(&engine));
        faults.reset();
        let expected = model.predict(&step);
        match outcome {
            Ok(written) => model.acknowledge(expected, &step, written),
            Err(Error::OutcomeUnknown(_)) => {
                pollster::block_on(model.settle(expected, &step, &engine));
            }
            // A failed store leaves everything as it was, whatever the step would have done.
            Err(Error::Unavailable(_) | Error::RetriesExhausted { .. }) => {}
            Err(error) => model.refuse(expected, &step, &error),
        }
    }
    pollster::block_on(model.compare(&engine));
    let report = pollster::block_on(engine.check(Repair::No, &mut |_| {})).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.objects, model.object_count());
}

/// In one step of two, something goes wrong in the store.
fn inject(faults: &FaultStore, random: &mut Random) {
    let nth = 1 + random.next_u64() % 4;
    match random.below(10) {
        0 => faults.inject(When::Nth(nth), Fault::Before("no space left on device")),
        1 => faults.inject(When::NthOf(Call::Commit, 1), Fault::After),
        2 => faults.inject(When::NthOf(Call::Commit, 1), Fault::Unwritten),
        3 => {
            let check = random.below(3);
            faults.inject(When::NthOf(Call::Commit, 1), Fault::Conflict { check });
        }
        4 => faults.inject(When::Chance { per_mille: 150, seed: random.next_u64() }, Fault::After),
        _ => {}
    }
}
