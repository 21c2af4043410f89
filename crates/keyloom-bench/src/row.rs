//! The rows of the table: what is measured, how, and in which unit.

use crate::contender::{Promise, Who};
use crate::workload::Reading;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    /// Loading all documents.
    Load,
    /// Creating documents one by one.
    Create {
        /// What an acknowledged one survives.
        promise: Promise,
        /// From how many threads.
        writers: usize,
    },
    /// Deciding a pending approval.
    Update,
    /// Asking.
    Read(Reading),
    /// Memory of the process after loading and reading.
    Memory,
    /// Disk after loading.
    Disk,
}

/// What the figures of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Operations in a second: more is better.
    PerSecond,
    /// Microseconds for an operation: less is better.
    Micros,
    /// Megabytes: less is better.
    Megabytes,
}

/// Threads that update at once.
pub(crate) const UPDATE_WRITERS: usize = 16;

impl Row {
    /// All rows, in the order of the table.
    pub(crate) const ALL: [Row; 14] = [
        Row::Load,
        Row::Create { promise: Promise::Durable, writers: 1 },
        Row::Create { promise: Promise::Durable, writers: 16 },
        Row::Create { promise: Promise::Durable, writers: 64 },
        Row::Create { promise: Promise::Buffered, writers: 1 },
        Row::Create { promise: Promise::Buffered, writers: 16 },
        Row::Update,
        Row::Read(Reading::Get),
        Row::Read(Reading::Lookup),
        Row::Read(Reading::Newest),
        Row::Read(Reading::Covered),
        Row::Read(Reading::Merged),
        Row::Memory,
        Row::Disk,
    ];

    /// What stands at the head of the row, unit included.
    pub(crate) fn title(self) -> String {
        let what = match self {
            Row::Load => "bulk load".to_owned(),
            Row::Create { promise, writers } => {
                let how = match promise {
                    Promise::Durable => "durable",
                    Promise::Buffered => "buffered",
                };
                let writers =
                    if writers == 1 { "1 writer".into() } else { format!("{writers} writers") };
                format!("{how} create, {writers}")
            }
            Row::Update => {
                format!("durable update that moves an index key, {UPDATE_WRITERS} writers")
            }
            Row::Read(Reading::Get) => "get by key".to_owned(),
            Row::Read(Reading::Lookup) => "lookup by code".to_owned(),
            Row::Read(Reading::Newest) => "20 newest of a requester".to_owned(),
            Row::Read(Reading::Covered) => "the same, covering".to_owned(),
            Row::Read(Reading::Merged) => "20 newest as requester or approver".to_owned(),
            Row::Memory => "resident memory".to_owned(),
            Row::Disk => "on disk".to_owned(),
        };
        let unit = match self.unit() {
            Unit::PerSecond => "/s",
            Unit::Micros => "µs",
            Unit::Megabytes => "MB",
        };
        format!("{what}, {unit}")
    }

    /// The unit of its figures.
    pub(crate) fn unit(self) -> Unit {
        match self {
            Row::Load | Row::Create { .. } | Row::Update => Unit::PerSecond,
            Row::Read(_) => Unit::Micros,
            Row::Memory | Row::Disk => Unit::Megabytes,
        }
    }

    /// Whether a contender takes part in it.
    pub(crate) fn includes(self, who: Who) -> bool {
        match self {
            Row::Create { promise: Promise::Buffered, .. } => who.has_buffered_mode(),
            Row::Disk => !who.is_in_memory(),
            _ => true,
        }
    }
}

impl Unit {
    /// How many times better the first figure is than the second.
    pub(crate) fn advantage(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Unit::PerSecond => ours / theirs,
            Unit::Micros | Unit::Megabytes => theirs / ours,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_title_of_its_own() {
        let titles: BTreeSet<String> = Row::ALL.iter().map(|row| row.title()).collect();
        assert_eq!(titles.len(), Row::ALL.len());
    }

    #[test]
    fn twice_the_rate_and_half_the_time_are_the_same_advantage() {
        assert!((Unit::PerSecond.advantage(20.0, 10.0) - 2.0).abs() < f64::EPSILON);
        assert!((Unit::Micros.advantage(5.0, 10.0) - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn only_who_can_buffer_takes_part_in_buffered_rows() {
        let row = Row::Create { promise: Promise::Buffered, writers: 1 };
        assert!(row.includes(Who::KeyloomFjall) && row.includes(Who::Sqlite));
        assert!(!row.includes(Who::KeyloomRedb) && !row.includes(Who::RawRedb));
    }
}
