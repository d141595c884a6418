//! Settles a run while its holder's append is on its way, as a guardian's report does: under the next epoch, by the plan that
//! the core makes, through the store. Neighbours: `relay` holds the append meanwhile.

use anyhow::{Result, bail};
use tenure_core::{
    plan::Decision,
    principal::Principal,
    record::{Header, seal_records},
    settlement::{Evidence, RunEnd, plan_settlement},
};
use tenure_store::{Append, AppendOutcome, Guard, Store};

use super::wire::SeenAppend;

/// Who settles.
const BY: &str = "tenure-testkit";

/// The signal that its child is said to have died of.
const SIGKILL: i32 = 9;

/// How often it is decided anew where the head moved meanwhile.
const DECISIONS_MAX: u32 = 10;

/// Settles the run of the first job of an append; false where it has no run that holds it.
pub(super) async fn settle_holder(store: &Store, append: &SeenAppend) -> Result<bool> {
    let Some((tenant, job)) = append.jobs.first() else { return Ok(false) };
    for _ in 0..DECISIONS_MAX {
        let wanted = [(tenant.clone(), *job)];
        let Some(facts) = store.read_facts(&wanted).await?.pop().flatten().transpose()? else {
            return Ok(false);
        };
        let Some(lease) = facts.lease.as_ref().filter(|lease| lease.live) else { return Ok(false) };
        let evidence = Evidence::GuardianReport { end: RunEnd::Signal(SIGKILL), healthy: true };
        let Decision::Write(plan) = plan_settlement(&facts, evidence, Principal::asserted(BY))? else {
            return Ok(false);
        };
        let (epoch, run, generation) = (plan.epoch, facts.run, facts.generation);
        let header = Header { tenant: tenant.clone(), job: *job, generation, epoch, run };
        let records = seal_records(&header, facts.head, facts.now.max(facts.head_at), plan.drafts)?;
        let settlement = Append {
            tenant: tenant.clone(),
            job: *job,
            generation,
            guard: Guard::Lease(lease.epoch),
            head: facts.head,
            records,
            n: None,
            request: None,
            changes: plan.changes,
            gift: None,
        };
        match store.append_records(&[settlement]).await?.pop() {
            Some(AppendOutcome::Applied { .. }) => return Ok(true),
            Some(AppendOutcome::Conflict) => {}
            other => bail!("settling the run came to {other:?}"),
        }
    }
    bail!("the head of job {job} moved at each attempt to settle its run")
}
