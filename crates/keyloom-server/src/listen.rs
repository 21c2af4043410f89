//! The socket: accepts connections, serves them, and lets them finish when the server stops.
//!
//! L1: Connections are bounded; one more is told so and closed.
//! L2: After the stop nothing is accepted, and what runs may finish within its time.
//! L3: An address that others can reach is served only if callers are known by tokens.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use keyloom_engine::Error as EngineError;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use crate::app::App;
use crate::caller::Peer;
use crate::config::Config;
use crate::edge::RequestIds;
use crate::limits::{ACCEPT_PAUSE, HANDSHAKE_TIMEOUT, KEEP_ALIVE, RATE_SWEEP};
use crate::rates::Rates;
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
    /// Others could reach the server, and nobody has a token (L3).
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
    /// Others could reach Zenoh, and nobody has a token (L3).
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
        readers: Arc::new(Semaphore::new(config.readers_max)),
        rates: config.rate_limit.map(Rates::new),
        request_ids: RequestIds::starting_at(random()),
        stopping,
        config,
    });
    let rest = rest::layered(rest::router(&app), cors);
    let doors = Arc::new(Doors { rest, grpc: grpc::Services::new(Arc::clone(&app)) });
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

/// What answers on a connection.
struct Doors {
    rest: Router,
    grpc: grpc::Services,
}

/// What serves one connection.
struct Connection {
    doors: Arc<Doors>,
    app: Arc<App>,
    peer: SocketAddr,
    place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>, watcher: Watcher) {
        // Small answers go out at once; a client would wait for them otherwise.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else { return self.speak(TokioIo::new(stream), watcher).await };
        match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(TokioIo::new(stream), watcher).await,
            Ok(Err(error)) => debug!(%error, "no TLS"),
            Err(_) => debug!("no TLS in time"),
        }
    }

    async fn speak(self, stream: impl Read + Write + Unpin + Send + 'static, watcher: Watcher) {
        let Connection { doors, app, peer, place } = self;
        let is_refused = place.is_none();
        let has_asked = Arc::new(AtomicBool::new(false));
        let asking = Arc::clone(&has_asked);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            asking.store(true, Ordering::Relaxed);
            let doors = Arc::clone(&doors);
            request.extensions_mut().insert(Peer(peer));
            // Some kilobytes, which would be copied at each step of starting the task.
            Box::pin(async move {
                // L1
                let answer = match is_refused {
                    true => rest::too_many_connections().map(Either::Left),
                    false => doors.answer(request).await,
                };
                Ok::<_, Infallible>(answer)
            })
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(app.config.head_timeout);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(KEEP_ALIVE));
        let connection = watcher.watch(builder.serve_connection(stream, answer).into_owned());
        // Whatever is said: a request has to be made in time.
        let is_quiet = async {
            sleep(app.config.head_timeout).await;
            if has_asked.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
        };
        tokio::select! {
            // A connection that breaks is the client's business.
            _ = connection => {}
            () = is_quiet => debug!("a connection that asked nothing is closed"),
        }
        drop(place);
    }
}

impl Doors {
    async fn answer(&self, request: Request<Incoming>) -> Response<grpc::Body> {
        let request = match self.grpc.answer(request).await {
            Ok(response) => return response,
            Err(request) => request,
        };
        match self.rest.clone().oneshot(request).await {
            Ok(response) => response.map(Either::Left),
            Err(never) => match never {},
        }
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
