//! Results of invocations: kept, found, fetched and forgotten.

use std::sync::Arc;
use std::time::Duration;

use keyloom_engine::OutboxAt;
use keyloom_key::{Head, Space};
use keyloom_store::{Commit, OrderedStore, Write};
use pollster::block_on;

use super::grid::Grid;
use crate::support::{Seconds, at_every_call, code, every_fault};

const HERE: OutboxAt<'static> = OutboxAt { class: "order", partition: 3 };
const MINUTE: Duration = Duration::from_secs(60);

fn begin(grid: &Grid, name: &str, time: Duration) -> String {
    code(block_on(grid.0.engine.begin_invocation(HERE, name, time)))
}

fn finish(grid: &Grid, name: &str, result: &[u8]) -> String {
    code(block_on(grid.0.engine.finish_invocation(HERE, name, MINUTE, result)))
}

fn get(grid: &Grid, name: &str) -> Option<Vec<u8>> {
    block_on(grid.0.engine.invocation(HERE, name)).unwrap()
}

fn expire(grid: &Grid) -> u64 {
    block_on(grid.0.engine.expire_invocations()).unwrap()
}

#[test]
fn results_are_kept_until_they_are_fetched_or_expire() {
    let grid = Grid::new();
    let engine = &grid.0.engine;
    for name in ["one", "two"] {
        assert_eq!(begin(&grid, name, Duration::from_secs(1)), "ok");
        assert_eq!(get(&grid, name), Some(Vec::new()), "it runs");
    }
    assert_eq!(finish(&grid, "one", b"result"), "ok");
    assert_eq!((get(&grid, "one"), get(&grid, "three")), (Some(b"result".to_vec()), None));
    assert_eq!(expire(&grid), 0);
    block_on(engine.delete_invocation(HERE, "one")).unwrap();
    block_on(engine.delete_invocation(HERE, "one")).unwrap();
    assert_eq!(get(&grid, "one"), None);
    assert_eq!(finish(&grid, "two", b"later"), "ok");
    grid.0.system.pass(Seconds(61));
    assert_eq!(get(&grid, "two"), None, "it has expired, whether or not it was swept away");
    assert_eq!(expire(&grid), 1);
    assert_eq!(grid.0.keys(Space::Invocation).len(), 0);
    let long = "x".repeat(257);
    for wrong in ["", &long] {
        assert!(begin(&grid, wrong, MINUTE).contains("1 to 256"));
    }
    let far = OutboxAt { partition: 8, ..HERE };
    assert!(code(block_on(engine.invocation(far, "one"))).contains("no partition 8"));
    let large = finish(&grid, "one", &vec![0; (4 << 20) + 1]);
    assert!(large.starts_with("limit_exceeded: bytes of a result"), "{large}");
}

#[test]
fn a_lost_invocation_is_forgotten_after_its_time() {
    let grid = Grid::new();
    begin(&grid, "lost", MINUTE);
    let grid = grid.reopened();
    grid.0.system.pass(Seconds(59));
    assert_eq!((expire(&grid), get(&grid, "lost")), (0, Some(Vec::new())), "it may still run");
    grid.0.system.pass(Seconds(1));
    assert_eq!(get(&grid, "lost"), None);
    assert_eq!(expire(&grid), 1);
    assert_eq!(grid.0.keys(Space::Invocation).len(), 0);
}

#[test]
fn an_id_that_is_in_use_is_refused_and_its_result_stays() {
    let grid = Grid::new();
    let taken = "unique_violation: invocation `mine` is taken in `order`";
    begin(&grid, "mine", MINUTE);
    assert_eq!(begin(&grid, "mine", MINUTE), taken, "it runs");
    finish(&grid, "mine", b"first");
    assert_eq!(begin(&grid, "mine", MINUTE), taken, "nobody has fetched it");
    assert_eq!(finish(&grid, "mine", b"second"), taken);
    assert_eq!(get(&grid, "mine"), Some(b"first".to_vec()));
    let elsewhere = OutboxAt { partition: 4, ..HERE };
    block_on(grid.0.engine.begin_invocation(elsewhere, "mine", MINUTE)).unwrap();
    grid.0.system.pass(Seconds(60));
    assert_eq!(begin(&grid, "mine", MINUTE), "ok", "it has expired");
    assert_eq!(expire(&grid), 1, "the one in the other partition");
    assert_eq!(get(&grid, "mine"), Some(Vec::new()));
}

#[test]
fn what_has_expired_is_found_without_looking_at_the_rest() {
    let grid = Grid::new();
    for number in 0..300 {
        begin(&grid, &format!("kept {number}"), MINUTE);
        finish(&grid, &format!("kept {number}"), b"result");
    }
    begin(&grid, "due", Duration::from_secs(1));
    grid.0.system.pass(Seconds(2));
    grid.0.faults.reset();
    assert_eq!(expire(&grid), 1);
    assert_eq!(grid.0.faults.counts().keys_read, 1);
}

#[test]
fn results_that_an_older_version_has_kept_expire_as_well() {
    let grid = Grid::new();
    begin(&grid, "new", MINUTE);
    // Without a row among those that expire, as it was written once.
    let rows = grid.0.keys(Space::Invocation);
    let new = rows.iter().find(|key| Head::read(key).unwrap().0.collection > 0).unwrap();
    let old = [&new[..new.len() - 3], b"old"].concat();
    let expires = grid.0.system.now_millis() + 1000;
    let value = [&[1][..], &expires.to_be_bytes(), b"result"].concat();
    let commit = Commit { writes: vec![Write::Put { key: old, value }], ..Commit::default() };
    block_on(grid.0.memory.commit(Arc::new(commit))).unwrap();
    assert_eq!(get(&grid, "old"), Some(b"result".to_vec()));
    assert_eq!(block_on(grid.0.engine.adopt_invocations()).unwrap(), 1);
    assert_eq!(block_on(grid.0.engine.adopt_invocations()).unwrap(), 0);
    grid.0.system.pass(Seconds(2));
    assert_eq!(expire(&grid), 1);
    assert_eq!(grid.0.keys(Space::Invocation).len(), 2, "the new one and its row");
}

#[test]
fn a_fault_at_any_call_leaves_a_result_with_its_row_or_neither() {
    for fault in every_fault() {
        at_every_call(
            &fault,
            || {
                let grid = Grid::new();
                begin(&grid, "one", MINUTE);
                grid.0
            },
            |database| finish(&Grid(database.clone()), "one", b"result"),
            |database, _| {
                let grid = Grid(database.clone());
                assert_eq!(grid.0.keys(Space::Invocation).len(), 2, "{fault:?}");
                grid.0.system.pass(Seconds(60));
                assert_eq!((expire(&grid), grid.0.keys(Space::Invocation).len()), (1, 0));
            },
        );
    }
}

#[test]
fn ids_are_drawn_from_the_randomness_that_is_handed_in() {
    let (one, two) = (Grid::new(), Grid::new());
    let id = one.0.engine.invocation_id();
    assert_eq!((id.len(), &id), (32, &two.0.engine.invocation_id()), "the same seed");
    assert_ne!(id, one.0.engine.invocation_id());
}
