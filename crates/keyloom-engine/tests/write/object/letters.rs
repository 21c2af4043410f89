//! Events are counted and bounded, on their way and as dead letters.

use std::sync::Arc;

use keyloom_engine::schema::{DataTrigger, Event, FuncTrigger, TriggerTarget};
use keyloom_engine::{
    Completion, Ended, ObjectWritten, OutboxAt, Precondition, Repair, Terms, Val,
};
use keyloom_key::{Head, Space};
use keyloom_store::{Commit, OrderedStore, Write};
use pollster::block_on;

use super::grid::{Grid, at, id, number};
use crate::support::code;

const HERE: OutboxAt<'static> = OutboxAt { class: "order", partition: 3 };
const WAITING: u8 = 4;
const DEAD: u8 = 5;

/// A grid with an object whose entry 1 is watched.
fn watched() -> Grid {
    let grid = Grid::new();
    let note = || TriggerTarget {
        class: "order".to_owned(),
        partition: 3,
        object: None,
        function: "note".to_owned(),
        options: Default::default(),
    };
    let data =
        DataTrigger { on_create: vec![note()], on_update: vec![note()], on_delete: Vec::new() };
    let function = FuncTrigger { on_complete: vec![note()], on_error: Vec::new() };
    let event = Event {
        data_trigger: [(1, data)].into(),
        func_trigger: [("note".to_owned(), function)].into(),
        ..Event::default()
    };
    grid.set("a", &[]).unwrap();
    grid.set_event("a", event).unwrap();
    grid
}

/// Changes the watched entry; so many events led to that.
fn fire(grid: &Grid, data: &str, depth: u32) -> Result<ObjectWritten, keyloom_engine::Error> {
    let terms = Terms { precondition: Precondition::Unsaid, depth };
    block_on(grid.0.engine.set_entry(at(&id("a")), number(1), Val::bytes(data), terms))
}

/// Says how many events of a kind there are, whatever there is.
fn claim(grid: &Grid, kind: u8, count: i64) {
    let class = Head::read(&grid.0.keys(Space::Outbox)[0]).unwrap().0.collection;
    let mut key = Head { space: Space::Counter, collection: class, template: 3 }.whole().0;
    key.push(kind);
    let write = Write::Put { key, value: count.to_be_bytes().to_vec() };
    let commit = Commit { writes: vec![write], ..Commit::default() };
    block_on(grid.0.memory.commit(Arc::new(commit))).unwrap();
}

/// The numbers of the dead letters, page by page.
fn dead(grid: &Grid, limit: usize) -> Vec<Vec<u64>> {
    let (mut pages, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = block_on(grid.0.engine.dead_letters(HERE, from, limit)).unwrap();
        pages.push(page.items.iter().map(|event| event.sequence).collect());
        next = page.next;
    }
    pages
}

#[test]
fn pages_of_events_are_bounded_in_bytes() {
    let grid = watched();
    for letter in ["a", "b", "c"] {
        fire(&grid, &letter.repeat(600_000), 0).unwrap();
        fire(&grid, &letter.repeat(600_001), 8).unwrap();
    }
    assert_eq!(block_on(grid.0.engine.outbox(HERE, 10)).unwrap().len(), 1);
    assert_eq!(dead(&grid, 10), [[2], [4], [6]], "each is told of once");
}

#[test]
fn pages_of_events_are_bounded_in_number() {
    let grid = watched();
    for value in 0..5 {
        fire(&grid, &value.to_string(), 8).unwrap();
    }
    assert_eq!(dead(&grid, 2), [vec![1, 2], vec![3, 4], vec![5]]);
    assert_eq!(dead(&grid, 5), [[1, 2, 3, 4, 5]], "the last page says so");
    let refused = code(block_on(grid.0.engine.dead_letters(HERE, 0, 0)));
    assert_eq!(refused, "invalid_argument: the limit of a page is 1 to 1000");
}

#[test]
fn a_write_that_finds_no_room_in_the_outbox_is_refused_and_changes_nothing() {
    let grid = watched();
    fire(&grid, "x", 0).unwrap();
    claim(&grid, WAITING, 99_999);
    fire(&grid, "y", 0).unwrap();
    let stored = grid.0.entries();
    let full = "limit_exceeded: events of the partition that wait for delivery: 100001, at most \
                100000 allowed";
    assert_eq!(code(fire(&grid, "z", 0)), full);
    assert_eq!(grid.0.entries(), stored);
    grid.set_entry("a", number(2), "nobody watches this").unwrap();
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    fire(&grid, "z", 0).unwrap();
}

#[test]
fn what_a_function_triggers_when_the_outbox_is_full_is_a_dead_letter_that_waits_for_room() {
    let grid = watched();
    fire(&grid, "x", 0).unwrap();
    claim(&grid, WAITING, 100_000);
    let a = id("a");
    let ended = Ended {
        class: "order",
        partition: 3,
        object: Some(&a),
        function: "note",
        completion: Completion::Complete,
        payload: b"done",
        depth: 0,
    };
    assert_eq!(block_on(grid.0.engine.record_completion(ended)).unwrap(), 1);
    let letters = block_on(grid.0.engine.dead_letters(HERE, 0, 10)).unwrap().items;
    assert_eq!((letters[0].sequence, letters[0].payload.as_slice()), (2, &b"done"[..]));
    assert!(letters[0].error.as_ref().unwrap().contains("100000 events wait"), "{letters:?}");
    let replayed = code(block_on(grid.0.engine.replay(HERE, 2)));
    assert!(replayed.starts_with("limit_exceeded: events of the partition"), "{replayed}");
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    assert!(block_on(grid.0.engine.replay(HERE, 2)).unwrap());
}

#[test]
fn the_oldest_dead_letters_make_room_for_new_ones() {
    let grid = watched();
    for value in ["w", "x", "y"] {
        fire(&grid, value, 8).unwrap();
    }
    assert_eq!((dead(&grid, 10), grid.0.engine.tally().letters_dropped), (vec![vec![1, 2, 3]], 0));
    claim(&grid, DEAD, 10_001);
    fire(&grid, "z", 8).unwrap();
    assert_eq!((dead(&grid, 10), grid.0.engine.tally().letters_dropped), (vec![vec![3, 4]], 2));
    assert_eq!(grid.stats().dead_letters, 10_000);
}

#[test]
fn the_event_that_has_failed_too_often_makes_room_as_well() {
    let grid = watched();
    fire(&grid, "x", 8).unwrap();
    fire(&grid, "y", 0).unwrap();
    claim(&grid, DEAD, 10_000);
    for _ in 0..10 {
        block_on(grid.0.engine.failed(HERE, 2, "down", None)).unwrap();
    }
    assert_eq!(dead(&grid, 10), [[2]]);
}

#[test]
fn dead_letters_are_forgotten_one_by_one_or_all_together() {
    let grid = watched();
    for value in 0..4 {
        fire(&grid, &value.to_string(), 8).unwrap();
    }
    fire(&grid, "x", 0).unwrap();
    let engine = &grid.0.engine;
    assert!(block_on(engine.delete_letter(HERE, 2)).unwrap());
    assert!(!block_on(engine.delete_letter(HERE, 2)).unwrap());
    assert!(!block_on(engine.delete_letter(HERE, 5)).unwrap(), "it waits for delivery");
    assert_eq!((dead(&grid, 10), grid.stats().dead_letters), (vec![vec![1, 3, 4]], 3));
    grid.0.assert_sound();
    assert_eq!(block_on(engine.delete_letters(HERE)).unwrap(), 3);
    assert_eq!(block_on(engine.delete_letters(HERE)).unwrap(), 0);
    assert_eq!((grid.stats().dead_letters, grid.stats().waiting_events), (0, 1));
    grid.0.assert_sound();
    let far = OutboxAt { partition: 8, ..HERE };
    for refused in [
        code(block_on(engine.dead_letters(far, 0, 1))),
        code(block_on(engine.delete_letter(far, 1))),
        code(block_on(engine.delete_letters(far))),
        code(block_on(engine.replay(far, 1))),
    ] {
        assert!(refused.starts_with("invalid_argument: ") && refused.contains("no partition 8"));
    }
    let none = OutboxAt { class: "none", ..HERE };
    assert!(code(block_on(engine.dead_letters(none, 0, 1))).starts_with("not_found: "));
}

#[test]
fn events_are_counted_wherever_they_go_and_a_check_counts_those_of_before() {
    let grid = watched();
    for value in 0..3 {
        fire(&grid, &value.to_string(), 0).unwrap();
    }
    let counts = |grid: &Grid| (grid.stats().waiting_events, grid.stats().dead_letters);
    assert_eq!(counts(&grid), (3, 0));
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    for _ in 0..10 {
        block_on(grid.0.engine.failed(HERE, 2, "down", None)).unwrap();
    }
    assert_eq!(counts(&grid), (1, 1));
    block_on(grid.0.engine.replay(HERE, 2)).unwrap();
    assert_eq!(counts(&grid), (2, 0));
    grid.0.assert_sound();
    // As if both had been there before anybody counted.
    claim(&grid, WAITING, 0);
    block_on(grid.0.engine.delivered(HERE, 2, None)).unwrap();
    assert_eq!(counts(&grid), (0, 0), "never below");
    assert_eq!(grid.0.check(Repair::Yes).problems.len(), 1);
    assert_eq!(counts(&grid), (1, 0));
    grid.0.assert_sound();
}
