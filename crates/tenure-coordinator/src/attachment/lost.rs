//! Grants that were lost on their way: leases of this term that the worker does not name. It is asked about them, and for
//! those that it still does not hold on receipt it says so and refuses their epoch from then on; only then is the lease
//! released, as never started. Neighbours: `renewal` asks after each renewal, the core judges what was never started.

use std::sync::Arc;

use tenure_core::{
    id::{Epoch, JobId, Seq, Tenant},
    limits::LOST_GRANT_AGE,
    plan::{Decision, JobFacts},
    principal::Principal,
    reason::Reason,
    record::Record,
    refusal::Refusal,
    run_ref::RunRef,
    settlement::{Evidence, plan_settlement},
};
use tenure_proto::{
    convert::run::write_run_ref,
    v1::{self, attach_response::Message},
};
use tenure_store::{LostGrant, StoreError, StoredRecord};

use crate::{
    attachments::Attached,
    coordinator::Parts,
    lane::work::{DecideError, Decided},
    patience::within,
};

/// How many records before the head can matter: the start of the run, and the notices after it.
const RECORDS_LOOKED_AT: u64 = 16;
/// How often a journal that moves meanwhile is looked at again.
const LOOKS_MAX: u32 = 8;

/// Looks for the leases of the worker's term that it did not name, as often as that is requested and until its stream ends,
/// in a task of its own: neither the stream nor its renewals wait for the database.
pub(super) fn look_for_lost_grants(parts: &Parts, attached: &Arc<Attached>) {
    let (task_parts, attached) = (parts.clone(), attached.clone());
    parts.tasks.spawn(async move {
        while requested(&attached).await {
            if let Err(unanswered) = within(name_lost_grants(&task_parts, &attached)).await {
                tracing::debug!(worker = %attached.worker, %unanswered, "could not look for lost grants");
            }
        }
    });
}

/// True once a look is requested, false once the stream ends.
async fn requested(attached: &Attached) -> bool {
    tokio::select! {
        () = attached.closing().cancelled() => false,
        () = attached.await_look() => true,
    }
}

/// Asks the worker about the leases of its term that it did not name, and could have.
async fn name_lost_grants(parts: &Parts, attached: &Attached) {
    let known: Vec<(Tenant, JobId, Epoch)> =
        attached.accounted_runs().into_iter().map(|run| (run.tenant, run.job, run.epoch)).collect();
    let lost = parts.store.list_lost_grants(&attached.worker, attached.term, &known, LOST_GRANT_AGE).await;
    match lost {
        Ok(lost) if lost.is_empty() => {}
        Ok(lost) => {
            let runs = lost.into_iter().map(write_lost).collect();
            attached.send(Message::LostGrants(v1::LostGrants { runs }));
        }
        // The next renewal asks again.
        Err(error) => tracing::debug!(worker = %attached.worker, %error, "could not look for lost grants"),
    }
}

fn write_lost(lost: LostGrant) -> v1::RunRef {
    let LostGrant { tenant, job, epoch, run, generation } = lost;
    write_run_ref(&RunRef { tenant, job, epoch, run, generation })
}

/// The worker does not hold a grant: its lease is given back, in a task of its own.
pub(super) fn release_lost_grant(parts: &Parts, attached: &Arc<Attached>, run: RunRef) {
    let (task_parts, attached) = (parts.clone(), attached.clone());
    parts.tasks.spawn(async move {
        match settle_disowned(&task_parts, &attached, &run).await {
            Ok(Some(seq)) => {
                tracing::info!(
                    worker = %attached.worker, job = %run.job, run = %run.run, epoch = %run.epoch, %seq,
                    "a lost grant was given back"
                )
            }
            Ok(None) => {}
            // It is named again with the next renewal.
            Err(error) => {
                tracing::warn!(
                    worker = %attached.worker, job = %run.job, run = %run.run, epoch = %run.epoch, %error,
                    "a lost grant was not given back"
                )
            }
        }
    });
}

async fn settle_disowned(
    parts: &Parts,
    attached: &Arc<Attached>,
    run: &RunRef,
) -> Result<Option<Seq>, DecideError> {
    let key = (run.tenant.clone(), run.job);
    for _ in 0..LOOKS_MAX {
        let Some((head, records)) = read_last_records(parts, run).await.map_err(store_failed)? else {
            return Err(DecideError::Missing);
        };
        let (attached, run, by) = (attached.clone(), run.clone(), worker_principal(attached));
        let planner = move |facts: &JobFacts| {
            if facts.head.seq != head {
                return Err(moved());
            }
            if !is_disowned(facts, &attached, &run) {
                return Ok(Decision::Already);
            }
            plan_settlement(facts, Evidence::NotMine { records: records.clone() }, by.clone())
        };
        match parts.lanes.decide(key.clone(), Box::new(planner)).await {
            Err(DecideError::Refused(refusal)) if refusal == moved() => {}
            decided => return decided.map(|Decided { written, .. }| written),
        }
    }
    Err(DecideError::Refused(moved()))
}

/// The lease is still that of this grant, to this worker's term.
fn is_disowned(facts: &JobFacts, attached: &Attached, run: &RunRef) -> bool {
    facts.lease.as_ref().is_some_and(|lease| {
        lease.live
            && lease.run_epoch == run.epoch
            && lease.worker == attached.worker
            && lease.term == attached.term
    })
}

async fn read_last_records(parts: &Parts, run: &RunRef) -> Result<Option<(Seq, Vec<Record>)>, StoreError> {
    let Some(job) = parts.store.read_job(&run.tenant, run.job).await? else { return Ok(None) };
    let from = Seq(job.head.seq.0.saturating_sub(RECORDS_LOOKED_AT).max(1));
    let stored = read_records_to(parts, run, from, job.head.seq).await?;
    let records = stored.iter().filter(|stored| stored.epoch == run.epoch);
    // A kind that this release does not know is no start of a run, and not a notice.
    let records: Result<Vec<Record>, _> = records.map(StoredRecord::parse).collect();
    Ok(Some((job.head.seq, records.unwrap_or_default())))
}

/// Reads as many pages as it takes; the journal may be longer by now, and then the head moved.
async fn read_records_to(
    parts: &Parts,
    run: &RunRef,
    from: Seq,
    to: Seq,
) -> Result<Vec<StoredRecord>, StoreError> {
    let limit = u32::try_from(RECORDS_LOOKED_AT + 1).unwrap_or(u32::MAX);
    let (mut records, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next.filter(|&from| from <= to) {
        let page = parts.store.read_records(&run.tenant, run.job, from, &[], limit).await?;
        records.extend(page.records);
        next = page.next;
    }
    Ok(records)
}

fn worker_principal(attached: &Attached) -> Principal {
    Principal::fleet(format!("worker {}", attached.worker))
}

fn store_failed(error: StoreError) -> DecideError {
    DecideError::Lane(crate::lane::work::LaneError::Store(Arc::new(error)))
}

fn moved() -> Refusal {
    Refusal::new(Reason::Overloaded, "the journal of the job moved while it was looked at")
}
