//! Settling what lapsed terms held: every unreleased lease under a closed term, read anew in each pass, never the list of
//! whoever closed it, because a claim may have committed after the closing. Each settlement takes the next epoch, and is
//! decided again where the journal moved. What cannot be settled does not stand before the rest. Neighbours: `terms`, lanes, the core's `settlement`.

use tenure_core::{
    limits::SWEEP_MAX_LEASES,
    plan::JobFacts,
    principal::Principal,
    settlement::{Evidence, plan_settlement},
};
use tenure_store::StoreError;
use tokio::task::JoinSet;

use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    refusals::chain,
    trace::record_lost_run,
};

/// What became of the lapsed leases of one pass.
#[derive(Debug, Default)]
pub(super) struct LeasesReport {
    /// How many there were.
    pub(super) found: usize,
    /// How many were settled.
    settled: usize,
    /// True where there may be more.
    pub(super) saturated: bool,
}

/// Settles a bounded number of lapsed leases, looking past those that cannot be settled.
pub(super) async fn settle_lapsed_leases(parts: &Parts) -> Result<LeasesReport, StoreError> {
    let mut report = LeasesReport::default();
    let mut after = None;
    loop {
        let page = parts.store.list_lapsed_leases(after.as_ref(), SWEEP_MAX_LEASES).await?;
        report.found += page.lapsed.len();
        report.settled += settle_leases(parts, page.lapsed).await;
        after = page.next;
        report.saturated = after.is_some() && report.settled >= SWEEP_MAX_LEASES as usize;
        if after.is_none() || report.saturated {
            return Ok(report);
        }
    }
}

/// Settles them side by side. Returns how many were.
async fn settle_leases(parts: &Parts, lapsed: Vec<JobFacts>) -> usize {
    let mut settlements = JoinSet::new();
    for facts in lapsed {
        let parts = parts.clone();
        settlements.spawn(async move { settle_lease(&parts, &facts).await });
    }
    let mut count = 0;
    while let Some(settled) = settlements.join_next().await {
        count += usize::from(settled.unwrap_or(false));
    }
    count
}

async fn settle_lease(parts: &Parts, facts: &JobFacts) -> bool {
    let planner = |facts: &JobFacts| plan_settlement(facts, Evidence::TermLapsed, Principal::fleet("sweep"));
    match parts.lanes.decide((facts.tenant.clone(), facts.job), Box::new(planner)).await {
        Ok(Decided { written: Some(seq), facts: settled }) => {
            record_lost_run(parts, &settled, "term_lapsed");
            tracing::info!(job = %facts.job, run = %facts.run, epoch = %facts.head_epoch, %seq, "settled a run whose worker's term lapsed");
            true
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => true,
        Err(error) => {
            tracing::warn!(job = %facts.job, run = %facts.run, epoch = %facts.head_epoch, error = chain(&error), "a lapsed run was not settled");
            false
        }
    }
}
