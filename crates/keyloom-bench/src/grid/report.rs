//! The report of the grid, in Markdown.

use std::fmt::Write as _;

use super::calls::{Call, IN_FLIGHT};
use super::parts::Parts;
use super::{Findings, STORES, VALUE_BYTES};
use crate::figures::median;
use crate::host::Kind;
use crate::load::percentile;
use crate::report::{Circumstances, Table, number};

/// The most nanoseconds to normalize an id of at most 32 bytes.
const NORMALIZE_MAX: f64 = 250.0;

/// The most that a lookup by name may take of one by number, in the slowest hundredth.
const LOOKUP_MAX: f64 = 1.15;

/// The most bytes of an id in memory beside its text.
const ID_BYTES_MAX: usize = 16;

/// The whole report.
pub(crate) fn render(circumstances: &Circumstances, findings: &Findings) -> String {
    let mut text = String::new();
    let Circumstances { command, date, machine, engines, documents, rounds } = circumstances;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "`{command}` on {date}\n\n{machine}; {engines}.\n");
    let _ = writeln!(text, "### Identities\n\n{}", identities(&findings.parts));
    let _ = writeln!(
        text,
        "### Calls over gRPC\n\n{documents} objects with 16 entries of {VALUE_BYTES} bytes, \
         {IN_FLIGHT} calls in flight, medians of {rounds} rounds, in calls per second; the clients \
         share the machine with the server. The yardstick is the system that this replaces, in \
         memory and without durability; fjall buffered is what is compared with it.\n\n{}",
        calls(findings)
    );
    text
}

fn identities(parts: &Parts) -> Table {
    let mut table = Table::new(["", "found", "target", ""].map(str::to_owned).to_vec());
    let mut judged = |what: String, found: String, most: String, met: bool| {
        let verdict = if met { "met" } else { "**missed**" };
        table.add(vec![what, found, format!("at most {most}"), verdict.to_owned()]);
    };
    for (id, nanos) in &parts.normalize {
        let met = *nanos <= NORMALIZE_MAX;
        judged(format!("normalize, {id}, ns"), number(*nanos), number(NORMALIZE_MAX), met);
    }
    let [by_number, by_name, mixed] = &parts.lookups;
    let at = |values: &[u64], percent| micros(percentile(&mut values.to_vec(), percent));
    let ratio = at(by_name, 99) / at(by_number, 99);
    let what = "lookup by name : by number, p99".to_owned();
    judged(what, format!("{ratio:.2}"), format!("{LOOKUP_MAX:.2}"), ratio <= LOOKUP_MAX);
    let met = parts.id_bytes <= ID_BYTES_MAX;
    let what = "memory of an id beside its text, bytes".to_owned();
    judged(what, parts.id_bytes.to_string(), ID_BYTES_MAX.to_string(), met);
    for (what, values) in [("by number", by_number), ("by name", by_name), ("half of each", mixed)]
    {
        let (p50, p99) = (number(at(values, 50)), number(at(values, 99)));
        table.add(vec![format!("lookup {what}, p50 and p99, µs"), format!("{p50} · {p99}")]);
    }
    let [numeric, string] = parts.change;
    let found = format!("{} · {}", number(string), number(numeric));
    table.add(vec!["encode a change of an object by name and by number, ns".to_owned(), found]);
    table
}

fn calls(findings: &Findings) -> Table {
    let mut heads = vec![String::new()];
    heads.extend(STORES.map(|kind| kind.title().to_owned()));
    heads.extend(["yardstick", "buffered : yardstick", ""].map(str::to_owned));
    let mut table = Table::new(heads);
    for call in Call::ALL {
        let rate = |kind: Kind| {
            let rounds = findings.rates.get(&(call, kind));
            rounds.and_then(|rounds| median(rounds)).unwrap_or_default()
        };
        let ratio = rate(Kind::GridBuffered) / call.yardstick();
        let mut row = vec![call.title().to_owned()];
        row.extend(STORES.map(|kind| number(rate(kind))));
        row.push(number(call.yardstick()));
        row.push(format!("{ratio:.2}"));
        row.push(if ratio >= 1.0 { "met" } else { "**missed**" }.to_owned());
        table.add(row);
    }
    table
}

fn micros(nanos: u64) -> f64 {
    u32::try_from(nanos).map_or(f64::MAX, f64::from) / 1000.0
}
