//! Decides a group of commits, writes it, and publishes what it did.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use super::ends::Ends;
use super::filter::{Filter, Scan};
use super::hot::{HotRow, HotRows};
use super::queue::Answer;
use super::recent::Recent;
use super::rows::{self, Rows};
use super::{
    Cursor as _, Durability, Engine, Published, Settled, Shown, View, WriteError, guarded,
    panic_message,
};
use crate::batch::{Base, Batch, Tip};
use crate::folder::Mark;
use crate::limits::TRIM_CHANGES_MAX;
use crate::{Commit, Direction, Position, Stamp, StoreError, Stored};

/// Why the lock around the writer is never poisoned.
pub(super) const CAUGHT: &str = "the writer catches what panics below this lock";

pub(super) struct Writer<E> {
    engine: E,
    tip: Tip,
    mark: Mark,
    durability: Durability,
    hot: RefCell<HotRows>,
    ends: RefCell<Ends>,
    filter: RefCell<Filter>,
    recent: Arc<Recent>,
    /// Where the scans of the filter are run, while the store is open.
    scans: Option<Sender<Arc<Scan>>>,
    /// Why nothing more is written or read (G4).
    failed: Arc<OnceLock<String>>,
}

impl<E: Engine> Writer<E> {
    pub(super) fn new(
        engine: E,
        tip: Tip,
        mark: Mark,
        durability: Durability,
        scans: Sender<Arc<Scan>>,
    ) -> Self {
        Writer {
            engine,
            tip,
            mark,
            durability,
            hot: RefCell::default(),
            ends: RefCell::default(),
            filter: RefCell::default(),
            recent: Arc::new(Recent::new()),
            scans: Some(scans),
            failed: Arc::default(),
        }
    }

    /// Why nothing more is written or read (G4), once there is a reason.
    pub(super) fn failed(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.failed)
    }

    /// What readers share with the writer.
    pub(super) fn recent(&self) -> Arc<Recent> {
        Arc::clone(&self.recent)
    }

    /// Writes the commits that hold as one batch, and answers each of them.
    pub(super) fn process<'a>(
        &mut self,
        commits: impl ExactSizeIterator<Item = &'a Commit>,
        published: &Published<E::View>,
    ) -> Vec<Answer> {
        let count = commits.len();
        if let Some(reason) = self.failed.get() {
            return each(count, || StoreError::Unavailable {
                reason: reason.clone(),
                source: None,
            });
        }
        // A panic of the engine ends the writing, but neither the process nor the answers (G3).
        let work = AssertUnwindSafe(|| self.decide_and_write(commits, published));
        panic::catch_unwind(work).unwrap_or_else(|panic| {
            self.fail(count, &format!("the engine gave up: {}", panic_message(&*panic)))
        })
    }

    /// Forgets the oldest changes up to `through`, as many as one call may.
    pub(super) fn trim(
        &mut self,
        through: Position,
        published: &Published<E::View>,
    ) -> Result<(), StoreError> {
        if let Some(reason) = self.failed.get() {
            return Err(StoreError::Unavailable { reason: reason.clone(), source: None });
        }
        let work = AssertUnwindSafe(|| self.forget(through, published));
        let done = panic::catch_unwind(work).unwrap_or_else(|panic| {
            let detail = format!("the engine gave up: {}", panic_message(&*panic));
            Err(WriteError::Unknown(StoreError::Corrupt { detail }))
        });
        done.map_err(|error| match error {
            WriteError::NotWritten(error) => error,
            WriteError::Unknown(error) => {
                self.fail(1, &error.to_string());
                error
            }
        })
    }

    /// Begins no more scans, so that the thread which runs them ends.
    pub(super) fn end_scans(&mut self) {
        self.scans = None;
    }

    /// Makes everything durable, and lets the engine write out what it has put off: while nobody
    /// waits, and before the store is closed. Those who come after a failure are told of it.
    pub(super) fn settle(&mut self, published: &Published<E::View>) -> Settled {
        if self.failed.get().is_some() {
            return Settled::All;
        }
        match self.sync() {
            Ok(Settled::All) => {
                // The last view reads everything where it was before it was written out, and keeps
                // it. If there is no other, it shows the same, and the next commit tries again.
                if let Ok((view, moment)) = guarded(|| self.engine.view()) {
                    published.replace(view, moment);
                }
                Settled::All
            }
            Ok(Settled::NotYet) => Settled::NotYet,
            Err(error) => {
                let told = format!(
                    "everything that was acknowledged is safe, but could not be written to its \
                     place ({error}): end this process, see to the cause, and start it again"
                );
                let _ = self.failed.set(told);
                Settled::All
            }
        }
    }

    fn sync(&mut self) -> Result<Settled, StoreError> {
        let settled = guarded(|| self.engine.sync())?;
        if self.durability == Durability::Buffered {
            self.mark.record_durable(self.tip.sequence)?;
        }
        Ok(settled)
    }

    fn decide_and_write<'a>(
        &mut self,
        commits: impl ExactSizeIterator<Item = &'a Commit>,
        published: &Published<E::View>,
    ) -> Vec<Answer> {
        let shown = published.latest();
        let mut batch = Batch::new(self.tip);
        let Writer { hot, ends, filter, scans, .. } = &*self;
        let current = Current { shown: &shown, hot, ends, filter, scans };
        let answers: Vec<Answer> = commits.map(|commit| batch.add(commit, &current)).collect();
        if batch.is_empty() {
            return answers;
        }
        match self.write(&batch, published) {
            Ok(()) => answers,
            Err(WriteError::NotWritten(error)) => {
                let reason = match error {
                    StoreError::Unavailable { reason, .. } => reason,
                    error => error.to_string(),
                };
                each(answers.len(), || StoreError::Unavailable {
                    reason: reason.clone(),
                    source: None,
                })
            }
            Err(WriteError::Unknown(error)) => self.fail(answers.len(), &error.to_string()),
        }
    }

    fn write(
        &mut self,
        batch: &Batch<'_>,
        published: &Published<E::View>,
    ) -> Result<(), WriteError> {
        self.engine.write(&Rows::new(batch))?;
        self.tip = batch.tip();
        self.hot.borrow_mut().follow(batch);
        self.ends.borrow_mut().follow(batch);
        self.filter.borrow_mut().follow(batch);
        let recorded = match self.durability {
            Durability::Durable => self.mark.record_durable(self.tip.sequence),
            Durability::Buffered => self.mark.record_buffered(self.tip.sequence),
        };
        recorded.map_err(WriteError::Unknown)?;
        self.recent.follow(batch, self.engine.now());
        self.publish(published).map_err(WriteError::Unknown)
    }

    fn publish(&mut self, published: &Published<E::View>) -> Result<(), StoreError> {
        if self.engine.view_lasts() {
            published.prolong(self.engine.now());
        } else {
            let (view, moment) = self.engine.view()?;
            published.replace(view, moment);
        }
        Ok(())
    }

    fn forget(
        &mut self,
        through: Position,
        published: &Published<E::View>,
    ) -> Result<(), WriteError> {
        let first = rows::first_change(&published.latest()).map_err(WriteError::NotWritten)?;
        let Some(first) = first else { return Ok(()) };
        let last = through.min(self.tip.position).0.min(first.0 + (TRIM_CHANGES_MAX - 1));
        if last < first.0 {
            return Ok(());
        }
        self.engine.write(&Rows::without(&Batch::new(self.tip), first..=Position(last)))?;
        self.publish(published).map_err(WriteError::Unknown)
    }

    fn fail(&mut self, count: usize, reason: &str) -> Vec<Answer> {
        let told = format!(
            "a write failed ({reason}), and whether it happened is only known once the store is \
             opened again: end this process, see to the cause, and start it again"
        );
        // Nothing is written behind the first one.
        let _ = self.failed.set(told);
        each(count, || StoreError::OutcomeUnknown { reason: reason.into(), source: None })
    }
}

fn each(count: usize, error: impl Fn() -> StoreError) -> Vec<Answer> {
    (0..count).map(|_| Err(error())).collect()
}

/// The published state, as the base of a batch.
struct Current<'a, V> {
    shown: &'a Shown<V>,
    hot: &'a RefCell<HotRows>,
    ends: &'a RefCell<Ends>,
    filter: &'a RefCell<Filter>,
    scans: &'a Option<Sender<Arc<Scan>>>,
}

impl<V: View> Base for Current<'_, V> {
    fn stamp(&self, key: &[u8]) -> Result<Option<Stamp>, StoreError> {
        if let Some(row) = self.hot.borrow_mut().find(key) {
            return Ok(Some(row.stamp));
        }
        let stamp = self.read(key, |bytes| rows::decode_value(bytes).map(|(stamp, _)| stamp))?;
        if let Some(stamp) = stamp {
            self.hot.borrow_mut().keep(HotRow { key: key.to_vec(), stamp, value: None });
        }
        Ok(stamp)
    }

    fn is_absent(&self, key: &[u8]) -> Result<bool, StoreError> {
        if self.ends.borrow_mut().exclude(key, |from, to| self.last_key(from, to))? {
            return Ok(true);
        }
        let begin = |scan| {
            if let Some(scans) = self.scans {
                // Nobody scans any more when the store is closed.
                let _ = scans.send(scan);
            }
        };
        if self.filter.borrow_mut().excludes(key, begin) {
            return Ok(true);
        }
        Ok(self.stamp(key)?.is_none())
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(HotRow { value: Some(value), .. }) = self.hot.borrow_mut().find(key) {
            return Ok(Some(value.clone()));
        }
        let Some(Stored { value, stamp }) = self.read(key, rows::decode_stored)? else {
            return Ok(None);
        };
        let row = HotRow { key: key.to_vec(), stamp, value: Some(value.clone()) };
        self.hot.borrow_mut().keep(row);
        Ok(Some(value))
    }
}

impl<V: View> Current<'_, V> {
    fn last_key(&self, from: &[u8], to: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let [mut from_row, mut to_row] = [Vec::new(), Vec::new()];
        rows::value_key(from, &mut from_row);
        rows::value_key(to, &mut to_row);
        let mut keys = self.shown.range(&from_row, &to_row)?;
        keys.next(Direction::Reverse, |row, _| rows::decode_value_key(row).map(<[u8]>::to_vec))
    }

    fn read<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let mut row = Vec::with_capacity(key.len() + 1);
        rows::value_key(key, &mut row);
        self.shown.get(&row, read)
    }
}
