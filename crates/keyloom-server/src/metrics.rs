//! What the server counts and measures, for Prometheus.
//!
//! M1: Labels are bounded: routes are templates, methods and statuses are what HTTP knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::Method;
use keyloom_engine::{CollectionInfo, Cost, EngineTally, Feed, ObjectStats, Touched};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::traces;

/// Seconds: from a read in memory to the deadline.
const LATENCY_BUCKETS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// Keys: one is what a good key costs.
const KEYS_BUCKETS: [f64; 7] = [1.0, 1.5, 2.0, 5.0, 20.0, 100.0, 1000.0];

/// Seconds: an id is read in less than a microsecond.
const NORMALIZE_BUCKETS: [f64; 6] = [1e-7, 2.5e-7, 5e-7, 1e-6, 1e-5, 1e-4];

/// Bytes of an id, up to the usual limit.
const ID_BUCKETS: [f64; 6] = [8.0, 16.0, 32.0, 64.0, 128.0, 160.0];

/// All counters of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    latency: Family<Place, Histogram>,
    keys_per_result: Histogram,
    refused_queries: Counter,
    in_flight: Gauge,
    objects: Family<Kind, Counter>,
    events: Family<Delivery, Counter>,
    normalize_errors: Counter,
    normalize_seconds: Histogram,
    id_bytes: Histogram,
    readers: Arc<Mutex<Readers>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Place {
    route: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    variant: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Delivery {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfClass {
    class: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StoredObjects {
    class: String,
    variant: &'static str,
}

/// How an object or an entry is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Numeric,
    String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FormatLabels {
    collection: String,
    format: String,
}

/// The positions of those who follow the feed.
#[derive(Default)]
struct Readers {
    next: u64,
    positions: HashMap<u64, Arc<AtomicU64>>,
}

/// Where one reader of the feed is; gone when the reader goes.
pub(crate) struct ReaderMark {
    id: u64,
    position: Arc<AtomicU64>,
    readers: Arc<Mutex<Readers>>,
}

/// What is looked up when somebody asks.
pub(crate) struct Looked {
    pub(crate) tally: EngineTally,
    pub(crate) feed: Feed,
    pub(crate) collections: Vec<CollectionInfo>,
    /// Classes by name, with what is in all partitions.
    pub(crate) classes: Vec<(String, ObjectStats)>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let latency =
            Family::new_with_constructor((|| Histogram::new(LATENCY_BUCKETS)) as fn() -> Histogram);
        let metrics = Metrics {
            registry: Registry::with_prefix("keyloom"),
            requests: Family::default(),
            latency,
            keys_per_result: Histogram::new(KEYS_BUCKETS),
            refused_queries: Counter::default(),
            in_flight: Gauge::default(),
            objects: Family::default(),
            events: Family::default(),
            normalize_errors: Counter::default(),
            normalize_seconds: Histogram::new(NORMALIZE_BUCKETS),
            id_bytes: Histogram::new(ID_BUCKETS),
            readers: Arc::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let registry = &mut self.registry;
        let requests = self.requests.clone();
        registry.register("requests", "Requests by route, method and status", requests);
        let latency = self.latency.clone();
        registry.register("request_seconds", "Time to the answer's head, by route", latency);
        let keys = self.keys_per_result.clone();
        registry.register("query_keys_per_result", "Keys read for each result of a page", keys);
        let refused = self.refused_queries.clone();
        registry.register("queries_refused", "Queries that no key serves", refused);
        let in_flight = self.in_flight.clone();
        registry.register("requests_in_flight", "Requests that are worked on", in_flight);
        let objects = self.objects.clone();
        registry.register("object_changes", "Changes of objects by variant and kind", objects);
        let events = self.events.clone();
        registry.register("events", "Deliveries of events by outcome", events);
        let errors = self.normalize_errors.clone();
        registry.register("string_id_normalize_errors", "Object ids that were refused", errors);
        let seconds = self.normalize_seconds.clone();
        registry.register("string_id_normalize_seconds", "Time to read an object id", seconds);
        let bytes = self.id_bytes.clone();
        registry.register("string_id_length", "Bytes of the object ids that were sent", bytes);
        self
    }

    /// A request is being worked on.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight { in_flight: self.in_flight.clone() }
    }

    /// A request is answered.
    pub(crate) fn end(&self, route: &'static str, method: &Method, status: u16, time: Duration) {
        let route = if route.is_empty() { "none" } else { route };
        let answered = Answered { route, method: name_of(method), status };
        self.requests.get_or_create(&answered).inc();
        self.latency.get_or_create(&Place { route }).observe(time.as_secs_f64());
    }

    /// A page was read.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of small counts")]
    pub(crate) fn page(&self, cost: &Cost, results: usize) {
        self.keys_per_result.observe(cost.keys_read as f64 / results.max(1) as f64);
    }

    /// A query was refused because no key serves it.
    pub(crate) fn refused_query(&self) {
        self.refused_queries.inc();
    }

    /// An object id was read from text.
    #[expect(clippy::cast_precision_loss, reason = "lengths are small")]
    pub(crate) fn normalized(&self, bytes: usize, time: Duration, is_valid: bool) {
        self.normalize_seconds.observe(time.as_secs_f64());
        self.id_bytes.observe(bytes as f64);
        if !is_valid {
            self.normalize_errors.inc();
        }
    }

    /// An event was delivered, or not.
    pub(crate) fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&Delivery { outcome }).inc();
    }

    /// An object has changed.
    pub(crate) fn object_changed(&self, variant: Variant, kind: Touched) {
        let kind = match kind {
            Touched::Created => "created",
            Touched::Updated => "updated",
            Touched::Deleted => "deleted",
        };
        self.objects.get_or_create(&Kind { variant: variant.as_str(), kind }).inc();
    }

    /// Somebody follows the feed.
    pub(crate) fn reader(&self, position: u64) -> ReaderMark {
        let position = Arc::new(AtomicU64::new(position));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let id = readers.next;
        readers.next += 1;
        readers.positions.insert(id, Arc::clone(&position));
        ReaderMark { id, position, readers: Arc::clone(&self.readers) }
    }

    /// Everything, as text.
    pub(crate) fn text(&self, looked: Looked) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.looked_up(looked))?;
        // Each registry ends its text; what is below goes on.
        let mut text = text.trim_end_matches("# EOF\n").to_owned();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn looked_up(&self, looked: Looked) -> Registry {
        let Looked { tally, feed, collections, classes } = looked;
        let mut registry = Registry::with_prefix("keyloom");
        let counters = [
            ("commits", "Commits that were written", tally.store.commits),
            ("commit_groups", "Groups of commits that shared a sync", tally.store.groups),
            ("commit_conflicts", "Commits whose checks did not hold", tally.store.conflicts),
            ("write_retries", "Writes that were planned again", tally.replans),
            (
                "object_legacy_reads",
                "Reads that found an object in an older layout",
                tally.legacy_reads,
            ),
            (
                "dead_letters_dropped",
                "Dead letters that made room for others",
                tally.letters_dropped,
            ),
            ("trace_spans_dropped", "Spans that no collector has taken", traces::dropped()),
        ];
        for (name, help, value) in counters {
            registry.register(name, help, ConstCounter::new(value));
        }
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let positions = readers.positions.values().map(|at| at.load(Ordering::Relaxed));
        let lag = positions.map(|at| feed.last.0.saturating_sub(at)).max().unwrap_or(0);
        let kept = feed.last.0.saturating_sub(feed.trimmed.0);
        let gauges = [
            ("feed_position", "Where the feed ends", feed.last.0),
            ("feed_changes", "Changes that are kept", kept),
            ("feed_readers", "Who follows the feed", as_u64(readers.positions.len())),
            ("feed_lag", "Changes that the slowest follower has not taken", lag),
        ];
        for (name, help, value) in gauges {
            registry.register(
                name,
                help,
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)),
            );
        }
        let documents = Family::<FormatLabels, Gauge>::default();
        for info in collections {
            let labels = FormatLabels { collection: info.name, format: info.schema.key.clone() };
            let Some(count) = info.documents else { continue };
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            documents.get_or_create(&labels).set(count);
        }
        registry.register("documents", "Documents by collection and key format", documents);
        register_objects(&mut registry, classes);
        registry
    }
}

impl Variant {
    fn as_str(self) -> &'static str {
        match self {
            Variant::Numeric => "numeric",
            Variant::String => "string",
        }
    }
}

/// How much there is in the grid, and how far string ids are taken up.
#[expect(clippy::cast_precision_loss, reason = "a percentage")]
fn register_objects(registry: &mut Registry, classes: Vec<(String, ObjectStats)>) {
    let objects = Family::<StoredObjects, Gauge>::default();
    let entries = Family::<StoredObjects, Gauge>::default();
    let waiting = Family::<OfClass, Gauge>::default();
    let dead = Family::<OfClass, Gauge>::default();
    let (mut strings, mut all) = (0, 0);
    for (class, stats) in classes {
        let labels = |variant: Variant| {
            let variant = variant.as_str();
            StoredObjects { class: class.clone(), variant }
        };
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let ObjectStats {
            numeric_objects,
            string_objects,
            numeric_entries,
            string_entries,
            waiting_events,
            dead_letters,
        } = stats;
        objects.get_or_create(&labels(Variant::Numeric)).set(count(numeric_objects));
        objects.get_or_create(&labels(Variant::String)).set(count(string_objects));
        entries.get_or_create(&labels(Variant::Numeric)).set(count(numeric_entries));
        entries.get_or_create(&labels(Variant::String)).set(count(string_entries));
        waiting.get_or_create(&OfClass { class: class.clone() }).set(count(waiting_events));
        dead.get_or_create(&OfClass { class: class.clone() }).set(count(dead_letters));
        strings += string_objects;
        all += numeric_objects + string_objects;
    }
    registry.register("objects", "Objects by class and variant", objects);
    registry.register("object_entries", "Entries by class and variant", entries);
    registry.register("events_waiting", "Events that wait for delivery by class", waiting);
    registry.register("dead_letters", "Events that could not be delivered by class", dead);
    let adoption = if all == 0 { 0.0 } else { 100.0 * strings as f64 / all as f64 };
    let help = "Objects with string ids, in percent of all";
    registry.register("string_id_adoption_percent", help, ConstGauge::new(adoption));
}

impl ReaderMark {
    /// The reader has taken everything up to here.
    pub(crate) fn reach(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }
}

/// A request that is being worked on, until it is answered or given up.
pub(crate) struct InFlight {
    in_flight: Gauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

impl Drop for ReaderMark {
    fn drop(&mut self) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.positions.remove(&self.id);
    }
}

/// A method as a label; what HTTP does not name is one label (M1).
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
