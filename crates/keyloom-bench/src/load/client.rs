//! Clients: connections that ask one question after the other.
//!
//! C1: With a rate, a request has its time whether or not the one before it came back. Its latency
//!     counts from when it was sent: clients that share the machine with the server fall behind
//!     their own plan, and that is not what is measured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::outcome::Outcome;
use crate::workload::Workload;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// These addresses, around and around.
    Get(Vec<String>),
    /// To create approvals from this number on, several in each request.
    Create { workload: Workload, from: u64 },
}

/// The documents of one request that creates: as many as make it so heavy that the clients can ask
/// for more than the server can do, although they share its machine.
pub(super) const BATCH: u64 = 10;

/// How much is asked, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) lasts: Duration,
    /// Requests per second; without one, each connection asks as soon as it has its answer.
    pub(super) rate: Option<f64>,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) succeeded: usize,
    /// Told to come back later.
    pub(crate) refused: usize,
    pub(crate) failed: usize,
    pub(crate) seconds: f64,
    /// Of those that succeeded.
    pub(crate) micros: Vec<u64>,
    /// Of those that were told to come back later.
    pub(crate) refused_micros: Vec<u64>,
}

impl Tally {
    /// Successes per second.
    pub(crate) fn rate(&self) -> f64 {
        count(self.succeeded) / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The same, where nothing else is expected.
    pub(super) fn all_succeeded(&self) -> Outcome<f64> {
        let Tally { succeeded, refused, failed, .. } = *self;
        if succeeded == 0 || refused + failed > 0 {
            let found = format!("{succeeded} succeeded, {refused} refused, {failed} failed");
            return Err(format!("a load that should pass did not: {found}").into());
        }
        Ok(self.rate())
    }

    fn add(&mut self, other: Tally) {
        self.succeeded += other.succeeded;
        self.refused += other.refused;
        self.failed += other.failed;
        self.micros.extend(other.micros);
        self.refused_micros.extend(other.refused_micros);
    }

    fn note(&mut self, status: Option<StatusCode>, taken: Duration) {
        let micros = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
        match status {
            Some(status) if status.is_success() => {
                self.succeeded += 1;
                self.micros.push(micros);
            }
            Some(StatusCode::SERVICE_UNAVAILABLE) => {
                self.refused += 1;
                self.refused_micros.push(micros);
            }
            _ => self.failed += 1,
        }
    }
}

/// The smallest value that so many per cent of all do not exceed.
pub(crate) fn percentile(values: &mut [u64], percent: usize) -> u64 {
    values.sort_unstable();
    let place = (values.len() * percent).div_ceil(100).saturating_sub(1);
    values.get(place).copied().unwrap_or_default()
}

/// A number of things, as one to divide by.
pub(crate) fn count(things: usize) -> f64 {
    u32::try_from(things).map_or(f64::MAX, f64::from)
}

/// The body of one answer.
pub(super) async fn fetch(address: SocketAddr, path: &str) -> Outcome<Vec<u8>> {
    let mut connection = connect(address).await?;
    let (status, body) = send(&mut connection, request(Method::GET, path, Bytes::new())?).await?;
    if status != StatusCode::OK {
        return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(body.to_vec())
}

/// Asks from many connections at once.
pub(super) async fn drive(address: SocketAddr, ask: Ask, load: Load) -> Outcome<Tally> {
    let mut connections = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        connections.push(connect(address).await?);
    }
    let started = Instant::now();
    let errand = Arc::new(Errand { address, ask, load, started, asked: AtomicU64::new(0) });
    let mut all = JoinSet::new();
    for connection in connections {
        let errand = Arc::clone(&errand);
        all.spawn(async move { errand.converse(connection).await });
    }
    let mut tally = Tally::default();
    while let Some(one) = all.join_next().await {
        tally.add(one??);
    }
    tally.seconds = started.elapsed().as_secs_f64();
    Ok(tally)
}

/// What all connections of a load share.
struct Errand {
    address: SocketAddr,
    ask: Ask,
    load: Load,
    started: Instant,
    /// How many requests were taken on so far.
    asked: AtomicU64,
}

impl Errand {
    /// What one connection asks and hears.
    async fn converse(&self, mut connection: SendRequest<Full<Bytes>>) -> Outcome<Tally> {
        let mut tally = Tally::default();
        loop {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let due = match self.load.rate {
                None => Instant::now(),
                Some(rate) => self.started + Duration::from_secs_f64(count_u64(number) / rate),
            };
            if due >= self.started + self.load.lasts {
                return Ok(tally);
            }
            sleep_until(due).await;
            let question = question(&self.ask, number)?;
            let sent = Instant::now();
            let answer = send(&mut connection, question).await;
            tally.note(answer.as_ref().ok().map(|(status, _)| *status), sent.elapsed());
            if answer.is_err() || connection.is_closed() {
                connection = connect(self.address).await?;
            }
        }
    }
}

fn count_u64(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

fn question(ask: &Ask, number: u64) -> Outcome<Request<Full<Bytes>>> {
    match ask {
        Ask::Get(paths) => {
            let place = usize::try_from(number)? % paths.len().max(1);
            let path = paths.get(place).ok_or("there is nothing to ask")?;
            request(Method::GET, path, Bytes::new())
        }
        Ask::Create { workload, from } => {
            let first = from + number * BATCH;
            let creates = (first..first + BATCH).map(|number| {
                let data = workload.approval(number).json;
                format!(r#"{{"op":"create","collection":"approvals","data":{data}}}"#)
            });
            let creates = creates.collect::<Vec<_>>().join(",");
            let body = format!(r#"{{"operations":[{creates}]}}"#);
            request(Method::POST, "/v1/batch", body.into())
        }
    }
}

fn request(method: Method, path: &str, body: Bytes) -> Outcome<Request<Full<Bytes>>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json");
    Ok(request.body(Full::new(body))?)
}

async fn connect(address: SocketAddr) -> Outcome<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What breaks it is seen by whoever sends next.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Outcome<(StatusCode, Bytes)> {
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&mut values, percent)), [50, 99, 100]);
        assert_eq!(percentile(&mut [7], 99), 7);
        assert_eq!(percentile(&mut [], 99), 0);
    }

    #[test]
    fn a_load_with_refusals_is_not_taken_for_one_that_passed() {
        let mut tally = Tally { seconds: 2.0, ..Tally::default() };
        assert!(tally.all_succeeded().is_err());
        tally.note(Some(StatusCode::CREATED), Duration::from_micros(5));
        assert_eq!(tally.all_succeeded().unwrap(), 0.5);
        tally.note(Some(StatusCode::SERVICE_UNAVAILABLE), Duration::from_micros(6));
        assert!(tally.all_succeeded().unwrap_err().to_string().contains("1 refused"));
        tally.note(None, Duration::ZERO);
        tally.note(Some(StatusCode::NOT_FOUND), Duration::ZERO);
        assert_eq!((tally.failed, tally.micros, tally.refused_micros), (2, vec![5], vec![6]));
    }
}
