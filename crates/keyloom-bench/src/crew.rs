//! The worker processes, one for each contender.
//!
//! C1: One worker works at a time; all others wait for their turn. What an engine puts off, such as
//!     merging, it does before another worker has its turn.
//! C2: When the crew is dropped, no worker is left behind.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::contender::Who;
use crate::machine;
use crate::outcome::Outcome;
use crate::protocol::{Answer, Task, Timing};
use crate::workload::Workload;

/// All workers.
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

struct Worker {
    who: Who,
    process: Child,
    tasks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Crew {
    /// Starts a worker for each contender, with a folder of its own below `folder`.
    pub(crate) fn start(program: &Path, folder: &Path, workload: Workload) -> Outcome<Crew> {
        let mut crew = Crew { workers: Vec::new() };
        for who in Who::ALL {
            let folder = folder.join(who.argument());
            std::fs::create_dir(&folder)?;
            crew.workers.push(Worker::start(program, who, &folder, workload)?);
        }
        Ok(crew)
    }

    /// Lets one worker do something that is timed.
    pub(crate) fn measure(&mut self, who: Who, task: Task) -> Outcome<Timing> {
        match self.perform(who, task)? {
            Answer::Measured(timing) => Ok(timing),
            other => Err(format!("{}: {task:?} gave {other:?}", who.name()).into()),
        }
    }

    /// Lets one worker do something.
    pub(crate) fn perform(&mut self, who: Who, task: Task) -> Outcome<Answer> {
        let others = self.workers.iter().filter(|worker| worker.who != who);
        machine::await_quiet(&others.map(|worker| worker.process.id()).collect::<Vec<_>>());
        let worker = self.workers.iter_mut().find(|worker| worker.who == who);
        let worker = worker.ok_or_else(|| format!("nobody works for {}", who.name()))?;
        match worker.perform(task) {
            Ok(Answer::Failed { reason }) => Err(format!("{}: {reason}", who.name()).into()),
            Ok(answer) => Ok(answer),
            Err(error) => Err(format!("{}: {error}", who.name()).into()),
        }
    }
}

impl Worker {
    fn start(program: &Path, who: Who, folder: &Path, workload: Workload) -> Outcome<Worker> {
        let mut process = Command::new(program)
            .arg("worker")
            .arg(who.argument())
            .arg(folder)
            .arg(workload.documents.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let tasks = process.stdin.take();
        let answers = process.stdout.take().ok_or("a worker has no output")?;
        Ok(Worker { who, process, tasks, answers: BufReader::new(answers) })
    }

    fn perform(&mut self, task: Task) -> Outcome<Answer> {
        let tasks = self.tasks.as_mut().ok_or("the worker has no input")?;
        writeln!(tasks, "{}", serde_json::to_string(&task)?)?;
        tasks.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the worker has ended".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input ends a worker; what went wrong before was told.
        self.tasks = None;
        let _ = self.process.wait();
    }
}
