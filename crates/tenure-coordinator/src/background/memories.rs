//! What agents remembered long ago is forgotten: of each agent the latest lines stay. Two coordinators may do the same at once.

use tenure_core::limits::{MEMORY_MAX_LINES, MEMORY_SWEEP_INTERVAL};

use super::pause;
use crate::{coordinator::Parts, refusals::chain};

/// Forgets until the coordinator stops.
pub(super) async fn forget_memories(parts: Parts) {
    while pause(&parts, MEMORY_SWEEP_INTERVAL).await {
        match parts.bulk.ask(parts.store.delete_old_memories(MEMORY_MAX_LINES)).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old lines of agents' memories are forgotten"),
            Err(refusal) => tracing::warn!(error = chain(&refusal), "memories could not be swept"),
        }
    }
}
