//! Applying a schema is interrupted at every step, and goes on.

use keyloom_engine::{Error, Mode};
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;

use super::{PEOPLE, people, people_with, person, states};
use crate::support::{Database, at_every_call, code, schema};

/// From the first schema to the second one, with a fault at every store call; then again without.
fn check_resumed(fresh: impl Fn() -> Database, wanted: &str) {
    for fault in [Fault::Before(NO_SPACE), Fault::After, Fault::Unwritten] {
        at_every_call(
            &fault,
            || {
                let database = fresh();
                database.faults.reset();
                database
            },
            |database| database.apply(wanted),
            |database, result| {
                // Whatever state it is in, documents can be written.
                let restarted = database.beside(Mode::Development);
                restarted.create("people", &person("x", "Xen", 99)).unwrap();
                restarted.delete("people", "person:a").unwrap();
                match result {
                    Ok(_) | Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {}
                    Err(other) => panic!("{fault:?}: {other}"),
                }
                restarted.apply(wanted).unwrap();
                let planned = block_on(restarted.engine.plan_schema(&schema(wanted))).unwrap();
                assert_eq!(planned.steps, [], "{fault:?}");
                assert!(states(&restarted).iter().all(|state| state.ends_with("ready")));
            },
        );
    }
}

#[test]
fn an_interrupted_apply_goes_on_where_it_stopped() {
    let lines = "indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"";
    check_resumed(people, &people_with(lines));
}

#[test]
fn an_interrupted_removal_goes_on_where_it_stopped() {
    let lines = "indexes.age = \"{age}:{id}\"\nunique.name = \"{name}\"";
    let fresh = || {
        let database = people();
        database.apply(&people_with(lines)).unwrap();
        database
    };
    check_resumed(fresh, &people_with("indexes.age = \"{age desc}:{id}\""));
}

#[test]
fn an_interrupted_check_of_documents_goes_on_where_it_stopped() {
    check_resumed(people, &PEOPLE.replace("max = 20", "max = 3"));
}

#[test]
fn a_schema_that_was_announced_and_never_applied_is_taken_back_at_the_next_start() {
    let database = people();
    let strict = PEOPLE.replace("max = 20", "max = 3");
    database.faults.reset();
    // Everything fails behind the announcement, the first commit.
    database.faults.inject(When::Every(Call::ScanNext), Fault::Before(NO_SPACE));
    database.faults.inject(When::NthOf(Call::Commit, 2), Fault::Before(NO_SPACE));
    database.apply(&strict).unwrap_err();
    database.faults.reset();
    let long = person("d", "Long name", 1);
    assert!(code(database.create("people", &long)).contains("at most 3"));
    let restarted = database.beside(Mode::Development);
    assert_eq!(code(restarted.create("people", &long)), "ok");
}
