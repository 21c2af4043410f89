//! Group commit: what the embedded stores share on top of an engine that is an ordered map.
//!
//! ```text
//! commit() ─► queue ─► writer: check each, write all as one batch, sync once ─► answers
//!                          └─► publishes a moment ─► snapshot(), changes()
//! ```
//!
//! Where commits are synced, the writer is a thread of its own. Where they are not, waking a thread
//! and being woken would cost more than the commit: a caller who finds nobody writing does it
//! himself. Who finds somebody joins the queue and looks again for a while, until his commit was
//! written with what else waited, or it is his turn to write all that waits. Who waits for longer
//! sleeps, and what nobody has written by then is left to the thread.
//!
//! G1: One writer at a time decides and writes, so all checks hold when the writes happen.
//! G2: A moment is published after its commits are as durable as promised and before they are
//!     acknowledged, so a reader sees every acknowledged commit and none that could still be lost.
//! G3: Each caller gets exactly one answer, whatever happens to the writer.
//! G4: After a write whose outcome is unknown, nothing more is written or read: what the engine
//!     holds is only known again once it is opened again, and a reader who was told "absent" could
//!     find it there.
//!
//! Readers wait for no writer: they take what was published last (`view`). What is read again and
//! again they find beside the engine (`recent`). A view keeps what it shows alive in the engine
//! (old pages, old tables), so long work should page through short snapshots.

mod ends;
mod filter;
mod hash;
mod hot;
mod queue;
mod recent;
mod rows;
mod snapshot;
mod view;
mod writer;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use futures_channel::oneshot::Receiver;

use crate::folder::Mark;
use crate::limits::{self, EMBEDDED, HELP_GROUPS_MAX};
use crate::patience::wait_for;
use crate::{
    Change, Commit, CommitOutcome, Direction, Feed, Limits, OrderedStore, Position, Snapshot,
    StoreError, Tally,
};
use filter::Scan as FilterScan;
use queue::{Answer, Queue, Rests, Waiting, Wake};
use recent::Recent;
use snapshot::GroupSnapshot;
use view::{Published, Shown};
use writer::Writer;

pub use rows::Rows;
pub use view::{Cursor, Moment, Span, View};

/// An ordered map on disk, as an engine offers it: all that a store has to add to this module.
pub trait Engine: Send + 'static {
    /// What readers use.
    type View: View;

    /// Writes all rows or none, and returns when they are as durable as the store promises.
    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError>;

    /// The moment now: a later one after each write, and never one from before the last view.
    fn now(&self) -> Moment;

    /// A view of everything that was written, and the first moment that it shows, which is now
    /// from then on.
    fn view(&mut self) -> Result<(Self::View, Moment), StoreError>;

    /// Whether the last view shows what was written since it was made, too: up to now.
    fn view_lasts(&self) -> bool {
        false
    }

    /// Makes everything that was written durable, and writes out what was put off: before the
    /// store is closed and, if it is durable, when nobody commits for a while.
    fn sync(&mut self) -> Result<Settled, StoreError>;
}

/// Whether an engine has done all that it has put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// There is nothing left to do.
    All,
    /// Something can only be done later, which is no matter of safety.
    NotYet,
}

/// Why rows were not written.
#[derive(Debug)]
pub enum WriteError {
    /// Nothing is written, and the engine can go on.
    NotWritten(StoreError),
    /// They may be written, or may be once the engine is opened again.
    Unknown(StoreError),
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process and the loss of power.
    Durable,
    /// The end of the process, also by `kill -9`. Loss of power may cost the last commits.
    Buffered,
}

/// A store on top of an engine. Dropping it finishes the commits that wait.
pub struct GroupStore<E: Engine> {
    shared: Arc<Shared<E>>,
    writer: Option<JoinHandle<()>>,
    scanner: Option<JoinHandle<()>>,
}

struct Shared<E: Engine> {
    published: Published<E::View>,
    recent: Arc<Recent>,
    queue: Queue,
    writer: Mutex<Writer<E>>,
    failed: Arc<OnceLock<String>>,
    durability: Durability,
    counts: Counts,
}

/// What was done so far.
#[derive(Default)]
struct Counts {
    commits: AtomicU64,
    conflicts: AtomicU64,
    groups: AtomicU64,
}

impl Counts {
    fn count(&self, answers: &[Answer]) {
        let written = |answer: &&Answer| matches!(answer, Ok(CommitOutcome::Committed { .. }));
        let refused = |answer: &&Answer| matches!(answer, Ok(CommitOutcome::Conflict { .. }));
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let commits = count(answers.iter().filter(written).count());
        let conflicts = count(answers.iter().filter(refused).count());
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.conflicts.fetch_add(conflicts, Ordering::Relaxed);
        self.groups.fetch_add(u64::from(commits > 0), Ordering::Relaxed);
    }

    fn tally(&self) -> Tally {
        Tally {
            commits: self.commits.load(Ordering::Relaxed),
            conflicts: self.conflicts.load(Ordering::Relaxed),
            groups: self.groups.load(Ordering::Relaxed),
        }
    }
}

impl<E: Engine> GroupStore<E> {
    /// Starts the writer, unless the engine has forgotten a commit that the mark remembers.
    pub fn start(mut engine: E, mark: Mark, durability: Durability) -> Result<Self, StoreError> {
        let (view, moment) = guarded(|| engine.view())?;
        let published = Published::new(view, moment);
        let tip = guarded(|| rows::read_tip(&published.latest()))?;
        mark.check(tip.sequence)?;
        let (scans, inbox) = mpsc::channel();
        let writer = Writer::new(engine, tip, mark, durability, scans);
        let shared = Arc::new(Shared {
            published,
            recent: writer.recent(),
            failed: writer.failed(),
            queue: Queue::default(),
            writer: Mutex::new(writer),
            durability,
            counts: Counts::default(),
        });
        let (worker, scanner) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut store = GroupStore { shared, writer: None, scanner: None };
        store.writer = Some(spawn("keyloom-writer", move || worker.work())?);
        store.scanner = Some(spawn("keyloom-filter", move || scanner.scan(&inbox))?);
        Ok(store)
    }
}

impl<E: Engine> Drop for GroupStore<E> {
    fn drop(&mut self) {
        self.shared.queue.close();
        // The threads catch what panics in them, and a drop has nobody to tell.
        let _ = self.writer.take().map(JoinHandle::join);
        self.shared.writer.lock().expect(writer::CAUGHT).end_scans();
        let _ = self.scanner.take().map(JoinHandle::join);
    }
}

impl<E: Engine> Shared<E> {
    /// What readers see, unless nobody knows what they should (G4).
    fn shown(&self) -> Result<Shown<E::View>, StoreError> {
        match self.failed.get() {
            None => Ok(self.published.latest()),
            Some(reason) => Err(StoreError::Unavailable { reason: reason.clone(), source: None }),
        }
    }

    /// The life of the writer thread.
    fn work(&self) {
        // Also if this thread should panic, nobody waits for an answer that never comes (G3).
        let _abandon = self.queue.abandon_on_drop();
        let rests = match self.durability {
            Durability::Durable => Rests::WhenQuiet,
            Durability::Buffered => Rests::Never,
        };
        while let Some(group) = self.queue.take_group(rests) {
            let mut writer = self.writer.lock().expect(writer::CAUGHT);
            match group.is_empty() {
                true if writer.settle(&self.published) == Settled::NotYet => {
                    self.queue.rest_again();
                }
                true => {}
                false => self.write(writer, group),
            }
        }
        let _ = self.writer.lock().expect(writer::CAUGHT).settle(&self.published);
    }

    /// The life of the thread that reads the keys of families for the filter.
    fn scan(&self, inbox: &Inbox<Arc<FilterScan>>) {
        for scan in inbox {
            scan.run(|| self.queue.is_open().then(|| self.published.latest()));
        }
    }

    /// Writes a group, and answers it when others may write again.
    fn write(&self, mut writer: MutexGuard<'_, Writer<E>>, group: Vec<Waiting>) {
        let commits = group.iter().map(|waiting| &*waiting.commit);
        let answers = writer.process(commits, &self.published);
        drop(writer);
        self.counts.count(&answers);
        for (Waiting { commit, answer: caller, .. }, answer) in group.into_iter().zip(answers) {
            // The caller is the last who has the commit: memory is given back best by the thread
            // that took it, and the writer is what others wait for.
            drop(commit);
            // A caller that has gone away does not care.
            let _ = caller.send(answer);
        }
    }

    /// Commits on the caller's thread, if nobody else writes. It may come before those who wait;
    /// their commits are the next.
    fn commit_here(&self, commit: &Commit) -> Option<Answer> {
        if !self.queue.is_open() {
            return None;
        }
        let mut writer = self.writer.try_lock().ok()?;
        let mut answers = writer.process([commit].into_iter(), &self.published);
        drop(writer);
        self.counts.count(&answers);
        self.write_waiting();
        answers.pop()
    }

    /// The answer to a commit that waits, if it is there once nobody else writes.
    fn look(&self, answer: &mut Receiver<Answer>) -> Option<Answer> {
        let mut received = || answer.try_recv().unwrap_or_else(|_| Some(Err(stopped())));
        received().or_else(|| {
            let writer = self.writer.try_lock().ok()?;
            self.write(writer, self.queue.take_waiting());
            self.write_waiting();
            received()
        })
    }

    /// Writes what waits on the caller's thread, unless somebody does so already: that one looks
    /// at the queue again after it has let the writer go, so nothing is forgotten.
    fn write_waiting(&self) {
        for _ in 0..HELP_GROUPS_MAX {
            if self.queue.is_empty() {
                return;
            }
            let Ok(writer) = self.writer.try_lock() else { return };
            self.write(writer, self.queue.take_waiting());
        }
        self.queue.wake_writer();
    }
}

#[async_trait]
impl<E: Engine> OrderedStore for GroupStore<E> {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        Ok(Box::new(GroupSnapshot {
            shown: self.shared.shown()?,
            recent: Arc::clone(&self.shared.recent),
        }))
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        limits::check_commit(&commit, &EMBEDDED)?;
        let answer = match self.shared.durability {
            Durability::Durable => self.shared.queue.push(commit, Wake::Writer)?,
            Durability::Buffered => {
                if let Some(answer) = self.shared.commit_here(&commit) {
                    return answer;
                }
                let mut answer = self.shared.queue.push(commit, Wake::Nobody)?;
                if let Some(answer) = wait_for(|| self.shared.look(&mut answer)) {
                    return answer;
                }
                self.shared.write_waiting();
                answer
            }
        };
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        let Some(first) = after.0.checked_add(1).filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        let shown = self.shared.shown()?;
        let from = rows::change_key(Position(first));
        let mut found = Vec::new();
        let read = |row: &[u8], bytes: &[u8]| {
            let (_, change) = rows::decode_value(bytes)?;
            found.push(Change { position: rows::decode_change_key(row)?, bytes: change.to_vec() });
            Ok(())
        };
        let range = (&from[..], &rows::CHANGES_END[..]);
        guarded(|| shown.read_range(range, Direction::Forward, limit, read))?;
        // Positions have no gaps here, so what is missing before the first one was trimmed (C6).
        let before = match found.first() {
            Some(change) => change.position.0.saturating_sub(1),
            None => guarded(|| rows::read_tip(&shown))?.position.0,
        };
        if after.0 < before {
            return Err(StoreError::Trimmed { trimmed: Position(before) });
        }
        Ok(found)
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        let shown = self.shared.shown()?;
        guarded(|| {
            let last = rows::read_tip(&shown)?.position;
            let first = rows::first_change(&shown)?;
            Ok(Feed { trimmed: first.map_or(last, |first| Position(first.0 - 1)), last })
        })
    }

    /// Runs on the caller's thread, and holds up the writer for the time of one batch.
    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        let mut writer = self.shared.writer.lock().expect(writer::CAUGHT);
        let trimmed = writer.trim(through, &self.shared.published);
        drop(writer);
        // Buffered commits that came meanwhile are left to whoever was found writing.
        self.shared.queue.wake_writer();
        trimmed
    }

    fn limits(&self) -> Limits {
        EMBEDDED
    }

    fn tally(&self) -> Tally {
        self.shared.counts.tally()
    }
}

fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(life).map_err(|error| StoreError::Unavailable {
        reason: format!("the thread {name} cannot be started"),
        source: Some(Box::new(error)),
    })
}

fn stopped() -> StoreError {
    StoreError::OutcomeUnknown { reason: "the writer stopped".into(), source: None }
}

/// Turns a panic of an engine into an error. Engines check some of what they read from disk with
/// assertions, and whatever came from disk must not end the process.
pub fn guarded<R>(work: impl FnOnce() -> Result<R, StoreError>) -> Result<R, StoreError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let detail = format!("the engine gave up: {}", panic_message(&*panic));
        Err(StoreError::Corrupt { detail })
    })
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests;
