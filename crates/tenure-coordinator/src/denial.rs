//! Concluding a ready job whose session's deadline refuses its next run. Whoever finds such a job asks here, also twice, and
//! also two coordinators at once: it is decided in the job's lane from facts of that moment, and whoever comes second finds
//! nothing left to do. Neighbours: `dispatch` finds jobs that a worker wanted, `background/overdue` those that nobody wants,
//! the core's `settlement` decides.

use tenure_core::{
    plan::{Decision, JobFacts},
    refusal::Refusal,
    settlement::plan_denial,
};

use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    refusals::chain,
};

/// Concludes the job, if its deadline still refuses it; true where this call did.
pub(crate) async fn conclude_denied(parts: &Parts, facts: &JobFacts) -> bool {
    let job = (facts.tenant.clone(), facts.job);
    let planner = |facts: &JobFacts| -> Result<Decision, Refusal> { plan_denial(facts) };
    match parts.lanes.decide(job, Box::new(planner)).await {
        Ok(Decided { written: Some(seq), .. }) => {
            tracing::info!(job = %facts.job, %seq, "its session's deadline refused a run");
            true
        }
        Ok(Decided { written: None, .. }) | Err(DecideError::Missing) => false,
        // It is found again.
        Err(error) => {
            tracing::info!(job = %facts.job, error = chain(&error), "its conclusion failed");
            false
        }
    }
}
