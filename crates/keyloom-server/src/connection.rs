//! One connection: what is asked on it, and when it is given up.
//!
//! N1: One connection too many is told so and closed.
//! N2: A connection that asks nothing, or takes no answer, is closed; one on which nothing is under
//!     way does not hold up a stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::debug;

use crate::app::App;
use crate::caller::Peer;
use crate::gathered::Gathered;
use crate::leaving::Traffic;
use crate::limits::{HANDSHAKE_TIMEOUT, KEEP_ALIVE, STREAMS_MAX};
use crate::room::Claim;
use crate::{grpc, rest};

/// What answers on a connection.
pub(crate) struct Doors {
    pub(crate) rest: Router,
    pub(crate) grpc: grpc::Services,
}

/// What serves one connection.
pub(crate) struct Connection {
    pub(crate) doors: Arc<Doors>,
    pub(crate) app: Arc<App>,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    pub(crate) async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>, watcher: Watcher) {
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
        let traffic = Arc::new(Traffic::default());
        let counted = Arc::clone(&traffic);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            let under_way = counted.begin();
            let doors = Arc::clone(&doors);
            request.extensions_mut().insert(Peer(peer));
            // Some kilobytes, which would be copied at each step of starting the task.
            Box::pin(async move {
                // N1
                let mut answer = match is_refused {
                    true => rest::too_many_connections().map(Either::Left),
                    false => doors.answer(request).await,
                };
                let claim = answer.extensions_mut().remove::<Arc<Claim>>();
                Ok::<_, Infallible>(answer.map(|body| under_way.answer(body, claim)))
            })
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(app.config.head_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(KEEP_ALIVE))
            .max_concurrent_streams(STREAMS_MAX);
        let stream = Gathered::new(stream, Arc::clone(&traffic));
        let connection = builder.serve_connection(stream.clone(), answer).into_owned();
        let connection = watcher.watch(connection);
        let mut stopping = app.stopping.clone();
        let is_left_over = async {
            // The sender lives as long as the server runs.
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            traffic.ends().await;
        };
        tokio::select! {
            // A connection that breaks is the client's business.
            () = stream.serve(connection) => {}
            // N2
            () = traffic.stalls(app.config.head_timeout, app.config.answer_timeout) => {
                debug!("a connection that asks or takes nothing is closed");
            }
            () = is_left_over => {}
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
