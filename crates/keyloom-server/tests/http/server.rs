//! A server on a real socket over a store in memory, and a client that sends what it is told to.
//!
//! X1: Paths go out as they are written; nothing is normalized on the way.
//! X2: Whatever is asked, an answer of 500 fails the test, so that no test overlooks one.
//! X3: What a refusal says is checked each time that one is looked at.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Options, RealSystem, System};
use keyloom_server::{Config, Service};
use keyloom_store::memory::MemoryStore;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

/// What has not happened by then never will: a test that waits fails then, instead of for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

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

/// The schemas as users get them.
pub(crate) const APPROVALS: &str = include_str!("../../../../schemas/approvals.toml");
pub(crate) const REPUTATION: &str = include_str!("../../../../schemas/reputation.toml");
pub(crate) const STICKERS: &str = include_str!("../../../../schemas/stickers.toml");

/// A clock that a test sets; everything else is real.
#[derive(Default)]
pub(crate) struct Clock {
    millis: AtomicU64,
}

impl Clock {
    pub(crate) fn set(&self, millis: u64) {
        self.millis.store(millis, Ordering::SeqCst);
    }
}

#[async_trait]
impl System for Clock {
    fn now_micros(&self) -> u64 {
        self.millis.load(Ordering::SeqCst) * 1000
    }

    fn random(&self, bytes: &mut [u8]) {
        RealSystem.random(bytes);
    }

    async fn sleep(&self, duration: Duration) {
        RealSystem.sleep(duration).await;
    }
}

/// A running server; it ends with the runtime of its test. Clones talk to the same one.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    stop: Arc<Notify>,
    running: Arc<Mutex<JoinHandle<()>>>,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A request that is being put together.
pub(crate) struct Ask<'s> {
    server: &'s Server,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// What the server has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    /// A server with a schema.
    pub(crate) async fn start(schema: &str) -> Server {
        Server::with(schema, Options::default(), Config::default()).await
    }

    /// A server that is run as told, on any free port.
    pub(crate) async fn with(schema: &str, options: Options, config: Config) -> Server {
        let engine = Engine::open(Arc::new(MemoryStore::new()), options).await.unwrap();
        let engine = Arc::new(engine);
        engine.apply_schema(&Schema::from_toml(schema).unwrap(), &mut |_| {}).await.unwrap();
        Server::over(engine, config).await
    }

    /// A server over a database that is open already.
    pub(crate) async fn over(engine: Arc<Engine>, config: Config) -> Server {
        let service = Arc::new(Service::new(Arc::clone(&engine)));
        let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..config };
        let listening = keyloom_server::bind(service, config).await.unwrap();
        let address = listening.address();
        let stop = Arc::new(Notify::new());
        let running = tokio::spawn(listening.run(Arc::clone(&stop).notified_owned()));
        let running = Arc::new(Mutex::new(running));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Server { address, engine, stop, running, client }
    }

    /// A server with notes that is configured.
    pub(crate) async fn configured(config: Config) -> Server {
        Server::with(NOTES, Options::default(), config).await
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop(&self) {
        self.stop.notify_one();
        (&mut *self.running.lock().await).await.unwrap();
    }

    /// Sends bytes that no client library would send, and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A connection that is reset after the answer has still answered.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A request without a body.
    pub(crate) fn ask(&self, method: Method, path: impl Into<String>) -> Ask<'_> {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Ask { server: self, method, path: path.into(), headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Json) -> Answer {
        self.ask(Method::POST, path).json(body).send().await
    }

    /// Creates a document.
    pub(crate) async fn create(&self, collection: &str, data: &Json) -> Answer {
        let path = format!("/v1/collections/{collection}/documents");
        self.post(&path, &serde_json::json!({ "data": data })).await
    }

    /// Changes members of a document that is at this version.
    pub(crate) async fn patch(
        &self,
        collection: &str,
        key: &str,
        version: u64,
        patch: &Json,
    ) -> Answer {
        let ask = self.ask(Method::PATCH, document_path(collection, key));
        ask.header("if-match", &format!("\"{version}\"")).json(patch).send().await
    }

    /// The document with this key.
    pub(crate) async fn document(&self, collection: &str, key: &str) -> Answer {
        self.get(&document_path(collection, key)).await
    }

    /// Asks `query`, `count`, `exists` or `list` of a collection and gets an answer.
    pub(crate) async fn question(&self, collection: &str, question: &str, body: &Json) -> Json {
        let path = format!("/v1/collections/{collection}/{question}");
        self.post(&path, body).await.ok()
    }

    /// The keys that are stored under a path of a collection.
    pub(crate) async fn keys(&self, collection: &str, index: &str) -> Vec<String> {
        let path = format!("/v1/collections/{collection}/keys?index={index}&limit=1000");
        let page = self.get(&path).await.ok();
        assert_eq!(page["next"], Json::Null, "more keys than a test looks at");
        serde_json::from_value(page["keys"].clone()).unwrap()
    }

    /// How many documents a collection says that it has.
    pub(crate) async fn documents(&self, collection: &str) -> u64 {
        let info = self.get(&format!("/v1/collections/{collection}")).await.ok();
        info["documents"].as_u64().unwrap()
    }

    /// Makes a token, as whoever another one is for; the first one as nobody.
    pub(crate) async fn token(&self, by: Option<&str>, body: &Json) -> String {
        let ask = self.ask(Method::POST, "/v1/tokens").json(body);
        let made = by.into_iter().fold(ask, Ask::token).send().await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Fails the test unless documents and keys agree.
    pub(crate) async fn assert_sound(&self) {
        let report = self.post("/v1/check", &serde_json::json!({})).await.ok();
        assert_eq!(report["problems"], serde_json::json!([]));
    }
}

impl Ask<'_> {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
        self
    }

    /// As whoever this token is for.
    pub(crate) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &Json) -> Self {
        self.bytes("application/json", body.to_string())
    }

    pub(crate) fn bytes(mut self, media: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        self.body = body.into();
        self
    }

    /// Sends it and reads the answer to its end.
    pub(crate) async fn send(self) -> Answer {
        let response = self.open().await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// Sends it and leaves the body of the answer to be read.
    pub(crate) async fn open(self) -> axum::http::Response<Incoming> {
        let Ask { server, method, path, headers, body } = self;
        let said = format!("{method} {path}");
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = format!("http://{}{path}", server.address).parse().unwrap();
        *request.headers_mut() = headers;
        let response = server.client.request(request).await.unwrap();
        assert_ne!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "X2: {said}");
        response
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The body of an answer that is a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Json {
        assert!(matches!(self.status, 200 | 201), "{}: {:?}", self.status, self.body);
        self.json()
    }

    /// The status and code of a refusal, which has to be a problem document (X3).
    #[track_caller]
    pub(crate) fn refusal(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{:?}", self.body);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let code = problem["code"].as_str().unwrap();
        assert_eq!(problem["type"], format!("urn:keyloom:problem:{code}"));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        format!("{} {code}", self.status)
    }

    /// A header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The keys of the items of a page.
    #[track_caller]
    pub(crate) fn keys(&self) -> Vec<String> {
        keys(&self.ok())
    }

    /// What a refusal says.
    #[track_caller]
    pub(crate) fn detail(&self) -> String {
        self.refusal();
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// Where a document is, with every character of its key escaped.
pub(crate) fn document_path(collection: &str, key: &str) -> String {
    let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
    format!("/v1/collections/{collection}/documents/{key}")
}

/// The keys of the items of a page.
pub(crate) fn keys(page: &Json) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

/// One member of the data of each item of a page.
pub(crate) fn values(page: &Json, field: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["data"][field].as_str().unwrap().to_owned()).collect()
}
