//! Group commit as somebody would write it around an engine by hand.
//!
//! G1: One thread writes; it takes all jobs that wait as one group, and syncs once.
//! G2: Every caller gets one answer, also if the group fails.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use crate::outcome::Outcome;

/// A writer thread and the jobs that wait for it.
pub(crate) struct Group<J> {
    queue: Arc<Queue<J>>,
    thread: Option<JoinHandle<()>>,
}

struct Queue<J> {
    state: Mutex<State<J>>,
    filled: Condvar,
}

struct State<J> {
    waiting: Vec<(J, Arc<Ticket>)>,
    closed: bool,
}

struct Ticket {
    answer: OnceLock<Result<(), String>>,
    caller: Thread,
}

impl<J: Send + 'static> Group<J> {
    /// Starts the writer; `write` makes a whole group durable.
    pub(crate) fn start(mut write: impl FnMut(&[&J]) -> Outcome<()> + Send + 'static) -> Self {
        let state = Mutex::new(State { waiting: Vec::new(), closed: false });
        let queue = Arc::new(Queue { state, filled: Condvar::new() });
        let worker = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            while let Some(group) = worker.take() {
                let jobs: Vec<&J> = group.iter().map(|(job, _)| job).collect();
                let answer = write(&jobs).map_err(|error| error.to_string());
                for (_, ticket) in &group {
                    // A ticket is answered once, here (G2).
                    let _ = ticket.answer.set(answer.clone());
                    ticket.caller.unpark();
                }
            }
        });
        Group { queue, thread: Some(thread) }
    }

    /// Hands a job over and waits until it is written.
    pub(crate) fn write(&self, job: J) -> Outcome<()> {
        let ticket = Arc::new(Ticket { answer: OnceLock::new(), caller: thread::current() });
        let waiting = (job, Arc::clone(&ticket));
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(waiting);
        self.queue.filled.notify_one();
        loop {
            if let Some(answer) = ticket.answer.get() {
                return answer.clone().map_err(Into::into);
            }
            thread::park();
        }
    }
}

impl<J> Queue<J> {
    /// All jobs that wait; sleeps until there are some. `None` is the end.
    fn take(&self) -> Option<Vec<(J, Arc<Ticket>)>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !state.waiting.is_empty() {
                return Some(std::mem::take(&mut state.waiting));
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J> Drop for Group<J> {
    fn drop(&mut self) {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.queue.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            // Whatever went wrong there was answered to those who waited.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn g1_every_job_of_every_caller_is_written_once() {
        let sum = Arc::new(AtomicU64::new(0));
        let written = Arc::clone(&sum);
        let group = Group::start(move |jobs: &[&u64]| {
            written.fetch_add(jobs.iter().copied().sum(), Ordering::Relaxed);
            Ok(())
        });
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (1..=100).for_each(|job| group.write(job).unwrap()));
            }
        });
        drop(group);
        assert_eq!(sum.load(Ordering::Relaxed), 8 * 5050);
    }

    #[test]
    fn g2_a_group_that_fails_is_an_error_for_its_callers() {
        let group = Group::start(|jobs: &[&bool]| match jobs {
            [true] => Ok(()),
            _ => Err("disk full".into()),
        });
        assert_eq!(group.write(false).unwrap_err().to_string(), "disk full");
        assert!(group.write(true).is_ok());
    }
}
