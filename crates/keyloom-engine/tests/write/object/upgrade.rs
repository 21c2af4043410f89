//! A rolling upgrade: data of the numeric era, and an old and a new client while the phases move.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use keyloom_engine::{ObjectStats, Repair, Rollout};
use keyloom_key::Space;
use pollster::block_on;

use super::grid::{Grid, number, text};
use super::layouts::{grid, put_oldest};
use super::lists::names;
use crate::support::code;

/// What a client was told is stored, by object.
type Told = BTreeMap<String, String>;

/// How many rounds each client goes through in each phase, so that no phase passes unseen.
const ROUNDS: u32 = 30;

/// Writes numeric objects: those of the numeric era, and new ones while they are taken.
fn old_client(grid: &Grid, phase: &AtomicU8, told: &mut Told) {
    for round in 0..ROUNDS {
        let at = phase.load(Ordering::SeqCst);
        let known = (round % 5).to_string();
        let value = format!("old {at} {round}");
        grid.set_entry(&known, number(7), &value).expect("stored objects can be changed for ever");
        told.insert(known, value.clone());
        let new = format!("1{at}{round}");
        match code(grid.set_entry(&new, number(7), &value)).as_str() {
            "ok" => drop(told.insert(new, value)),
            refused => assert!(at >= 5 && refused.contains("phase 5"), "phase {at}: {refused}"),
        }
    }
}

/// Writes string objects as soon as they are taken.
fn new_client(grid: &Grid, phase: &AtomicU8, told: &mut Told) {
    for round in 0..ROUNDS {
        let at = phase.load(Ordering::SeqCst);
        let name = format!("s-{at}-{round}");
        let value = format!("new {at} {round}");
        match (at, code(grid.set_entry(&name, text("k"), &value)).as_str()) {
            (2.., "ok") => drop(told.insert(name, value)),
            (0, refused) => assert!(refused.contains("ODGM_ENABLE_STRING_"), "{refused}"),
            (1, refused) => assert!(refused.contains("phase 1"), "{refused}"),
            (at, refused) => panic!("phase {at}: {refused}"),
        }
    }
}

#[test]
fn o13_nothing_is_lost_while_the_phases_move_under_load() {
    let grid = grid();
    for number in 0..5 {
        put_oldest(&grid, number, &[(1, "from the numeric era")]);
    }
    grid.0.check(Repair::Yes);
    let phase = Arc::new(AtomicU8::new(0));
    let mut told = Told::new();
    for next in 0..=5 {
        grid.roll(Rollout::phase(next)).unwrap();
        phase.store(next, Ordering::SeqCst);
        let spawn = |client: fn(&Grid, &AtomicU8, &mut Told)| {
            let (grid, phase) = (grid.clone(), Arc::clone(&phase));
            std::thread::spawn(move || {
                let mut told = Told::new();
                client(&grid, &phase, &mut told);
                told
            })
        };
        let clients = [spawn(old_client), spawn(new_client)];
        if next == 3 {
            block_on(grid.0.engine.rewrite_legacy("order", &mut |_| {})).unwrap();
        }
        for client in clients {
            told.extend(client.join().unwrap());
        }
        let strings = told.keys().filter(|name| name.starts_with('s')).count();
        let listed = names(&grid, "s-", 1000).len();
        assert_eq!(listed, if next == 2 { 0 } else { strings }, "phase {next}");
        assert_eq!(grid.stats().string_objects, strings as u64, "phase {next}");
        assert_eq!(grid.stats().numeric_objects, (told.len() - strings).max(5) as u64);
    }
    for (name, value) in &told {
        let key = if name.starts_with('s') { text("k") } else { number(7) };
        assert_eq!(grid.entry(name, &key).unwrap().1.as_ref(), Some(value), "{name}");
    }
    for name in ["0", "1", "2", "3", "4"] {
        assert_eq!(grid.entries(name)["1"], "from the numeric era");
    }
    assert_eq!(grid.0.keys(Space::LegacyObject).len(), 0);
    let ObjectStats { numeric_objects, string_objects, .. } = grid.stats();
    assert_eq!(numeric_objects + string_objects, told.len() as u64);
    grid.0.assert_sound();
}
