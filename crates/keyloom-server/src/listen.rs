//! The socket: accepts connections, serves them, and lets them finish when the server stops.
//!
//! L1: Connections are bounded; one more is told so and closed.
//! L2: After the stop nothing is accepted, and what runs may finish within its time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::app::App;
use crate::config::Config;
use crate::edge::RequestIds;
use crate::limits::ACCEPT_PAUSE;
use crate::rest;
use crate::service::Service;

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
}

/// A server that has its address, and accepts once it is run.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    app: Arc<App>,
    stop: watch::Sender<bool>,
}

/// Takes the address that the configuration names.
pub async fn bind(service: Arc<Service>, config: Config) -> Result<Listening, ServeError> {
    let listen = |source| ServeError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let (stop, stopping) = watch::channel(false);
    let app = Arc::new(App {
        service,
        places: Semaphore::new(config.requests_max),
        request_ids: RequestIds::starting_at(random()),
        stopping,
        config,
    });
    Ok(Listening { listener, address, router: rest::router(&app), app, stop })
}

impl Listening {
    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stopped` is done, and then until all requests are finished.
    pub async fn run(self, stopped: impl Future<Output = ()>) {
        let Listening { listener, router, app, stop, .. } = self;
        let connections = Arc::new(Semaphore::new(app.config.connections_max));
        let graceful = GracefulShutdown::new();
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stopped => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let place = Arc::clone(&connections).try_acquire_owned().ok();
                    serve(stream, place, &router, &app, &graceful);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(listener);
        // Streams of changes end, and what asks whether the server is ready hears that it is not.
        let _ = stop.send(true);
        let _ = timeout(app.config.shutdown_timeout, graceful.shutdown()).await;
    }
}

/// Serves one connection on a task of its own.
fn serve(
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
    router: &Router,
    app: &Arc<App>,
    graceful: &GracefulShutdown,
) {
    // Small answers go out at once; a client would wait for them otherwise.
    let _ = stream.set_nodelay(true);
    let router = router.clone();
    let is_refused = place.is_none();
    let answer = service_fn(move |request: Request<Incoming>| {
        let router = router.clone();
        async move { Ok::<Response<Body>, Infallible>(handle(router, request, is_refused).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(app.config.head_timeout);
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), answer).into_owned();
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A connection that breaks is the client's business.
        let _ = connection.await;
        drop(place);
    });
}

async fn handle(router: Router, request: Request<Incoming>, is_refused: bool) -> Response<Body> {
    if is_refused {
        // L1
        return rest::too_many_connections();
    }
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Where request ids begin.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
