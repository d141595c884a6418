//! What nothing refers to in the blob store goes after a day: half an upload, an input that was never submitted, the result of
//! a run that never ended; and what was erased goes at once, where the erasure could not do it. A row says where the pieces
//! are until the last of them is deleted. Two coordinators may do the same at once.

use tenure_core::limits::{BLOB_SWEEP_INTERVAL, BLOB_SWEEP_MAX, BLOB_UNREFERENCED_KEPT};

use super::pause;
use crate::{coordinator::Parts, refusals::chain};

/// Deletes until the coordinator stops. Without a store there is nothing that it could do.
pub(super) async fn sweep_blobs(parts: Parts) {
    while pause(&parts, BLOB_SWEEP_INTERVAL).await {
        if !parts.blobs.is_there() {
            continue;
        }
        match sweep_once(&parts).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(deleted, "blobs that nothing refers to are deleted"),
            Err(refusal) => tracing::warn!(error = chain(&refusal), "blobs could not be swept"),
        }
    }
}

/// One pass; tells how many blobs were deleted.
pub(crate) async fn sweep_once(parts: &Parts) -> Result<usize, tenure_core::refusal::Refusal> {
    let judged = parts.store.judge_blobs(BLOB_UNREFERENCED_KEPT, BLOB_SWEEP_MAX);
    let judged = parts.bulk.ask(judged).await?;
    tracing::debug!(?judged, "blobs pass");
    let gone = parts.bulk.ask(parts.store.list_gone_blobs(None, BLOB_SWEEP_MAX)).await?;
    let (mut deleted, mut failed) = (0, None);
    for place in &gone {
        // One that cannot be deleted does not keep the others.
        match parts.blobs.delete_pieces(place).await {
            Ok(()) => {
                parts.bulk.ask(parts.store.delete_blob(place)).await?;
                deleted += 1;
            }
            Err(refusal) => failed = failed.or(Some(refusal)),
        }
    }
    failed.map_or(Ok(deleted), Err)
}
