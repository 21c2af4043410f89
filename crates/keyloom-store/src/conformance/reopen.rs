//! What was acknowledged is there after the store was closed and opened again.

use pollster::block_on;

use super::commits::{creates, scattered};
use super::model::Model;
use super::{Open, Random, Subject, add, at, delete, everything, put, scan};
use crate::{Commit, CommitOutcome, Direction, Feed, Position};

/// Keys, values, stamps, counters and the feed.
pub fn everything_is_there_after_reopen(open: Open) {
    let subject = Subject::fresh(open);
    for round in 0..50_u8 {
        subject.commit(Commit {
            writes: vec![put([round, 1], vec![round; 100]), put([round, 2], ""), add("n", 1)],
            changes: vec![vec![round]],
            ..Commit::default()
        });
    }
    subject.write(vec![delete([7, 1])]);
    let before = scan(&*subject.snapshot(), &everything(), Direction::Forward);
    let feed = subject.changes(Position::default(), usize::MAX);
    assert_eq!((before.len(), feed.len()), (100, 50));
    let subject = subject.reopen(open);
    assert_eq!(scan(&*subject.snapshot(), &everything(), Direction::Forward), before);
    assert_eq!(subject.changes(Position::default(), usize::MAX), feed);
    let subject = subject.reopen(open);
    assert_eq!(scan(&*subject.snapshot(), &everything(), Direction::Forward), before);
}

/// C2 for keys that were there before: none of them is created again, early or late.
pub fn keys_in_no_order_are_created_once_across_reopens(open: Open) {
    let mut subject = Subject::fresh(open);
    let mut random = Random::from_environment();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4 {
        for _ in 0..300 {
            let key = scattered(&mut random);
            assert!(creates(&subject, &key), "{random}");
            keys.push(key);
        }
        assert!(!keys.iter().any(|key| creates(&subject, key)), "{random}");
        subject = subject.reopen(open);
        assert!(!keys.iter().any(|key| creates(&subject, key)), "{random}");
    }
}

/// Where the feed begins and ends is not forgotten, also if nothing is left of it.
pub fn a_trimmed_feed_stays_trimmed_after_reopen(open: Open) {
    let mut subject = Subject::fresh(open);
    for kept in [2, 0] {
        let changes = (0..5_u8).map(|item| vec![item]).collect();
        let outcome = subject.commit(Commit { changes, ..Commit::default() });
        let CommitOutcome::Committed { position: last } = outcome else { panic!("{outcome:?}") };
        let trimmed = Position(last.0 - kept);
        block_on(subject.store.trim(trimmed)).unwrap();
        subject = subject.reopen(open);
        assert_eq!(block_on(subject.store.feed()).unwrap(), Feed { trimmed, last });
        assert_eq!(subject.changes(trimmed, 10).len(), usize::try_from(kept).unwrap());
    }
}

/// C4 and C5 across restarts, also when nothing is left that carries the last stamp.
pub fn stamps_and_positions_are_not_reused_after_reopen(open: Open) {
    let mut subject = Subject::fresh(open);
    let mut stamps = Vec::new();
    let mut end = Position::default();
    for round in 0..10 {
        let commit = Commit {
            writes: vec![put("a", "same")],
            changes: vec![b"put".to_vec()],
            ..Commit::default()
        };
        let outcome = subject.commit(commit);
        let CommitOutcome::Committed { position } = outcome else { panic!("{outcome:?}") };
        assert!(position > end, "{position:?} after {end:?} in round {round}");
        end = position;
        let stamp = subject.stamp(b"a");
        assert!(!stamps.contains(&stamp), "{stamp:?} came again in round {round}");
        stamps.push(stamp);
        subject.write(vec![delete("a")]);
        subject = subject.reopen(open);
    }
    subject.write(vec![put("a", "same")]);
    for stamp in stamps {
        let stale = Commit { checks: vec![at("a", stamp)], ..Commit::default() };
        assert_eq!(subject.commit(stale), CommitOutcome::Conflict { check: 0 });
    }
}

/// The model of random operations, closed and opened again and again.
pub fn random_operations_survive_many_reopens(open: Open) {
    let mut random = Random::from_environment();
    let mut subject = Subject::fresh(open);
    let mut model = Model::default();
    for _ in 0..10 {
        for _ in 0..30 {
            model.step(&subject, &mut random);
        }
        model.agrees(&subject, &random);
        subject = subject.reopen(open);
        model.agrees(&subject, &random);
    }
}
