//! The change feed: server-sent events for who follows it, lines of JSON for who asks for a page.
//!
//! ```text
//! id: 17                                        id: 21                 event: error
//! data: {"position":17,"kind":"created",…}      : nothing new          data: {"type":…}
//! ```
//!
//! C1: A reader costs the server one page at a time, read from the store when the reader has taken
//!     the page before; nothing is queued for it.
//! C2: A reader sees every change that it may see, in commit order, or an error that says which
//!     ones are gone; never a gap in silence.
//! C3: The id of an event is the position to go on from. A beat carries the id that was reached, so
//!     that a reader of a quiet collection does not read the rest again.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::stream;
use keyloom_engine::limits::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX};
use keyloom_engine::{Change, Error, Identity, Position};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use super::Refusal;
use super::answer::Answer;
use super::read::Parameters;
use super::route::{Route, takes};
use crate::app::App;
use crate::caller::Caller;
use crate::limits::CHANGES_READ_MAX;
use crate::metrics::ReaderMark;
use crate::problem::problem;
use crate::{asked, wire};

const EVENTS: &str = "text/event-stream";
const LINES: &str = "application/x-ndjson";

/// The position that a page has reached.
const POSITION: HeaderName = HeaderName::from_static("keyloom-position");

/// With which id a client that lost its connection goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) fn routes() -> Vec<Route> {
    let route = Route::new("/v1/changes", &[Method::GET], get(changes));
    vec![route.producing(&[EVENTS, LINES])]
}

async fn changes(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    parameters: Parameters,
    headers: HeaderMap,
) -> Answer {
    parameters.only(&["after", "collection", "limit"])?;
    let collection = parameters.get("collection").map(str::to_owned);
    if let Some(name) = &collection {
        app.service.check_followed(&caller, name)?;
    }
    let after = begin(&app, &parameters, &headers).await?;
    let limit = parameters.get("limit").map(|text| asked::number("limit", text)).transpose();
    let limit: Option<usize> = limit.map_err(Refusal::invalid)?;
    let wanted = Wanted { caller, collection };
    if wants_lines(&headers) {
        return page(&app, &wanted, after, limit.unwrap_or(PAGE_LIMIT_DEFAULT)).await;
    }
    if limit.is_some() {
        return Err(Refusal::invalid(format!("`limit` is for pages: send Accept: {LINES}")));
    }
    follow(app, wanted, after).await
}

/// What a reader wants to hear of.
struct Wanted {
    caller: Identity,
    collection: Option<String>,
}

impl Wanted {
    fn takes(&self, app: &App, change: &Change) -> bool {
        self.collection.as_ref().is_none_or(|name| *name == *change.home())
            && app.service.shows(&self.caller, change)
    }
}

/// Where a reader begins: behind what it has seen, or where it says.
async fn begin(
    app: &App,
    parameters: &Parameters,
    headers: &HeaderMap,
) -> Result<Position, Refusal> {
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
    let text = last.filter(|text| !text.is_empty()).or_else(|| parameters.get("after"));
    asked::position(text, app.service.feed().await?).map_err(Refusal::invalid)
}

/// Whether lines are asked for by name; who takes anything follows the feed.
fn wants_lines(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|text| text.split(','));
    ranges.any(|range| takes(range, LINES) && !range.contains('*'))
}

/// A page of lines, and the position that it has reached.
async fn page(app: &App, wanted: &Wanted, after: Position, limit: usize) -> Answer {
    if limit == 0 {
        let detail = format!("the limit of a page is 1 to {PAGE_LIMIT_MAX}");
        return Err(Refusal::invalid(detail));
    }
    if limit > PAGE_LIMIT_MAX {
        let what = "changes of a page".to_owned();
        return Err(Error::LimitExceeded { what, found: limit, max: PAGE_LIMIT_MAX }.into());
    }
    let (mut body, mut found, mut reached) = (Vec::new(), 0, after);
    let mut left = CHANGES_READ_MAX;
    while found < limit && left > 0 {
        let changes = app.service.changes(reached, PAGE_LIMIT_MAX).await?;
        if changes.is_empty() {
            break;
        }
        left = left.saturating_sub(changes.len());
        for change in changes {
            if found == limit {
                break;
            }
            reached = change.position();
            if wanted.takes(app, &change) {
                found += 1;
                write_json(&mut body, change);
                body.push(b'\n');
            }
        }
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(LINES)),
        (POSITION, HeaderValue::from(reached.0)),
    ];
    Ok((headers, body).into_response())
}

/// The feed from a position on, for as long as the reader stays.
async fn follow(app: Arc<App>, wanted: Wanted, after: Position) -> Answer {
    // What is gone is told now, while there is a status to tell it with.
    app.service.changes(after, 1).await?;
    let place = Arc::clone(&app.readers).try_acquire_owned();
    let place = place.map_err(|_| Refusal::busy("as many follow the feed as the server takes"))?;
    let reader = Reader {
        mark: app.metrics.reader(after.0),
        stopping: app.stopping.clone(),
        app,
        wanted,
        reached: after,
        state: Following::Begins,
        _place: place,
    };
    let events = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(Bytes::from(bytes)), reader))
    });
    let headers = [(header::CONTENT_TYPE, EVENTS), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// One who follows the feed.
struct Reader {
    app: Arc<App>,
    wanted: Wanted,
    reached: Position,
    state: Following,
    stopping: watch::Receiver<bool>,
    mark: ReaderMark,
    _place: OwnedSemaphorePermit,
}

enum Following {
    Begins,
    Reads,
    Ended,
}

impl Reader {
    /// What is sent next; `None` is the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self.state {
            Following::Ended => return None,
            Following::Begins => {
                self.state = Following::Reads;
                // Something at once, so that the reader knows that it is connected.
                return Some(b"retry: 1000\n: connected\n\n".to_vec());
            }
            Following::Reads => {}
        }
        let service = Arc::clone(&self.app.service);
        let beat = sleep(self.app.config.heartbeat);
        let mut beat = std::pin::pin!(beat);
        loop {
            // Before the look into the store, so that no write in between is missed.
            let written = service.written();
            match self.read().await {
                Ok(Some(events)) => return Some(events),
                Ok(None) => {}
                Err(error) => {
                    self.state = Following::Ended;
                    return Some(error_event(&error));
                }
            }
            tokio::select! {
                () = written => {}
                () = &mut beat => break,
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
        Some(format!("id: {}\n: nothing new\n\n", self.reached.0).into_bytes())
    }

    /// The events of the next page that has any; `None` at the end of the feed.
    async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let changes = self.app.service.changes(self.reached, PAGE_LIMIT_DEFAULT).await?;
            let Some(last) = changes.last() else { return Ok(None) };
            let reached = last.position();
            let mut events = Vec::new();
            for change in changes.into_iter().filter(|change| self.wanted.takes(&self.app, change))
            {
                events.extend_from_slice(format!("id: {}\ndata: ", change.position().0).as_bytes());
                write_json(&mut events, change);
                events.extend_from_slice(b"\n\n");
            }
            self.reached = reached;
            self.mark.reach(reached.0);
            if !events.is_empty() {
                return Ok(Some(events));
            }
            // A long stretch of what others wrote: whoever shares the thread goes first.
            tokio::task::yield_now().await;
        }
    }
}

fn error_event(error: &Error) -> Vec<u8> {
    let mut event = b"event: error\ndata: ".to_vec();
    serde_json::to_writer(&mut event, &problem(error)).expect("a problem document is JSON");
    event.extend_from_slice(b"\n\n");
    event
}

fn write_json(body: &mut Vec<u8>, change: Change) {
    serde_json::to_writer(body, &wire::change(change)).expect("a change is JSON");
}
