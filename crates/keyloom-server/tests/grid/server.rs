//! A server under test, with clients for its doors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use keyloom_api::grid::data_service_client::DataServiceClient;
use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Options, Rollout};
use keyloom_server::{Config, ServeError, Service};
use keyloom_store::OrderedStore;
use keyloom_store::memory::MemoryStore;
use serde_json::Value as Json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// What has not happened by then never will: a test that waits fails then, instead of for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A class with four partitions.
pub(crate) const GRID: &str = "[classes.order]\npartitions = 4\n";

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// What gRPC is spoken over.
    pub(crate) channel: Channel,
    http: Client<HttpConnector, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

/// What came back over HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    /// A server on a store in memory, where string identities are rolled out.
    pub(crate) async fn start(schema: &str) -> Server {
        Server::with(schema, Config::default()).await
    }

    /// The same, run as told.
    pub(crate) async fn with(schema: &str, config: Config) -> Server {
        Server::try_with(schema, config).await.unwrap()
    }

    /// The same, or why it does not start.
    pub(crate) async fn try_with(schema: &str, config: Config) -> Result<Server, ServeError> {
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store.clone(), Options::default()).await.unwrap();
        engine.apply_schema(&Schema::from_toml(schema).unwrap(), &mut |_| {}).await.unwrap();
        engine.set_rollout(Rollout::phase(3)).await.unwrap();
        Server::on(store, config).await
    }

    /// A server on what is stored already.
    pub(crate) async fn on(
        store: Arc<dyn OrderedStore>,
        config: Config,
    ) -> Result<Server, ServeError> {
        let engine = Arc::new(Engine::open(store, Options::default()).await.unwrap());
        let service = Arc::new(Service::new(engine));
        let config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..config };
        let listening = keyloom_server::bind(service, config).await?;
        let address = listening.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(listening.run(async move {
            let _ = stopped.await;
        }));
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let http = Client::builder(TokioExecutor::new()).build_http();
        Ok(Server { address, channel, http, stop: Some(stop), running })
    }

    /// A client of the objects.
    pub(crate) fn data(&self) -> DataServiceClient<Channel> {
        DataServiceClient::new(self.channel.clone())
    }

    /// Sends a request over HTTP and reads the whole answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let (parts, body) = self.http.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// A request without a body.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], b"").await
    }

    /// A call of a function, or of something that takes no body.
    pub(crate) async fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body).await
    }

    /// A request with a JSON body.
    pub(crate) async fn json(&self, method: Method, path: &str, body: &Json) -> Answer {
        let headers = [("content-type", "application/json")];
        self.send(method, path, &headers, body.to_string().as_bytes()).await
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().unwrap().send(());
        drop((self.channel, self.http));
        self.running.await.unwrap();
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn read(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status, and the code of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        format!("{} {}", self.status, self.read()["code"].as_str().unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
