//! What guardians report: a run's child is gone, whatever became of its worker. The secret that was minted at the claim
//! proves that the report comes from that run's guardian. It is about a run, not about a lease: it is accepted while that
//! run is unsettled or unaccounted for, and never touches a lease of another epoch. Repeating it is harmless.
//! Neighbours: `worker_service` takes the report, the core's `settlement` decides, lanes write.

use subtle::ConstantTimeEq as _;
use tenure_core::{
    id::{Epoch, Generation, JobId, Tenant, WorkerName},
    plan::{Decision, JobFacts},
    principal::Principal,
    reason::Reason,
    refusal::Refusal,
    settlement::{Evidence, plan_settlement},
};
use tenure_proto::{
    convert::{
        id::{read_job_id, read_tenant},
        run::read_run_end,
    },
    v1,
};

use crate::{
    attachment::report::bound_words,
    coordinator::Parts,
    refusals::{refuse_decision, refuse_store},
    trace::record_lost_run,
};

/// Settles the run that a report is about. True where it was settled and accounted for before.
pub(crate) async fn settle_gone(parts: &Parts, report: v1::ReportGoneRequest) -> Result<bool, Refusal> {
    let tenant = read_tenant("tenant", &report.tenant)?;
    let job = read_job_id("job_id", &report.job_id)?;
    let epoch = Epoch(report.epoch);
    // Whoever has not the secret of this run is refused before anything is asked of the database, and learns nothing of it.
    let Some(secret) = parts.run_secrets.read(&report.secret, &tenant, job, epoch) else {
        return Err(refuse_report(job, epoch, "the secret is not that run's"));
    };
    let end = bound_words(read_run_end(report.end)?);
    let evidence = Evidence::GuardianReport { end, healthy: report.ended_by_guardian };
    let Some(worker) =
        check_secret(parts, &tenant, job, epoch, Generation(report.generation), &secret).await?
    else {
        return Ok(true);
    };
    let by = Principal::fleet(format!("guardian of {worker}"));
    let planner = move |facts: &JobFacts| {
        if facts.lease.as_ref().is_none_or(|lease| lease.run_epoch != epoch) {
            return Ok(Decision::Already);
        }
        plan_settlement(facts, evidence.clone(), by.clone())
    };
    let decided = parts.lanes.decide((tenant, job), Box::new(planner)).await;
    let decided = decided.map_err(|error| refuse_decision(error, &job.to_string()))?;
    if let Some(seq) = decided.written {
        record_lost_run(parts, &decided.facts, "guardian_reported");
        let run = decided.facts.run;
        tracing::info!(%job, %run, %epoch, %seq, %worker, "a guardian reported that a child is gone");
        parts.wakes.note_ready();
    }
    Ok(decided.written.is_none())
}

/// The worker of the run, where the secret is that run's; none where the run is settled and accounted for.
async fn check_secret(
    parts: &Parts,
    tenant: &Tenant,
    job: JobId,
    epoch: Epoch,
    generation: Generation,
    presented: &[u8; 32],
) -> Result<Option<WorkerName>, Refusal> {
    let stored =
        parts.store.read_run_secret(tenant, job, epoch).await.map_err(|error| refuse_store(&error))?;
    match stored {
        Some(run) if run.generation == generation && bool::from(run.secret_hash.0.ct_eq(presented)) => {
            Ok(Some(run.worker))
        }
        Some(_) => Err(refuse_report(job, epoch, "the secret is not that run's")),
        None => match parts.store.read_job(tenant, job).await.map_err(|error| refuse_store(&error))? {
            Some(row) if row.head_epoch >= epoch && epoch > Epoch(0) => Ok(None),
            Some(_) | None => Err(refuse_report(job, epoch, "there was no such run")),
        },
    }
}

fn refuse_report(job: JobId, epoch: Epoch, why: &str) -> Refusal {
    Refusal::new(
        Reason::GoneRefused,
        format!("the report about the run of job {} under epoch {epoch} is refused: {why}", job.short()),
    )
}
