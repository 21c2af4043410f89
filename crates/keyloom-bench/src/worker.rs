//! The process of one contender: does the tasks that come in, one after the other.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use crate::contender::{Contender, Promise, Who};
use crate::machine;
use crate::outcome::Outcome;
use crate::probe::Probe;
use crate::protocol::{Answer, Task, Timing};
use crate::stopwatch::nanos;
use crate::workload::{Approval, Workload};

/// Serves until the input ends.
pub(crate) fn serve(
    who: Who,
    folder: &Path,
    workload: Workload,
    input: impl BufRead,
    mut output: impl Write,
) -> Outcome<()> {
    let mut worker = Worker { who, folder, workload, contender: None };
    for line in input.lines() {
        let task = serde_json::from_str(&line?)?;
        let answer = worker
            .perform(task)
            .unwrap_or_else(|error| Answer::Failed { reason: error.to_string() });
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

struct Worker<'a> {
    who: Who,
    folder: &'a Path,
    workload: Workload,
    contender: Option<Box<dyn Contender>>,
}

impl Worker<'_> {
    fn perform(&mut self, task: Task) -> Outcome<Answer> {
        let workload = self.workload;
        match task {
            Task::Open { promise } => {
                self.open(promise)?;
                Ok(Answer::Done)
            }
            Task::Load { from, to } => {
                let approvals: Vec<Approval> = (from..to).map(|n| workload.approval(n)).collect();
                Ok(written(to - from, self.contender()?.load(&approvals)?))
            }
            Task::Create { from, to, writers } => {
                let approvals: Vec<Approval> = (from..to).map(|n| workload.approval(n)).collect();
                Ok(written(to - from, self.contender()?.create(&approvals, writers)?))
            }
            Task::Update { from, to, writers } => {
                let change = |turn| {
                    let old = workload.undecided(turn);
                    let new = old.approved(old.number());
                    (old, new)
                };
                let changes: Vec<_> = (from..to).map(change).collect();
                Ok(written(to - from, self.contender()?.update(&changes, writers)?))
            }
            Task::Read { reading, among, seed, count, times } => {
                let questions = workload.questions(reading, among, seed, count);
                let contender = self.contender()?;
                let mut probe = Probe::default();
                for _ in 0..times {
                    probe = Probe::default();
                    contender.read(reading, &questions, &mut probe)?;
                }
                Ok(Answer::Measured(probe.finish()))
            }
            Task::Weigh => Ok(Answer::Weighed {
                resident_bytes: machine::resident_bytes(None),
                disk_bytes: machine::disk_bytes(self.folder)?,
            }),
        }
    }

    fn open(&mut self, promise: Promise) -> Outcome<()> {
        // What is in memory only would be gone.
        if self.who.is_in_memory() && self.contender.is_some() {
            return Ok(());
        }
        // Closed before it is opened: a folder belongs to one.
        self.contender = None;
        self.contender = Some(self.who.open(self.folder, promise)?);
        Ok(())
    }

    fn contender(&self) -> Outcome<&dyn Contender> {
        self.contender.as_deref().ok_or_else(|| "nothing is open".into())
    }
}

fn written(operations: u64, elapsed: Duration) -> Answer {
    Answer::Measured(Timing { operations, nanos: nanos(elapsed), ..Timing::default() })
}
