//! Calls over gRPC: connections with many calls in flight on each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyloom_api::grid::data_service_client::DataServiceClient;
use keyloom_api::grid::{
    BatchSetValuesRequest, ObjData, SetKeyRequest, SetObjectRequest, SingleKeyRequest,
    SingleObjectRequest, ValData,
};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::body::Body;
use tower::service_fn;
use tower::util::BoxCloneService;

use super::{CLASS, ENTRIES, entry_key, string_id, value};
use crate::outcome::Outcome;

/// Connections, and the calls that wait for an answer on each of them.
const CONNECTIONS: u64 = 4;
pub(super) const IN_FLIGHT: u64 = 64;

/// How many entries a batch sets.
const BATCH: u64 = 50;

/// One connection. What a channel of tonic adds to it (a queue, reconnecting, balancing) would cost
/// the clients as much as the server spends on a call, and they share the machine with it.
type Connection = BoxCloneService<Request<Body>, Response<Incoming>, hyper::Error>;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// One entry.
    GetValue,
    /// One entry is set.
    SetValue,
    /// A whole object.
    Get,
    /// A whole object is replaced.
    Set,
    /// Many entries are set at once.
    BatchSetValues,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    pub(super) call: Call,
    pub(super) objects: u64,
    /// Values differ from round to round, so that every set is a change.
    pub(super) round: u64,
}

impl Call {
    /// All of them.
    pub(super) const ALL: [Call; 5] =
        [Call::GetValue, Call::SetValue, Call::Get, Call::Set, Call::BatchSetValues];

    /// What stands in the table.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Call::GetValue => "GetValue",
            Call::SetValue => "SetValue",
            Call::Get => "Get, 16 entries",
            Call::Set => "Set, 16 entries",
            Call::BatchSetValues => "BatchSetValues, 50 entries",
        }
    }

    /// What the system that this replaces was measured at, in memory and without durability, in
    /// calls per second.
    pub(super) const fn yardstick(self) -> f64 {
        match self {
            Call::GetValue => 55_000.0,
            Call::SetValue => 44_000.0,
            Call::Get => 25_000.0,
            Call::Set => 13_700.0,
            Call::BatchSetValues => 5_000.0,
        }
    }
}

/// Calls until the time is over; calls per second.
pub(super) async fn drive(address: SocketAddr, errand: Errand, lasts: Duration) -> Outcome<f64> {
    let mut clients = Vec::new();
    let origin: Uri = format!("http://{address}").parse()?;
    for _ in 0..CONNECTIONS {
        clients.push(DataServiceClient::with_origin(connect(address).await?, origin.clone()));
    }
    let number = Arc::new(AtomicU64::new(errand.round * 1_000_003));
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for client in clients.iter().cycle().take(usize::try_from(IN_FLIGHT)?) {
        let (mut client, number, done) = (client.clone(), Arc::clone(&number), Arc::clone(&done));
        callers.spawn(async move {
            while started.elapsed() < lasts {
                let next = number.fetch_add(1, Ordering::Relaxed);
                errand.call(&mut client, next).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    let done = u32::try_from(done.load(Ordering::Relaxed))?;
    Ok(f64::from(done) / started.elapsed().as_secs_f64())
}

async fn connect(address: SocketAddr) -> Outcome<Connection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(BoxCloneService::new(service_fn(move |request| sender.clone().send_request(request))))
}

impl Errand {
    async fn call(self, client: &mut DataServiceClient<Connection>, number: u64) -> Outcome<()> {
        let Errand { call, objects, .. } = self;
        let cls_id = CLASS.to_owned();
        let object_id_str = Some(string_id(number % objects));
        let key_str = Some(entry_key(number % ENTRIES));
        let val = |entry| ValData { data: value(number, entry), ..ValData::default() };
        let vals = |count| -> BTreeMap<String, ValData> {
            (0..count).map(|entry| (entry_key(entry), val(entry))).collect()
        };
        match call {
            Call::GetValue => {
                let ask = SingleKeyRequest { cls_id, object_id_str, key_str, ..Default::default() };
                let found = client.get_value(ask).await?.into_inner();
                found.value.ok_or("there is no such entry")?;
            }
            Call::SetValue => {
                let value = Some(val(number));
                let ask = SetKeyRequest {
                    cls_id,
                    object_id_str,
                    key_str,
                    value,
                    ..SetKeyRequest::default()
                };
                client.set_value(ask).await?;
            }
            Call::Get => {
                let ask = SingleObjectRequest { cls_id, object_id_str, ..Default::default() };
                let object = client.get(ask).await?.into_inner().obj.ok_or("no such object")?;
                if u64::try_from(object.entries_str.len())? != ENTRIES {
                    return Err("an object has lost entries".into());
                }
            }
            Call::Set => {
                let object = Some(ObjData { entries_str: vals(ENTRIES), ..ObjData::default() });
                let ask = SetObjectRequest { cls_id, object_id_str, object, ..Default::default() };
                client.set(ask).await?;
            }
            Call::BatchSetValues => {
                // Objects of their own: the others keep the number of their entries.
                let object_id_str = Some(format!("batch-{:07}", number % objects));
                let values = vals(BATCH);
                let ask = BatchSetValuesRequest {
                    cls_id,
                    object_id_str,
                    values,
                    ..BatchSetValuesRequest::default()
                };
                client.batch_set_values(ask).await?;
            }
        }
        Ok(())
    }
}
