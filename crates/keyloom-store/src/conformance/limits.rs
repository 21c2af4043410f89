//! Every limit that a store states holds at its edge, and one above it nothing happens.

use super::{Open, Subject, absent, add, delete, everything, put, scan};
use crate::{Commit, CommitOutcome, Direction, Position, StoreError, Write};

/// Keys of puts, deletes, counters and checks alike.
pub fn the_longest_key_fits_and_one_byte_more_does_not(open: Open) {
    let subject = Subject::fresh(open);
    let max = subject.store.limits().key_bytes_max;
    let longest = vec![0xFF; max];
    subject.write(vec![put(&longest, "1")]);
    assert_eq!(subject.value(&longest), Some(b"1".to_vec()));
    subject.write(vec![delete(&longest)]);
    subject.write(vec![add(&longest, 1)]);
    let too_long = vec![0xFF; max + 1];
    refused(&subject, Commit { writes: vec![put(&too_long, "1")], ..Commit::default() });
    refused(&subject, Commit { writes: vec![delete(&too_long)], ..Commit::default() });
    refused(&subject, Commit { writes: vec![add(&too_long, 1)], ..Commit::default() });
    refused(&subject, Commit { checks: vec![absent(&too_long)], ..Commit::default() });
}

/// Values of keys and items of the feed alike.
pub fn the_longest_value_fits_and_one_byte_more_does_not(open: Open) {
    let subject = Subject::fresh(open);
    let max = subject.store.limits().value_bytes_max;
    subject.write(vec![put("a", vec![7; max])]);
    assert!(subject.value(b"a") == Some(vec![7; max]), "the longest value came back changed");
    let change = Commit { changes: vec![vec![8; max]], ..Commit::default() };
    assert!(matches!(subject.commit(change), CommitOutcome::Committed { .. }));
    assert!(subject.changes(Position::default(), 1)[0].bytes == vec![8; max]);
    refused(&subject, Commit { writes: vec![put("a", vec![7; max + 1])], ..Commit::default() });
    refused(&subject, Commit { changes: vec![vec![8; max + 1]], ..Commit::default() });
}

/// Checks, writes and changes add up.
pub fn the_most_operations_fit_and_one_more_does_not(open: Open) {
    let subject = Subject::fresh(open);
    let max = subject.store.limits().commit_operations_max;
    let commit = |operations: usize| Commit {
        checks: vec![absent("a"), absent("b")],
        writes: (0..operations - 3).map(|key| put(key.to_be_bytes(), "")).collect(),
        changes: vec![b"one".to_vec()],
    };
    refused(&subject, commit(max + 1));
    assert!(matches!(subject.commit(commit(max)), CommitOutcome::Committed { .. }));
    let stored = scan(&*subject.snapshot(), &everything(), Direction::Forward).len();
    assert_eq!(stored, max - 3);
}

/// Keys, values and changes add up.
pub fn the_largest_commit_fits_and_one_byte_more_does_not(open: Open) {
    let subject = Subject::fresh(open);
    let limits = subject.store.limits();
    let commit = |bytes: usize| {
        let mut left = bytes - "check".len() - "change".len();
        let mut writes: Vec<Write> = Vec::new();
        while left > 0 {
            let key = u64::try_from(writes.len()).unwrap().to_be_bytes();
            let value = (left - key.len()).min(limits.value_bytes_max - 100);
            left -= key.len() + value;
            writes.push(put(key, vec![1; value]));
        }
        let changes = vec![b"change".to_vec()];
        Commit { checks: vec![absent("check")], writes, changes }
    };
    refused(&subject, commit(limits.commit_bytes_max + 1));
    let largest = commit(limits.commit_bytes_max);
    let writes = largest.writes.len();
    assert!(matches!(subject.commit(largest), CommitOutcome::Committed { .. }));
    let stored = scan(&*subject.snapshot(), &everything(), Direction::Forward).len();
    assert_eq!(stored, writes);
}

/// The commit, and one more write along with it, leave no trace.
fn refused(subject: &Subject, mut commit: Commit) {
    let before = subject.changes(Position::default(), usize::MAX).len();
    commit.writes.push(put("trace", "1"));
    commit.changes.push(b"trace".to_vec());
    let error = subject.try_commit(commit).unwrap_err();
    assert!(matches!(error, StoreError::LimitExceeded { .. }), "{error}");
    assert_eq!(subject.value(b"trace"), None);
    assert_eq!(subject.changes(Position::default(), usize::MAX).len(), before);
}
