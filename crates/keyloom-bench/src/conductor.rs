//! The course of one run: load, rounds, buffered rounds, always one contender after the other.
//!
//! R1: In each round every contender has its turn at every row before the next row begins, and
//!     each round begins with another contender: what disturbs the machine disturbs all of them.
//!     Where sizes are compared, each round has all of them.
//! R2: All contenders give the same answers to the same questions, or the run fails.
//! R3: Lists and lookups cost the same number of keys at every size, or the run fails.

use std::io::Write;

use crate::contender::{Promise, Who};
use crate::crew::Crew;
use crate::figures::{Asked, Figures, Growth, Step};
use crate::outcome::Outcome;
use crate::protocol::{Answer, Database, Task, Timing};
use crate::row::{Row, UPDATE_WRITERS};
use crate::workload::{Reading, Workload};

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The documents that are loaded.
    pub(crate) workload: Workload,
    /// How often everything is measured.
    pub(crate) rounds: u64,
    /// Operations in one round are divided by this: 1 but for a quick look.
    pub(crate) haste: u64,
}

/// What everybody is asked.
#[derive(Clone, Copy)]
struct Question {
    database: Database,
    reading: Reading,
    asked: Asked,
    /// The documents that are asked about.
    among: u64,
}

/// How many turns the load takes.
const LOAD_PARTS: u64 = 100;

/// The readings whose growth is measured.
const GROWING: [Reading; 2] = [Reading::Newest, Reading::Lookup];

/// Runs everything.
pub(crate) fn run(crew: &mut Crew, settings: Settings, log: &mut dyn Write) -> Outcome<Figures> {
    let mut conductor = Conductor {
        crew,
        settings,
        log,
        figures: Figures::default(),
        created: settings.workload.documents,
        decided: 0,
    };
    conductor.open(Promise::Durable)?;
    conductor.load()?;
    conductor.weigh(Row::Disk)?;
    conductor.grow()?;
    conductor.durable_rounds()?;
    conductor.weigh(Row::Memory)?;
    conductor.open(Promise::Buffered)?;
    conductor.buffered_rounds()?;
    Ok(conductor.figures)
}

struct Conductor<'a> {
    crew: &'a mut Crew,
    settings: Settings,
    log: &'a mut dyn Write,
    figures: Figures,
    /// The number of the next approval that is created.
    created: u64,
    /// The turn of the next approval that is decided.
    decided: u64,
}

impl Conductor<'_> {
    fn open(&mut self, promise: Promise) -> Outcome<()> {
        for who in Who::ALL {
            if promise == Promise::Durable || who.has_buffered_mode() {
                self.crew.perform(who, Task::Open { promise })?;
            }
        }
        Ok(())
    }

    /// Loads in turns; each fifth (with five rounds) of the documents counts as a round.
    fn load(&mut self) -> Outcome<()> {
        let Settings { workload, rounds, .. } = self.settings;
        let part = workload.documents / LOAD_PARTS;
        let mut nanos = [0_u64; Who::ALL.len()];
        let mut round_from = 0;
        for number in 1..=LOAD_PARTS {
            let (from, to) = ((number - 1) * part, number * part);
            for (place, who) in turns(number) {
                let timing = self.crew.measure(who, Task::Load { from, to })?;
                if let Some(nanos) = nanos.get_mut(place) {
                    *nanos += timing.nanos;
                }
            }
            if number * rounds / LOAD_PARTS > (number - 1) * rounds / LOAD_PARTS {
                for (who, nanos) in Who::ALL.into_iter().zip(&mut nanos) {
                    let documents = to - round_from;
                    self.figures.add(Row::Load, who, per_second(documents, *nanos));
                    *nanos = 0;
                }
                round_from = to;
                writeln!(self.log, "loaded {to} of {} documents", workload.documents)?;
            }
        }
        Ok(())
    }

    /// Asks the same of databases of all sizes, which stand side by side.
    fn grow(&mut self) -> Outcome<()> {
        let [sizes @ .., _] = self.settings.workload.sizes();
        for who in Who::ALL {
            for size in sizes {
                self.crew.perform(who, Task::OpenSmaller { size })?;
            }
        }
        for reading in GROWING {
            for asked in [Asked::First, Asked::All] {
                self.grow_one(reading, asked)?;
                writeln!(self.log, "measured growth of {reading:?}, {asked:?} documents")?;
            }
        }
        for who in Who::ALL {
            self.crew.perform(who, Task::RemoveSmaller)?;
        }
        Ok(())
    }

    fn grow_one(&mut self, reading: Reading, asked: Asked) -> Outcome<()> {
        let Settings { workload, rounds, .. } = self.settings;
        let sizes = workload.sizes();
        let mut growth = Who::ALL.map(|who| {
            let steps = sizes.map(|size| Step { size, micros: Vec::new() }).to_vec();
            Growth { who, row: Row::Read(reading), asked, keys: None, steps }
        });
        // The first time warms up and does not count.
        for round in 0..=rounds {
            for (place, size) in sizes.into_iter().enumerate() {
                let [smallest, ..] = sizes;
                let among = if asked == Asked::First { smallest } else { size };
                let database = if size == workload.documents {
                    Database::Main
                } else {
                    Database::Smaller { size }
                };
                let question = Question { database, reading, asked, among };
                let timings = self.ask_all(question, round)?;
                for (growth, timing) in growth.iter_mut().zip(timings) {
                    growth.keys = same_cost(&timing, growth.keys)?;
                    if let Some(step) = growth.steps.get_mut(place).filter(|_| round > 0) {
                        step.micros.push(micros(&timing));
                    }
                }
            }
        }
        self.figures.growth.extend(growth);
        Ok(())
    }

    fn durable_rounds(&mut self) -> Outcome<()> {
        for round in 0..=self.settings.rounds {
            for row in Row::ALL {
                match row {
                    Row::Read(reading) => self.read(row, reading, round)?,
                    // Round 0 warms up what reads, and does not count.
                    _ if round == 0 => {}
                    Row::Create { promise: Promise::Durable, writers } => {
                        self.create(row, writers, round)?;
                    }
                    Row::Update => self.update(row, round)?,
                    Row::Create { promise: Promise::Buffered, .. }
                    | Row::Load
                    | Row::Memory
                    | Row::Disk => {}
                }
            }
            if round > 0 {
                writeln!(self.log, "round {round} of {}", self.settings.rounds)?;
            }
        }
        Ok(())
    }

    fn buffered_rounds(&mut self) -> Outcome<()> {
        for round in 1..=self.settings.rounds {
            for row in Row::ALL {
                if let Row::Create { promise: Promise::Buffered, writers } = row {
                    self.create(row, writers, round)?;
                }
            }
            writeln!(self.log, "buffered round {round} of {}", self.settings.rounds)?;
        }
        Ok(())
    }

    fn create(&mut self, row: Row, writers: usize, round: u64) -> Outcome<()> {
        let (from, to) = (self.created, self.created + self.operations(row));
        self.created = to;
        for (_, who) in turns(round).filter(|(_, who)| row.includes(*who)) {
            let timing = self.crew.measure(who, Task::Create { from, to, writers })?;
            self.figures.add(row, who, per_second(timing.operations, timing.nanos));
        }
        Ok(())
    }

    fn update(&mut self, row: Row, round: u64) -> Outcome<()> {
        let (from, to) = (self.decided, self.decided + self.operations(row));
        self.decided = to;
        for (_, who) in turns(round) {
            let task = Task::Update { from, to, writers: UPDATE_WRITERS };
            let timing = self.crew.measure(who, task)?;
            self.figures.add(row, who, per_second(timing.operations, timing.nanos));
        }
        Ok(())
    }

    fn read(&mut self, row: Row, reading: Reading, round: u64) -> Outcome<()> {
        let among = self.settings.workload.documents;
        let question = Question { database: Database::Main, reading, asked: Asked::All, among };
        let timings = self.ask_all(question, round)?;
        for (who, timing) in Who::ALL.into_iter().zip(timings).filter(|_| round > 0) {
            self.figures.add(row, who, micros(&timing));
            let (p50, p99) = (timing.p50 as f64 / 1e3, timing.p99 as f64 / 1e3);
            self.figures.add_percentiles(row, who, p50, p99);
        }
        Ok(())
    }

    /// Asks everybody the same; the timings are in the order of [`Who::ALL`]. Who asks again and
    /// again about the same has asked just before: what others have left of him in the caches of
    /// the processor is not what is measured.
    fn ask_all(&mut self, question: Question, round: u64) -> Outcome<Vec<Timing>> {
        let Question { database, reading, asked, among } = question;
        let count = self.operations(Row::Read(reading));
        let mut timings = vec![Timing::default(); Who::ALL.len()];
        for (place, who) in turns(round) {
            let times = if asked == Asked::First { 2 } else { 1 };
            let task = Task::Read { database, reading, among, seed: round, count, times };
            let timing = self.crew.measure(who, task)?;
            if let Some(slot) = timings.get_mut(place) {
                *slot = timing;
            }
        }
        let mut digests = Who::ALL.into_iter().zip(timings.iter().map(|timing| timing.digest));
        let (first, expected) = digests.next().ok_or("nobody answers")?;
        match digests.find(|(_, digest)| *digest != expected) {
            Some((who, _)) => {
                let (who, first) = (who.name(), first.name());
                Err(format!("{who} and {first} answer {reading:?} differently").into())
            }
            None => Ok(timings),
        }
    }

    fn weigh(&mut self, row: Row) -> Outcome<()> {
        for who in Who::ALL.into_iter().filter(|who| row.includes(*who)) {
            if let Answer::Weighed { resident_bytes, disk_bytes } =
                self.crew.perform(who, Task::Weigh)?
            {
                let bytes = if row == Row::Memory { resident_bytes } else { disk_bytes };
                self.figures.add(row, who, bytes as f64 / 1e6);
            }
        }
        Ok(())
    }

    /// Operations of a row in one round: enough for about a second where it is slow, and bounded.
    /// With many writers they are so many that an engine which puts off a part of its work has to
    /// do it in each round.
    fn operations(&self, row: Row) -> u64 {
        let operations = match row {
            Row::Create { promise: Promise::Durable, writers: 1 } => 1000,
            Row::Create { promise: Promise::Durable, writers: 16 } => 8000,
            Row::Create { promise: Promise::Durable, .. } => 12_000,
            // fjall writes its tables in memory to files every sixty thousand commits or so. A
            // round of thirty thousand had to do that for both rows, or for none.
            Row::Create { promise: Promise::Buffered, .. } => 120_000,
            // There are enough pending ones for ten rounds of a small run.
            Row::Update => (self.settings.workload.documents / 40).min(8000),
            // Whoever has his turn finds the caches of the processor full of what others did. That
            // is no matter of what is asked, so a turn is a few times longer than filling them.
            Row::Read(Reading::Get | Reading::Lookup | Reading::Covered) => 20_000,
            Row::Read(Reading::Newest | Reading::Merged) => 5000,
            Row::Load | Row::Memory | Row::Disk => 0,
        };
        (operations / self.settings.haste).max(20)
    }
}

/// All contenders with their places, beginning with another one in each round (R1).
fn turns(round: u64) -> impl Iterator<Item = (usize, Who)> {
    let start = usize::try_from(round % Who::ALL.len() as u64).unwrap_or(0);
    Who::ALL.into_iter().enumerate().cycle().skip(start).take(Who::ALL.len())
}

/// The cost of a reading, which is the same each time it is asked (R3).
fn same_cost(timing: &Timing, before: Option<u64>) -> Outcome<Option<u64>> {
    let (least, most) = timing.keys_read;
    if least != most || before.is_some_and(|before| before != least) {
        return Err(format!("a read costs {least} to {most} keys, {before:?} before").into());
    }
    Ok((most > 0).then_some(most))
}

fn per_second(operations: u64, nanos: u64) -> f64 {
    operations as f64 * 1e9 / nanos as f64
}

fn micros(timing: &Timing) -> f64 {
    timing.nanos as f64 / 1e3 / timing.operations as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_every_contender_has_one_turn_and_each_round_begins_with_another() {
        for round in 0..12 {
            let mut all: Vec<_> = turns(round).collect();
            let first = all[0].0 as u64;
            assert_eq!(first, round % 6);
            all.sort_unstable();
            assert_eq!(all, Who::ALL.into_iter().enumerate().collect::<Vec<_>>());
        }
    }

    #[test]
    fn r3_a_cost_that_varies_is_an_error() {
        let cost = |keys_read| Timing { keys_read, ..Timing::default() };
        assert_eq!(same_cost(&cost((41, 41)), Some(41)).unwrap(), Some(41));
        assert_eq!(same_cost(&cost((0, 0)), None).unwrap(), None);
        assert!(same_cost(&cost((41, 42)), None).is_err());
        assert!(same_cost(&cost((41, 41)), Some(40)).is_err());
    }
}
