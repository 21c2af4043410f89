//! Zenoh: objects, entries and functions as keys, for those who speak no HTTP.
//!
//! Z1: It is off until it is configured, and finds nobody by itself: it speaks with those who
//!     connect to it and those it is told to connect to.
//! Z2: A query is answered, or told why not, and so is an asynchronous call, where its result is
//!     awaited. Any other put or delete has nobody to tell: what is wrong with it is logged.
//! Z3: A token comes as the attachment. Without any tokens the caller is the administrator where
//!     only this machine takes part: nobody listens elsewhere, and nobody is connected to.
//! Z4: A query takes a place among the requests and has their deadline; puts are worked on one
//!     after the other, beside the queries, and hold up those who put. The rate limit counts both.
//! Z5: What is under way when the server stops is finished within the time of a stop.

mod ask;
mod key;
mod note;

use std::sync::Arc;

use keyloom_api::Code;
use keyloom_api::grid::ObjMeta;
use keyloom_engine::{Change, Error, ObjectChange, ObjectId, Position, Touched};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use zenoh::Session;
use zenoh::query::Query;
use zenoh::sample::{Locality, Sample, SampleKind};

use crate::app::App;
use crate::caller::is_loopback;
use crate::edge::no_place;
use crate::grid::{self as convert, identity};
use crate::limits::{ZENOH_CHANGES_PAGE, ZENOH_PAUSE};
use crate::listen::ServeError;
use crate::rest::Refusal;

/// Everything that the grid has.
const ALL: &str = "oprc/**";

/// What the server is able to do.
const CAPABILITIES: &str = "oprc/capabilities";

/// What stays as it is in a segment of a key.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b':').remove(b'-').remove(b'~');

/// Where Zenoh listens, and whom it connects to: `tcp/127.0.0.1:7447`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZenohEndpoints {
    /// Where it listens.
    pub listen: Vec<String>,
    /// Whom it connects to.
    pub connect: Vec<String>,
}

/// A session that is open.
pub(crate) struct Door {
    session: Session,
    /// Whether only this machine takes part (Z3).
    is_local: bool,
}

/// What all who answer share.
struct Desk {
    app: Arc<App>,
    session: Session,
    is_local: bool,
    /// Gone when the last of them is done (Z5).
    _alive: mpsc::Sender<()>,
}

impl ZenohEndpoints {
    /// The first behind which others may be: who listens here is told, and a router of this machine
    /// may pass on what comes from elsewhere.
    fn foreign(&self) -> Option<&String> {
        let is_foreign = |endpoint: &&String| {
            let (_, address) = endpoint.split_once('/').unwrap_or(("", endpoint));
            !is_loopback(address)
        };
        self.listen.iter().find(is_foreign).or_else(|| self.connect.first())
    }
}

impl Door {
    /// Opens a session (Z1, Z3).
    pub(crate) async fn open(
        endpoints: &ZenohEndpoints,
        has_tokens: bool,
        message_bytes_max: usize,
    ) -> Result<Door, ServeError> {
        let failed = |error: zenoh::Error| ServeError::Zenoh { reason: error.to_string() };
        let foreign = endpoints.foreign();
        if let (false, Some(endpoint)) = (has_tokens, foreign) {
            return Err(ServeError::ZenohOpen { endpoint: endpoint.clone() });
        }
        let mut config = zenoh::Config::default();
        let listed = |endpoints: &[String]| serde_json::json!(endpoints).to_string();
        for (name, value) in [
            ("mode", "\"peer\"".to_owned()),
            ("scouting/multicast/enabled", "false".to_owned()),
            ("scouting/gossip/enabled", "false".to_owned()),
            ("transport/link/rx/max_message_size", message_bytes_max.to_string()),
            ("listen/endpoints", listed(&endpoints.listen)),
            ("connect/endpoints", listed(&endpoints.connect)),
        ] {
            config.insert_json5(name, &value).map_err(failed)?;
        }
        let session = zenoh::open(config).await.map_err(failed)?;
        Ok(Door { session, is_local: foreign.is_none() })
    }

    /// Answers until the server stops.
    pub(crate) async fn run(self, app: Arc<App>, mut stopping: watch::Receiver<bool>) {
        let Door { session, is_local } = self;
        let declared = async {
            let queries = session.declare_queryable(ALL).complete(true).await?;
            // What we publish ourselves is nothing to do.
            let samples = session.declare_subscriber(ALL).allowed_origin(Locality::Remote).await?;
            Ok::<_, zenoh::Error>((queries, samples))
        };
        let (queries, samples) = match declared.await {
            Ok(declared) => declared,
            Err(error) => return warn!(%error, "Zenoh does not answer"),
        };
        let publisher = tokio::spawn(publish(Arc::clone(&app), session.clone()));
        let time = app.config.shutdown_timeout;
        let (alive, mut ended) = mpsc::channel(1);
        let desk = Desk { app, session: session.clone(), is_local, _alive: alive };
        let desk = Arc::new(desk);
        let (putting, mut stopped) = (Arc::clone(&desk), stopping.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    // One after the other: puts of one client keep their order.
                    sample = samples.recv_async() => match sample {
                        Ok(sample) => take(&putting, sample).await,
                        Err(_) => break,
                    },
                    _ = stopped.changed() => break,
                }
            }
        });
        loop {
            tokio::select! {
                query = queries.recv_async() => match query {
                    Ok(query) => drop(tokio::spawn(reply(Arc::clone(&desk), query))),
                    Err(_) => break,
                },
                _ = stopping.changed() => break,
            }
        }
        drop(desk);
        if timeout(time, ended.recv()).await.is_err() {
            warn!("what came over Zenoh was cut off: it ran longer than a stop waits");
        }
        publisher.abort();
        if let Err(error) = session.close().await {
            debug!(%error, "Zenoh did not close in order");
        }
    }
}

/// Answers a query (Z2, Z4).
async fn reply(desk: Arc<Desk>, query: Query) {
    let app = &desk.app;
    let answered = match app.places.try_acquire() {
        Ok(_place) => match timeout(app.config.deadline, asked(&desk, &query)).await {
            Ok(answered) => answered,
            Err(_) => Err(Refusal::new(
                Code::OutcomeUnknown,
                "the deadline has passed, and a change may still happen: read before you retry",
            )),
        },
        Err(_) => Err(no_place()),
    };
    let sent = match answered {
        Ok(bytes) => query.reply(query.key_expr().clone(), bytes).await,
        Err(refusal) => {
            let told = serde_json::to_vec(refusal.problem()).expect("a problem document is JSON");
            query.reply_err(told).await
        }
    };
    if let Err(error) = sent {
        debug!(%error, "a reply did not go out");
    }
}

async fn asked(desk: &Desk, query: &Query) -> Result<Vec<u8>, Refusal> {
    let asker = note::read(desk, query.attachment()).await?;
    let service = &desk.app.service;
    if query.key_expr().as_str() == CAPABILITIES {
        return Ok(convert::capabilities(&service.rollout()).encode_to_vec());
    }
    let key = key::read(service, query.key_expr().as_str())?;
    let payload = query.payload().map(|bytes| bytes.to_bytes().into_owned());
    Ok(ask::answer(service, &asker, key, payload.as_deref()).await?)
}

/// Takes a put or a delete (Z2).
async fn take(desk: &Arc<Desk>, sample: Sample) {
    let name = sample.key_expr().as_str();
    let taken = async {
        let service = &desk.app.service;
        let key = key::read(service, name)?;
        if let (SampleKind::Put, key::What::InvokeLater(..)) = (sample.kind(), &key.what) {
            ask::invoke_later(Arc::clone(desk), key, sample.clone());
            return Ok(());
        }
        let asker = note::read(desk, sample.attachment()).await?;
        match sample.kind() {
            SampleKind::Put => ask::put(service, &asker, key, &sample.payload().to_bytes()).await?,
            SampleKind::Delete => ask::delete(service, &asker, key).await?,
        }
        Ok::<_, Refusal>(())
    };
    if let Err(refusal) = taken.await {
        let error = &refusal.problem().detail;
        warn!(key = name, error, "a put or delete over Zenoh was refused");
    }
}

/// Publishes the changes of objects from now on: what the object is now, without its entries.
async fn publish(app: Arc<App>, session: Session) {
    let mut after = None;
    loop {
        let written = app.service.written();
        match publish_page(&app, &session, after).await {
            Ok((reached, found)) => {
                after = Some(reached);
                if found == 0 {
                    written.await;
                }
            }
            // What is gone from the feed is gone here, too: it goes on with what comes next.
            Err(Error::ChangesGone { .. }) => after = None,
            Err(error) => {
                warn!(%error, "Zenoh publishes no changes for a moment");
                sleep(ZENOH_PAUSE).await;
            }
        }
    }
}

/// Publishes the changes behind a position, or none and begins at the end; how far it came, and how
/// many changes there were.
async fn publish_page(
    app: &App,
    session: &Session,
    after: Option<Position>,
) -> Result<(Position, usize), Error> {
    let service = &app.service;
    let Some(mut reached) = after else { return Ok((service.feed().await?.last, 0)) };
    let changes = service.changes(reached, ZENOH_CHANGES_PAGE).await?;
    let found = changes.len();
    for change in changes {
        reached = change.position();
        if let Change::Object(change) = change
            && let Err(error) = publish_one(session, change).await
        {
            debug!(%error, "a change was not published");
        }
    }
    Ok((reached, found))
}

async fn publish_one(session: &Session, change: ObjectChange) -> Result<(), zenoh::Error> {
    let ObjectChange { position: _, kind, class, partition, id, version, entries: _ } = change;
    let key = changes_key(&class, partition, &id);
    if kind == Touched::Deleted {
        return session.delete(key).await;
    }
    let (object_id, object_id_str) = identity(&id);
    let partition_id = u32::from(partition);
    let version = Some(version);
    let now = ObjMeta { cls_id: class, partition_id, object_id, object_id_str, version };
    session.put(key, now.encode_to_vec()).await
}

/// Where changes of an object are published.
fn changes_key(class: &str, partition: u16, id: &ObjectId) -> String {
    let class = utf8_percent_encode(class, SEGMENT);
    let name = id.to_string();
    let name = utf8_percent_encode(&name, SEGMENT);
    let kind = if matches!(id, ObjectId::Numeric(_)) { "objects" } else { "sobjects" };
    format!("oprc/{class}/{partition}/{kind}/{name}/changes")
}

/// Where the result of a call is published.
fn result_key(
    class: &str,
    partition: &str,
    object: Option<&ObjectId>,
    function: &str,
    invocation: &str,
) -> String {
    let object = match object {
        None => String::new(),
        Some(id) => {
            let kind = if matches!(id, ObjectId::Numeric(_)) { "objects" } else { "sobjects" };
            let name = id.to_string();
            format!("/{kind}/{}", utf8_percent_encode(&name, SEGMENT))
        }
    };
    let [class, function, invocation] =
        [class, function, invocation].map(|text| utf8_percent_encode(text, SEGMENT));
    format!("oprc/{class}/{partition}{object}/results/{function}/async/{invocation}")
}
