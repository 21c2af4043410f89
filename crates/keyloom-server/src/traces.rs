//! Traces: the spans of requests go to a collector over OTLP (HTTP with protobuf), if one is named.
//!
//! O1: Without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing is built and nothing runs.
//! O2: No request waits for the collector. Spans wait in a bounded queue, which a thread of its own
//!     empties; a span that finds no place in it is dropped.
//! O3: A collector that does not answer holds up the end of the program for a bounded time.

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use ureq::Agent;

use crate::limits::{TRACES_FLUSH_TIMEOUT, TRACES_SEND_TIMEOUT};

/// Names the collector, as for every program that speaks OpenTelemetry.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The name of the program in traces, unless `OTEL_SERVICE_NAME` says another.
const SERVICE: &str = "keyloom";

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
        // O2
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
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
