//! The figures of a run: one sample per round, row and contender.

use std::collections::BTreeMap;

use crate::contender::Who;
use crate::row::Row;

/// Everything that the table shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    samples: BTreeMap<(Row, Who), Vec<f64>>,
    /// Percentiles of single reads, in microseconds.
    percentiles: BTreeMap<(Row, Who), Vec<(f64, f64)>>,
    /// How lists and lookups grow with the data.
    pub(crate) growth: Vec<Growth>,
}

/// One reading of one contender at all sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Growth {
    pub(crate) who: Who,
    pub(crate) row: Row,
    /// Whether the same questions were asked at all sizes, or questions about all that was there.
    pub(crate) asked: Asked,
    /// The keys that one read has cost at every size, where the contender tells.
    pub(crate) keys: Option<u64>,
    /// The sizes, the smallest first.
    pub(crate) steps: Vec<Step>,
}

/// One reading among so many documents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) size: u64,
    /// Microseconds, one figure for each round.
    pub(crate) micros: Vec<f64>,
}

/// What is asked about as the data grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// The documents of the smallest size: what is read stays the same.
    First,
    /// All documents: what is read outgrows the caches of the processor.
    All,
}

impl Figures {
    /// Adds the sample of one round.
    pub(crate) fn add(&mut self, row: Row, who: Who, sample: f64) {
        self.samples.entry((row, who)).or_default().push(sample);
    }

    /// Adds the percentiles of one round.
    pub(crate) fn add_percentiles(&mut self, row: Row, who: Who, p50: f64, p99: f64) {
        self.percentiles.entry((row, who)).or_default().push((p50, p99));
    }

    /// The median of all rounds.
    pub(crate) fn median(&self, row: Row, who: Who) -> Option<f64> {
        median(self.samples.get(&(row, who))?)
    }

    /// The least and the most of all rounds.
    pub(crate) fn spread(&self, row: Row, who: Who) -> Option<(f64, f64)> {
        let samples = self.samples.get(&(row, who))?;
        let least = samples.iter().copied().min_by(f64::total_cmp)?;
        Some((least, samples.iter().copied().max_by(f64::total_cmp)?))
    }

    /// The medians of the percentiles of all rounds.
    pub(crate) fn percentiles(&self, row: Row, who: Who) -> Option<(f64, f64)> {
        let rounds = self.percentiles.get(&(row, who))?;
        let p50: Vec<f64> = rounds.iter().map(|(p50, _)| *p50).collect();
        let p99: Vec<f64> = rounds.iter().map(|(_, p99)| *p99).collect();
        Some((median(&p50)?, median(&p99)?))
    }

    /// How many times better one contender is than another.
    pub(crate) fn advantage(&self, row: Row, ours: Who, theirs: Who) -> Option<f64> {
        Some(row.unit().advantage(self.median(row, ours)?, self.median(row, theirs)?))
    }
}

impl Growth {
    /// How many times longer the last size takes than the first.
    pub(crate) fn ratio(&self) -> Option<f64> {
        Some(self.steps.last()?.median()? / self.steps.first()?.median()?)
    }
}

impl Step {
    /// The median of all rounds, in microseconds.
    pub(crate) fn median(&self) -> Option<f64> {
        median(&self.micros)
    }
}

/// The middle sample; of an even number, the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn growth_is_the_ratio_of_the_medians_of_the_last_and_the_first_size() {
        let step = |size, micros: [f64; 3]| Step { size, micros: micros.to_vec() };
        let growth = Growth {
            who: Who::KeyloomRedb,
            row: Row::Load,
            asked: Asked::First,
            keys: Some(41),
            steps: vec![step(1, [2.0, 9.0, 1.0]), step(10, [7.0; 3]), step(100, [5.0, 3.0, 9.0])],
        };
        assert_eq!(growth.ratio(), Some(2.5));
    }

    #[test]
    fn medians_spreads_and_advantages_follow_from_the_samples() {
        let mut figures = Figures::default();
        for sample in [10.0, 30.0, 20.0] {
            figures.add(Row::Load, Who::KeyloomRedb, sample);
            figures.add(Row::Load, Who::Sqlite, sample / 2.0);
        }
        assert_eq!(figures.median(Row::Load, Who::KeyloomRedb), Some(20.0));
        assert_eq!(figures.spread(Row::Load, Who::KeyloomRedb), Some((10.0, 30.0)));
        assert_eq!(figures.advantage(Row::Load, Who::KeyloomRedb, Who::Sqlite), Some(2.0));
        assert_eq!(figures.advantage(Row::Load, Who::KeyloomRedb, Who::RawRedb), None);
    }
}
