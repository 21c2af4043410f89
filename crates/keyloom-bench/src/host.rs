//! A server in a process of its own, so that its memory can be told from that of its clients.
//!
//! H1: When a host is dropped, its process is gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;
use clap::ValueEnum;
use keyloom_engine::{Actor, Engine, Options};
use keyloom_server::{Config, Service};
use keyloom_store::OrderedStore;
use keyloom_store::group::Durability;
use keyloom_store_fjall::FjallStore;
use keyloom_store_redb::RedbStore;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::contender::LOAD_BATCH;
use crate::grid;
use crate::outcome::Outcome;
use crate::scribe::creates;
use crate::workload::{Approval, Workload, schema};

/// The file with what the bare handler answers to a get, and its path.
pub(crate) const GET: &str = "get";
/// The same for a list.
pub(crate) const NEWEST: &str = "newest";

/// What a host serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// Fixed bytes.
    Bare,
    /// Keyloom on redb with approvals.
    Keyloom,
    /// Keyloom on redb with objects.
    GridRedb,
    /// Keyloom on fjall with objects.
    GridFjall,
    /// Keyloom on fjall with objects, buffered.
    GridBuffered,
}

/// A server in a process of its own.
pub(crate) struct Host {
    process: Child,
    /// Closing it ends the process.
    input: Option<ChildStdin>,
    pub(crate) address: SocketAddr,
}

impl Host {
    /// Starts a server and waits until it listens.
    pub(crate) fn start(program: &Path, kind: Kind, folder: &Path, things: u64) -> Outcome<Host> {
        let name = kind.to_possible_value().ok_or("a host has a name")?;
        let mut process = Command::new(program)
            .args(["host", name.get_name()])
            .arg(folder)
            .arg(things.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("a host has no output")?;
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut host = Host { process, input, address: unknown };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        host.address = line.trim().parse().map_err(|_| "a host did not start")?;
        Ok(host)
    }

    /// The number of its process.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}

/// The life of a host with so many documents or objects: serves until its input ends.
pub(crate) fn serve(kind: Kind, folder: &Path, things: u64) -> Outcome<()> {
    let runtime = Runtime::new()?;
    let data: Arc<Path> = folder.join(format!("{kind:?}")).into();
    let buffered = Durability::Buffered;
    match kind {
        Kind::Bare => runtime.spawn(bare(folder.to_owned().into())),
        Kind::Keyloom => runtime.spawn(keyloom(data, Workload { documents: things })),
        Kind::GridRedb => runtime.spawn(objects(Arc::new(RedbStore::open(&data)?), things)),
        Kind::GridFjall => {
            let store = FjallStore::open(&data, Durability::Durable)?;
            runtime.spawn(objects(Arc::new(store), things))
        }
        Kind::GridBuffered => {
            runtime.spawn(objects(Arc::new(FjallStore::open(&data, buffered)?), things))
        }
    };
    let mut rest = Vec::new();
    std::io::stdin().lock().read_to_end(&mut rest)?;
    Ok(())
}

async fn bare(folder: Arc<Path>) -> Outcome<()> {
    let fixed = |name: &str| -> Outcome<_> {
        let body = Bytes::from(std::fs::read(folder.join(name))?);
        let answer = async move || ([(header::CONTENT_TYPE, "application/json")], body.clone());
        Ok(get(answer))
    };
    let router: Router = Router::new().route("/get", fixed(GET)?).route("/newest", fixed(NEWEST)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    announce(listener.local_addr()?)?;
    axum::serve(listener, router).await?;
    Ok(())
}

async fn keyloom(folder: Arc<Path>, workload: Workload) -> Outcome<()> {
    let store = Arc::new(RedbStore::open(&folder)?);
    let engine = Arc::new(Engine::open(store, Options::default()).await?);
    engine.apply_schema(&schema()?, &mut |_| {}).await?;
    let numbers: Vec<u64> = (0..workload.documents).collect();
    for numbers in numbers.chunks(LOAD_BATCH) {
        let approvals: Vec<Approval> = numbers.iter().map(|n| workload.approval(*n)).collect();
        engine.batch(&Actor::Local, &creates(&approvals)).await?;
    }
    answer(engine).await
}

async fn objects(store: Arc<dyn OrderedStore>, objects: u64) -> Outcome<()> {
    let engine = Arc::new(Engine::open(store, Options::default()).await?);
    grid::prepare(&engine, objects).await?;
    answer(engine).await
}

/// Serves a database.
async fn answer(engine: Arc<Engine>) -> Outcome<()> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let service = Arc::new(Service::new(engine));
    let listening = keyloom_server::bind(service, Config { listen, ..Config::default() }).await?;
    announce(listening.address())?;
    listening.run(std::future::pending()).await;
    Ok(())
}

fn announce(address: SocketAddr) -> Outcome<()> {
    writeln!(std::io::stdout().lock(), "{address}")?;
    Ok(())
}
