//! Concurrent commits behave as if one ran after the other (C2), and readers see only whole ones.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pollster::block_on;

use super::{Open, Random, Subject, absent, add, at, everything, put, scan};
use crate::{Commit, CommitOutcome, Direction, Position};

const THREADS: usize = 16;
const READERS: usize = 3;
const ROUNDS: usize = 40;
const TRANSFERS: usize = 60;
const ACCOUNTS: usize = 8;
const FUNDS: u64 = 1000;

/// Compare-and-set: sixteen writers, one stamp, one winner, round after round.
pub fn of_sixteen_writers_on_one_stamp_exactly_one_wins(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("one", "start")]);
    for round in 0..ROUNDS {
        let stamp = subject.stamp(b"one");
        let barrier = Barrier::new(THREADS);
        let winners: Vec<usize> = thread::scope(|scope| {
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (subject, barrier) = (&subject, &barrier);
                    scope.spawn(move || {
                        let commit = Commit {
                            checks: vec![at("one", stamp), absent([b'w', round as u8])],
                            writes: vec![put("one", [thread as u8]), put([b'w', round as u8], "")],
                            ..Commit::default()
                        };
                        barrier.wait();
                        let outcome = subject.commit(commit);
                        matches!(outcome, CommitOutcome::Committed { .. }).then_some(thread)
                    })
                })
                .collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
        });
        assert_eq!(winners.len(), 1, "round {round}: {winners:?} won");
        assert_eq!(subject.value(b"one"), Some(vec![winners[0] as u8]));
    }
}

/// Money moves between accounts; no snapshot ever sees it on the way.
pub fn transfers_keep_the_sum_in_every_snapshot(open: Open) {
    let subject = Subject::fresh(open);
    let seeds = Random::from_environment();
    let accounts: Vec<Vec<u8>> = (0..ACCOUNTS as u8).map(|number| vec![b'a', number]).collect();
    subject.write(accounts.iter().map(|key| put(key, FUNDS.to_be_bytes())).collect());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (subject, accounts) = (&subject, &accounts);
            let mut random = Random::new(seeds.clone().next_u64() + thread as u64);
            scope.spawn(move || {
                for _ in 0..TRANSFERS {
                    transfer(subject, accounts, &mut random);
                    assert_eq!(sum(subject), FUNDS * ACCOUNTS as u64, "{seeds}", seeds = random);
                }
            });
        }
    });
    assert_eq!(sum(&subject), FUNDS * ACCOUNTS as u64);
}

/// C3: whichever way a key is read, and however often, it is as the snapshot shows it.
pub fn gets_and_scans_of_a_snapshot_agree_while_others_write(open: Open) {
    let subject = Subject::fresh(open);
    let keys: Vec<Vec<u8>> = (0..ACCOUNTS as u8).map(|number| vec![b'k', number]).collect();
    subject.write(keys.iter().map(|key| put(key, "start")).collect());
    let writing = AtomicBool::new(true);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut older = subject.snapshot();
                    while writing.load(Ordering::Relaxed) {
                        let newer = subject.snapshot();
                        for snapshot in [&older, &newer, &older, &newer] {
                            let got = block_on(snapshot.get_many(&keys)).unwrap();
                            let scanned = scan(&**snapshot, &everything(), Direction::Forward);
                            let scanned: Vec<_> =
                                scanned.into_iter().map(|entry| Some(entry.stored)).collect();
                            assert_eq!(got, scanned);
                        }
                        older = newer;
                    }
                })
            })
            .collect();
        for round in 0..ROUNDS * ACCOUNTS {
            subject.write(vec![put(&keys[round % ACCOUNTS], round.to_string())]);
        }
        writing.store(false, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// Counters need no check and still lose nothing.
pub fn concurrent_additions_are_all_counted(open: Open) {
    let subject = Subject::fresh(open);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let subject = &subject;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    subject.write(vec![add("all", 1), add([b'n', thread as u8], 2)]);
                }
            });
        }
    });
    let expected = i64::try_from(THREADS * ROUNDS).unwrap();
    assert_eq!(subject.value(b"all"), Some(expected.to_be_bytes().to_vec()));
    for thread in 0..THREADS {
        let expected = i64::try_from(2 * ROUNDS).unwrap().to_be_bytes().to_vec();
        assert_eq!(subject.value(&[b'n', thread as u8]), Some(expected));
    }
}

/// C5: each writer's changes keep its order, and reported positions are the real ones.
pub fn concurrent_changes_are_all_in_the_feed_in_the_order_of_their_writer(open: Open) {
    let subject = Subject::fresh(open);
    let reported: Vec<(Position, Vec<u8>)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS as u8)
            .map(|thread| {
                let subject = &subject;
                scope.spawn(move || {
                    let mut reported = Vec::new();
                    for round in 0..ROUNDS as u8 {
                        let bytes = vec![thread, round];
                        let commit = Commit {
                            writes: vec![put(&bytes, "")],
                            changes: vec![bytes.clone()],
                            ..Commit::default()
                        };
                        match subject.commit(commit) {
                            CommitOutcome::Committed { position } => {
                                reported.push((position, bytes));
                            }
                            CommitOutcome::Conflict { .. } => panic!("nothing was checked"),
                        }
                    }
                    reported
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let feed = subject.changes(Position::default(), usize::MAX);
    assert_eq!(feed.len(), THREADS * ROUNDS);
    for (position, bytes) in reported {
        let change = feed.iter().find(|change| change.position == position).unwrap();
        assert_eq!(change.bytes, bytes);
    }
    for thread in 0..THREADS as u8 {
        let own: Vec<_> = feed.iter().filter(|change| change.bytes[0] == thread).collect();
        assert!(own.is_sorted_by_key(|change| change.bytes[1]), "{own:?}");
    }
}

/// One attempt; that it loses the race now and then is part of the law.
fn transfer(subject: &Subject, accounts: &[Vec<u8>], random: &mut Random) {
    let from = random.below(accounts.len());
    let to = (from + 1 + random.below(accounts.len() - 1)) % accounts.len();
    let pair = [accounts[from].clone(), accounts[to].clone()];
    let found = block_on(subject.snapshot().get_many(&pair)).unwrap();
    let [source, target] = [0, 1].map(|index| found[index].clone().unwrap());
    let amount = u64::try_from(random.below(10)).unwrap();
    let (left, sum) = (balance(&source.value), balance(&target.value));
    if left < amount {
        return;
    }
    subject.commit(Commit {
        checks: vec![at(&pair[0], source.stamp), at(&pair[1], target.stamp)],
        writes: vec![
            put(&pair[0], (left - amount).to_be_bytes()),
            put(&pair[1], (sum + amount).to_be_bytes()),
        ],
        ..Commit::default()
    });
}

fn sum(subject: &Subject) -> u64 {
    let entries = scan(&*subject.snapshot(), &everything(), Direction::Forward);
    entries.iter().map(|entry| balance(&entry.stored.value)).sum()
}

fn balance(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}
