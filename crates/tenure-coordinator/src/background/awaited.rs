//! Waits for other jobs: what came of an awaited job is noted for whoever waits, and a wait that nothing is left of is woken with
//! all of it. Whoever writes a conclusion or a wait looks by a hint at once; both may commit unseen by the other, so each looks
//! once more after its commit. Behind the hints all waits for jobs are looked through every few seconds, because a hint dies
//! with its coordinator. An outcome is noted once and a job woken once, whatever number of coordinators do this, and each
//! conclusion costs the same, however many jobs a wait is for. Neighbours: `waits` wakes for instants, `wake` has the hints.

use std::time::Duration;

use tenure_core::{
    id::{JobId, Tenant},
    limits::AWAITED_LOOK_EVERY,
    plan::JobFacts,
    settlement::plan_wake,
    wait::AwaitedOutcomes,
};
use tenure_store::WaitKey;
use tokio::time::Instant;

use super::{pass::PassError, pause};
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    mint::salt_value,
    patience::within,
    refusals::chain,
    wake::WaitHint,
};

/// Hints that come meanwhile go together.
const SPACING: Duration = Duration::from_millis(20);
/// A pause between two looks through all waits is at least so many times as long as the look.
const PAUSE_FACTOR: u32 = 10;

type JobKey = (Tenant, JobId);

/// Follows the hints until the coordinator stops.
pub(super) async fn follow_hints(parts: Parts) {
    while pause(&parts, SPACING).await {
        let hints = tokio::select! {
            () = parts.stopping.cancelled() => return,
            hints = parts.wakes.await_wait_hints() => hints,
        };
        if let Err(error) = take_hints(&parts, hints).await {
            // All waits are looked through again in a while.
            tracing::debug!(error = chain(&error), "what came of awaited jobs could not be noted");
        }
    }
}

async fn take_hints(parts: &Parts, hints: Vec<WaitHint>) -> Result<(), PassError> {
    let (mut concluded, mut waiting) = (Vec::new(), Vec::new());
    for hint in hints {
        match hint {
            WaitHint::Concluded(job) => concluded.push(job),
            WaitHint::Suspended(job) => waiting.push(job),
        }
    }
    if !waiting.is_empty() {
        within(parts.store.cross_off_waits(&waiting)).await??;
    }
    if !concluded.is_empty() {
        waiting.extend(within(parts.store.cross_off_awaited(&concluded)).await??);
    }
    wake_settled(parts, &waiting).await
}

/// Looks through all waits for jobs until the coordinator stops.
pub(super) async fn look_through(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        let begun = Instant::now();
        if let Err(error) = run_pass(&parts).await {
            tracing::debug!(error = chain(&error), "waits for jobs could not be looked through");
        }
        let took = begun.elapsed();
        wait = AWAITED_LOOK_EVERY.saturating_sub(took).max(took * PAUSE_FACTOR);
    }
}

async fn run_pass(parts: &Parts) -> Result<(), PassError> {
    let mut after: Option<JobKey> = None;
    while !parts.stopping.is_cancelled() {
        let page = within(parts.store.list_job_waits(after.as_ref())).await??;
        // One wait at a time: each may be for a thousand jobs.
        for waiting in page.waiting {
            let one = std::slice::from_ref(&waiting);
            within(parts.store.cross_off_waits(one)).await??;
            wake_settled(parts, one).await?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

async fn wake_settled(parts: &Parts, waiting: &[JobKey]) -> Result<(), PassError> {
    if waiting.is_empty() {
        return Ok(());
    }
    for settled in within(parts.store.list_settled_waits(waiting)).await?? {
        wake(parts, settled).await?;
    }
    Ok(())
}

async fn wake(parts: &Parts, wait: WaitKey) -> Result<(), PassError> {
    let WaitKey { tenant, job, seq } = wait;
    let outcomes = within(parts.store.list_outcomes(&tenant, job)).await??;
    // Outcomes are words and ids, and writing those cannot fail.
    let json = serde_json::to_vec(&outcomes).unwrap_or_default();
    let outcomes = AwaitedOutcomes { outcomes, value: salt_value(json) };
    let planner = move |facts: &JobFacts| plan_wake(facts, seq, Some(&outcomes));
    match parts.lanes.decide((tenant, job), Box::new(planner)).await {
        Ok(Decided { written: Some(written), .. }) => {
            tracing::info!(%job, wait = %seq, seq = %written, "the jobs that a job waited for have concluded");
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => {}
        // It is found again.
        Err(error) => {
            tracing::info!(%job, error = chain(&error), "a job whose wait is over was not woken");
        }
    }
    Ok(())
}
