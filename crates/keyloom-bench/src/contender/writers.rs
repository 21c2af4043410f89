//! Runs jobs on many threads at once and measures all of it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::stopwatch::Stopwatch;

/// Does all jobs on so many threads, each of which takes the next job as soon as it is done with
/// one: the time from the moment all threads stand ready until the last job is done.
pub(super) fn run<J: Sync>(
    writers: usize,
    jobs: &[J],
    work: impl Fn(&J) -> Outcome<()> + Sync,
) -> Outcome<Duration> {
    let (next, ready) = (AtomicUsize::new(0), Barrier::new(writers + 1));
    let (next, ready, work) = (&next, &ready, &work);
    thread::scope(|scope| {
        let writer = move || {
            ready.wait();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(job)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
        ready.wait();
        let stopwatch = Stopwatch::start();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer gave up".into())));
        let ended: Vec<Outcome<()>> = ended.collect();
        let elapsed = stopwatch.elapsed();
        ended.into_iter().collect::<Outcome<()>>()?;
        Ok(elapsed)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_job_is_done_once() {
        let jobs: Vec<u32> = (0..1000).collect();
        let done = Mutex::new(Vec::new());
        run(16, &jobs, |job| {
            done.lock().unwrap().push(*job);
            Ok(())
        })
        .unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, jobs);
    }

    #[test]
    fn a_job_that_fails_fails_the_run() {
        let failed = run(2, &[1, 2, 3], |job| if *job == 2 { Err("two".into()) } else { Ok(()) });
        assert_eq!(failed.unwrap_err().to_string(), "two");
    }
}
