//! The plan of a query as people and programs see it.
//!
//! L1: What is shown is what runs: ranges, direction and bounds are those of the [`Course`].

use std::fmt;
use std::sync::Arc;

use keyloom_store::Direction;

use super::candidate::Candidate;
use super::course::{Course, Mode, Stretch};
use crate::catalog::Collection;
use crate::error::Error;
use crate::limits::ARRAY_ELEMENTS_MAX;

/// How a query is answered. It is spelled for people only when they ask.
#[derive(Clone)]
pub struct Plan {
    /// Whether all that was selected is in the keys, so that no document is fetched.
    pub covering: bool,
    /// The most keys that a page reads.
    pub keys_read_max: u64,
    /// The collection as it was in force when the plan was made.
    collection: Arc<Collection>,
    pub(crate) course: Course,
}

/// A key range of a plan, in text spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRange {
    /// The path that it belongs to.
    pub path: String,
    /// Where it begins.
    pub from: String,
    /// Where it ends; not part of it. A `*` at the end stands for everything that begins so.
    pub to: String,
}

/// That a plan is a scan, and what it leaves to a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanNote {
    /// The most keys that it reads for a page.
    pub budget: usize,
    /// The conditions that are tested on each document.
    pub filtered: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request makes no sense.
    Invalid(Error),
    /// No declared key serves it; this one would.
    NoIndex {
        /// Why.
        reason: String,
        /// The template to add.
        suggest: Option<String>,
        /// The keys that it adds to each write.
        keys_per_write: u32,
    },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Invalid(error)
    }
}

impl Plan {
    /// The plan of a course for pages of at most `limit` results.
    pub(crate) fn new(
        collection: &Arc<Collection>,
        course: Course,
        limit: usize,
        covering: bool,
    ) -> Plan {
        let collection = Arc::clone(collection);
        Plan { covering, keys_read_max: keys_read_max(&course, limit), collection, course }
    }

    /// The plan where conditions exclude each other.
    pub(crate) fn nothing(collection: &Arc<Collection>) -> Plan {
        Plan::new(collection, Course::empty(), 0, false)
    }

    /// The plan that reads the number of all documents.
    pub(crate) fn counter(collection: &Arc<Collection>) -> Plan {
        Plan { keys_read_max: 1, ..Plan::nothing(collection) }
    }

    /// The path whose keys are read: `key`, `index:name`, `unique:name`; `any(…, …)` if there are
    /// several, `counter` for the number of all documents, `nothing` if no document can match.
    pub fn path(&self) -> String {
        let mut paths: Vec<String> = Vec::with_capacity(2);
        for stretch in &self.course.stretches {
            let path = self.candidate(stretch).label();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        match paths.as_slice() {
            // Only the counter is read without a range.
            [] if self.keys_read_max > 0 => "counter".to_owned(),
            [] => "nothing".to_owned(),
            [path] => path.clone(),
            paths => format!("any({})", paths.join(", ")),
        }
    }

    /// The key ranges, in ascending order.
    pub fn ranges(&self) -> Vec<PlanRange> {
        let shown = |stretch: &Stretch| {
            let candidate = self.candidate(stretch);
            let (from, to) = stretch.spell(&candidate);
            PlanRange { path: candidate.label(), from, to }
        };
        self.course.stretches.iter().map(shown).collect()
    }

    /// Which end of the ranges comes first.
    pub fn direction(&self) -> Direction {
        self.course.direction
    }

    /// Set if no key serves the query and a scan was allowed.
    pub fn scan(&self) -> Option<ScanNote> {
        let (residue, budget) = self.course.residue.as_ref()?;
        Some(ScanNote { budget: *budget, filtered: residue.describe(&self.collection) })
    }

    /// With `distinct` along a range: the path that is asked whether a group has come before.
    pub fn probe(&self) -> Option<&str> {
        self.course.probe.as_ref().map(|probe| probe.label.as_str())
    }

    /// The collection that it is made for.
    pub(super) fn collection(&self) -> &Collection {
        &self.collection
    }

    fn candidate(&self, stretch: &Stretch) -> Candidate<'_> {
        Candidate::of(&self.collection, stretch.at)
            .expect("a plan has the collection it is made for")
    }

    /// The same plan after a count, which reads as many keys as there are: no page bounds them.
    pub(crate) fn for_count(mut self, keys_read: u64) -> Plan {
        self.keys_read_max = self.keys_read_max.max(keys_read);
        self
    }

    /// The same ranges, for the question whether there is any key in them.
    pub(crate) fn for_existence(mut self) -> Plan {
        self.course.mode = Mode::Chain;
        self.course.once = false;
        if self.course.residue.is_none() {
            let points = self.course.stretches.iter().filter(|stretch| stretch.is_point).count();
            let other = usize::from(points < self.course.stretches.len());
            self.keys_read_max = u64::try_from(points.max(other)).unwrap_or(u64::MAX);
        }
        self
    }
}

impl Course {
    /// A course without ranges.
    pub(crate) fn empty() -> Course {
        Course {
            mode: Mode::Chain,
            direction: Direction::Forward,
            stretches: Vec::new(),
            once: false,
            repeats: false,
            probe: None,
            residue: None,
            select: None,
        }
    }

    /// Whether every range is a single key.
    pub(crate) fn is_points(&self) -> bool {
        self.mode == Mode::Chain && self.stretches.iter().all(|stretch| stretch.is_point)
    }

    /// The most keys that a page of `limit` results may read when it tests documents.
    pub(crate) fn budget(&self, limit: usize) -> usize {
        match &self.residue {
            Some((_, budget)) => *budget,
            // Each document may have a key for each of its elements.
            None if self.once => limit.saturating_add(1).saturating_mul(ARRAY_ELEMENTS_MAX),
            None => usize::MAX,
        }
    }
}

fn keys_read_max(course: &Course, limit: usize) -> u64 {
    let ranges = course.stretches.len();
    let max = match course.mode {
        _ if ranges == 0 => 0,
        _ if course.residue.is_some() || course.once => course.budget(limit),
        // Each candidate but the one ahead may find an earlier key.
        _ if course.probe.is_some() => 2 * limit + 1,
        Mode::Chain if course.is_points() => ranges,
        Mode::Chain => limit + 1,
        Mode::Merge if !course.repeats => limit + ranges,
        // Every range may bring the same documents, or groups.
        Mode::Merge | Mode::Groups => (limit + 1) * ranges,
    };
    u64::try_from(max).unwrap_or(u64::MAX)
}

/// One line for one range, otherwise one line for the plan and one for each range.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { covering, keys_read_max, collection: _, course: _ } = self;
        let ranges = self.ranges();
        f.write_str(&self.path())?;
        if let [PlanRange { from, to, .. }] = ranges.as_slice() {
            write!(f, "  {from} .. {to}")?;
        }
        let direction = match self.direction() {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        };
        write!(f, "  {direction}")?;
        if *covering {
            f.write_str("  covering")?;
        }
        let unit = if *keys_read_max == 1 { "key" } else { "keys" };
        write!(f, "  ≤ {keys_read_max} {unit}")?;
        if let Some(probe) = self.probe() {
            write!(f, "  first of each group by {probe}")?;
        }
        if let Some(ScanNote { filtered, .. }) = self.scan() {
            write!(f, "  scan, filtered by {}", filtered.join("; "))?;
        }
        if ranges.len() > 1 {
            for PlanRange { path, from, to } in ranges {
                write!(f, "\n  {path}  {from} .. {to}")?;
            }
        }
        Ok(())
    }
}

/// As people see it: the collection behind it would fill pages.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({self})")
    }
}
