//! The socket: accepts connections, serves them, and lets them finish when the server stops.
//!
//! L1: After the stop nothing is accepted, and what runs may finish within its time.
//! L2: An address that others can reach is served only if callers are known by tokens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::server::graceful::GracefulShutdown;
use keyloom_engine::Error as EngineError;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::app::App;
use crate::config::Config;
use crate::connection::{Connection, Doors};
use crate::edge::RequestIds;
use crate::limits::{ACCEPT_PAUSE, RATE_SWEEP};
use crate::rates::Rates;
use crate::room::Room;
use crate::service::Service;
use crate::{dispatch, grpc, rest, retention, tls, zenoh_door};

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system reported.
        source: io::Error,
    },
    /// Others could reach the server, and nobody has a token (L2).
    #[error(
        "{address} can be reached from other machines, and there is no token yet: create one with \
         `keyloom token create`, or listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// Certificate or key cannot be used.
    #[error("{file}: {reason}")]
    Tls {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An origin is not one.
    #[error("`{0}` is not an origin, as in https://app.example, or *")]
    Origin(String),
    /// Zenoh does not start.
    #[error("Zenoh: {reason}")]
    Zenoh {
        /// What it reported.
        reason: String,
    },
    /// Others could reach Zenoh, and nobody has a token (L2).
    #[error(
        "Zenoh at {endpoint} can be reached from other machines, and there is no token yet: create \
         one with `keyloom token create`, or only listen, on tcp/127.0.0.1"
    )]
    ZenohOpen {
        /// The endpoint.
        endpoint: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A server that has its address, and accepts once it is run.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    doors: Arc<Doors>,
    app: Arc<App>,
    stop: watch::Sender<bool>,
    tls: Option<TlsAcceptor>,
    zenoh: Option<zenoh_door::Door>,
}

/// Takes the address that the configuration names.
pub async fn bind(service: Arc<Service>, config: Config) -> Result<Listening, ServeError> {
    if !config.listen.ip().is_loopback() && !service.has_tokens().await? {
        return Err(ServeError::Open { address: config.listen });
    }
    let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
    let cors = rest::cors(&config.cors_origins)?;
    let listen = |source| ServeError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let zenoh = match &config.zenoh {
        Some(endpoints) => {
            let has_tokens = service.has_tokens().await?;
            let bytes_max = config.body_bytes_max;
            Some(zenoh_door::Door::open(endpoints, has_tokens, bytes_max).await?)
        }
        None => None,
    };
    let (stop, stopping) = watch::channel(false);
    let app = Arc::new(App {
        metrics: Arc::clone(service.metrics()),
        service,
        places: Semaphore::new(config.requests_max),
        room: Room::new(&config),
        readers: Arc::new(Semaphore::new(config.readers_max)),
        rates: config.rate_limit.map(Rates::new),
        request_ids: RequestIds::starting_at(random()),
        stopping,
        config,
    });
    let rest = rest::layered(rest::router(&app), cors);
    let doors = Arc::new(Doors { rest, grpc: grpc::Services::new(Arc::clone(&app)).await });
    Ok(Listening { listener, address, doors, app, stop, tls, zenoh })
}

impl Listening {
    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stopped` is done, and then until all requests are finished.
    pub async fn run(self, stopped: impl Future<Output = ()>) {
        let Listening { listener, doors, app, stop, tls, zenoh, .. } = self;
        let connections = Arc::new(Semaphore::new(app.config.connections_max));
        let graceful = GracefulShutdown::new();
        let keeper =
            retention::keep(Arc::clone(&app.service), app.config.retention, app.stopping.clone());
        let keeper = tokio::spawn(keeper);
        let dispatcher = dispatch::run(Arc::clone(&app.service), app.stopping.clone());
        let dispatcher = tokio::spawn(dispatcher);
        let zenoh =
            zenoh.map(|door| tokio::spawn(door.run(Arc::clone(&app), app.stopping.clone())));
        let sweeper = tokio::spawn(sweep(Arc::clone(&app)));
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopped => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let place = Arc::clone(&connections).try_acquire_owned().ok();
                    let (doors, app) = (Arc::clone(&doors), Arc::clone(&app));
                    let connection = Connection { doors, app, peer, place };
                    tokio::spawn(connection.serve(stream, tls.clone(), graceful.watcher()));
                }
                Err(error) => {
                    warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        info!("stopping");
        doors.grpc.stop().await;
        // Streams of changes end, and what asks whether the server is ready hears that it is not.
        let _ = stop.send(true);
        if timeout(app.config.shutdown_timeout, graceful.shutdown()).await.is_err() {
            warn!("requests were cut off: they ran longer than a stop waits");
        }
        sweeper.abort();
        let _ = dispatcher.await;
        if let Some(zenoh) = zenoh {
            let _ = zenoh.await;
        }
        let _ = keeper.await;
    }
}

/// Forgets callers that were quiet.
async fn sweep(app: Arc<App>) {
    let Some(rates) = &app.rates else { return };
    loop {
        sleep(RATE_SWEEP).await;
        rates.sweep();
    }
}

/// Where request ids begin.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
