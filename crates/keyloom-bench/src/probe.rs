//! Measures reads one by one and keeps a digest of all answers.
//!
//! P1: Two contenders that give the same answers in the same order have the same digest; so the
//!     run itself proves that they did the same work.
//! P2: Only the answer is timed, not what is made of it.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::outcome::Outcome;
use crate::protocol::Timing;
use crate::stopwatch::{Stopwatch, nanos};

/// Times of single reads, and what they answered.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    nanos: Vec<u64>,
    digest: Digest,
    keys_read: Vec<u64>,
}

/// A running digest of answers.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    hasher: SipHasher13,
}

impl Probe {
    /// Asks one question after the other. Each is prepared right before the clock runs, as whoever
    /// asks has just made what he asks: it lies in the caches of the processor.
    pub(crate) fn ask_each<Q, T>(
        &mut self,
        questions: &[u64],
        prepare: impl Fn(u64) -> Outcome<Q>,
        mut answer: impl FnMut(&Q) -> Outcome<T>,
        mut spell: impl FnMut(&T, &mut Digest) -> Outcome<()>,
    ) -> Outcome<()> {
        for number in questions {
            let question = prepare(*number)?;
            self.ask(|| answer(&question), &mut spell)?;
        }
        Ok(())
    }

    /// Asks once. `spell` hands the answer to the digest, row by row.
    fn ask<T>(
        &mut self,
        answer: impl FnOnce() -> Outcome<T>,
        spell: impl FnOnce(&T, &mut Digest) -> Outcome<()>,
    ) -> Outcome<()> {
        let stopwatch = Stopwatch::start();
        let answer = answer()?;
        self.nanos.push(nanos(stopwatch.elapsed()));
        spell(&answer, &mut self.digest)
    }

    /// Notes how many keys the last read has cost, where a contender tells.
    pub(crate) fn cost(&mut self, keys: u64) {
        self.keys_read.push(keys);
    }

    /// What was measured.
    pub(crate) fn finish(mut self) -> Timing {
        self.nanos.sort_unstable();
        Timing {
            operations: self.nanos.len() as u64,
            nanos: self.nanos.iter().sum(),
            p50: percentile(&self.nanos, 50),
            p99: percentile(&self.nanos, 99),
            digest: self.digest.hasher.finish(),
            keys_read: (
                self.keys_read.iter().copied().min().unwrap_or(0),
                self.keys_read.iter().copied().max().unwrap_or(0),
            ),
        }
    }
}

impl Digest {
    /// Adds one row of an answer.
    pub(crate) fn row(&mut self, row: &[u8]) {
        self.hasher.write(row);
        self.hasher.write_usize(row.len());
    }

    /// Adds time and identity of a row of which no more was asked.
    pub(crate) fn covered(&mut self, created_at: i64, id: &str) {
        self.hasher.write_i64(created_at);
        self.row(id.as_bytes());
    }
}

/// The value that so many percent do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[&str]) -> u64 {
        let mut probe = Probe::default();
        let spell = |_: &(), digest: &mut Digest| {
            rows.iter().for_each(|row| digest.row(row.as_bytes()));
            Ok(())
        };
        probe.ask(|| Ok(()), spell).unwrap();
        probe.finish().digest
    }

    #[test]
    fn p1_the_digest_knows_rows_and_their_order() {
        assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", "b"]), digest(&["b", "a"]));
        assert_ne!(digest(&["a", "b"]), digest(&["ab"]));
        assert_ne!(digest(&["a"]), digest(&[]));
    }

    #[test]
    fn a_percentile_is_the_value_that_so_many_do_not_exceed() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((percentile(&hundred, 50), percentile(&hundred, 99)), (50, 99));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (7, 7));
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn costs_are_kept_as_their_extremes() {
        let mut probe = Probe::default();
        for keys in [21, 20, 22] {
            probe.cost(keys);
        }
        assert_eq!(probe.finish().keys_read, (20, 22));
    }
}
