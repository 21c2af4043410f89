//! Load on the server: what REST costs beside a bare handler, and what too much of it does.
//!
//! ```text
//! load ─► host process: bare handler     ─┐
//!      ─► host process: Keyloom on redb  ─┴─ sockets on loopback ─► clients in this process
//! ```
//!
//! L1: The bare handler answers with the bytes that Keyloom answered with, through the same kind of
//!     connections, in rounds that alternate.
//! L2: Whatever is no success is counted apart, and ends a run in which it should not occur.

mod client;
mod report;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::host::{self, Host, Kind};
use crate::machine;
use crate::outcome::Outcome;
use crate::workload::{LIST_LIMIT, Reading, Workload, id, user};
pub(crate) use client::percentile;
use client::{Ask, BATCH, Load, Tally};
pub(crate) use report::render;

/// Connections of a measurement that the server can keep up with.
const CONNECTIONS: usize = 32;

/// Connections under overload: more than the server works on at once, so that it has to refuse.
const OVERLOAD_CONNECTIONS: usize = 2048;

/// How much more than the server can do is asked of it.
const OVERLOAD: f64 = 4.0;

/// How often the memory of the server is looked at.
const GLANCE: Duration = Duration::from_secs(10);

/// How a run is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) documents: u64,
    pub(crate) rounds: u64,
    /// How long a turn of one server in a round takes.
    pub(crate) turn: Duration,
    /// How long the memory is watched.
    pub(crate) watch: Duration,
}

/// What a run found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Requests per second of each round: bare and Keyloom.
    pub(crate) get: Vec<(f64, f64)>,
    pub(crate) newest: Vec<(f64, f64)>,
    /// Durable batches at the rate that they come back with, and at four times that rate.
    pub(crate) sustained: Tally,
    pub(crate) overloaded: Tally,
    /// Resident bytes of the server under steady load.
    pub(crate) memory: Vec<u64>,
    pub(crate) watched: Tally,
}

/// Runs everything.
pub(crate) fn run(program: &Path, settings: Settings, log: &mut dyn Write) -> Outcome<Findings> {
    let folder = tempfile::Builder::new().prefix("keyloom-load-").tempdir_in(crate::scratch()?)?;
    let workload = Workload { documents: settings.documents };
    writeln!(log, "loading {} approvals", settings.documents)?;
    let keyloom = Host::start(program, Kind::Keyloom, folder.path(), settings.documents)?;
    let runtime = Runtime::new()?;
    let gets = paths(workload, Reading::Get);
    let lists = paths(workload, Reading::Newest);
    let samples = runtime.block_on(async {
        let get = client::fetch(keyloom.address, gets.first().ok_or("no documents")?).await?;
        let list = client::fetch(keyloom.address, lists.first().ok_or("no users")?).await?;
        Outcome::Ok((get, list))
    })?;
    std::fs::write(folder.path().join(host::GET), samples.0)?;
    std::fs::write(folder.path().join(host::NEWEST), samples.1)?;
    let bare = Host::start(program, Kind::Bare, folder.path(), settings.documents)?;
    let mut findings = Findings::default();
    for round in 1..=settings.rounds {
        writeln!(log, "round {round} of {}", settings.rounds)?;
        let rate = |host: &Host, paths: Vec<String>| {
            let load = Load { connections: CONNECTIONS, lasts: settings.turn, rate: None };
            let tally = runtime.block_on(client::drive(host.address, Ask::Get(paths), load))?;
            tally.all_succeeded()
        };
        let fixed = |path: &str| vec![format!("/{path}")];
        findings.get.push((rate(&bare, fixed(host::GET))?, rate(&keyloom, gets.clone())?));
        findings.newest.push((rate(&bare, fixed(host::NEWEST))?, rate(&keyloom, lists.clone())?));
    }
    drop(bare);
    overload(&runtime, &keyloom, settings, log, &mut findings)?;
    writeln!(log, "watching the memory for {} s", settings.watch.as_secs())?;
    runtime.block_on(watch(&keyloom, (gets, lists), settings.watch, &mut findings))?;
    Ok(findings)
}

/// Durable batches: as many as come back, then four times as many.
fn overload(
    runtime: &Runtime,
    keyloom: &Host,
    settings: Settings,
    log: &mut dyn Write,
    findings: &mut Findings,
) -> Outcome<()> {
    let Settings { documents, turn, .. } = settings;
    let workload = Workload { documents };
    writeln!(log, "durable batches, sustained and overloaded")?;
    let creates = |from| Ask::Create { workload, from: documents + from };
    let sustained = Load { connections: 4 * CONNECTIONS, lasts: 2 * turn, rate: None };
    let tally = runtime.block_on(client::drive(keyloom.address, creates(0), sustained))?;
    let rate = tally.all_succeeded()? * OVERLOAD;
    let asked = u64::try_from(tally.succeeded).unwrap_or(u64::MAX).saturating_mul(BATCH);
    findings.sustained = tally;
    let load = Load { connections: OVERLOAD_CONNECTIONS, lasts: 2 * turn, rate: Some(rate) };
    findings.overloaded = runtime.block_on(client::drive(keyloom.address, creates(asked), load))?;
    Ok(())
}

/// Steady reads, and what the server's memory does meanwhile.
async fn watch(
    keyloom: &Host,
    (gets, lists): (Vec<String>, Vec<String>),
    lasts: Duration,
    findings: &mut Findings,
) -> Outcome<()> {
    let mixed = gets.into_iter().zip(lists.into_iter().cycle());
    let mixed = mixed.flat_map(|(get, list)| [get, list]).collect();
    let load = Load { connections: CONNECTIONS, lasts, rate: None };
    let driving = tokio::spawn(client::drive(keyloom.address, Ask::Get(mixed), load));
    while !driving.is_finished() {
        sleep(GLANCE.min(lasts)).await;
        findings.memory.push(machine::resident_bytes(Some(keyloom.process_id())));
    }
    findings.watched = driving.await??;
    findings.watched.all_succeeded().map(|_| ())
}

/// The addresses of many questions.
fn paths(workload: Workload, reading: Reading) -> Vec<String> {
    let questions = workload.questions(reading, workload.documents, 1, 10_000);
    let address = |question: u64| match reading {
        Reading::Get => {
            let key = format!("approval:record:{}", id(question));
            let key = utf8_percent_encode(&key, NON_ALPHANUMERIC);
            format!("/v1/collections/approvals/documents/{key}")
        }
        _ => format!(
            "/v1/collections/approvals/documents?requester={}&order=-created_at&limit={LIST_LIMIT}",
            user(question)
        ),
    };
    questions.into_iter().map(address).collect()
}
