//! What all requests share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::config::Config;
use crate::edge::RequestIds;
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::room::Room;
use crate::service::Service;

/// What all requests share.
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    pub(crate) config: Config,
    /// A place for each request that may be worked on at once.
    pub(crate) places: Semaphore,
    /// Room for the bodies and answers that are held.
    pub(crate) room: Room,
    /// A place for each reader that may follow the feed at once.
    pub(crate) readers: Arc<Semaphore>,
    pub(crate) rates: Option<Rates>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) request_ids: RequestIds,
    /// Whether the server was told to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
