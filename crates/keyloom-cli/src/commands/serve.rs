//! `keyloom serve`: the database over HTTP, until the process is told to stop.
//!
//! S1: One line on standard output says the address, once requests are taken.
//! S2: `SIGTERM` and `SIGINT` end it with 0, after all that was acknowledged is durable.

use std::sync::Arc;

use keyloom_server::{Config, Service};
use tokio::signal::unix::{SignalKind, signal};

use super::schema;
use crate::args::{Global, Serve};
use crate::open::{Missing, open};
use crate::output::Output;
use crate::problem::Failure;

/// Runs the server on a runtime of its own: the other commands need none.
pub(super) async fn run(
    options: Serve,
    global: &Global,
    output: &mut Output,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::file("the runtime"))?;
    runtime.block_on(serve(options, global, output))
}

async fn serve(options: Serve, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let Serve { listen, schema: files } = options;
    let engine = open(&global.store(), global.options(), Missing::Create).await?;
    if !files.is_empty() {
        engine.apply_schema(&schema::read_checked(&files).await?, &mut |_| {}).await?;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::file("SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::file("SIGINT"))?;
    let config = Config { listen, ..Config::default() };
    let service = Arc::new(Service::new(Arc::new(engine)));
    let server = keyloom_server::bind(service, config).await?;
    output.line(format_args!("keyloom serves http://{}", server.address()))?;
    output.flush()?;
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(stopped).await;
    Ok(())
}
