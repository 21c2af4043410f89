//! Lost races and lost replies: what is tried again, what is not, and what the caller hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use keyloom_engine::{Actor, Document, Error, Mode, Precondition, Update, Written};
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{Database, Seconds, action, code};

const COUNTERS: &str = r#"
[collections.counters]
key = "counter:{id}"
fields.id = { type = "id", required = true }
fields.n = { type = "i64", required = true }
fields.label = { type = "id" }
unique.label = "label:{label}"
indexes.n = "{n}:{id}"
"#;

const KEY: &str = "counter:a";

/// A database with one counter that stands at zero.
fn counters() -> Database {
    let database = Database::new(COUNTERS);
    database.create("counters", &counter(0)).unwrap();
    database.faults.reset();
    database
}

fn counter(n: i64) -> Json {
    json!({"id": "a", "n": n})
}

fn number(document: &Document) -> i64 {
    let data: Json = serde_json::from_slice(&document.data).unwrap();
    data["n"].as_i64().unwrap()
}

fn stored(database: &Database) -> Option<i64> {
    database.get("counters", KEY).as_ref().map(number)
}

/// Adds one in a read-modify-write; `between` runs after each read.
fn add_one(database: &Database, between: &(dyn Fn() + Sync)) -> Result<Option<Written>, Error> {
    block_on(database.engine.update(&Actor::Local, "counters", KEY, |found| {
        between();
        let n = found.map_or(0, number);
        Ok(Update::Put(counter(n + 1).to_string().into_bytes()))
    }))
}

/// Somebody else sets the counter.
fn set(database: &Database, n: i64) {
    let put = action::put(KEY, Precondition::Any, &counter(n));
    database.beside(Mode::Development).execute("counters", put).unwrap();
}

#[test]
fn r24_a_writer_that_keeps_losing_waits_100_200_and_400_ms_and_gives_up() {
    let database = counters();
    let races = AtomicU32::new(0);
    let result = add_one(&database, &|| {
        set(&database, 10 * i64::from(1 + races.fetch_add(1, Ordering::SeqCst)));
    });
    assert_eq!(
        code(result),
        "conflict_retries_exhausted: gave up after 3 attempts: other writers were first each time"
    );
    assert_eq!(races.into_inner(), 3);
    assert_eq!(database.system.sleeps(), [100, 200, 400].map(Duration::from_millis));
    assert_eq!(stored(&database), Some(30), "nothing of the loser is written");
    assert_eq!(
        database.faults.counts().commits,
        0,
        "a version that is known to be stale is not sent"
    );
    database.assert_sound();
}

#[test]
fn r24_a_writer_that_loses_once_reads_again_and_wins() {
    let database = counters();
    let raced = AtomicBool::new(false);
    let result = add_one(&database, &|| {
        if !raced.swap(true, Ordering::SeqCst) {
            set(&database, 10);
        }
    });
    assert_eq!(number(result.unwrap().unwrap().document().unwrap()), 11);
    assert_eq!(database.system.sleeps(), [Duration::from_millis(100)]);
}

#[test]
fn r24_a_race_that_is_lost_at_the_commit_itself_counts_too() {
    let database = counters();
    let other = database.beside(Mode::Development);
    database.faults.hook(When::NthOf(Call::Commit, 1), move || {
        let put = action::put(KEY, Precondition::Any, &counter(10));
        other.execute("counters", put).unwrap();
    });
    add_one(&database, &|| {}).unwrap();
    assert_eq!(stored(&database), Some(11));
    assert_eq!(database.system.sleeps().len(), 1);
}

#[test]
fn a_read_modify_write_may_keep_delete_or_refuse() {
    let database = counters();
    let update = |change: &(dyn Fn() -> Result<Update, Error> + Sync)| {
        block_on(database.engine.update(&Actor::Local, "counters", KEY, |_| change()))
    };
    assert_eq!(update(&|| Ok(Update::Keep)).unwrap(), None);
    let refused = update(&|| Err(Error::Invalid { detail: "no".to_owned() }));
    assert_eq!(code(refused), "invalid_argument: no");
    assert_eq!(stored(&database), Some(0));
    let deleted = update(&|| Ok(Update::Delete)).unwrap();
    assert!(matches!(deleted, Some(Written::Deleted { .. })));
    assert_eq!(stored(&database), None);
    assert_eq!(database.system.sleeps(), []);
}

#[test]
fn a_read_modify_write_keeps_the_description() {
    let database = counters();
    let put = keyloom_engine::Action::Put {
        key: KEY.to_owned(),
        precondition: Precondition::Any,
        data: counter(1).to_string().into_bytes(),
        description: Some("why".to_owned()),
    };
    database.execute("counters", put).unwrap();
    let updated = add_one(&database, &|| {}).unwrap().unwrap().into_document().unwrap();
    assert_eq!((number(&updated), updated.description.as_deref()), (2, Some("why")));
}

#[test]
fn many_writers_add_up_when_each_tries_again() {
    let database = counters();
    let added: i64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let add = || add_one(&database, &|| {}).is_ok();
                scope.spawn(move || (0..200).filter(|_| add()).count() as i64)
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(stored(&database), Some(added), "each success counts once, each failure not at all");
}

#[test]
fn a_lost_reply_to_a_commit_that_happened_is_found_out() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::After);
    let added = add_one(&database, &|| {}).unwrap().unwrap();
    assert_eq!(added.document(), database.get("counters", KEY).as_ref());
    assert_eq!(stored(&database), Some(1));
    assert_eq!(database.faults.counts().commits, 1);
    assert_eq!(database.feed().len(), 2);
    database.assert_sound();
}

#[test]
fn a_commit_that_got_lost_is_sent_again_and_happens_once() {
    for lost in 1..=2 {
        let database = counters();
        for number in 1..=lost {
            database.faults.inject(When::NthOf(Call::Commit, number), Fault::Unwritten);
        }
        add_one(&database, &|| {}).unwrap();
        assert_eq!(database.faults.counts().commits, lost + 1);
        assert_eq!(stored(&database), Some(1));
        assert_eq!(database.feed().len(), 2);
        database.assert_sound();
    }
}

#[test]
fn a_commit_whose_outcome_stays_unknown_is_said_to_be_so() {
    for fault in [Fault::Unwritten, Fault::After] {
        let database = counters();
        database.faults.inject(When::Every(Call::Commit), fault.clone());
        if fault == Fault::After {
            // The commit happens, but nobody can look.
            database.faults.inject(When::NthOf(Call::Snapshot, 3), Fault::Before(NO_SPACE));
        }
        let result = add_one(&database, &|| {});
        let told =
            "outcome_unknown: it is not known whether the commit happened: read before you retry (";
        let result = code(result);
        assert!(result.starts_with(told), "{result}");
        database.faults.reset();
        assert_eq!(stored(&database), Some(i64::from(fault == Fault::After)));
        database.assert_sound();
    }
}

#[test]
fn a_store_that_fails_after_a_lost_reply_leaves_the_outcome_unknown() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::Unwritten);
    database.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
    assert!(matches!(add_one(&database, &|| {}), Err(Error::OutcomeUnknown(_))));
    assert_eq!(stored(&database), Some(0));
}

#[test]
fn a_change_that_happened_and_was_written_over_is_not_made_twice() {
    for fault in [Fault::After, Fault::Unwritten] {
        let database = counters();
        database.faults.inject(When::NthOf(Call::Commit, 1), fault.clone());
        // Before anybody can look whether it happened, somebody else changes the document.
        let (other, raced) = (database.beside(Mode::Development), Arc::new(AtomicBool::default()));
        database.faults.hook(When::NthOf(Call::Snapshot, 3), move || {
            assert!(!raced.swap(true, Ordering::SeqCst));
            other.system.pass(Seconds(1));
            add_one(&other, &|| {}).unwrap();
        });
        let result = add_one(&database, &|| {});
        assert!(matches!(result, Err(Error::OutcomeUnknown(_))), "{fault:?}: {result:?}");
        let both = i64::from(fault == Fault::After) + 1;
        assert_eq!(stored(&database), Some(both), "{fault:?}: nothing is added twice");
    }
}

#[test]
fn a_create_that_happened_and_was_deleted_is_not_made_twice() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::After);
    let other = database.beside(Mode::Development);
    database.faults.hook(When::NthOf(Call::Snapshot, 1), move || {
        other.delete("counters", "counter:b").unwrap();
    });
    let result = database.create("counters", &json!({"id": "b", "n": 1}));
    assert!(matches!(result, Err(Error::OutcomeUnknown(_))), "{result:?}");
    assert_eq!(database.get("counters", "counter:b"), None);
}

#[test]
fn a_delete_whose_reply_is_lost_is_found_out() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::After);
    let deleted = database.delete("counters", KEY).unwrap();
    assert!(matches!(deleted, Written::Deleted { .. }));
    assert_eq!((stored(&database), database.count("counters")), (None, 0));
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::Unwritten);
    let deleted = database.delete("counters", KEY).unwrap();
    assert!(matches!(deleted, Written::Deleted { .. }));
    assert_eq!((stored(&database), database.count("counters")), (None, 0));
    database.assert_sound();
}

#[test]
fn a_claim_that_somebody_took_while_a_commit_was_lost_is_taken() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::Unwritten);
    let other = database.beside(Mode::Development);
    database.faults.hook(When::NthOf(Call::Commit, 1), move || {
        other.create("counters", &json!({"id": "x", "n": 0, "label": "mine"})).unwrap();
    });
    let result = database.create("counters", &json!({"id": "b", "n": 1, "label": "mine"}));
    assert_eq!(code(result), "unique_violation: label `label:mine` is taken in `counters`");
    assert_eq!(database.get("counters", "counter:b"), None);
    database.assert_sound();
}

#[test]
fn a_read_that_fails_between_a_lost_reply_and_a_conflict_leaves_the_outcome_unknown() {
    let database = counters();
    database.faults.inject(When::NthOf(Call::Commit, 1), Fault::Unwritten);
    database.faults.inject(When::NthOf(Call::Commit, 2), Fault::Conflict { check: 0 });
    database.faults.inject(When::NthOf(Call::Snapshot, 4), Fault::Before(NO_SPACE));
    let result = add_one(&database, &|| {});
    assert!(matches!(result, Err(Error::OutcomeUnknown(_))), "{result:?}");
}
