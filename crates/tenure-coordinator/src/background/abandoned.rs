//! Jobs that somebody gave up and whose runs do not answer: each is sealed under the next epoch once its run has had the
//! `stop-grace` of its declaration and a moment more. What a run answers in time, and what a lapsed term held, is none of
//! this. Each coordinator does the same, and a job is sealed once. Neighbours: the verb writes the notice, `terms` sweeps,
//! the core decides.

use std::time::Duration;

use tenure_core::{
    declaration::Declaration,
    limits::{ABANDON_ANSWER_WAIT, STOP_GRACE_DEFAULT, SWEEP_MAX_LEASES},
    plan::JobFacts,
    verb::plan_unanswered_abandon,
};
use tenure_store::StoreError;

use super::pause;
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    patience::{Unanswered, within},
    refusals::chain,
};

const EVERY: Duration = Duration::from_secs(1);

/// Why one pass ended early.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// Ends them until the coordinator stops.
pub(super) async fn end_abandoned(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        wait = EVERY;
        match run_pass(&parts).await {
            Ok(0) => {}
            Ok(ended) => tracing::debug!(ended, "pass over what was given up"),
            Err(error) => tracing::debug!(error = chain(&error), "what was given up could not be looked for"),
        }
    }
}

async fn run_pass(parts: &Parts) -> Result<usize, PassError> {
    let given_up = parts.store.list_abandoned_leases(ABANDON_ANSWER_WAIT, SWEEP_MAX_LEASES);
    let given_up = within(given_up).await??;
    let wanted: Vec<_> = given_up.iter().map(|facts| (facts.tenant.clone(), facts.declaration)).collect();
    let documents = within(parts.store.read_declarations(&wanted)).await??;
    let mut ended = 0;
    for (facts, document) in given_up.iter().zip(documents) {
        // One that cannot be read says nothing, and the default stands.
        let declared = document.and_then(|document| Declaration::parse(&document).ok());
        let stop_grace = declared.map_or(STOP_GRACE_DEFAULT, |it| it.stop_grace());
        ended += usize::from(end_unanswered(parts, facts, stop_grace).await);
    }
    Ok(ended)
}

async fn end_unanswered(parts: &Parts, facts: &JobFacts, stop_grace: Duration) -> bool {
    let planner = move |facts: &JobFacts| plan_unanswered_abandon(facts, stop_grace);
    match parts.lanes.decide((facts.tenant.clone(), facts.job), Box::new(planner)).await {
        Ok(Decided { written: Some(seq), .. }) => {
            tracing::warn!(
                job = %facts.job, run = %facts.run, epoch = %facts.head_epoch, %seq,
                "a job was given up, and its run did not answer: it is sealed"
            );
            true
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => false,
        // It is found again.
        Err(error) => {
            tracing::info!(job = %facts.job, error = chain(&error), "a job that was given up was not sealed");
            false
        }
    }
}
