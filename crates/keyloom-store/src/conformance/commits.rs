//! Commits happen whole (C1), their checks hold (C2), and stamps are never reused (C4).

use super::{Open, Random, Subject, absent, add, at, delete, everything, put, scan};
use crate::{Commit, CommitOutcome, Direction, StoreError, Write};

/// All writes and changes of a commit are there once it is acknowledged.
pub fn a_commit_happens_whole(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("old", "x")]);
    let outcome = subject.commit(Commit {
        checks: vec![absent("a")],
        writes: vec![put("a", "1"), put("b", "2"), delete("old"), add("n", 3)],
        changes: vec![b"made a and b".to_vec()],
    });
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    assert_eq!(subject.value(b"a"), Some(b"1".to_vec()));
    assert_eq!(subject.value(b"b"), Some(b"2".to_vec()));
    assert_eq!(subject.value(b"old"), None);
    assert_eq!(subject.value(b"n"), Some(3_i64.to_be_bytes().to_vec()));
    assert_eq!(subject.changes(Default::default(), 10)[0].bytes, b"made a and b");
}

/// C2 for keys that begin alike and come in no order: each is created once, until it is deleted.
pub fn keys_in_no_order_are_created_once_each(open: Open) {
    let subject = Subject::fresh(open);
    let mut random = Random::from_environment();
    let keys: Vec<Vec<u8>> = (0..300).map(|_| scattered(&mut random)).collect();
    for key in &keys {
        assert!(creates(&subject, key), "{random}");
        assert!(!creates(&subject, key), "{random}");
    }
    assert!(!keys.iter().any(|key| creates(&subject, key)), "{random}");
    for key in keys.iter().step_by(2) {
        subject.write(vec![delete(key)]);
        assert!(creates(&subject, key), "{random}");
        assert!(!creates(&subject, key), "{random}");
    }
}

/// A key that may lie anywhere among those that begin as it does.
pub(super) fn scattered(random: &mut Random) -> Vec<u8> {
    [b"claim".to_vec(), random.bytes(8)].concat()
}

/// Creates a key if it is absent; whether it was.
pub(super) fn creates(subject: &Subject, key: &[u8]) -> bool {
    let commit =
        Commit { checks: vec![absent(key)], writes: vec![put(key, "x")], ..Commit::default() };
    matches!(subject.commit(commit), CommitOutcome::Committed { .. })
}

/// A check that fails keeps every write of its commit out.
pub fn a_failed_check_writes_nothing_at_all(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("taken", "x"), put("kept", "y"), add("n", 1)]);
    let before = scan(&*subject.snapshot(), &everything(), Direction::Forward);
    let outcome = subject.commit(Commit {
        checks: vec![absent("taken")],
        writes: vec![put("a", "1"), put("taken", "2"), delete("kept"), add("n", 1)],
        changes: vec![b"never".to_vec()],
    });
    assert_eq!(outcome, CommitOutcome::Conflict { check: 0 });
    let after = scan(&*subject.snapshot(), &everything(), Direction::Forward);
    assert_eq!(after, before);
    assert_eq!(subject.changes(Default::default(), 10), []);
}

/// Of several checks that fail, the first is named.
pub fn the_first_failing_check_is_reported(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("a", "1"), put("b", "2")]);
    let stamp = subject.stamp(b"a");
    let checks = vec![at("a", stamp), absent("c"), at("c", stamp), absent("b")];
    let outcome =
        subject.commit(Commit { checks, writes: vec![put("d", "")], ..Commit::default() });
    assert_eq!(outcome, CommitOutcome::Conflict { check: 2 });
}

/// `Absent` holds for a key that never was and for one that was deleted.
pub fn absent_holds_only_without_a_value(open: Open) {
    let subject = Subject::fresh(open);
    let create =
        || Commit { checks: vec![absent("a")], writes: vec![put("a", "")], ..Commit::default() };
    assert!(matches!(subject.commit(create()), CommitOutcome::Committed { .. }));
    assert_eq!(subject.commit(create()), CommitOutcome::Conflict { check: 0 });
    subject.write(vec![delete("a")]);
    assert!(matches!(subject.commit(create()), CommitOutcome::Committed { .. }));
}

/// `At` holds until the key is written again, and never for a key without a value.
pub fn at_stamp_holds_only_for_the_value_that_was_read(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("a", "1")]);
    let stamp = subject.stamp(b"a");
    let update = |value: &str| Commit {
        checks: vec![at("a", stamp)],
        writes: vec![put("a", value)],
        ..Commit::default()
    };
    assert!(matches!(subject.commit(update("2")), CommitOutcome::Committed { .. }));
    assert_eq!(subject.commit(update("3")), CommitOutcome::Conflict { check: 0 });
    subject.write(vec![delete("a")]);
    assert_eq!(subject.commit(update("4")), CommitOutcome::Conflict { check: 0 });
    assert_eq!(subject.value(b"a"), None);
}

/// C4: a stale writer never wins, not even against equal bytes.
pub fn a_stamp_is_never_reused_after_delete_and_put(open: Open) {
    let subject = Subject::fresh(open);
    let mut stamps = Vec::new();
    for round in 0..20 {
        subject.write(vec![put("a", "same")]);
        let stamp = subject.stamp(b"a");
        assert!(!stamps.contains(&stamp), "{stamp:?} came again in round {round}");
        stamps.push(stamp);
        subject.write(vec![delete("a")]);
    }
    subject.write(vec![put("a", "same")]);
    for stamp in stamps {
        let stale = Commit {
            checks: vec![at("a", stamp)],
            writes: vec![put("a", "stale")],
            ..Commit::default()
        };
        assert_eq!(subject.commit(stale), CommitOutcome::Conflict { check: 0 });
    }
}

/// A check may look at a key that the commit does not write.
pub fn a_check_guards_a_key_that_is_not_written(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("user", "ann")]);
    let stamp = subject.stamp(b"user");
    let vote = |key: &str| Commit {
        checks: vec![at("user", stamp)],
        writes: vec![put(key, "up")],
        ..Commit::default()
    };
    assert!(matches!(subject.commit(vote("vote1")), CommitOutcome::Committed { .. }));
    subject.write(vec![delete("user")]);
    assert_eq!(subject.commit(vote("vote2")), CommitOutcome::Conflict { check: 0 });
    assert_eq!(subject.value(b"vote2"), None);
}

/// A commit that asks for nothing succeeds.
pub fn an_empty_commit_is_committed(open: Open) {
    let subject = Subject::fresh(open);
    let outcome = subject.commit(Commit::default());
    assert_eq!(outcome, CommitOutcome::Committed { position: Default::default() });
}

/// Deleting what is not there changes nothing.
pub fn deleting_an_absent_key_is_no_error(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("b", "1"), delete("a")]);
    assert_eq!(subject.value(b"a"), None);
    assert_eq!(scan(&*subject.snapshot(), &everything(), Direction::Forward).len(), 1);
}

/// A counter is 8 bytes, signed, big-endian; it wraps around instead of failing.
pub fn a_counter_starts_at_zero_adds_and_wraps(open: Open) {
    let subject = Subject::fresh(open);
    let mut expected = 0_i64;
    for delta in [5, -7, 0, i64::MAX, i64::MAX, i64::MIN, -1] {
        subject.write(vec![add("n", delta)]);
        expected = expected.wrapping_add(delta);
        assert_eq!(subject.value(b"n"), Some(expected.to_be_bytes().to_vec()), "after {delta}");
    }
    subject.write(vec![delete("n")]);
    subject.write(vec![add("n", 1)]);
    assert_eq!(subject.value(b"n"), Some(1_i64.to_be_bytes().to_vec()));
    subject.write(vec![put("n", 40_i64.to_be_bytes())]);
    subject.write(vec![add("n", 2)]);
    assert_eq!(subject.value(b"n"), Some(42_i64.to_be_bytes().to_vec()));
}

/// Adding to a counter gives it a new stamp.
pub fn a_counter_takes_part_in_checks_like_any_value(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![add("n", 1)]);
    let stamp = subject.stamp(b"n");
    let guarded =
        || Commit { checks: vec![at("n", stamp)], writes: vec![add("n", 1)], ..Commit::default() };
    assert!(matches!(subject.commit(guarded()), CommitOutcome::Committed { .. }));
    assert_eq!(subject.commit(guarded()), CommitOutcome::Conflict { check: 0 });
}

/// Adding to what is not a counter is an error that names the key.
pub fn a_damaged_counter_is_reported_and_nothing_is_written(open: Open) {
    let subject = Subject::fresh(open);
    for value in ["", "seven b", "nine byte"] {
        subject.write(vec![put("n", value)]);
        let writes = vec![put("a", "1"), add("n", 1), put("z", "1")];
        let error = subject
            .try_commit(Commit { writes, changes: vec![b"never".to_vec()], ..Commit::default() })
            .unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("counter n"), "{error}");
        assert_eq!(subject.value(b"n"), Some(value.as_bytes().to_vec()));
        assert_eq!((subject.value(b"a"), subject.value(b"z")), (None, None));
        assert_eq!(subject.changes(Default::default(), 10), []);
    }
}

/// Two writes of one key have no order that the contract could keep.
pub fn the_same_key_written_twice_is_refused(open: Open) {
    let subject = Subject::fresh(open);
    let writes = |twice: [Write; 2]| Commit {
        writes: [put("a", "1")].into_iter().chain(twice).collect(),
        ..Commit::default()
    };
    let pairs = [
        [put("b", "1"), put("b", "2")],
        [put("b", "1"), delete("b")],
        [add("b", 1), add("b", 1)],
        [put("c", "1"), delete("a")],
    ];
    for pair in pairs {
        let error = subject.try_commit(writes(pair)).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
        assert_eq!(scan(&*subject.snapshot(), &everything(), Direction::Forward), []);
    }
}

/// Not every engine has an empty key, so no store takes one.
pub fn an_empty_key_is_refused(open: Open) {
    let subject = Subject::fresh(open);
    let commits = [
        Commit { writes: vec![put("a", "1"), put("", "1")], ..Commit::default() },
        Commit { writes: vec![put("a", "1"), delete("")], ..Commit::default() },
        Commit { writes: vec![put("a", "1"), add("", 1)], ..Commit::default() },
        Commit { checks: vec![absent("")], writes: vec![put("a", "1")], ..Commit::default() },
    ];
    for commit in commits {
        let error = subject.try_commit(commit).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
        assert_eq!(subject.value(b"a"), None);
    }
}
