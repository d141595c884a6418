//! Jobs that somebody gave up or redirected and whose runs do not answer: each is settled under the next epoch once its run has had
//! the `stop-grace` of its declaration and a moment more. What a run answers in time, and what a lapsed term held, is none of
//! this. Each coordinator does the same, and a run is settled once. Neighbours: the verbs write the notices, `terms` sweeps,
//! the core decides.

use std::time::Duration;

use tenure_core::{
    declaration::Declaration,
    limits::{NOTICE_ANSWER_WAIT, STOP_GRACE_DEFAULT, SWEEP_MAX_LEASES},
    plan::JobFacts,
    verb::plan_unanswered_notice,
};

use super::{pass::PassError, pause};
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    patience::within,
    refusals::chain,
};

const EVERY: Duration = Duration::from_secs(1);

/// Settles them until the coordinator stops.
pub(super) async fn settle_unanswered(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        wait = EVERY;
        match run_pass(&parts).await {
            Ok(0) => {}
            Ok(settled) => tracing::debug!(settled, "pass over runs that do not answer"),
            Err(error) => {
                tracing::debug!(error = chain(&error), "runs that do not answer could not be looked for")
            }
        }
    }
}

async fn run_pass(parts: &Parts) -> Result<usize, PassError> {
    let unanswered = parts.store.list_unanswered_notices(NOTICE_ANSWER_WAIT, SWEEP_MAX_LEASES);
    let unanswered = within(unanswered).await??;
    let wanted: Vec<_> = unanswered.iter().map(|facts| (facts.tenant.clone(), facts.declaration)).collect();
    let documents = within(parts.store.read_declarations(&wanted)).await??;
    let mut settled = 0;
    for (facts, document) in unanswered.iter().zip(documents) {
        // One that cannot be read says nothing, and the default stands.
        let declared = document.and_then(|document| Declaration::parse(&document).ok());
        let stop_grace = declared.map_or(STOP_GRACE_DEFAULT, |it| it.stop_grace());
        settled += usize::from(settle_one(parts, facts, stop_grace).await);
    }
    Ok(settled)
}

async fn settle_one(parts: &Parts, facts: &JobFacts, stop_grace: Duration) -> bool {
    let planner = move |facts: &JobFacts| plan_unanswered_notice(facts, stop_grace);
    match parts.lanes.decide((facts.tenant.clone(), facts.job), Box::new(planner)).await {
        Ok(Decided { written: Some(seq), .. }) => {
            tracing::warn!(
                job = %facts.job, run = %facts.run, epoch = %facts.head_epoch, %seq,
                "a run was asked to end and did not answer: it is settled"
            );
            true
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => false,
        // It is found again.
        Err(error) => {
            tracing::info!(job = %facts.job, error = chain(&error), "a run that does not answer was not settled");
            false
        }
    }
}
