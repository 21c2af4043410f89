//! The report of a run, as it is printed and as it stands in `docs/benchmarks.md`.

pub(crate) mod docs;
mod reasons;
mod table;
mod targets;

use std::fmt::Write;

use crate::component::Cost;
use crate::contender::Who;
use crate::figures::{Asked, Figures};
use crate::row::{Row, Unit};
pub(crate) use table::{Table, number};
use targets::{Judged, judge};

/// What a report is about, beside the figures.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    /// The command that was run.
    pub(crate) command: String,
    /// Year, month, day.
    pub(crate) date: String,
    /// The machine in one line.
    pub(crate) machine: String,
    /// The engines with their versions.
    pub(crate) engines: String,
    pub(crate) documents: u64,
    pub(crate) rounds: u64,
}

/// The pairs whose ratio stands in the table.
const RATIOS: [(Who, Who, &str); 4] = [
    (Who::KeyloomRedb, Who::RawRedb, "redb : raw"),
    (Who::KeyloomFjall, Who::RawFjall, "fjall : raw"),
    (Who::KeyloomRedb, Who::Sqlite, "redb : SQLite"),
    (Who::KeyloomFjall, Who::Sqlite, "fjall : SQLite"),
];

/// The whole report in Markdown.
pub(crate) fn render(
    circumstances: &Circumstances,
    figures: &Figures,
    components: &[Cost],
) -> String {
    let Circumstances { command, date, machine, engines, documents, rounds } = circumstances;
    let documents = number(*documents as f64);
    let judged = judge(figures, components);
    let sections = [
        format!("`{command}` on {date}\n\n{machine}; {engines}.\n"),
        format!(
            "{documents} approvals, medians of {rounds} rounds. A ratio is how many times faster \
             (or smaller) the first is than the second.\n\n{}",
            main_table(figures)
        ),
        format!("### Spread: least and most of the rounds\n\n{}", spread_table(figures)),
        format!("### Single reads: p50 / p99 in µs\n\n{}", percentile_table(figures)),
        format!("### Growth\n\n{}", growth_table(figures)),
        format!("### Components\n\n{}", component_table(components)),
        format!("### Targets\n\n{}", target_table(&judged)),
        format!("### Rows that we lose\n\n{}", losses(figures, &judged)),
    ];
    sections.join("\n")
}

fn heads(first: &str) -> Vec<String> {
    let names = Who::ALL.into_iter().map(|who| who.name().to_owned());
    std::iter::once(first.to_owned()).chain(names).collect()
}

fn main_table(figures: &Figures) -> Table {
    let mut heads = heads("");
    heads.extend(RATIOS.iter().map(|(_, _, head)| (*head).to_owned()));
    let mut table = Table::new(heads);
    for row in Row::ALL {
        let shown = |who| figures.median(row, who).map_or_else(|| "–".to_owned(), number);
        let ratio = |(ours, theirs, _): (Who, Who, _)| {
            let advantage = figures.advantage(row, ours, theirs);
            advantage.map_or_else(|| "–".to_owned(), |advantage| format!("{advantage:.2}"))
        };
        let cells = Who::ALL.into_iter().map(shown).chain(RATIOS.into_iter().map(ratio));
        table.add(std::iter::once(row.title()).chain(cells).collect());
    }
    table
}

fn spread_table(figures: &Figures) -> Table {
    let mut table = Table::new(heads(""));
    for row in Row::ALL.into_iter().filter(|row| row.unit() != Unit::Megabytes) {
        let shown = |who| {
            let spread = figures.spread(row, who);
            spread.map_or_else(
                || "–".to_owned(),
                |(least, most)| format!("{}–{}", number(least), number(most)),
            )
        };
        let cells = Who::ALL.into_iter().map(shown);
        table.add(std::iter::once(row.title()).chain(cells).collect());
    }
    table
}

fn percentile_table(figures: &Figures) -> Table {
    let mut table = Table::new(heads(""));
    for row in Row::ALL.into_iter().filter(|row| row.unit() == Unit::Micros) {
        let shown = |who| {
            let found = figures.percentiles(row, who);
            found.map_or_else(
                || "–".to_owned(),
                |(p50, p99)| format!("{} / {}", number(p50), number(p99)),
            )
        };
        let cells = Who::ALL.into_iter().map(shown);
        table.add(std::iter::once(row.title()).chain(cells).collect());
    }
    table
}

fn growth_table(figures: &Figures) -> Table {
    let sizes = figures.growth.first().map(|growth| growth.steps.clone()).unwrap_or_default();
    let mut heads = vec![String::new(), "asked about".to_owned(), "keys read".to_owned()];
    heads.extend(sizes.iter().map(|step| format!("at {}", number(step.size as f64))));
    heads.push("last : first".to_owned());
    let mut table = Table::new(heads);
    for growth in &figures.growth {
        let asked = match growth.asked {
            Asked::First => "the first documents",
            Asked::All => "all documents",
        };
        let mut row = vec![
            format!("{}: {}", growth.who.name(), growth.row.title()),
            asked.to_owned(),
            growth.keys.map_or_else(|| "–".to_owned(), |keys| keys.to_string()),
        ];
        let medians =
            growth.steps.iter().map(|step| step.median().map_or_else(String::new, number));
        row.extend(medians);
        row.push(growth.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        table.add(row);
    }
    table
}

pub(crate) fn component_table(components: &[Cost]) -> Table {
    let mut table = Table::new(vec![String::new(), "ns".to_owned(), "instructions".to_owned()]);
    for Cost { component, nanos, instructions } in components {
        let instructions = instructions.map(|count| number(count as f64));
        table.add(vec![
            component.title().to_owned(),
            number(*nanos),
            instructions.unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    table
}

fn target_table(judged: &[Judged]) -> Table {
    let mut table = Table::new(vec!["target".to_owned(), "found".to_owned(), String::new()]);
    for Judged { what, found, met, .. } in judged {
        let verdict = if *met { "met" } else { "**missed**" };
        table.add(vec![what.clone(), found.clone(), verdict.to_owned()]);
    }
    table
}

/// Where somebody else is ahead, and which targets are missed, each with its reason.
fn losses(figures: &Figures, judged: &[Judged]) -> String {
    let mut text = String::new();
    for row in Row::ALL {
        for (ours, theirs, _) in RATIOS.into_iter().filter(|(_, theirs, _)| *theirs == Who::Sqlite)
        {
            let advantage = figures.advantage(row, ours, theirs);
            if let Some(advantage) = advantage.filter(|advantage| *advantage < 1.0) {
                let why = reasons::behind_sqlite(row, ours);
                let (title, ours, theirs) = (row.title(), ours.name(), theirs.name());
                // Writing to a string cannot fail.
                let _ = writeln!(text, "- {title}: {ours} is at {advantage:.2} × {theirs}. {why}");
            }
        }
    }
    let missed = judged.iter().filter(|judged| !judged.met && !judged.why.is_empty());
    for Judged { what, found, why, .. } in missed {
        let _ = writeln!(text, "- {what}: found {found}. {why}");
    }
    if text.is_empty() { "None in this run.\n".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circumstances() -> Circumstances {
        Circumstances {
            command: "cargo xtask bench core".to_owned(),
            date: "2026-01-02".to_owned(),
            machine: "a machine".to_owned(),
            engines: "redb 4".to_owned(),
            documents: 5000,
            rounds: 1,
        }
    }

    #[test]
    fn the_report_has_every_row_and_says_what_was_run() {
        let report = render(&circumstances(), &Figures::default(), &[]);
        for row in Row::ALL {
            assert!(report.contains(&format!("| {}", row.title())), "{}", row.title());
        }
        for text in ["`cargo xtask bench core` on 2026-01-02", "a machine; redb 4", "5,000"] {
            assert!(report.contains(text), "{text}");
        }
        assert!(report.contains("None in this run."));
    }

    #[test]
    fn a_row_in_which_sqlite_is_ahead_is_named_as_lost() {
        let mut figures = Figures::default();
        figures.add(Row::Disk, Who::KeyloomRedb, 20.0);
        figures.add(Row::Disk, Who::Sqlite, 10.0);
        let report = render(&circumstances(), &figures, &[]);
        assert!(report.contains("- on disk, MB: Keyloom redb is at 0.50 × SQLite."), "{report}");
    }
}
