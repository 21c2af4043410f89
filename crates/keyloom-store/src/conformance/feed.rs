//! The change feed holds all changes in commit order, each at a position of its own (C5).

use pollster::block_on;

use super::{Open, Subject, absent, put};
use crate::{Commit, CommitOutcome, Feed, Position, StoreError};

/// Also several changes of one commit keep their order.
pub fn changes_come_in_commit_order(open: Open) {
    let subject = Subject::fresh(open);
    let mut expected = Vec::new();
    for commit in 0..20_u8 {
        let changes: Vec<Vec<u8>> =
            (0..commit % 4).map(|item| [vec![commit, item], vec![0; 300]].concat()).collect();
        expected.extend(changes.clone());
        commit_changes(&subject, changes);
    }
    let found = subject.changes(Position::default(), usize::MAX);
    assert!(found.is_sorted_by(|one, next| one.position < next.position), "{found:?}");
    assert!(found.iter().all(|change| change.position > Position::default()));
    assert_eq!(found.into_iter().map(|change| change.bytes).collect::<Vec<_>>(), expected);
}

/// A commit without changes reports where the feed ends at that moment.
pub fn a_commit_reports_the_position_of_its_last_change(open: Open) {
    let subject = Subject::fresh(open);
    assert_eq!(subject.write(vec![put("a", "1")]), Position::default());
    let first = commit_changes(&subject, vec![b"one".to_vec()]);
    assert_eq!(subject.write(vec![put("a", "2")]), first);
    let third = commit_changes(&subject, vec![b"two".to_vec(), b"three".to_vec()]);
    let found = subject.changes(Position::default(), 10);
    assert_eq!(found.len(), 3);
    assert_eq!((found[0].position, found[2].position), (first, third));
}

/// Reading on from the last position skips and repeats nothing; behind the end there is nothing.
pub fn the_feed_is_paged_by_position(open: Open) {
    let subject = Subject::fresh(open);
    for commit in 0..10_u8 {
        commit_changes(&subject, vec![vec![commit, 0], vec![commit, 1]]);
    }
    let all = subject.changes(Position::default(), usize::MAX);
    assert_eq!(all.len(), 20);
    for limit in [1, 3, 19, 20, 21] {
        let mut paged = Vec::new();
        let mut after = Position::default();
        loop {
            let page = subject.changes(after, limit);
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = last.position;
            paged.extend(page);
        }
        assert_eq!(paged, all, "pages of {limit}");
    }
    assert_eq!(subject.changes(all[19].position, 10), []);
    assert_eq!(subject.changes(Position(u64::MAX), 10), []);
    assert_eq!(subject.changes(Position::default(), 0), []);
}

/// What did not happen is not in the feed.
pub fn a_failed_commit_leaves_no_change(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("a", "1")]);
    let commit =
        Commit { checks: vec![absent("a")], changes: vec![b"never".to_vec()], ..Commit::default() };
    assert_eq!(subject.commit(commit), CommitOutcome::Conflict { check: 0 });
    assert_eq!(subject.changes(Position::default(), 10), []);
}

/// What is kept is read as before; a reader that stands before it is told, also in the middle.
pub fn a_trimmed_feed_keeps_the_rest_and_never_skips_in_silence(open: Open) {
    let subject = Subject::fresh(open);
    for commit in 0..10_u8 {
        commit_changes(&subject, vec![vec![commit, 0], vec![commit, 1]]);
    }
    let all = subject.changes(Position::default(), usize::MAX);
    let trimmed = all[6].position;
    block_on(subject.store.trim(trimmed)).unwrap();
    let feed = block_on(subject.store.feed()).unwrap();
    assert_eq!(feed, Feed { trimmed, last: all[19].position });
    assert_eq!(subject.changes(trimmed, usize::MAX), all[7..]);
    for after in [Position::default(), all[5].position] {
        let error = block_on(subject.store.changes(after, 10)).unwrap_err();
        assert!(matches!(error, StoreError::Trimmed { trimmed: t } if t == trimmed), "{error}");
    }
    // Less than what is gone already is nothing to do.
    block_on(subject.store.trim(all[2].position)).unwrap();
    assert_eq!(subject.changes(trimmed, usize::MAX), all[7..]);
}

/// Positions are never used again, also if no change is left to tell them.
pub fn a_feed_that_is_trimmed_whole_goes_on_at_the_next_position(open: Open) {
    let subject = Subject::fresh(open);
    let last = commit_changes(&subject, vec![b"one".to_vec(), b"two".to_vec()]);
    block_on(subject.store.trim(Position(u64::MAX))).unwrap();
    assert_eq!(block_on(subject.store.feed()).unwrap(), Feed { trimmed: last, last });
    assert_eq!(subject.changes(last, 10), []);
    assert!(block_on(subject.store.changes(Position::default(), 10)).is_err());
    let next = commit_changes(&subject, vec![b"three".to_vec()]);
    assert!(next > last);
    assert_eq!(subject.changes(last, 10).len(), 1);
}

fn commit_changes(subject: &Subject, changes: Vec<Vec<u8>>) -> Position {
    match subject.commit(Commit { changes, ..Commit::default() }) {
        CommitOutcome::Committed { position } => position,
        CommitOutcome::Conflict { .. } => panic!("a commit without checks cannot conflict"),
    }
}
