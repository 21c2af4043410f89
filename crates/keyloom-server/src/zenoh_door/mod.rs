//! Zenoh: objects, entries and functions as keys, for those who speak no HTTP.
//!
//! Z1: It is off until it is configured, and finds nobody by itself: it speaks with those who
//!     connect to it and those it is told to connect to.
//! Z2: A query is answered, or told why not. A put or a delete has nobody to tell: what is wrong
//!     with it is logged.
//! Z3: A token comes as the attachment. Without any tokens everybody is the administrator, so that
//!     Zenoh then listens on loopback only.

mod ask;
mod key;

use std::sync::Arc;

use keyloom_api::grid::ObjMeta;
use keyloom_engine::{Actor, Change, Error, Identity, ObjectChange, ObjectId, Touched};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use prost::Message as _;
use tokio::sync::watch;
use tracing::{debug, warn};
use zenoh::Session;
use zenoh::bytes::ZBytes;
use zenoh::query::Query;
use zenoh::sample::{Sample, SampleKind};

use crate::app::App;
use crate::grid::identity;
use crate::limits::ZENOH_CHANGES_PAGE;
use crate::listen::ServeError;
use crate::problem::problem;

/// Everything that the grid has.
const ALL: &str = "oprc/**";

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
}

impl Door {
    /// Opens a session (Z1, Z3).
    pub(crate) async fn open(
        endpoints: &ZenohEndpoints,
        has_tokens: bool,
    ) -> Result<Door, ServeError> {
        let failed = |error: zenoh::Error| ServeError::Zenoh { reason: error.to_string() };
        if let (false, Some(open)) =
            (has_tokens, endpoints.listen.iter().find(|endpoint| !is_loopback(endpoint)))
        {
            return Err(ServeError::ZenohOpen { endpoint: open.clone() });
        }
        let mut config = zenoh::Config::default();
        let listed = |endpoints: &[String]| serde_json::json!(endpoints).to_string();
        for (name, value) in [
            ("mode", "\"peer\"".to_owned()),
            ("scouting/multicast/enabled", "false".to_owned()),
            ("listen/endpoints", listed(&endpoints.listen)),
            ("connect/endpoints", listed(&endpoints.connect)),
        ] {
            config.insert_json5(name, &value).map_err(failed)?;
        }
        Ok(Door { session: zenoh::open(config).await.map_err(failed)? })
    }

    /// Answers until the server stops.
    pub(crate) async fn run(self, app: Arc<App>, mut stopping: watch::Receiver<bool>) {
        let Door { session } = self;
        let declared = async {
            let queries = session.declare_queryable(ALL).complete(true).await?;
            let samples = session.declare_subscriber(ALL).await?;
            Ok::<_, zenoh::Error>((queries, samples))
        };
        let (queries, samples) = match declared.await {
            Ok(declared) => declared,
            Err(error) => return warn!(%error, "Zenoh does not answer"),
        };
        let publisher = tokio::spawn(publish(Arc::clone(&app), session.clone()));
        loop {
            tokio::select! {
                query = queries.recv_async() => match query {
                    Ok(query) => drop(tokio::spawn(reply(Arc::clone(&app), query))),
                    Err(_) => break,
                },
                sample = samples.recv_async() => match sample {
                    // One after the other: puts of one client keep their order.
                    Ok(sample) => take(&app, &session, sample).await,
                    Err(_) => break,
                },
                _ = stopping.changed() => break,
            }
        }
        publisher.abort();
        if let Err(error) = session.close().await {
            debug!(%error, "Zenoh did not close in order");
        }
    }
}

/// Answers a query (Z2).
async fn reply(app: Arc<App>, query: Query) {
    let asked = async {
        let caller = caller(&app, query.attachment()).await?;
        let key = key::read(&app.service, query.key_expr().as_str())?;
        let payload = query.payload().map(|bytes| bytes.to_bytes().into_owned());
        ask::answer(&app.service, &caller, key, payload.as_deref()).await
    };
    let sent = match asked.await {
        Ok(bytes) => query.reply(query.key_expr().clone(), bytes).await,
        Err(error) => {
            let told = serde_json::to_vec(&problem(&error)).expect("a problem document is JSON");
            query.reply_err(told).await
        }
    };
    if let Err(error) = sent {
        debug!(%error, "a reply did not go out");
    }
}

/// Takes a put or a delete (Z2).
async fn take(app: &Arc<App>, session: &Session, sample: Sample) {
    let name = sample.key_expr().as_str();
    let taken = async {
        let key = key::read(&app.service, name)?;
        if matches!(key.what, key::What::Changes | key::What::Result(..)) {
            // What we have published ourselves.
            return Ok(());
        }
        let caller = caller(app, sample.attachment()).await?;
        let payload = sample.payload().to_bytes();
        if let key::What::InvokeLater(..) = key.what {
            return ask::invoke_later(app, session, caller, key, &payload);
        }
        match sample.kind() {
            SampleKind::Put => ask::put(&app.service, &caller, key, &payload).await,
            SampleKind::Delete => ask::delete(&app.service, &caller, key).await,
        }
    };
    if let Err(error) = taken.await {
        warn!(key = name, %error, "a put or delete over Zenoh was refused");
    }
}

/// Z3
async fn caller(app: &App, attachment: Option<&ZBytes>) -> Result<Identity, Error> {
    let Some(bytes) = attachment else {
        let has_tokens = app.service.has_tokens().await?;
        return Ok(if has_tokens { Actor::Anonymous } else { Actor::Local }.into());
    };
    let refused = || Error::Unauthenticated {
        collection: "*".to_owned(),
        detail: "the token is not valid: it is malformed, unknown, expired or revoked".to_owned(),
    };
    let bytes = bytes.to_bytes();
    let text = std::str::from_utf8(&bytes).map_err(|_| refused())?;
    let token = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    app.service.authenticate(token).await?.ok_or_else(refused)
}

/// Publishes the changes of objects from now on: what the object is now, without its entries.
async fn publish(app: Arc<App>, session: Session) {
    let mut after = match app.service.feed().await {
        Ok(feed) => feed.last,
        Err(error) => return warn!(%error, "Zenoh publishes no changes"),
    };
    loop {
        let written = app.service.written();
        let changes = match app.service.changes(after, ZENOH_CHANGES_PAGE).await {
            Ok(changes) => changes,
            Err(error) => return warn!(%error, "Zenoh publishes no more changes"),
        };
        let is_end = changes.is_empty();
        for change in changes {
            after = change.position();
            if let Change::Object(change) = change
                && let Err(error) = publish_one(&session, change).await
            {
                debug!(%error, "a change was not published");
            }
        }
        if is_end {
            written.await;
        }
    }
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
    partition: u16,
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

/// Whether an endpoint is reached from this machine only.
fn is_loopback(endpoint: &str) -> bool {
    let address = endpoint.split_once('/').map_or(endpoint, |(_, address)| address);
    ["127.", "localhost:", "[::1]:"].iter().any(|prefix| address.starts_with(prefix))
}
