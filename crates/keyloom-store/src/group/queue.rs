//! The bounded queue in front of the writer.
//!
//! Q1: At most [`QUEUE_COMMITS_MAX`] commits and [`QUEUE_BYTES_MAX`] bytes wait; one more is
//!     refused at once. A single commit is always taken, whatever its size.
//! Q2: Commits leave in the order in which they came.
//! Q3: Once closed, the queue takes nothing new; what waits is still handed out.
//! Q4: If nothing comes for [`REST_TIME`] after a group, an empty group is handed out, once, to a
//!     writer that rests; and once more whenever it asks for that.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use futures_channel::oneshot;

use crate::limits::{
    self, GATHER_TIME, GROUP_BYTES_MAX, GROUP_COMMITS_MAX, QUEUE_BYTES_MAX, QUEUE_COMMITS_MAX,
    REST_TIME,
};
use crate::{Commit, CommitOutcome, StoreError};

/// Who is told that a commit waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The writer thread.
    Writer,
    /// Nobody: the caller sees to it.
    Nobody,
}

/// Whether the writer is told that nobody has committed for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rests {
    /// It is: it has something to do then.
    WhenQuiet,
    /// It is not: commits do not all come through the queue, so it could not tell.
    Never,
}

/// What a caller of `commit` gets.
pub(super) type Answer = Result<CommitOutcome, StoreError>;

/// A commit whose caller waits.
pub(super) struct Waiting {
    pub(super) commit: Arc<Commit>,
    pub(super) answer: oneshot::Sender<Answer>,
    bytes: usize,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when the writer, which sleeps, has something to do.
    filled: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    closed: bool,
    /// How many commits have to wait before the writer, which sleeps, is woken.
    wake_at: Option<usize>,
    /// How many commits the last group had.
    last_group: usize,
}

impl State {
    /// The commits that are written together next.
    fn take(&mut self) -> Vec<Waiting> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.waiting.pop_front_if(|next| {
            group.is_empty()
                || (group.len() < GROUP_COMMITS_MAX && bytes + next.bytes <= GROUP_BYTES_MAX)
        }) {
            bytes += next.bytes;
            group.push(next);
        }
        self.bytes -= bytes;
        group
    }
}

impl Queue {
    /// Lets a commit wait for the writer; the answer arrives through the receiver.
    pub(super) fn push(
        &self,
        commit: Arc<Commit>,
        wake: Wake,
    ) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let bytes = limits::commit_bytes(&commit);
        let (answer, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(unavailable("the store is closed"));
        }
        let is_full = state.waiting.len() >= QUEUE_COMMITS_MAX
            || (state.bytes + bytes > QUEUE_BYTES_MAX && !state.waiting.is_empty());
        if is_full {
            return Err(unavailable("too many commits wait for the writer"));
        }
        state.bytes += bytes;
        state.waiting.push_back(Waiting { commit, answer, bytes });
        let is_awaited = state.wake_at.is_some_and(|count| state.waiting.len() >= count);
        if wake == Wake::Writer && is_awaited {
            drop(state);
            self.filled.notify_one();
        }
        Ok(receiver)
    }

    /// The commits that are written together next. Sleeps until there are some; `None` is the end.
    /// Where the writer rests, there are none once after a group, if nobody commits for a while.
    pub(super) fn take_group(&self, rests: Rests) -> Option<Vec<Waiting>> {
        let mut state = self.gather(self.state());
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state.wake_at = Some(1);
            if rests == Rests::Never || state.last_group == 0 {
                state = self.filled.wait(state).expect(UNPOISONED);
            } else {
                let is_quiet = |state: &mut State| state.waiting.is_empty() && !state.closed;
                let waited = self.filled.wait_timeout_while(state, REST_TIME, is_quiet);
                let (rested, end) = waited.expect(UNPOISONED);
                state = rested;
                if end.timed_out() {
                    state.wake_at = None;
                    state.last_group = 0;
                    return Some(Vec::new());
                }
            }
            state.wake_at = None;
        }
        let group = state.take();
        state.last_group = group.len();
        Some(group)
    }

    /// Lets an empty group be handed out once more if still nothing comes (Q4).
    pub(super) fn rest_again(&self) {
        self.state().last_group = 1;
    }

    /// The commits that are written together next; none if nothing waits.
    pub(super) fn take_waiting(&self) -> Vec<Waiting> {
        self.state().take()
    }

    /// Waits a little for the callers of the last group, which were answered just now: those that
    /// commit again at once then share a sync instead of splitting into many small groups. A lone
    /// caller never waits.
    fn gather<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let expected = state.last_group;
        if expected <= 1 {
            return state;
        }
        state.wake_at = Some(expected);
        let is_missing = |state: &mut State| state.waiting.len() < expected && !state.closed;
        let gathered = self.filled.wait_timeout_while(state, GATHER_TIME, is_missing);
        let (mut state, _) = gathered.expect(UNPOISONED);
        state.wake_at = None;
        state
    }

    /// Whether the queue takes commits.
    pub(super) fn is_open(&self) -> bool {
        !self.state().closed
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state().waiting.is_empty()
    }

    /// Wakes the writer, if it sleeps.
    pub(super) fn wake_writer(&self) {
        self.filled.notify_one();
    }

    /// Takes nothing new from now on.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_one();
    }

    /// Closes the queue and drops what waits, when the returned value is dropped.
    pub(super) fn abandon_on_drop(&self) -> impl Drop {
        Abandon { queue: self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Returns once the writer sleeps, so that it takes nothing unless it is woken.
    #[cfg(test)]
    pub(super) fn await_sleep(&self) {
        while self.state().wake_at != Some(1) {
            std::thread::yield_now();
        }
    }
}

const UNPOISONED: &str = "no code panics while it holds this lock";

struct Abandon<'a> {
    queue: &'a Queue,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.queue.close();
        let abandoned = std::mem::take(&mut self.queue.state().waiting);
        drop(abandoned);
    }
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.into(), source: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Write;

    fn commit(bytes: usize) -> Arc<Commit> {
        let changes = if bytes == 0 { vec![] } else { vec![vec![0; bytes]] };
        Arc::new(Commit { changes, ..Commit::default() })
    }

    fn numbered(number: usize) -> Arc<Commit> {
        let writes = vec![Write::Delete { key: number.to_be_bytes().into() }];
        Arc::new(Commit { writes, ..Commit::default() })
    }

    #[test]
    fn q1_the_last_place_is_taken_and_one_more_is_refused() {
        let queue = Queue::default();
        let receivers: Vec<_> =
            (0..QUEUE_COMMITS_MAX).map(|_| queue.push(commit(0), Wake::Writer).unwrap()).collect();
        let error = queue.push(commit(0), Wake::Writer).unwrap_err().to_string();
        assert!(error.contains("too many commits wait"), "{error}");
        assert_eq!(queue.take_group(Rests::Never).unwrap().len(), GROUP_COMMITS_MAX);
        assert!(queue.push(commit(0), Wake::Writer).is_ok());
        drop(receivers);
    }

    #[test]
    fn q1_waiting_bytes_are_bounded_but_one_commit_is_always_taken() {
        let queue = Queue::default();
        assert!(queue.push(commit(QUEUE_BYTES_MAX + 1), Wake::Writer).is_ok());
        assert!(queue.push(commit(1), Wake::Writer).is_err());
        assert_eq!(queue.take_group(Rests::Never).unwrap().len(), 1);
        assert!(queue.push(commit(QUEUE_BYTES_MAX), Wake::Writer).is_ok());
        assert!(queue.push(commit(1), Wake::Writer).is_err());
        assert!(queue.push(commit(0), Wake::Writer).is_ok());
    }

    #[test]
    fn a_group_ends_before_it_grows_too_large() {
        let queue = Queue::default();
        for bytes in [GROUP_BYTES_MAX - 1, 1, 1, GROUP_BYTES_MAX + 1, 1] {
            assert!(queue.push(commit(bytes), Wake::Writer).is_ok());
        }
        let groups = [(); 4].map(|()| queue.take_group(Rests::Never).unwrap().len());
        assert_eq!(groups, [2, 1, 1, 1]);
    }

    #[test]
    fn a_group_does_not_wait_for_callers_that_stay_away() {
        let queue = Queue::default();
        for sizes in [[5, 1, 1], [2, 2, 1], [1, 5, 2]] {
            for size in sizes {
                for _ in 0..size {
                    assert!(queue.push(commit(1), Wake::Writer).is_ok());
                }
                assert_eq!(queue.take_group(Rests::Never).unwrap().len(), size);
                assert_eq!(queue.state().wake_at, None);
            }
        }
        queue.close();
        assert!(queue.take_group(Rests::Never).is_none());
    }

    #[test]
    fn q4_a_queue_that_stays_empty_says_so_once() {
        let queue = Queue::default();
        for _ in 0..2 {
            assert!(queue.push(commit(1), Wake::Writer).is_ok());
            let sizes = [(); 2].map(|()| queue.take_group(Rests::WhenQuiet).unwrap().len());
            assert_eq!(sizes, [1, 0]);
            queue.rest_again();
            assert!(queue.take_group(Rests::WhenQuiet).unwrap().is_empty());
        }
        queue.close();
        assert!(queue.take_group(Rests::WhenQuiet).is_none());
    }

    #[test]
    fn q2_commits_leave_in_the_order_in_which_they_came() {
        let queue = Queue::default();
        for number in 0..3 * GROUP_COMMITS_MAX {
            assert!(queue.push(numbered(number), Wake::Writer).is_ok());
        }
        let taken = (0..3).flat_map(|_| queue.take_group(Rests::Never).unwrap());
        for (number, waiting) in taken.enumerate() {
            assert_eq!(waiting.commit, numbered(number));
        }
    }

    #[test]
    fn q3_a_closed_queue_hands_out_what_waits_and_ends() {
        let queue = Queue::default();
        assert!(queue.is_open());
        assert!(queue.push(commit(1), Wake::Writer).is_ok());
        queue.close();
        let error = queue.push(commit(1), Wake::Writer).unwrap_err().to_string();
        assert!(error.contains("the store is closed"), "{error}");
        assert_eq!(queue.take_group(Rests::Never).unwrap().len(), 1);
        assert!(queue.take_group(Rests::Never).is_none());
        assert!(!queue.is_open());
    }

    #[test]
    fn an_abandoned_queue_lets_its_callers_go() {
        let queue = Queue::default();
        let receiver = queue.push(commit(1), Wake::Writer).unwrap();
        drop(queue.abandon_on_drop());
        assert!(pollster::block_on(receiver).is_err());
        assert!(queue.push(commit(1), Wake::Writer).is_err());
    }
}
