//! A fault at every store call in turn.

use keyloom_store::faults::{Fault, NO_SPACE, When};

use super::Database;

/// No run that is tested here needs more calls than this.
const CALLS_MAX: u64 = 200;

/// Every way in which a call can go wrong. The last ones say that some check of a commit failed
/// although it holds.
pub(crate) fn every_fault() -> Vec<Fault> {
    let mut faults = vec![Fault::Before(NO_SPACE), Fault::After, Fault::Unwritten];
    faults.extend((0..24).map(|check| Fault::Conflict { check }));
    faults
}

/// Runs `run` on a fresh database with the fault at its first store call, then at its second, and
/// so on until it needs no more calls; after each run, `check` sees the database without faults and
/// the result.
pub(crate) fn at_every_call<T>(
    fault: &Fault,
    fresh: impl Fn() -> Database,
    run: impl Fn(&Database) -> T,
    check: impl Fn(&Database, T),
) {
    for call in 1..=CALLS_MAX {
        let database = fresh();
        database.faults.reset();
        database.faults.inject(When::Nth(call), fault.clone());
        let result = run(&database);
        let calls = database.faults.counts().calls();
        database.faults.reset();
        check(&database, result);
        database.assert_sound();
        if calls < call {
            assert!(call > 1, "a run without store calls cannot fail");
            return;
        }
    }
    panic!("{fault:?}: more than {CALLS_MAX} calls");
}
