//! A function under test: it remembers what it was called with, and fails when it is told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyloom_api::grid::oprc_function_server::{OprcFunction, OprcFunctionServer};
use keyloom_api::grid::{
    EventInfo, InvocationRequest, InvocationResponse, ObjectInvocationRequest, ResponseStatus,
    TriggerPayload,
};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// What a call brought.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) function: String,
    /// The object that it was called on.
    pub(crate) object: Option<String>,
    pub(crate) payload: Vec<u8>,
    /// How many events led to it, as it was told.
    pub(crate) depth: Option<String>,
}

/// A function that is served on a port of its own.
pub(crate) struct Function {
    pub(crate) address: SocketAddr,
    /// Lets one call of `gate` through.
    pub(crate) gate: Arc<Notify>,
    calls: watch::Receiver<Vec<Called>>,
    serving: JoinHandle<()>,
}

struct Answering {
    calls: Arc<Mutex<watch::Sender<Vec<Called>>>>,
    gate: Arc<Notify>,
}

impl Function {
    pub(crate) async fn start() -> Function {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Function::on(listener)
    }

    /// The same where it was before.
    pub(crate) async fn start_at(address: SocketAddr) -> Function {
        Function::on(TcpListener::bind(address).await.unwrap())
    }

    fn on(listener: TcpListener) -> Function {
        let address = listener.local_addr().unwrap();
        let (sender, calls) = watch::channel(Vec::new());
        let gate = Arc::new(Notify::new());
        let answering = Answering { calls: Arc::new(Mutex::new(sender)), gate: Arc::clone(&gate) };
        let server = tonic::transport::Server::builder()
            .add_service(OprcFunctionServer::new(answering).max_decoding_message_size(8 << 20))
            .serve_with_incoming(TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { server.await.unwrap() });
        Function { address, gate, calls, serving }
    }

    /// A class with four partitions that has the function under several names.
    pub(crate) fn schema(&self, event: &str) -> String {
        let url = format!("http://{}", self.address);
        let functions: Vec<String> = ["notify", "fail", "slow", "gate", "loop", "told"]
            .iter()
            .map(|name| format!("{name} = {{ url = \"{url}\", timeout_ms = 2000 }}\n"))
            .collect();
        let functions = functions.concat();
        format!("[classes.order]\npartitions = 4\n[classes.order.functions]\n{functions}\n{event}")
    }

    /// What it was called with, once it was called so often.
    pub(crate) async fn called(&mut self, times: usize) -> Vec<Called> {
        let called = self.calls.wait_for(|calls| calls.len() >= times);
        let called = tokio::time::timeout(Duration::from_secs(20), called).await;
        called.expect("the function is called in time").unwrap().clone()
    }

    /// The events among what it was called with.
    pub(crate) async fn events(&mut self, times: usize) -> Vec<(EventInfo, Vec<u8>)> {
        let called = self.called(times).await;
        let payloads = called.into_iter().map(|call| TriggerPayload::decode(&*call.payload));
        let read = |payload: TriggerPayload| {
            (payload.event_info.unwrap(), payload.original_payload.unwrap())
        };
        payloads.map(|payload| read(payload.unwrap())).collect()
    }

    /// Ends it before it was ever called.
    pub(crate) fn stop(self) -> SocketAddr {
        self.serving.abort();
        self.address
    }
}

impl Answering {
    async fn answer(&self, called: Called) -> Result<Response<InvocationResponse>, Status> {
        let function = called.function.clone();
        let payload = Some(called.payload.clone());
        self.calls.lock().unwrap().send_modify(|calls| calls.push(called));
        let mut response = InvocationResponse { payload, ..InvocationResponse::default() };
        match function.as_str() {
            "fail" => response.status = ResponseStatus::AppError.into(),
            "slow" => std::future::pending().await,
            "gate" => self.gate.notified().await,
            _ => {}
        }
        Ok(Response::new(response))
    }
}

#[async_trait::async_trait]
impl OprcFunction for Answering {
    async fn invoke_fn(
        &self,
        request: Request<InvocationRequest>,
    ) -> Result<Response<InvocationResponse>, Status> {
        let request = request.into_inner();
        let depth = request.options.get("keyloom-depth").cloned();
        let (function, payload) = (request.fn_id, request.payload);
        self.answer(Called { function, object: None, payload, depth }).await
    }

    async fn invoke_obj(
        &self,
        request: Request<ObjectInvocationRequest>,
    ) -> Result<Response<InvocationResponse>, Status> {
        let request = request.into_inner();
        let object = request.object_id.map(|id| id.to_string()).or(request.object_id_str);
        let depth = request.options.get("keyloom-depth").cloned();
        let (function, payload) = (request.fn_id, request.payload);
        self.answer(Called { function, object, payload, depth }).await
    }
}
