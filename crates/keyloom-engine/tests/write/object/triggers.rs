//! Events: written by the commit that causes them, in order, until they are delivered.

use keyloom_engine::schema::{DataTrigger, Event, FuncTrigger, TriggerTarget};
use keyloom_engine::{
    Completion, Ended, EventCause, Failed, OutboxAt, OutboxEvent, Precondition, Terms, Touched, Val,
};
use pollster::block_on;

use super::grid::{CLASSES, Grid, at, content, id, number, text};
use crate::support::{at_every_call, code, every_fault};

const HERE: OutboxAt<'static> = OutboxAt { class: "order", partition: 3 };

fn target(class: &str) -> TriggerTarget {
    TriggerTarget {
        class: class.to_owned(),
        partition: 0,
        object: None,
        function: "note".to_owned(),
        options: Default::default(),
    }
}

/// Everything that happens to an entry is noted.
fn noted() -> DataTrigger {
    let note = || vec![target("order")];
    DataTrigger { on_create: note(), on_update: note(), on_delete: note() }
}

/// Notes what happens to the entries `name` and 1.
fn watching() -> Event {
    Event {
        data_trigger: [(1, noted())].into(),
        data_trigger_str: [("Name".to_owned(), noted())].into(),
        ..Event::default()
    }
}

fn outbox(grid: &Grid) -> Vec<OutboxEvent> {
    block_on(grid.0.engine.outbox(HERE, 1000)).unwrap()
}

/// The outbox as `sequence cause payload`.
fn lines(grid: &Grid) -> Vec<String> {
    let line = |event: OutboxEvent| {
        let cause = match event.cause {
            EventCause::Entry(touched, key) => format!("{touched:?} {key}"),
            EventCause::Completed(function) => format!("Completed {function}"),
            EventCause::Failed(function) => format!("Failed {function}"),
        };
        format!("{} {cause} {}", event.sequence, String::from_utf8(event.payload).unwrap())
    };
    outbox(grid).into_iter().map(line).collect()
}

#[test]
fn o14_create_update_and_delete_of_an_entry_fire_once_each_in_order() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    let created = grid.set_entry("a", text("NAME"), "x").unwrap();
    assert_eq!(created.events, 1);
    grid.set_entry("a", text("name"), "y").unwrap();
    grid.set_entry("a", text("other"), "z").unwrap();
    grid.delete_entry("a", text("name")).unwrap();
    grid.set_entry("a", number(1), "n").unwrap();
    assert_eq!(
        lines(&grid),
        ["1 Created name x", "2 Updated name y", "3 Deleted name ", "4 Created 1 n"]
    );
    let first = outbox(&grid).remove(0);
    assert_eq!(first.object, Some(id("a")));
    assert_eq!((first.version, first.depth, first.attempts), (created.version, 1, 0));
    assert_eq!(first.time, grid.0.system.now_millis());
    assert_eq!(first.target, target("order"));
    assert_eq!(
        block_on(grid.0.engine.partitions_with_events()).unwrap(),
        [("order".to_owned(), 3)]
    );
}

#[test]
fn o14_an_unchanged_value_fires_nothing() {
    let grid = Grid::new();
    grid.set("a", &[(text("name"), "x")]).unwrap();
    grid.set_event("a", watching()).unwrap();
    assert_eq!(grid.set_entry("a", text("name"), "x").unwrap().events, 0);
    grid.merge("a", &[(text("name"), "x"), (text("b"), "y")]).unwrap();
    assert_eq!(lines(&grid), [""; 0]);
    assert_eq!(block_on(grid.0.engine.partitions_with_events()).unwrap(), []);
}

#[test]
fn o14_deleting_an_object_fires_for_its_entries_and_an_event_that_comes_along_counts() {
    let grid = Grid::new();
    let entries = [(text("name"), "x"), (number(1), "y"), (number(2), "z")];
    let with_event = keyloom_engine::ObjectContent { event: Some(watching()), ..content(&entries) };
    let a = id("a");
    let set = grid.0.engine.set_object(at(&a), with_event, Precondition::Unsaid);
    assert_eq!(block_on(set).unwrap().events, 2);
    assert_eq!(grid.delete("a").unwrap().unwrap().events, 2);
    let expected = ["1 Created 1 y", "2 Created name x", "3 Deleted 1 ", "4 Deleted name "];
    assert_eq!(lines(&grid), expected);
    grid.set("a", &entries).unwrap();
    assert_eq!(outbox(&grid).len(), 4, "the event went with the object");
}

#[test]
fn o14_a_class_watches_all_its_objects_before_they_speak_for_themselves() {
    let grid = Grid::new();
    let watched = format!(
        "{CLASSES}[classes.order.event.data_trigger_str.name]\n\
         on_create = [{{ class = \"order\", function = \"note\", partition = 7 }}]\n"
    );
    grid.0.apply(&watched).unwrap();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    grid.set_entry("a", text("name"), "x").unwrap();
    grid.set_entry("b", text("name"), "y").unwrap();
    let seen: Vec<_> = outbox(&grid)
        .into_iter()
        .map(|event| (event.sequence, event.object.unwrap().to_string(), event.target.partition))
        .collect();
    let a = "a".to_owned();
    assert_eq!(seen, [(1, a.clone(), 7), (2, a, 0), (3, "b".to_owned(), 7)]);
}

#[test]
fn o14_the_end_of_a_function_fires_what_object_and_class_say() {
    let grid = Grid::new();
    let ends = FuncTrigger { on_complete: vec![target("order")], on_error: vec![target("order")] };
    let event = Event { func_trigger: [("resize".to_owned(), ends)].into(), ..Event::default() };
    grid.set("a", &[]).unwrap();
    grid.set_event("a", event).unwrap();
    let a = id("a");
    let ended = Ended {
        class: "order",
        partition: 3,
        object: Some(&a),
        function: "resize",
        completion: Completion::Complete,
        payload: b"done",
        depth: 0,
    };
    let record = |ended| block_on(grid.0.engine.record_completion(ended)).unwrap();
    assert_eq!(record(ended), 1);
    assert_eq!(record(Ended { completion: Completion::Error, payload: b"bad", ..ended }), 1);
    assert_eq!(record(Ended { function: "other", ..ended }), 0);
    assert_eq!(record(Ended { object: None, ..ended }), 0);
    assert_eq!(lines(&grid), ["1 Completed resize done", "2 Failed resize bad"]);

    // The end of a delivery is told in the commit that takes the event away, and so once only.
    let engine = &grid.0.engine;
    assert_eq!(block_on(engine.delivered(HERE, 1, Some(ended))).unwrap(), 1);
    assert_eq!(block_on(engine.delivered(HERE, 1, Some(ended))).unwrap(), 0);
    assert_eq!(lines(&grid), ["2 Failed resize bad", "3 Completed resize done"]);
    let error = Ended { completion: Completion::Error, payload: b"gave up", ..ended };
    for _ in 0..9 {
        block_on(engine.failed(HERE, 2, "down", Some(error))).unwrap();
        assert_eq!(lines(&grid), ["2 Failed resize bad", "3 Completed resize done"]);
    }
    assert_eq!(block_on(engine.failed(HERE, 2, "down", Some(error))).unwrap(), Failed::Dead);
    assert_eq!(lines(&grid), ["3 Completed resize done", "4 Failed resize gave up"]);

    // An answer that is too large for all who wait for it is left out.
    let large = vec![b'x'; (16 << 20) + 1];
    assert_eq!(record(Ended { payload: &large, ..ended }), 1);
    assert_eq!(lines(&grid)[2], "5 Completed resize ");
}

#[test]
fn o14_sequence_numbers_have_no_gaps_whoever_writes() {
    let grid = Grid::new();
    for name in ["a", "b", "c", "d"] {
        grid.set(name, &[]).unwrap();
        grid.set_event(name, watching()).unwrap();
    }
    let writers: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            let grid = grid.clone();
            std::thread::spawn(move || {
                for step in 0..25 {
                    grid.set_entry(name, number(1), &format!("{name}{step}")).unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let events = outbox(&grid);
    let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<u64>>());
    for name in ["a", "b", "c", "d"] {
        let own = events.iter().filter(|event| event.object == Some(id(name)));
        let payloads: Vec<&[u8]> = own.map(|event| event.payload.as_slice()).collect();
        let expected: Vec<String> = (0..25).map(|step| format!("{name}{step}")).collect();
        assert!(payloads.into_iter().eq(expected.iter().map(String::as_bytes)));
    }
}

#[test]
fn o15_an_event_waits_until_it_was_delivered_across_restarts() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    grid.set_entry("a", number(1), "x").unwrap();
    grid.set_entry("a", number(1), "y").unwrap();
    let grid = grid.reopened();
    assert_eq!(lines(&grid), ["1 Created 1 x", "2 Updated 1 y"]);
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    assert_eq!(lines(&grid), ["2 Updated 1 y"]);
    block_on(grid.0.engine.delivered(HERE, 2, None)).unwrap();
    assert_eq!(block_on(grid.0.engine.partitions_with_events()).unwrap(), []);
    grid.set_entry("a", number(1), "z").unwrap();
    assert_eq!(lines(&grid), ["3 Updated 1 z"], "a number is never used again");
}

#[test]
fn o15_failed_deliveries_are_counted_until_the_event_is_a_dead_letter_that_can_be_replayed() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    grid.set_entry("a", number(1), "x").unwrap();
    let engine = &grid.0.engine;
    for attempt in 1..10 {
        let failed = block_on(engine.failed(HERE, 1, "connection refused", None)).unwrap();
        assert_eq!(failed, Failed::Waiting(attempt));
    }
    assert_eq!(outbox(&grid)[0].error.as_deref(), Some("connection refused"));
    assert_eq!(block_on(engine.failed(HERE, 1, "still refused", None)).unwrap(), Failed::Dead);
    assert_eq!(block_on(engine.failed(HERE, 1, "gone", None)).unwrap(), Failed::Gone);
    assert_eq!(lines(&grid), [""; 0]);
    let dead = block_on(engine.dead_letters(HERE, 0, 10)).unwrap().items;
    assert_eq!((dead[0].sequence, dead[0].attempts), (1, 10));
    assert_eq!(dead[0].error.as_deref(), Some("still refused"));
    assert_eq!(block_on(engine.dead_letters(HERE, 2, 10)).unwrap().items, []);
    assert!(block_on(engine.replay(HERE, 1)).unwrap());
    assert!(!block_on(engine.replay(HERE, 1)).unwrap());
    assert_eq!(lines(&grid), ["1 Created 1 x"], "with the number that it had");
    assert_eq!(outbox(&grid)[0].attempts, 0);
}

#[test]
fn o16_an_event_that_too_many_led_to_is_a_dead_letter_at_once() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    let a = id("a");
    for depth in 0..=8 {
        let terms = Terms { precondition: Precondition::Unsaid, depth };
        let val = Val::bytes(depth.to_string());
        block_on(grid.0.engine.set_entry(at(&a), number(1), val, terms)).unwrap();
    }
    let depths: Vec<u32> = outbox(&grid).iter().map(|event| event.depth).collect();
    assert_eq!(depths, [1, 2, 3, 4, 5, 6, 7, 8]);
    let dead = block_on(grid.0.engine.dead_letters(HERE, 0, 10)).unwrap().items;
    assert_eq!((dead.len(), dead[0].sequence, dead[0].depth), (1, 9, 9));
    assert!(dead[0].error.as_ref().unwrap().contains("a loop"));
}

#[test]
fn o14_a_fault_at_any_call_leaves_value_and_event_or_neither() {
    for fault in every_fault() {
        at_every_call(
            &fault,
            || {
                let grid = Grid::new();
                grid.set("a", &[(number(1), "old")]).unwrap();
                grid.set_event("a", watching()).unwrap();
                grid.0
            },
            |database| code(Grid(database.clone()).set_entry("a", number(1), "new")),
            |database, result| {
                let grid = Grid(database.clone());
                let is_new = grid.entries("a")["1"] == "new";
                assert_eq!(outbox(&grid).len(), usize::from(is_new), "{fault:?} {result}");
                assert!(is_new || result != "ok", "{fault:?}");
            },
        );
    }
}

#[test]
fn a_write_that_fires_too_much_is_refused_and_nothing_written() {
    let grid = Grid::new();
    let many = DataTrigger { on_create: vec![target("order"); 200], ..DataTrigger::default() };
    grid.set("a", &[]).unwrap();
    let event = Event { data_trigger: [(1, many.clone())].into(), ..Event::default() };
    grid.set_event("a", event).unwrap();
    assert_eq!(grid.set_entry("a", number(1), "x").unwrap().events, 200);
    let keys: Vec<u32> = (10..12).collect();
    let triggers = keys.iter().map(|key| (*key, many.clone())).collect();
    let refused = code(grid.set_event("a", Event { data_trigger: triggers, ..Event::default() }));
    assert_eq!(
        refused,
        "limit_exceeded: targets of an event configuration: 400, at most 256 allowed"
    );
}

#[test]
fn the_feed_does_not_tell_of_deliveries() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    grid.set_event("a", watching()).unwrap();
    grid.set_entry("a", number(1), "x").unwrap();
    let before = grid.changes().len();
    block_on(grid.0.engine.failed(HERE, 1, "down", None)).unwrap();
    block_on(grid.0.engine.delivered(HERE, 1, None)).unwrap();
    assert_eq!(grid.changes().len(), before);
    assert_eq!(grid.changes().last().unwrap().kind, Touched::Updated);
}

#[test]
fn the_events_of_one_write_are_bounded_in_bytes_and_nothing_is_written() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    let many = DataTrigger { on_create: vec![target("order"); 17], ..DataTrigger::default() };
    let event = Event { data_trigger: [(1, many)].into(), ..Event::default() };
    grid.set_event("a", event).unwrap();
    let refused = code(grid.set_entry("a", number(1), &"x".repeat(1 << 20)));
    assert!(refused.starts_with("limit_exceeded: bytes in the events of one write"), "{refused}");
    assert_eq!(lines(&grid), [""; 0]);
    assert_eq!(grid.entry("a", &number(1)).unwrap().1, None);
    grid.set_entry("a", number(1), "x").unwrap();
    assert_eq!(lines(&grid).len(), 17);
}
