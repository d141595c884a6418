//! Timers: suspended jobs whose instant is due are woken, at the next known instant and at least every second, because
//! another coordinator may have suspended one meanwhile. Each coordinator does the same, and a wait is woken once: whoever
//! wakes writes at the head that names it. A pass that reached its cap is followed by the next at once. Neighbours: the core
//! decides, lanes write, the store lists.

use std::time::Duration;

use tenure_core::{
    deadline::between, limits::OVERDUE_CONCLUDED_AT_ONCE, plan::JobFacts, settlement::plan_wake,
};
use tenure_store::{StoreError, WaitKey};
use tokio::task::JoinSet;

use super::pause;
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    patience::{Unanswered, within},
    refusals::chain,
};

const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// The shortest pause, so that an instant that is due by the database's clock and not yet by its next reading does not
/// make the loop spin.
const AT_MOST_EVERY: Duration = Duration::from_millis(10);

/// What one pass found and did.
#[derive(Debug)]
struct PassReport {
    due: usize,
    woken: usize,
    /// True where as many were due as one pass takes.
    saturated: bool,
    /// Until the next known instant.
    until_next: Duration,
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// Wakes what is due until the coordinator stops.
pub(super) async fn wake_due(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        wait = match run_pass(&parts).await {
            Ok(report) => take_report(&report),
            Err(error) => {
                tracing::debug!(error = chain(&error), "waits that are due could not be looked for");
                AT_LEAST_EVERY
            }
        };
    }
}

fn take_report(report: &PassReport) -> Duration {
    if report.due > 0 {
        tracing::debug!(?report, "pass over waits that are due");
    }
    // Where nothing came of all of them, the next pass would find the same.
    if report.saturated && report.woken > 0 {
        return AT_MOST_EVERY;
    }
    report.until_next.clamp(AT_MOST_EVERY, AT_LEAST_EVERY)
}

async fn run_pass(parts: &Parts) -> Result<PassReport, PassError> {
    let found = within(parts.store.list_due_waits()).await??;
    let until_next = found.next_at.map_or(AT_LEAST_EVERY, |next| between(found.now, next));
    let (due, saturated) = (found.due.len(), found.full);
    let woken = wake_all(parts, found.due).await;
    Ok(PassReport { due, woken, saturated, until_next })
}

/// Wakes a bounded number at the same time, so that they go together and do not fill the lanes.
async fn wake_all(parts: &Parts, due: Vec<WaitKey>) -> usize {
    let mut woken = 0;
    let (mut waiting, mut under_way) = (due.into_iter(), JoinSet::new());
    loop {
        while under_way.len() < OVERDUE_CONCLUDED_AT_ONCE
            && let Some(wait) = waiting.next()
        {
            let parts = parts.clone();
            under_way.spawn(async move { wake(&parts, wait).await });
        }
        match under_way.join_next().await {
            Some(done) => woken += usize::from(done.unwrap_or(false)),
            None => return woken,
        }
    }
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
