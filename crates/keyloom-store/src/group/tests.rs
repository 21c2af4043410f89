//! The group store over an engine in memory that can be told to stop, fail or panic.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use pollster::block_on;
use tempfile::TempDir;

use super::*;
use crate::folder::Folder;
use crate::limits::QUEUE_COMMITS_MAX;
use crate::{Check, Expect, Write};

type Map = Arc<BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Default)]
struct MapEngine {
    rows: Map,
    now: Moment,
    view: MapView,
    controls: Arc<Controls>,
}

/// What was stored at each moment that the view has lasted for.
#[derive(Clone, Default)]
struct MapView(Arc<Mutex<BTreeMap<Moment, Map>>>);

/// How many moments a view lasts for, if it does.
const LASTING_MOMENTS: usize = 3;

/// What the tests see and steer.
#[derive(Default)]
struct Controls {
    /// What the next writes do.
    steps: Mutex<Vec<Step>>,
    /// Of each write, how many rows it had and which thread did it.
    writes: Mutex<Vec<(usize, ThreadId)>>,
    /// What a sync answers, and who is told of it.
    syncs: Mutex<Option<(SyncAnswer, Sender<()>)>>,
    /// Whether views last for some moments.
    lasting: AtomicBool,
    /// How many views were made.
    views: AtomicUsize,
}

type SyncAnswer = Result<Settled, &'static str>;

enum Step {
    /// Says that it is in the write, and goes on when it is told to.
    Stop {
        entered: Sender<()>,
        release: Receiver<()>,
    },
    NotWritten,
    Unknown,
    Panic,
}

impl Engine for MapEngine {
    type View = MapView;

    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError> {
        let step = self.controls.steps.lock().unwrap().pop();
        match step {
            Some(Step::Stop { entered, release }) => {
                entered.send(()).unwrap();
                release.recv().unwrap();
            }
            Some(Step::NotWritten) => return Err(WriteError::NotWritten(failure("disk full"))),
            Some(Step::Unknown) => return Err(WriteError::Unknown(failure("sync failed"))),
            Some(Step::Panic) => panic!("as the test asked"),
            None => {}
        }
        self.controls.writes.lock().unwrap().push((rows.count(), thread::current().id()));
        let map = Arc::make_mut(&mut self.rows);
        rows.for_each(|row, value| {
            match value {
                Some(value) => map.insert(row.to_vec(), value.to_vec()),
                None => map.remove(row),
            };
            Ok(())
        })?;
        self.now.0 += 1;
        if self.view_lasts() {
            self.view.0.lock().unwrap().insert(self.now, Arc::clone(&self.rows));
        }
        Ok(())
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn view(&mut self) -> Result<(MapView, Moment), StoreError> {
        self.controls.views.fetch_add(1, Ordering::Relaxed);
        let shown = BTreeMap::from([(self.now, Arc::clone(&self.rows))]);
        self.view = MapView(Arc::new(Mutex::new(shown)));
        Ok((self.view.clone(), self.now))
    }

    fn view_lasts(&self) -> bool {
        let shown = self.view.0.lock().unwrap();
        let first = shown.first_key_value().map_or(0, |(first, _)| first.0);
        let lasting = self.controls.lasting.load(Ordering::Relaxed);
        lasting && self.now.0 < first + LASTING_MOMENTS as u64
    }

    fn sync(&mut self) -> Result<Settled, StoreError> {
        let syncs = &*self.controls.syncs.lock().unwrap();
        let Some((answer, told)) = syncs else { return Ok(Settled::All) };
        let _ = told.send(());
        answer.map_err(failure)
    }
}

impl MapView {
    fn at(&self, moment: Moment) -> Map {
        Arc::clone(&self.0.lock().unwrap()[&moment])
    }
}

impl View for MapView {
    type Cursor = VecDeque<(Vec<u8>, Vec<u8>)>;

    fn get<R>(
        &self,
        row: &[u8],
        at: Moment,
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        self.at(at).get(row).map(|value| read(value)).transpose()
    }

    fn range(&self, span: Span<'_>) -> Result<Self::Cursor, StoreError> {
        let map = self.at(span.at);
        let rows = map.range(span.from.to_vec()..span.to.to_vec());
        Ok(rows.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl Cursor for VecDeque<(Vec<u8>, Vec<u8>)> {
    fn next<R>(
        &mut self,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let row = match direction {
            Direction::Forward => self.pop_front(),
            Direction::Reverse => self.pop_back(),
        };
        row.map(|(key, value)| read(&key, &value)).transpose()
    }
}

fn failure(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.into(), source: None }
}

struct Subject {
    store: GroupStore<MapEngine>,
    controls: Arc<Controls>,
    folder: TempDir,
}

fn start(durability: Durability, steps: Vec<Step>) -> Subject {
    let engine = MapEngine::default();
    let controls = Arc::clone(&engine.controls);
    *controls.steps.lock().unwrap() = steps;
    let folder = tempfile::tempdir().unwrap();
    let mark = Folder::open(folder.path(), "map").unwrap().mark().unwrap();
    Subject { store: GroupStore::start(engine, mark, durability).unwrap(), controls, folder }
}

fn stop() -> (Step, Receiver<()>, Sender<()>) {
    let (enter, entered) = mpsc::channel();
    let (release, released) = mpsc::channel();
    (Step::Stop { entered: enter, release: released }, entered, release)
}

fn put(key: &str) -> Commit {
    let writes = vec![Write::Put { key: key.into(), value: b"1".into() }];
    Commit { writes, ..Commit::default() }
}

fn create(key: &str) -> Commit {
    Commit { checks: vec![Check { key: key.into(), expect: Expect::Absent }], ..put(key) }
}

impl Subject {
    fn commit(&self, commit: Commit) -> Answer {
        block_on(self.store.commit(Arc::new(commit)))
    }

    fn exists(&self, key: &str) -> bool {
        let snapshot = block_on(self.store.snapshot()).unwrap();
        block_on(snapshot.get(key.as_bytes())).unwrap().is_some()
    }
}

/// Lets the writer stop in the commit of `first`, queues `others`, lets go, and returns all
/// answers.
fn grouped(first: Commit, others: Vec<Commit>) -> (Subject, Vec<Answer>) {
    let (step, entered, release) = stop();
    let subject = start(Durability::Durable, vec![step]);
    let queue = &subject.store.shared.queue;
    let mut receivers = vec![queue.push(Arc::new(first), Wake::Writer).unwrap()];
    entered.recv().unwrap();
    receivers.extend(
        others.into_iter().map(|commit| queue.push(Arc::new(commit), Wake::Writer).unwrap()),
    );
    release.send(()).unwrap();
    let answers = receivers.into_iter().map(|receiver| block_on(receiver).unwrap()).collect();
    (subject, answers)
}

#[test]
fn commits_that_wait_are_written_together() {
    let others = (0..20).map(|number| put(&format!("k{number}"))).collect();
    let (subject, answers) = grouped(put("first"), others);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let rows: Vec<_> =
        subject.controls.writes.lock().unwrap().iter().map(|(rows, _)| *rows).collect();
    assert_eq!(rows, [2, 21], "rows of each write, one of them the tip");
}

#[test]
fn a_commit_sees_the_earlier_commits_of_its_group() {
    let (subject, answers) = grouped(put("first"), vec![create("a"), create("a"), create("b")]);
    let won: Vec<bool> = answers
        .iter()
        .map(|answer| matches!(answer, Ok(CommitOutcome::Committed { .. })))
        .collect();
    assert_eq!(won, [true, true, false, true]);
    assert!(matches!(answers[2], Ok(CommitOutcome::Conflict { check: 0 })));
    assert_eq!(subject.controls.writes.lock().unwrap()[1].0, 3);
}

#[test]
fn counters_of_one_group_add_up() {
    let add =
        || Commit { writes: vec![Write::Add { key: b"n".into(), delta: 2 }], ..Commit::default() };
    let (subject, _) = grouped(add(), vec![add(), add(), add()]);
    let snapshot = block_on(subject.store.snapshot()).unwrap();
    let counter = block_on(snapshot.get(b"n")).unwrap().unwrap();
    assert_eq!(counter.value, 8_i64.to_be_bytes());
}

#[test]
fn g2_a_reader_does_not_see_what_is_not_yet_durable() {
    let (step, entered, release) = stop();
    let subject = start(Durability::Durable, vec![step]);
    let answer = subject.store.shared.queue.push(Arc::new(put("a")), Wake::Writer).unwrap();
    entered.recv().unwrap();
    assert!(!subject.exists("a"));
    release.send(()).unwrap();
    block_on(answer).unwrap().unwrap();
    assert!(subject.exists("a"));
}

#[test]
fn a_group_that_was_not_written_is_unavailable_and_the_store_goes_on() {
    let subject = start(Durability::Durable, vec![Step::NotWritten]);
    let error = subject.commit(create("a")).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!(error.to_string(), "store unavailable: disk full");
    assert!(!subject.exists("a"));
    assert!(matches!(subject.commit(create("a")), Ok(CommitOutcome::Committed { .. })));
    assert!(subject.exists("a"));
}

#[test]
fn g4_after_an_unknown_outcome_nothing_more_is_written_or_read() {
    for durability in [Durability::Durable, Durability::Buffered] {
        let subject = start(durability, vec![Step::Unknown]);
        let error = subject.commit(put("a")).unwrap_err();
        assert!(matches!(error, StoreError::OutcomeUnknown { .. }), "{error}");
        let error = subject.commit(put("b")).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("sync failed"), "{error}");
        assert!(error.to_string().contains("the store is opened again"), "{error}");
        for read in [
            block_on(subject.store.snapshot()).err(),
            block_on(subject.store.changes(Position(0), 1)).err(),
            block_on(subject.store.feed()).err(),
        ] {
            assert_eq!(read.unwrap().to_string(), error.to_string());
        }
        assert_eq!(subject.controls.writes.lock().unwrap().len(), 0);
    }
}

#[test]
fn g3_a_panic_of_the_engine_is_answered() {
    for durability in [Durability::Durable, Durability::Buffered] {
        let subject = start(durability, vec![Step::Panic]);
        let error = subject.commit(put("a")).unwrap_err();
        assert!(matches!(error, StoreError::OutcomeUnknown { .. }), "{error}");
        assert!(error.to_string().contains("as the test asked"), "{error}");
        assert!(matches!(subject.commit(put("b")), Err(StoreError::Unavailable { .. })));
    }
}

#[test]
fn g3_a_writer_that_is_gone_answers_too() {
    let subject = start(Durability::Durable, vec![]);
    drop(subject.store.shared.queue.abandon_on_drop());
    assert!(matches!(subject.commit(put("a")), Err(StoreError::Unavailable { .. })));
}

#[test]
fn a_caller_that_goes_away_does_no_harm() {
    let (step, entered, release) = stop();
    let subject = start(Durability::Durable, vec![step]);
    let queue = &subject.store.shared.queue;
    drop(queue.push(Arc::new(put("a")), Wake::Writer).unwrap());
    entered.recv().unwrap();
    drop(queue.push(Arc::new(put("b")), Wake::Writer).unwrap());
    let last = queue.push(Arc::new(put("c")), Wake::Writer).unwrap();
    release.send(()).unwrap();
    block_on(last).unwrap().unwrap();
    assert!(["a", "b", "c"].iter().all(|key| subject.exists(key)));
}

#[test]
fn a_full_queue_is_an_error_and_not_a_wait() {
    let (step, entered, release) = stop();
    let subject = start(Durability::Durable, vec![step]);
    let queue = &subject.store.shared.queue;
    let mut receivers = vec![queue.push(Arc::new(put("first")), Wake::Writer).unwrap()];
    entered.recv().unwrap();
    receivers.extend(
        (0..QUEUE_COMMITS_MAX).map(|_| queue.push(Arc::new(put("k")), Wake::Writer).unwrap()),
    );
    let error = subject.commit(put("one more")).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    release.send(()).unwrap();
    assert!(receivers.into_iter().all(|receiver| block_on(receiver).unwrap().is_ok()));
    assert!(!subject.exists("one more"));
}

#[test]
fn dropping_the_store_finishes_what_waits() {
    let (step, entered, release) = stop();
    let Subject { store, controls, folder } = start(Durability::Durable, vec![step]);
    let mut receivers =
        vec![store.shared.queue.push(Arc::new(put("first")), Wake::Writer).unwrap()];
    entered.recv().unwrap();
    receivers
        .extend((0..5).map(|_| store.shared.queue.push(Arc::new(put("k")), Wake::Writer).unwrap()));
    let dropper = thread::spawn(move || drop(store));
    release.send(()).unwrap();
    dropper.join().unwrap();
    assert!(receivers.into_iter().all(|receiver| block_on(receiver).unwrap().is_ok()));
    assert_eq!(controls.writes.lock().unwrap().len(), 2);
    drop(folder);
}

#[test]
fn a_snapshot_outlives_its_store() {
    let subject = start(Durability::Durable, vec![]);
    subject.commit(put("a")).unwrap();
    let snapshot = block_on(subject.store.snapshot()).unwrap();
    drop(subject);
    assert!(block_on(snapshot.get(b"a")).unwrap().is_some());
}

#[test]
fn a_lone_buffered_commit_stays_on_its_thread_and_a_durable_one_does_not() {
    for (durability, here) in [(Durability::Buffered, true), (Durability::Durable, false)] {
        let subject = start(durability, vec![]);
        subject.commit(put("a")).unwrap();
        let (_, thread) = subject.controls.writes.lock().unwrap()[0];
        assert_eq!(thread == thread::current().id(), here, "{durability:?}");
    }
}

#[test]
fn whoever_writes_buffered_commits_writes_those_that_came_meanwhile_too() {
    let (step, entered, release) = stop();
    let subject = start(Durability::Buffered, vec![step]);
    subject.store.shared.queue.await_sleep();
    thread::scope(|scope| {
        let first = scope.spawn(|| subject.commit(put("first")));
        entered.recv().unwrap();
        let waiting: Vec<_> =
            (0..3).map(|n| begun(subject.store.commit(Arc::new(put(&n.to_string()))))).collect();
        release.send(()).unwrap();
        first.join().unwrap().unwrap();
        assert!(waiting.into_iter().all(|commit| block_on(commit).is_ok()));
    });
    let writes: Vec<_> = subject.controls.writes.lock().unwrap().clone();
    let [(_, one), (_, other)] = writes.as_slice() else { panic!("{writes:?}") };
    assert_eq!(one, other);
}

#[test]
fn a_buffered_commit_that_came_during_a_trim_is_written_after_it() {
    let (step, entered, release) = stop();
    let subject = start(Durability::Buffered, vec![]);
    subject.commit(Commit { changes: vec![b"change".to_vec()], ..put("a") }).unwrap();
    subject.controls.steps.lock().unwrap().push(step);
    subject.store.shared.queue.await_sleep();
    thread::scope(|scope| {
        let trim = scope.spawn(|| block_on(subject.store.trim(Position(1))));
        entered.recv().unwrap();
        let waiting = begun(subject.store.commit(Arc::new(put("b"))));
        release.send(()).unwrap();
        trim.join().unwrap().unwrap();
        assert!(block_on(waiting).is_ok());
    });
}

#[test]
fn a_caller_hands_over_to_the_writer_thread_after_some_groups() {
    let (steps, gates): (Vec<_>, Vec<_>) = (0..=HELP_GROUPS_MAX)
        .map(|_| {
            let (step, entered, release) = stop();
            (step, (entered, release))
        })
        .unzip();
    let subject = start(Durability::Buffered, steps);
    subject.store.shared.queue.await_sleep();
    thread::scope(|scope| {
        let first = scope.spawn(|| subject.commit(put("first")));
        let mut waiting = Vec::new();
        for (entered, release) in gates.into_iter().rev() {
            entered.recv().unwrap();
            waiting.push(begun(subject.store.commit(Arc::new(put("k")))));
            release.send(()).unwrap();
        }
        first.join().unwrap().unwrap();
        assert!(waiting.into_iter().all(|commit| block_on(commit).is_ok()));
    });
    let writes: Vec<_> = subject.controls.writes.lock().unwrap().clone();
    let own = writes.iter().filter(|(_, thread)| *thread == writes[0].1).count();
    assert_eq!((own, writes.len()), (1 + HELP_GROUPS_MAX, 2 + HELP_GROUPS_MAX));
}

/// A future that has gone as far as it can for now.
fn begun<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    future
}

/// Commits, and waits until the engine has synced by itself, with this answer.
fn commit_and_rest(subject: &Subject, answer: SyncAnswer) {
    let (told, syncs) = mpsc::channel();
    *subject.controls.syncs.lock().unwrap() = Some((answer, told));
    subject.commit(put("a")).unwrap();
    syncs.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn when_nobody_commits_for_a_while_the_engine_syncs() {
    let subject = start(Durability::Durable, vec![]);
    for _ in 0..2 {
        commit_and_rest(&subject, Ok(Settled::All));
    }
    assert!(subject.exists("a"));
}

#[test]
fn an_engine_that_has_more_to_do_is_asked_again_although_nobody_commits() {
    let subject = start(Durability::Durable, vec![]);
    let (told, syncs) = mpsc::channel();
    *subject.controls.syncs.lock().unwrap() = Some((Ok(Settled::NotYet), told));
    subject.commit(put("a")).unwrap();
    for _ in 0..3 {
        syncs.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn g4_after_a_sync_that_failed_nothing_more_is_written() {
    let subject = start(Durability::Durable, vec![]);
    commit_and_rest(&subject, Err("no space left"));
    // The failure is noted before the writer is free again.
    drop(subject.store.shared.writer.lock().unwrap());
    let error = subject.commit(put("b")).unwrap_err().to_string();
    assert!(error.contains("no space left"), "{error}");
}

#[test]
fn a_commit_that_writes_nothing_costs_no_write() {
    let subject = start(Durability::Durable, vec![]);
    subject.commit(put("a")).unwrap();
    assert!(matches!(subject.commit(create("a")), Ok(CommitOutcome::Conflict { check: 0 })));
    assert!(matches!(subject.commit(Commit::default()), Ok(CommitOutcome::Committed { .. })));
    assert_eq!(subject.controls.writes.lock().unwrap().len(), 1);
}

#[test]
fn an_engine_that_forgot_acknowledged_commits_does_not_start() {
    for durability in [Durability::Durable, Durability::Buffered] {
        let Subject { store, folder, .. } = start(durability, vec![]);
        block_on(store.commit(Arc::new(put("a")))).unwrap();
        drop(store);
        let mark = Folder::open(folder.path(), "map").unwrap().mark().unwrap();
        let started = GroupStore::start(MapEngine::default(), mark, durability);
        let error = started.err().unwrap();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("acknowledged commits 1 to 1 are missing"), "{error}");
    }
}

#[test]
fn a_panic_while_reading_is_an_error() {
    let error = guarded::<()>(|| panic!("page {} is odd", 7)).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("page 7 is odd"), "{error}");
}

#[test]
fn g2_a_lasting_view_shows_each_commit_and_older_snapshots_what_they_showed() {
    let subject = start(Durability::Buffered, vec![]);
    subject.controls.lasting.store(true, Ordering::Relaxed);
    let mut snapshots = Vec::new();
    for number in 0..10 * LASTING_MOMENTS {
        let snapshot = block_on(subject.store.snapshot()).unwrap();
        snapshots.push(snapshot);
        subject.commit(put(&number.to_string())).unwrap();
        assert!(subject.exists(&number.to_string()));
    }
    for (seen, snapshot) in snapshots.iter().enumerate() {
        let exists = |number: usize| {
            block_on(snapshot.get(number.to_string().as_bytes())).unwrap().is_some()
        };
        assert!((0..10 * LASTING_MOMENTS).all(|number| exists(number) == (number < seen)));
    }
    // The first view, and one after each that has lasted.
    let views = subject.controls.views.load(Ordering::Relaxed);
    assert!(views <= 11, "{views}");
}

#[test]
fn once_everything_is_written_out_readers_get_a_new_view() {
    let subject = start(Durability::Durable, vec![]);
    let made = || {
        // The view is made before the writer is free again.
        drop(subject.store.shared.writer.lock().unwrap());
        subject.controls.views.load(Ordering::Relaxed)
    };
    let before = made();
    commit_and_rest(&subject, Ok(Settled::All));
    assert_eq!(made(), before + 2, "one with the commit, and one after it");
    assert!(subject.exists("a"));
}

fn open(folder: &Path, durability: Durability) -> Arc<dyn OrderedStore> {
    let mark = Folder::open(folder, "map").unwrap().mark().unwrap();
    Arc::new(GroupStore::start(MapEngine::default(), mark, durability).unwrap())
}

fn open_lasting(folder: &Path, durability: Durability) -> Arc<dyn OrderedStore> {
    let mark = Folder::open(folder, "map").unwrap().mark().unwrap();
    let engine = MapEngine::default();
    engine.controls.lasting.store(true, Ordering::Relaxed);
    Arc::new(GroupStore::start(engine, mark, durability).unwrap())
}

mod durable {
    crate::conformance_tests!(|folder| super::open(folder, super::Durability::Durable));
}

mod buffered {
    crate::conformance_tests!(|folder| super::open(folder, super::Durability::Buffered));
}

mod durable_lasting {
    crate::conformance_tests!(|folder| super::open_lasting(folder, super::Durability::Durable));
}

mod buffered_lasting {
    crate::conformance_tests!(|folder| super::open_lasting(folder, super::Durability::Buffered));
}
