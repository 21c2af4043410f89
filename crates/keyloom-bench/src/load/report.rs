//! The report of a load, in Markdown.

use std::fmt::Write as _;

use super::client::BATCH;
use super::client::{Tally, count, percentile};
use super::{CONNECTIONS, Findings, OVERLOAD, OVERLOAD_CONNECTIONS};
use crate::figures::median;
use crate::report::{Circumstances, Table, number};

/// The least that a get may be of the bare handler, and a list of 20.
const GET_MIN: f64 = 0.60;
const NEWEST_MIN: f64 = 0.35;

/// The whole report.
pub(crate) fn render(circumstances: &Circumstances, findings: &mut Findings) -> String {
    let mut text = String::new();
    let Circumstances { command, date, machine, engines, documents, rounds } = circumstances;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "`{command}` on {date}\n\n{machine}; {engines}.\n");
    let _ = writeln!(
        text,
        "{documents} approvals on redb, {CONNECTIONS} connections, medians of {rounds} rounds; the \
         clients share the machine with the server.\n"
    );
    let _ = writeln!(text, "{}", rates(findings));
    let _ = writeln!(
        text,
        "### Too much of it\n\nDurable batches of {BATCH} creates: as many as come back, then \
         {OVERLOAD} times that rate, or as much of it as the clients manage, from \
         {OVERLOAD_CONNECTIONS} connections. Latencies are those of the requests that were done, \
         from when they were sent.\n\n{}",
        loads(findings)
    );
    let _ = writeln!(text, "### Memory\n\n{}", memory(findings));
    text
}

fn rates(findings: &Findings) -> Table {
    let heads = ["requests/s", "Keyloom", "bare handler", "Keyloom : bare", "target", ""];
    let mut table = Table::new(heads.map(str::to_owned).to_vec());
    let rows =
        [("get by key", &findings.get, GET_MIN), ("20 newest", &findings.newest, NEWEST_MIN)];
    for (what, rounds, least) in rows {
        let (bare, keyloom): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        let [bare, keyloom] = [bare, keyloom].map(|it| median(&it).unwrap_or_default());
        let ratio = keyloom / bare;
        table.add(vec![
            what.to_owned(),
            number(keyloom),
            number(bare),
            format!("{ratio:.2}"),
            format!("at least {least:.2}"),
            if ratio >= least { "met" } else { "**missed**" }.to_owned(),
        ]);
    }
    table
}

fn loads(findings: &mut Findings) -> Table {
    let heads = ["", "asked/s", "done/s", "p50, ms", "p99, ms", "refused/s", "p99, ms", "failed"];
    let mut table = Table::new(heads.map(str::to_owned).to_vec());
    let mut row = |what: &str, tally: &mut Tally| {
        let asked = tally.succeeded + tally.refused + tally.failed;
        let per_second = |things: usize| number(count(things) / tally.seconds);
        let [asked, done, refused] = [asked, tally.succeeded, tally.refused].map(per_second);
        let [p50, p99] = [50, 99].map(|percent| millis(percentile(&mut tally.micros, percent)));
        let refused_p99 = millis(percentile(&mut tally.refused_micros, 99));
        let failed = tally.failed.to_string();
        table.add(vec![what.to_owned(), asked, done, p50, p99, refused, refused_p99, failed]);
    };
    row("sustained", &mut findings.sustained);
    row("overloaded", &mut findings.overloaded);
    table
}

fn memory(findings: &Findings) -> String {
    let mut table = Table::new(["", "resident, MB"].map(str::to_owned).to_vec());
    let glances = &findings.memory;
    let quarter = |part: usize| glances.get(glances.len() * part / 4).copied();
    let places = [("at first", glances.first().copied()), ("after a quarter", quarter(1))];
    let later = [("after a half", quarter(2)), ("at the end", glances.last().copied())];
    for (when, bytes) in places.into_iter().chain(later) {
        let bytes = bytes.map_or_else(|| "–".to_owned(), |bytes| number(millionths(bytes)));
        table.add(vec![when.to_owned(), bytes]);
    }
    let Tally { succeeded, seconds, .. } = findings.watched;
    format!("Gets and lists for {seconds:.0} s, {succeeded} requests.\n\n{table}")
}

/// Microseconds, as milliseconds.
fn millis(micros: u64) -> String {
    number(u32::try_from(micros).map_or(f64::MAX, f64::from) / 1000.0)
}

/// Millionths of a number.
fn millionths(value: u64) -> f64 {
    u32::try_from(value / 1000).map_or(f64::MAX, f64::from) / 1000.0
}
