//! Forgets changes and results that need not be kept, now and then, for as long as the server runs.

use std::sync::Arc;

use keyloom_engine::Retention;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use crate::limits::TRIM_INTERVAL;
use crate::service::Service;

/// Trims the feed until the server stops.
pub(crate) async fn keep(
    service: Arc<Service>,
    retention: Retention,
    mut stopping: watch::Receiver<bool>,
) {
    if let Err(error) = service.adopt_invocations().await {
        warn!(%error, "results of invocations that an older version has kept stay");
    }
    while !*stopping.borrow() {
        if let Err(error) = service.trim_changes(retention).await {
            warn!(%error, "the feed was not trimmed");
        }
        if let Err(error) = service.expire_invocations().await {
            warn!(%error, "results of invocations were not forgotten");
        }
        tokio::select! {
            () = sleep(TRIM_INTERVAL) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}
