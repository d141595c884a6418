//! Partitions are made ahead, every hour; they are counted, because every statement pays for each.

use std::time::Duration;

use super::pause;
use crate::{coordinator::Parts, patience::within, refusals::chain};

const EVERY: Duration = Duration::from_hours(1);

/// Makes partitions ahead until the coordinator stops; the start made the first.
pub(super) async fn keep_partitions(parts: Parts) {
    while pause(&parts, EVERY).await {
        match within(parts.store.ensure_partitions(parts.clock.now())).await {
            Ok(Ok(report)) if report.too_many => {
                tracing::warn!(live = report.live, "there are too many live partitions");
            }
            Ok(Ok(report)) => tracing::debug!(?report, "partitions pass"),
            Ok(Err(error)) => tracing::warn!(error = chain(&error), "partitions could not be made ahead"),
            Err(error) => tracing::warn!(%error, "partitions could not be made ahead"),
        }
    }
}
