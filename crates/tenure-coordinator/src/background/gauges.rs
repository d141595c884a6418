//! Counting the fleet for the gauges: what is there is looked up, so that no lost event makes a gauge wrong for ever. Each
//! coordinator counts, because each is asked; a count that took long is followed by a longer rest, so that it never takes
//! more than its share of a database. Neighbours: `metrics` shows the counts, the store counts.

use std::time::{Duration, Instant};

use tenure_core::limits::{GAUGES_INTERVAL, GAUGES_REST_FACTOR};

use super::pause;
use crate::{coordinator::Parts, metrics::show_fleet, patience::within, refusals::chain};

/// Counts until the coordinator stops.
pub(super) async fn count_fleet(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        let begun = Instant::now();
        let counts = match within(parts.store.count_fleet()).await {
            Ok(Ok(counts)) => counts,
            Ok(Err(error)) => {
                tracing::debug!(error = chain(&error), "the fleet could not be counted");
                Vec::new()
            }
            Err(unanswered) => {
                tracing::debug!(error = %unanswered, "the fleet could not be counted");
                Vec::new()
            }
        };
        show_fleet(counts);
        wait = GAUGES_INTERVAL.max(begun.elapsed() * GAUGES_REST_FACTOR);
    }
    show_fleet(Vec::new());
}
