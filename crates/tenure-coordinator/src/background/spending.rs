//! What tenants spent long ago is deleted, every hour. Neighbours: the append writes what is spent, admission reads what counts.

use tenure_core::limits::{SPENDING_KEPT, SPENDING_SWEEP_EVERY, SPENDING_SWEEP_MAX};

use super::pause;
use crate::{coordinator::Parts, patience::within, refusals::chain};

/// Deletes until the coordinator stops.
pub(super) async fn sweep_spending(parts: Parts) {
    while pause(&parts, SPENDING_SWEEP_EVERY).await {
        match within(parts.store.delete_old_spending(SPENDING_KEPT, SPENDING_SWEEP_MAX)).await {
            Ok(Ok(deleted)) => tracing::debug!(deleted, "pass over what was spent long ago"),
            Ok(Err(error)) => {
                tracing::debug!(error = chain(&error), "what was spent long ago was not deleted")
            }
            Err(error) => tracing::debug!(%error, "what was spent long ago was not deleted"),
        }
    }
}
