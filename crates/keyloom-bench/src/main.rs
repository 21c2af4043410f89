//! Keyloom measured against the engines below it and against SQLite.
//!
//! ```text
//! core ─► conductor ─► crew ─► worker process of each contender ─► Keyloom, raw engine, SQLite
//!              └─► figures ─► report, docs/benchmarks.md
//! ```

mod block_on;
mod component;
mod conductor;
mod contender;
mod crew;
mod engines;
mod figures;
mod grid;
mod host;
mod load;
mod machine;
mod outcome;
mod probe;
mod protocol;
mod report;
mod row;
mod scribe;
mod stopwatch;
mod worker;
mod workload;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};

use component::Component;
use conductor::Settings;
use contender::Who;
use crew::Crew;
use outcome::Outcome;
use report::Circumstances;
use workload::Workload;

/// The allocator that the server has (see `keyloom-cli`), so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Where the report goes with `--write-docs`.
const DOCUMENT: &str = "docs/benchmarks.md";

/// The fewest documents with which every user has a list of the full length at every size.
const DOCUMENTS_MIN: u64 = 5000;

/// From so many documents on, every round has its full length.
const DOCUMENTS_FULL: u64 = 100_000;

#[derive(Parser)]
#[command(name = "keyloom-bench", about = "Keyloom measured against its engines and SQLite")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All operations on approvals, against raw engines and SQLite: the main table.
    Core(Core),
    /// Load on the server, against a bare handler.
    Server(Server),
    /// The object grid: identities, and calls over gRPC on both stores.
    Grid(Grid),
    /// Single parts of Keyloom.
    Components,
    /// Works for one contender; started by `core`.
    #[command(hide = true)]
    Worker { who: Who, folder: PathBuf, documents: u64 },
    /// Serves until its input ends; started by `server` and `grid`.
    #[command(hide = true)]
    Host { kind: host::Kind, folder: PathBuf, things: u64 },
    /// Repeats one component; started under valgrind.
    #[command(hide = true)]
    Component { component: Component, count: u64 },
}

#[derive(Args)]
struct Core {
    /// How many approvals are loaded; a multiple of 100.
    #[arg(long, default_value_t = 1_000_000)]
    documents: u64,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Write the report to docs/benchmarks.md.
    #[arg(long)]
    write_docs: bool,
}

#[derive(Args)]
struct Server {
    /// How many approvals are loaded; a multiple of 100.
    #[arg(long, default_value_t = 100_000)]
    documents: u64,
    /// How often the rates are measured.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// How many seconds each server has in a round.
    #[arg(long, default_value_t = 3)]
    turn: u64,
    /// How many seconds the memory is watched.
    #[arg(long, default_value_t = 600)]
    watch: u64,
    /// Write the report to docs/benchmarks.md.
    #[arg(long)]
    write_docs: bool,
}

#[derive(Args)]
struct Grid {
    /// How many objects there are.
    #[arg(long, default_value_t = 10_000)]
    objects: u64,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// How many seconds each kind of call has in a round.
    #[arg(long, default_value_t = 2)]
    turn: u64,
    /// Write the report to docs/benchmarks.md.
    #[arg(long)]
    write_docs: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody hears it, the exit code still tells.
            let _ = writeln!(io::stderr(), "keyloom-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Outcome<()> {
    match command {
        Command::Core(core) => run_core(&core),
        Command::Components => {
            let costs = component::measure_all(&std::env::current_exe()?, 1)?;
            writeln!(io::stdout().lock(), "{}", report::component_table(&costs))?;
            Ok(())
        }
        Command::Worker { who, folder, documents } => {
            let workload = Workload { documents };
            worker::serve(who, &folder, workload, io::stdin().lock(), io::stdout().lock())
        }
        Command::Server(server) => run_server(&server),
        Command::Grid(grid) => run_grid(&grid),
        Command::Host { kind, folder, things } => host::serve(kind, &folder, things),
        Command::Component { component, count } => component.run(count).map(|_| ()),
    }
}

fn run_server(server: &Server) -> Outcome<()> {
    let Server { documents, rounds, turn, watch, write_docs } = *server;
    check_size(documents, rounds)?;
    let [turn, watch] = [turn, watch].map(Duration::from_secs);
    let settings = load::Settings { documents, rounds, turn, watch };
    let program = std::env::current_exe()?;
    let mut findings = load::run(&program, settings, &mut io::stderr())?;
    let circumstances = Circumstances {
        command: "cargo xtask bench server".to_owned(),
        date: today(),
        machine: machine::describe(),
        engines: engines::describe(),
        documents,
        rounds,
    };
    publish("server", &load::render(&circumstances, &mut findings), write_docs)
}

fn run_grid(grid: &Grid) -> Outcome<()> {
    let Grid { objects, rounds, turn, write_docs } = *grid;
    if objects == 0 || rounds == 0 {
        return Err("a run needs at least one object and a round".into());
    }
    let settings = grid::Settings { objects, rounds, turn: Duration::from_secs(turn) };
    let findings = grid::run(&std::env::current_exe()?, settings, &mut io::stderr())?;
    let circumstances = Circumstances {
        command: "cargo xtask bench grid".to_owned(),
        date: today(),
        machine: machine::describe(),
        engines: engines::describe(),
        documents: objects,
        rounds,
    };
    publish("grid", &grid::render(&circumstances, &findings), write_docs)
}

fn run_core(core: &Core) -> Outcome<()> {
    let Core { documents, rounds, write_docs } = *core;
    check_size(documents, rounds)?;
    let workload = Workload { documents };
    let haste = if documents < DOCUMENTS_FULL { 50 } else { 1 };
    let program = std::env::current_exe()?;
    let folder = tempfile::Builder::new().prefix("keyloom-bench-").tempdir_in(scratch()?)?;
    let mut log = io::stderr();
    let mut crew = Crew::start(&program, folder.path(), workload)?;
    let figures = conductor::run(&mut crew, Settings { workload, rounds, haste }, &mut log)?;
    drop(crew);
    folder.close()?;
    writeln!(log, "measuring components")?;
    let components = component::measure_all(&program, haste)?;
    let circumstances = Circumstances {
        command: command(core),
        date: today(),
        machine: machine::describe(),
        engines: engines::describe(),
        documents,
        rounds,
    };
    let report = report::render(&circumstances, &figures, &components);
    publish("core", &report, write_docs)
}

fn check_size(documents: u64, rounds: u64) -> Outcome<()> {
    if documents < DOCUMENTS_MIN || !documents.is_multiple_of(100) || rounds == 0 {
        let needs = format!("at least {DOCUMENTS_MIN} documents, a multiple of 100, and a round");
        return Err(format!("a run needs {needs}").into());
    }
    Ok(())
}

/// Prints a report and, if asked, puts it into the document.
fn publish(name: &str, report: &str, write_docs: bool) -> Outcome<()> {
    write!(io::stdout().lock(), "{report}")?;
    if write_docs {
        let document = fs::read_to_string(DOCUMENT)?;
        let replaced = report::docs::replace_report(&document, name, report)
            .ok_or_else(|| format!("{DOCUMENT} has no marks for the report of `{name}`"))?;
        fs::write(DOCUMENT, replaced)?;
    }
    Ok(())
}

/// Where the data lies during a run: where builds lie, since the folder for temporary files is
/// often no disk, and what is durable has to be measured on one.
fn scratch() -> Outcome<PathBuf> {
    let target = Path::new("target");
    fs::create_dir_all(target)?;
    Ok(target.canonicalize()?)
}

/// The command that gives this report again.
fn command(core: &Core) -> String {
    let Core { documents, rounds, .. } = core;
    let mut command = "cargo xtask bench core".to_owned();
    if (*documents, *rounds) != (1_000_000, 5) {
        command += &format!(" --documents {documents} --rounds {rounds}");
    }
    command
}

/// Today in Greenwich, as year, month and day.
#[expect(clippy::disallowed_methods, reason = "a report bears the date of the day")]
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date so many days after the first day of 1970.
fn date(days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    while left >= if is_leap(year) { 366 } else { 365 } {
        left -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_through_leap_years() {
        let dates = [0, 58, 59, 364, 365, 11_016, 11_017, 20_772].map(date);
        let expected = [
            "1970-01-01",
            "1970-02-28",
            "1970-03-01",
            "1970-12-31",
            "1971-01-01",
            "2000-02-29",
            "2000-03-01",
            "2026-11-15",
        ];
        assert_eq!(dates, expected);
    }

    #[test]
    fn the_command_names_what_differs_from_the_main_table() {
        let core = |documents, rounds| Core { documents, rounds, write_docs: true };
        assert_eq!(command(&core(1_000_000, 5)), "cargo xtask bench core");
        assert!(command(&core(5000, 1)).ends_with("--documents 5000 --rounds 1"));
    }
}
