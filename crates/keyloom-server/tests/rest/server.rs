//! A server under test, and a client that sends exactly what it is told.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Options};
use keyloom_server::{Config, Service};
use keyloom_store::memory::MemoryStore;
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Notes: a small collection with an order, a unique claim and a bound on text.
pub(crate) const NOTES: &str = r##"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
[collections.notes.fields]
id    = { type = "id", required = true }
text  = { type = "text", length = { max = 10 } }
rank  = { type = "i64", required = true, default = 0 }
extra = { type = "json" }
code  = { type = "text", length = { max = 50 } }
[collections.notes.unique]
code = "code/{code}"
[collections.notes.indexes]
rank    = "rank:{rank}:{id}"
created = "created:{@created_at desc}:{id}"
"##;

/// A server on a port of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    /// A server with these collections, on a store in memory.
    pub(crate) async fn start(schema: &str) -> Server {
        Server::with(schema, Config::default()).await
    }

    /// The same, run as told.
    pub(crate) async fn with(schema: &str, config: Config) -> Server {
        let store = Arc::new(MemoryStore::new());
        let engine = Arc::new(Engine::open(store, Options::default()).await.unwrap());
        engine.apply_schema(&Schema::from_toml(schema).unwrap(), &mut |_| {}).await.unwrap();
        let service = Arc::new(Service::new(Arc::clone(&engine)));
        let config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..config };
        let listening = keyloom_server::bind(service, config).await.unwrap();
        let address = listening.address();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(listening.run(async move {
            let _ = stopped.await;
        }));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Server { address, engine, client, stop: Some(stop), running }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let answer = self.open(method, path, headers, body).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// Sends a request and hands over the answer as it arrives.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response<Incoming> {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        self.client.request(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], b"").await
    }

    /// A request with a JSON body.
    pub(crate) async fn json(&self, method: Method, path: &str, body: &Json) -> Answer {
        self.json_with(method, path, &[], body).await
    }

    /// A request with a JSON body and further headers.
    pub(crate) async fn json_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Json,
    ) -> Answer {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.send(method, path, &headers, body.to_string().as_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Json) -> Answer {
        self.json(Method::POST, path, body).await
    }

    /// Creates a document and returns it.
    pub(crate) async fn create(&self, collection: &str, data: &Json) -> Json {
        let path = format!("/v1/collections/{collection}/documents");
        let answer = self.post(&path, &serde_json::json!({ "data": data })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.read()
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes in the middle of what it does not want to read is fine.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.running.await.unwrap();
    }
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn read(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem, with its status, which the header has to agree with.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.read();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(problem["type"].as_str().unwrap().starts_with("urn:keyloom:problem:"), "{problem}");
        format!("{} {}", self.status, problem["code"].as_str().unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The keys of the items of a page.
    pub(crate) fn keys(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{self:?}");
        let page = self.read();
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
    }
}
