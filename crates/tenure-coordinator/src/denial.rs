//! Concluding a ready or suspended job that gets no run: its session's deadline refuses it, nothing carries out its declaration any more, or
//! the policy bundle that it is held to is gone.
//! Whoever finds such a job asks here, also twice, and
//! also two coordinators at once: it is decided in the job's lane from facts of that moment, and whoever comes second finds
//! nothing left to do. Neighbours: `dispatch` finds jobs that a worker wanted, `background/overdue` those that nobody wants,
//! `background/unheld` those whose handler nobody holds, the core's `settlement` decides.

use tenure_core::{
    job::State,
    plan::{Decision, JobFacts},
    refusal::Refusal,
    settlement::{plan_changed_bundle, plan_changed_declaration, plan_denial},
};

use tenure_store::{AgentRevision, StoreError};

use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Decided, Planner},
    refusals::chain,
};

/// Concludes the job, if its declaration or bundle is not held or its deadline still refuses it; true where this call did.
pub(crate) async fn conclude_denied(parts: &Parts, facts: &JobFacts) -> bool {
    let planner = || Box::new(|facts: &JobFacts| -> Result<Decision, Refusal> { plan_denial(facts) });
    let what = "its session's deadline refused a run";
    // What is not in the queue is set aside for no declaration.
    if facts.state == State::Suspended {
        return decide(parts, facts, planner(), what).await;
    }
    let wanted = [(facts.tenant.clone(), facts.declaration)];
    match parts.store.read_declarations(&wanted).await {
        Ok(found) if found.iter().all(Option::is_some) => {
            if facts.unheld_bundle.is_some() {
                return set_aside_unheld(parts, facts).await;
            }
            decide(parts, facts, planner(), what).await
        }
        Ok(_) => set_aside_changed(parts, facts, "which the fleet does not hold any more").await,
        // It is found again.
        Err(error) => {
            tracing::info!(job = %facts.job, error = chain(&error), "its declaration could not be looked for");
            false
        }
    }
}

/// Sets the job aside because nothing carries out the declaration of its facts any more; true where this call did.
pub(crate) async fn set_aside_changed(parts: &Parts, facts: &JobFacts, why: &str) -> bool {
    let Ok(present) = read_present(parts, facts).await else { return false };
    let present = present.map(|present| present.digest);
    let (seen, why) = (facts.declaration, why.to_owned());
    let planner = move |facts: &JobFacts| {
        // Somebody may have accepted another one since.
        if facts.declaration != seen || present == Some(seen) {
            return Ok(Decision::Already);
        }
        plan_changed_declaration(facts, present, &why)
    };
    decide(parts, facts, Box::new(planner), "nothing carries out its declaration: it is set aside").await
}

/// Sets the job aside because the bundle that it is held to is gone; true where this call did.
async fn set_aside_unheld(parts: &Parts, facts: &JobFacts) -> bool {
    let Ok(present) = read_present(parts, facts).await else { return false };
    let present = present.map(|present| (present.digest, present.bundle));
    let planner = move |facts: &JobFacts| plan_changed_bundle(facts, present);
    decide(parts, facts, Box::new(planner), "its policy bundle is not held: it is set aside").await
}

/// The present revision of the job's agent; what cannot be read is logged, and found again.
async fn read_present(parts: &Parts, facts: &JobFacts) -> Result<Option<AgentRevision>, StoreError> {
    parts.store.read_agent(&facts.tenant, &facts.agent).await.inspect_err(|error| {
        tracing::info!(job = %facts.job, error = chain(error), "its agent could not be looked for");
    })
}

async fn decide(parts: &Parts, facts: &JobFacts, planner: Planner, what: &'static str) -> bool {
    let job = (facts.tenant.clone(), facts.job);
    match parts.lanes.decide(job, planner).await {
        Ok(Decided { written: Some(seq), .. }) => {
            tracing::info!(job = %facts.job, %seq, "{what}");
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
