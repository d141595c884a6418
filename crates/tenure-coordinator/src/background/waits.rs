//! Timers: suspended jobs whose instant is due are woken, at the next known instant and at least every second, because
//! another coordinator may have suspended one meanwhile. Each coordinator does the same, and a wait is woken once: whoever
//! wakes writes at the head that names it. A pass that reached its cap is followed by the next at once. Neighbours: the core
//! decides, lanes write, the store lists.

use tenure_core::{plan::JobFacts, settlement::plan_wake};
use tenure_store::WaitKey;

use super::pass::follow_due;
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    patience::within,
    refusals::chain,
};

/// Wakes what is due until the coordinator stops.
pub(super) async fn wake_due(parts: Parts) {
    let list = async || Ok(within(parts.store.list_due_waits()).await??);
    follow_due(&parts, "waits", list, |wait| wake(&parts, wait)).await;
}

async fn wake(parts: &Parts, wait: WaitKey) -> bool {
    let WaitKey { tenant, job, seq } = wait;
    let planner = move |facts: &JobFacts| plan_wake(facts, seq, None);
    match parts.lanes.decide((tenant, job), Box::new(planner)).await {
        Ok(Decided { written: Some(written), .. }) => {
            tracing::info!(%job, wait = %seq, seq = %written, "what a job waited for is there");
            true
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => false,
        // It is found again.
        Err(error) => {
            tracing::info!(%job, error = chain(&error), "a job whose wait is over was not woken");
            false
        }
    }
}
