//! What the figures are held against.
//!
//! T1: A target is judged by the ratio of two medians of the same run, never by a time alone;
//!     except for the encoding of a key, which has nobody to be compared with.

use super::reasons;
use crate::component::{Component, Cost};
use crate::contender::{Promise, Who};
use crate::figures::{Asked, Figures};
use crate::row::{Row, Unit};
use crate::workload::Reading;

/// One target and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    /// What was aimed at.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// Whether it is met.
    pub(crate) met: bool,
    /// Why it may be missed; nothing where a row lost to SQLite says it.
    pub(crate) why: &'static str,
}

/// The most nanoseconds that encoding a key may take.
const ENCODE_NANOS_MAX: f64 = 250.0;

/// How much longer a list or a lookup may take in a hundred times the data.
const GROWTH_MAX: f64 = 1.5;

/// Judges all targets.
pub(crate) fn judge(figures: &Figures, components: &[Cost]) -> Vec<Judged> {
    let mut judged = Vec::new();
    let create = |promise, writers| Row::Create { promise, writers };
    for (row, ours, theirs, least) in [
        (create(Promise::Buffered, 1), Who::KeyloomFjall, Who::RawFjall, 0.7),
        (create(Promise::Buffered, 16), Who::KeyloomFjall, Who::RawFjall, 0.7),
        (create(Promise::Durable, 16), Who::KeyloomRedb, Who::RawRedb, 0.9),
        (create(Promise::Durable, 64), Who::KeyloomRedb, Who::RawRedb, 0.9),
        (create(Promise::Durable, 16), Who::KeyloomFjall, Who::RawFjall, 0.9),
        (create(Promise::Durable, 64), Who::KeyloomFjall, Who::RawFjall, 0.9),
        (Row::Read(Reading::Get), Who::KeyloomRedb, Who::RawRedb, 0.8),
        (Row::Read(Reading::Get), Who::KeyloomFjall, Who::RawFjall, 0.8),
        (Row::Read(Reading::Newest), Who::KeyloomRedb, Who::RawRedb, 1.0 / 1.3),
        (Row::Read(Reading::Newest), Who::KeyloomFjall, Who::RawFjall, 1.0 / 1.3),
    ] {
        judged.extend(compare(figures, row, (ours, theirs), least));
    }
    for row in Row::ALL {
        let is_read = row.unit() == Unit::Micros;
        let is_group = matches!(row, Row::Create { promise: Promise::Durable, writers: 2.. });
        if is_read || is_group {
            judged.extend(compare(figures, row, (Who::KeyloomRedb, Who::Sqlite), 1.0));
        }
        if row.unit() == Unit::PerSecond {
            judged.extend(compare(figures, row, (Who::KeyloomFjall, Who::Sqlite), 1.0));
        }
    }
    judged.extend(judge_growth(figures));
    judged.extend(judge_encoding(components));
    judged
}

fn compare(figures: &Figures, row: Row, (ours, theirs): (Who, Who), least: f64) -> Option<Judged> {
    let advantage = figures.advantage(row, ours, theirs)?;
    let what = match row.unit() {
        Unit::Micros if least < 1.0 => {
            format!(
                "{}: {} at most {:.2} × {}",
                row.title(),
                ours.name(),
                1.0 / least,
                theirs.name()
            )
        }
        _ => format!("{}: {} at least {least:.2} × {}", row.title(), ours.name(), theirs.name()),
    };
    let found = match row.unit() {
        Unit::Micros if least < 1.0 => format!("{:.2} ×", 1.0 / advantage),
        _ => format!("{advantage:.2} ×"),
    };
    let why = if theirs == Who::Sqlite { "" } else { reasons::behind_raw(row) };
    Some(Judged { what, found, met: advantage >= least, why })
}

fn judge_growth(figures: &Figures) -> Vec<Judged> {
    let ours = figures.growth.iter().filter(|growth| {
        growth.asked == Asked::First && matches!(growth.who, Who::KeyloomRedb | Who::KeyloomFjall)
    });
    ours.filter_map(|growth| {
        let ratio = growth.ratio()?;
        let (first, last) = (growth.steps.first()?.size, growth.steps.last()?.size);
        Some(Judged {
            what: format!(
                "{}: {} from {first} to {last} documents at most {GROWTH_MAX} × the time",
                growth.row.title(),
                growth.who.name()
            ),
            found: format!("{ratio:.2} ×"),
            met: ratio <= GROWTH_MAX,
            why: reasons::GROWTH,
        })
    })
    .collect()
}

fn judge_encoding(components: &[Cost]) -> Option<Judged> {
    let cost = components.iter().find(|cost| cost.component == Component::EncodeKey)?;
    Some(Judged {
        what: format!("{}: at most {ENCODE_NANOS_MAX} ns", cost.component.title()),
        found: format!("{:.0} ns", cost.nanos),
        met: cost.nanos <= ENCODE_NANOS_MAX,
        why: "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Growth, Step};

    fn judged(row: Row, figures: [(Who, f64); 2]) -> Vec<bool> {
        let mut all = Figures::default();
        for (who, figure) in figures {
            all.add(row, who, figure);
        }
        judge(&all, &[]).into_iter().map(|judged| judged.met).collect()
    }

    #[test]
    fn a_list_may_take_1_3_times_as_long_as_raw() {
        let row = Row::Read(Reading::Newest);
        let judged = |micros| judged(row, [(Who::KeyloomRedb, micros), (Who::RawRedb, 100.0)]);
        assert_eq!(judged(129.9), [true]);
        assert_eq!(judged(130.1), [false]);
    }

    #[test]
    fn a_durable_create_reaches_nine_tenths_of_raw() {
        let row = Row::Create { promise: Promise::Durable, writers: 64 };
        let judged = |rate| judged(row, [(Who::KeyloomFjall, rate), (Who::RawFjall, 100.0)]);
        assert_eq!(judged(90.0), [true]);
        assert_eq!(judged(89.0), [false]);
    }

    #[test]
    fn sqlite_is_beaten_in_reads_on_redb_and_in_writes_on_fjall() {
        let get = Row::Read(Reading::Get);
        assert_eq!(judged(get, [(Who::KeyloomRedb, 5.0), (Who::Sqlite, 4.0)]), [false]);
        assert_eq!(judged(get, [(Who::KeyloomFjall, 5.0), (Who::Sqlite, 4.0)]), [] as [bool; 0]);
        assert_eq!(judged(Row::Load, [(Who::KeyloomFjall, 5.0), (Who::Sqlite, 4.0)]), [true]);
    }

    #[test]
    fn growth_is_judged_by_its_last_step() {
        let step = |(size, micros)| Step { size, micros: vec![micros] };
        let judged = |last| {
            let (who, row) = (Who::KeyloomRedb, Row::Read(Reading::Lookup));
            let steps = [(1, 10.0), (10, 99.0), (100, last)].map(step).to_vec();
            let mut figures = Figures::default();
            figures.growth.push(Growth { who, row, asked: Asked::First, keys: Some(2), steps });
            judge(&figures, &[]).first().map(|judged| judged.met)
        };
        assert_eq!((judged(15.0), judged(15.1)), (Some(true), Some(false)));
    }
}
