//! Traces: the spans of requests go to a collector over OTLP (HTTP with protobuf), if one is named.
//!
//! O1: Without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing is built and nothing runs.
//! O2: No request waits for the collector. Spans wait in a bounded queue, which a thread of its own
//!     empties; a span that finds no place in it is dropped.
//! O3: A collector that does not answer holds up the end of the program for a bounded time.
//! O4: Every span that ends is sent, waits, or is counted as dropped.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, Span as SdkSpan, SpanData,
    SpanProcessor,
};
use tracing::{Level, Span, Subscriber, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use ureq::Agent;

use crate::limits::{TRACES_FLUSH_TIMEOUT, TRACES_SEND_TIMEOUT, TRACES_WAITING_MAX};

/// Names the collector, as for every program that speaks OpenTelemetry.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The name of the program in traces, unless `OTEL_SERVICE_NAME` says another.
const SERVICE: &str = "keyloom";

/// The header in which a caller names the trace that his request belongs to.
const PARENT: &str = "traceparent";

/// What becomes of the spans of this process. It has one subscriber, and so one of these.
static SPANS: Spans = Spans { waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0) };

/// The traces that are being sent, if any are. What still waits is sent when this is dropped.
#[must_use = "traces end when this is dropped"]
pub struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Begins to send, if the environment names a collector (O1).
    pub(crate) fn begin() -> Result<Traces, String> {
        if std::env::var_os(ENDPOINT).is_none_or(|endpoint| endpoint.is_empty()) {
            return Ok(Traces { provider: None });
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(Sender::new())
            .build()
            .map_err(|error| error.to_string())?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE);
        }
        let queue = BatchConfigBuilder::default().with_max_queue_size(TRACES_WAITING_MAX).build();
        let sending =
            BatchSpanProcessor::builder(Counted(exporter)).with_batch_config(queue).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Bounded(sending))
            .with_resource(resource.build())
            .build();
        Ok(Traces { provider: Some(provider) })
    }

    /// What turns the spans of this crate into traces, whatever is logged.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let tracer = self.provider.as_ref()?.tracer(SERVICE);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false);
        let ours = Targets::new().with_target(env!("CARGO_CRATE_NAME"), Level::DEBUG);
        Some(layer.with_filter(ours))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let Some(provider) = self.provider.take() else { return };
        // O3
        if let Err(error) = provider.shutdown_with_timeout(TRACES_FLUSH_TIMEOUT) {
            warn!(%error, "the last traces were not sent");
        }
    }
}

/// Makes a request a part of the trace that its caller names, if he names one.
pub(crate) fn follow(span: &Span, headers: &HeaderMap) {
    if headers.contains_key(PARENT) && !span.is_disabled() {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // Without a collector nobody takes it.
        let _ = span.set_parent(parent);
    }
}

/// How many spans no collector has taken (O4).
pub(crate) fn dropped() -> u64 {
    SPANS.dropped.load(Ordering::Relaxed)
}

/// How many spans wait for the collector, and how many did not get there.
struct Spans {
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl Spans {
    /// Takes a place in the queue, if there is one.
    fn wait(&self, max: usize) -> bool {
        let one_more = |waiting| (waiting < max).then_some(waiting + 1);
        let order = Ordering::Relaxed;
        let found = self.waiting.fetch_update(order, order, one_more).is_ok();
        if !found {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// So many wait no longer.
    fn leave(&self, count: usize, sent: bool) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        if !sent {
            self.dropped.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

/// A queue with places that are counted: the one of the library does not tell what it drops (O2).
#[derive(Debug)]
struct Bounded(BatchSpanProcessor);

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut SdkSpan, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if SPANS.wait(TRACES_WAITING_MAX) {
            self.0.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// Sends spans, and counts what became of them.
#[derive(Debug)]
struct Counted(SpanExporter);

impl opentelemetry_sdk::trace::SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let sent = self.0.export(batch).await;
        SPANS.leave(count, sent.is_ok());
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// Sends to the collector. It blocks, which only the thread that empties the queue notices.
#[derive(Debug)]
struct Sender {
    agent: Agent,
}

impl Sender {
    fn new() -> Sender {
        let config = Agent::config_builder()
            .timeout_global(Some(TRACES_SEND_TIMEOUT))
            .http_status_as_error(false);
        Sender { agent: config.build().new_agent() }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, mut body) = self.agent.run(request.map(Vec::from))?.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        // Logged here, because who asked for it forgets it.
        match &sent {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => warn!(status = response.status().as_u16(), "traces were refused"),
            Err(error) => warn!(%error, "traces were not sent"),
        }
        Ok(sent?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o4_every_span_waits_is_sent_or_is_counted_as_dropped() {
        let spans = Spans { waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0) };
        let counts =
            || (spans.waiting.load(Ordering::Relaxed), spans.dropped.load(Ordering::Relaxed));
        assert_eq!([(); 3].map(|()| spans.wait(2)), [true, true, false]);
        assert_eq!(counts(), (2, 1), "the third found no place");
        spans.leave(1, true);
        assert_eq!(counts(), (1, 1), "one was sent");
        spans.leave(1, false);
        assert_eq!(counts(), (0, 2), "one was refused");
        assert!(spans.wait(2));
    }
}
