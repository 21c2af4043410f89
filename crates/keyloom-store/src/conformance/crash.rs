//! A store that survives its process survives `kill -9`.
//!
//! A test starts its own binary again as a child that commits from many threads and prints each
//! commit that was acknowledged. The test kills it somewhere, opens the store and looks.
//!
//! Each writer numbers its commits. Commit `n` of writer `w` writes four documents that must agree
//! with each other, moves the writer's last number from `n - 1` to `n`, counts, drops the documents
//! of an older commit and appends a change. So whatever is missing or half there contradicts
//! something else.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use pollster::block_on;

use super::{Open, Random, absent, add, at, delete, everything, put, scan};
use crate::{Change, Check, Commit, CommitOutcome, Direction, OrderedStore, Position, Write};

/// How often the child is killed.
const KILLS: usize = 50;
const WRITERS: u8 = 8;
const DOCUMENTS: u8 = 4;
/// How many commits of a writer keep their documents.
const KEPT: u64 = 5;
/// The child is killed after fewer acknowledgements than this.
const ACKNOWLEDGED_MAX: usize = 400;

const FOLDER: &str = "KEYLOOM_CRASH_FOLDER";

/// The law, in the parent and in the child. `test` is the path of the test that calls it.
pub fn acknowledged_commits_survive_kill_nine(open: Open, test: &str) {
    // The test harness names a test without its crate.
    let test = test.split_once("::").map_or(test, |(_, test)| test);
    match env::var_os(FOLDER) {
        Some(folder) => write_until_killed(open, Path::new(&folder)),
        None => kill_again_and_again(open, test),
    }
}

fn kill_again_and_again(open: Open, test: &str) {
    let mut random = Random::from_environment();
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    for kill in 0..KILLS {
        let mut child = start(test, folder.path());
        let acknowledged = kill_after(&mut child, random.below(ACKNOWLEDGED_MAX));
        let store = open(folder.path());
        seen.verify(&*store, &acknowledged, &format!("kill {kill}, {random}"));
    }
    let written: u64 = seen.commits.values().sum();
    assert!(written > KILLS as u64, "only {written} commits were written; {random}");
}

fn start(test: &str, folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child once it has printed so many acknowledgements (with none: while it starts), and
/// returns all that it printed, as the last number of each writer.
fn kill_after(child: &mut Child, count: usize) -> BTreeMap<u8, u64> {
    let mut acknowledged = BTreeMap::new();
    let mut left = count;
    let mut killed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((writer, number)) = parse(&line) {
            acknowledged.insert(writer, number);
            left = left.saturating_sub(1);
        }
        if left == 0 && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    let output = child.wait().unwrap();
    if !killed {
        let errors = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        panic!("the child ended by itself ({output}):\n{errors}");
    }
    acknowledged
}

/// A line may be cut short by the kill, so it ends with a mark of its own.
fn parse(line: &str) -> Option<(u8, u64)> {
    let (writer, number) = line.strip_prefix("ack ")?.strip_suffix('.')?.split_once(' ')?;
    Some((writer.parse().ok()?, number.parse().ok()?))
}

fn write_until_killed(open: Open, folder: &Path) {
    let store = open(folder);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &*store;
            scope.spawn(move || {
                let snapshot = block_on(store.snapshot()).unwrap();
                let last = block_on(snapshot.get(&last_key(writer))).unwrap();
                let mut number = last.map_or(0, |stored| decode(&stored.value));
                drop(snapshot);
                loop {
                    number += 1;
                    commit_one(store, writer, number);
                    let line = format!("ack {writer} {number}.\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn commit_one(store: &dyn OrderedStore, writer: u8, number: u64) {
    let last = last_key(writer);
    let found = block_on(async { store.snapshot().await?.get(&last).await }).unwrap();
    let check: Check = match found {
        Some(stored) => at(&last, stored.stamp),
        None => absent(&last),
    };
    let mut writes: Vec<Write> = (0..DOCUMENTS)
        .map(|document| put(document_key(writer, number, document), body(writer, number)))
        .collect();
    writes.push(put(last, number.to_be_bytes()));
    writes.push(add("count", 1));
    if number > KEPT {
        let old = |document| delete(document_key(writer, number - KEPT, document));
        writes.extend((0..DOCUMENTS).map(old));
    }
    let changes = vec![change(writer, number)];
    let outcome =
        block_on(store.commit(Arc::new(Commit { checks: vec![check], writes, changes }))).unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
}

/// What earlier kills left behind: the number of commits of each writer, and the end of the feed.
#[derive(Default)]
struct Seen {
    commits: BTreeMap<u8, u64>,
    end: Position,
}

impl Seen {
    fn verify(&mut self, store: &dyn OrderedStore, acknowledged: &BTreeMap<u8, u64>, place: &str) {
        let snapshot = block_on(store.snapshot()).unwrap();
        let mut entries: BTreeMap<Vec<u8>, Vec<u8>> =
            scan(&*snapshot, &everything(), Direction::Forward)
                .into_iter()
                .map(|entry| (entry.key, entry.stored.value))
                .collect();
        let mut feed = block_on(store.changes(self.end, usize::MAX)).unwrap();
        let mut count = 0;
        for writer in 0..WRITERS {
            let last = entries.remove(&last_key(writer)).map_or(0, |value| decode(&value));
            let before = self.commits.insert(writer, last).unwrap_or(0);
            let promised = acknowledged.get(&writer).copied().unwrap_or(before);
            assert!(last >= promised, "{place}: {writer} lost {last} to {promised}");
            for number in (last.saturating_sub(KEPT) + 1)..=last {
                for document in 0..DOCUMENTS {
                    let found = entries.remove(&document_key(writer, number, document));
                    assert!(found == Some(body(writer, number)), "{place}: {writer} {number}");
                }
            }
            let own: Vec<Change> = feed.extract_if(.., |it| it.bytes[0] == writer).collect();
            self.end = self.end.max(own.last().map_or(self.end, |it| it.position));
            let found: Vec<Vec<u8>> = own.into_iter().map(|it| it.bytes).collect();
            let expected: Vec<_> = (before + 1..=last).map(|it| change(writer, it)).collect();
            assert_eq!(found, expected, "{place}: the feed of {writer}");
            count += last;
        }
        let counted = entries.remove(b"count".as_slice()).map_or(0, |value| decode(&value));
        assert_eq!(counted, count, "{place}: the counter");
        assert_eq!(entries.into_keys().next(), None, "{place}: a part of a commit");
        assert_eq!(feed, [], "{place}: a change of nobody");
    }
}

fn last_key(writer: u8) -> Vec<u8> {
    vec![b'l', writer]
}

fn document_key(writer: u8, number: u64, document: u8) -> Vec<u8> {
    [&[b'd', writer], &number.to_be_bytes()[..], &[document]].concat()
}

fn change(writer: u8, number: u64) -> Vec<u8> {
    [&[writer], &number.to_be_bytes()[..]].concat()
}

/// What the documents of a commit hold: mostly little, now and then several pages.
fn body(writer: u8, number: u64) -> Vec<u8> {
    let mut random = Random::new(number << 8 | u64::from(writer));
    let len = if random.below(16) == 0 { 20_000 } else { random.below(200) };
    random.bytes(len)
}

fn decode(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}
