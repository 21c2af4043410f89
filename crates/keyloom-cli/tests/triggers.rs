//! 10,000 changes trigger a function that fails now and then, while the program is killed five
//! times: every change is delivered, in the order of its partition, and a second delivery has the
//! number of the first.

#![expect(clippy::unwrap_used, reason = "a failed test is a panic")]

mod killable;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;

use keyloom_api::grid::data_service_client::DataServiceClient;
use keyloom_api::grid::oprc_function_server::{OprcFunction, OprcFunctionServer};
use keyloom_api::grid::{
    InvocationRequest, InvocationResponse, ObjectInvocationRequest, ResponseStatus, SetKeyRequest,
    TriggerPayload, ValData,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use killable::Program;

const STORE: &str = "engine=fjall&durability=buffered";
const PARTITIONS: u32 = 4;
const CHANGES: u64 = 2_500;
const KILLS: usize = 5;

/// One call in so many fails.
const FAILS: u64 = 32;

/// What was delivered: the numbers and values of each partition, in the order of arrival.
type Delivered = BTreeMap<u32, Vec<(u64, u64)>>;

/// Remembers what it was called with, and fails now and then.
struct Function {
    state: Mutex<u64>,
    delivered: watch::Sender<Delivered>,
}

#[tokio::test(flavor = "multi_thread")]
async fn o14_o15_every_change_is_delivered_in_order_though_function_and_server_fail() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let schema = schema(listener.local_addr().unwrap());
    let (sender, mut delivered) = watch::channel(Delivered::new());
    let function = Function { state: Mutex::new(1), delivered: sender };
    let server = tonic::transport::Server::builder()
        .add_service(OprcFunctionServer::new(function))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(async move { server.await.unwrap() });

    let mut program = Program::start(folder.path(), STORE, &schema);
    let (moved, address) = watch::channel(program.address.clone());
    let mut writers = JoinSet::new();
    for partition in 0..PARTITIONS {
        writers.spawn(write(partition, address.clone()));
    }
    let all = CHANGES * u64::from(PARTITIONS);
    for kill in 1..=KILLS {
        let enough = all * kill as u64 / (KILLS as u64 + 1);
        delivered.wait_for(|delivered| count(delivered) >= enough).await.unwrap();
        drop(program);
        program = Program::start(folder.path(), STORE, &schema);
        moved.send(program.address.clone()).unwrap();
    }
    writers.join_all().await;
    let is_done = |delivered: &Delivered| {
        let last = |partition| delivered.get(&partition).and_then(|all| all.last().copied());
        (0..PARTITIONS).all(|partition| last(partition).is_some_and(|(_, value)| value == CHANGES))
    };
    let delivered = delivered.wait_for(is_done).await.unwrap().clone();
    for (partition, arrived) in delivered {
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for (sequence, value) in arrived {
            match seen.last_key_value() {
                // A second delivery of the last one: the program was killed before it noted it.
                Some((&last, &before)) if last == sequence => assert_eq!(before, value),
                Some((&last, _)) => assert_eq!(sequence, last + 1, "partition {partition}"),
                None => assert_eq!(sequence, 1, "partition {partition}"),
            }
            seen.insert(sequence, value);
        }
        let values: Vec<u64> = seen.into_values().collect();
        assert_eq!(values, (1..=CHANGES).collect::<Vec<_>>(), "partition {partition}");
    }
}

/// Sets one entry again and again; what was not answered is tried again, where the program is now.
async fn write(partition: u32, mut address: watch::Receiver<String>) {
    let mut value = 1;
    while value <= CHANGES {
        let now = format!("http://{}", *address.borrow_and_update());
        let Ok(channel) = Endpoint::from_shared(now).unwrap().connect().await else {
            // Killed: it will be said where it lives again.
            address.changed().await.unwrap();
            continue;
        };
        let mut client = DataServiceClient::new(channel);
        // If it happened and was not answered, setting the same value again triggers nothing.
        while value <= CHANGES && client.set_value(change(partition, value)).await.is_ok() {
            value += 1;
        }
    }
}

fn change(partition_id: u32, value: u64) -> SetKeyRequest {
    SetKeyRequest {
        cls_id: "order".to_owned(),
        partition_id,
        object_id: Some(7),
        key: Some(1),
        value: Some(ValData { data: value.to_string().into_bytes(), r#type: 0 }),
        ..SetKeyRequest::default()
    }
}

fn count(delivered: &Delivered) -> u64 {
    delivered.values().map(|all| all.len() as u64).sum()
}

fn schema(function: SocketAddr) -> String {
    format!(
        r#"
[classes.order]
partitions = {PARTITIONS}
functions.tell = {{ url = "http://{function}" }}
[classes.order.event.data_trigger.1]
on_create = [{{ class = "order", function = "tell" }}]
on_update = [{{ class = "order", function = "tell" }}]
"#
    )
}

#[tonic::async_trait]
impl OprcFunction for Function {
    async fn invoke_fn(
        &self,
        request: Request<InvocationRequest>,
    ) -> Result<Response<InvocationResponse>, Status> {
        let payload = TriggerPayload::decode(&*request.into_inner().payload).unwrap();
        let info = payload.event_info.unwrap();
        let value = String::from_utf8(payload.original_payload.unwrap()).unwrap();
        let arrived = (info.sequence, value.parse().unwrap());
        let is_failure = {
            // A linear congruential generator: the same failures in every run, some of them twice
            // in a row.
            let mut state = self.state.lock().unwrap();
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*state >> 33).is_multiple_of(FAILS)
        };
        let mut response = InvocationResponse::default();
        if is_failure {
            response.status = ResponseStatus::AppError.into();
        } else {
            let partition = info.source_partition_id;
            self.delivered.send_modify(|all| all.entry(partition).or_default().push(arrived));
        }
        Ok(Response::new(response))
    }

    async fn invoke_obj(
        &self,
        _: Request<ObjectInvocationRequest>,
    ) -> Result<Response<InvocationResponse>, Status> {
        Err(Status::unimplemented("it is called on no object"))
    }
}
