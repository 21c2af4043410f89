//! The process of one contender: does the tasks that come in, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::contender::{Contender, Promise, Who};
use crate::machine;
use crate::outcome::Outcome;
use crate::probe::Probe;
use crate::protocol::{Answer, Database, Task, Timing};
use crate::stopwatch::nanos;
use crate::workload::Workload;

/// Serves until the input ends.
pub(crate) fn serve(
    who: Who,
    folder: &Path,
    workload: Workload,
    input: impl BufRead,
    mut output: impl Write,
) -> Outcome<()> {
    let mut worker = Worker { who, folder, workload, contender: None, smaller: BTreeMap::new() };
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
    /// By how many approvals they have.
    smaller: BTreeMap<u64, Box<dyn Contender>>,
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
                let approvals = workload.approvals(from..to);
                Ok(written(to - from, self.contender(Database::Main)?.load(&approvals)?))
            }
            Task::Create { from, to, writers } => {
                let approvals = workload.approvals(from..to);
                let contender = self.contender(Database::Main)?;
                Ok(written(to - from, contender.create(&approvals, writers)?))
            }
            Task::Update { from, to, writers } => {
                let change = |turn| {
                    let old = workload.undecided(turn);
                    let new = old.approved(old.number());
                    (old, new)
                };
                let changes: Vec<_> = (from..to).map(change).collect();
                let contender = self.contender(Database::Main)?;
                Ok(written(to - from, contender.update(&changes, writers)?))
            }
            Task::OpenSmaller { size } => {
                self.open_smaller(size)?;
                Ok(Answer::Done)
            }
            Task::RemoveSmaller => {
                self.remove_smaller()?;
                Ok(Answer::Done)
            }
            Task::Read { database, reading, among, seed, count, times } => {
                let questions = workload.questions(reading, among, seed, count);
                let contender = self.contender(database)?;
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

    fn open_smaller(&mut self, size: u64) -> Outcome<()> {
        let folder = self.smaller_folder(size);
        fs::create_dir(&folder)?;
        let contender = self.who.open(&folder, Promise::Durable)?;
        contender.load(&self.workload.approvals(0..size))?;
        self.smaller.insert(size, contender);
        Ok(())
    }

    fn remove_smaller(&mut self) -> Outcome<()> {
        for (size, contender) in mem::take(&mut self.smaller) {
            // Closed before its files are removed.
            drop(contender);
            fs::remove_dir_all(self.smaller_folder(size))?;
        }
        Ok(())
    }

    /// Beside the folder of the main database, which is weighed.
    fn smaller_folder(&self, size: u64) -> PathBuf {
        self.folder.with_extension(size.to_string())
    }

    fn contender(&self, database: Database) -> Outcome<&dyn Contender> {
        let contender = match database {
            Database::Main => self.contender.as_deref(),
            Database::Smaller { size } => self.smaller.get(&size).map(|contender| &**contender),
        };
        contender.ok_or_else(|| format!("{database:?} is not open").into())
    }
}

fn written(operations: u64, elapsed: Duration) -> Answer {
    Answer::Measured(Timing { operations, nanos: nanos(elapsed), ..Timing::default() })
}
