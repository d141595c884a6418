//! Measures the database's clock again every few seconds, and says by the way whether the database answers.

use std::time::Duration;

use super::pause;
use crate::{coordinator::Parts, refusals::chain};

const EVERY: Duration = Duration::from_secs(2);
/// While the database does not answer, it is asked more often.
const EVERY_WHILE_AWAY: Duration = Duration::from_millis(500);
/// A database that takes longer does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Keeps the measurement fresh until the coordinator stops.
pub(super) async fn keep_clock(parts: Parts) {
    loop {
        let every = if parts.readiness.is_ready() { EVERY } else { EVERY_WHILE_AWAY };
        if !pause(&parts, every).await {
            return;
        }
        let measured = tokio::time::timeout(ANSWER_WITHIN, parts.clock.measure_again(&parts.store)).await;
        let (ready, words) = match &measured {
            Ok(Ok(())) => (true, String::new()),
            Ok(Err(error)) => (false, chain(error)),
            Err(_) => (false, format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
        };
        match (parts.readiness.set(ready), ready) {
            (true, true) => {
                tracing::info!("the database answers again");
                parts.wakes.look_at_everything();
            }
            (true, false) => tracing::warn!(error = words, "the database does not answer"),
            (false, _) => {}
        }
    }
}
