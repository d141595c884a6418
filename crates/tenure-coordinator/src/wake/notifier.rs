//! The one sender of wake-ups to other coordinators. What is raised while one statement is on its way, or within the spacing
//! after it, goes with the next; the first after a silence goes at once. A coordinator where nothing happens sends nothing.
//! What could not be sent is made up for by telling the others to look at everything. Neighbours: `wake` merges, the store
//! sends.

use std::time::Duration;

use tenure_core::limits::WAKE_SPACING;
use tenure_store::Store;

use super::Wakes;
use crate::{coordinator::Parts, patience::within, refusals::chain};

/// The pause after a statement that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Sends until the coordinator stops; what its last writes raise is sent by `send_news` once they are over.
pub(crate) async fn run_notifier(parts: Parts) {
    loop {
        tokio::select! {
            () = parts.stopping.cancelled() => return,
            () = parts.wakes.await_news() => {}
        }
        let spacing =
            if send_news(&parts.store, &parts.wakes).await { WAKE_SPACING } else { PAUSE_AFTER_FAILURE };
        tokio::time::sleep(spacing).await;
    }
}

/// Sends what is to be told; false where that failed.
pub(crate) async fn send_news(store: &Store, wakes: &Wakes) -> bool {
    let payloads = wakes.take_untold();
    if payloads.is_empty() {
        return true;
    }
    let error = match within(store.send_notifications(&payloads)).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => chain(&error),
        Err(unanswered) => unanswered.to_string(),
    };
    tracing::debug!(error, "other coordinators could not be woken");
    wakes.tell_everything();
    false
}
