//! Erasing what a job was given or what it wrote. The record and everything in the database go in one statement; the pieces in
//! the blob store go after it, and where they do not, the sweep goes on trying. No lane is asked: there is no run whose writes
//! could be overtaken, and whoever else writes takes the position, so that this is planned again. Neighbours: the core plans,
//! `job_service` takes the call.

use tenure_core::{
    chain::Head,
    erasure::plan_erasure,
    id::{JobId, Seq},
    limits::BLOB_SWEEP_MAX,
    plan::JobFacts,
    reason::Reason,
    record::{Draft, ErasedPart, Header, Record, RecordKind, SealedRecord, seal_records},
    refusal::Refusal,
};
use tenure_proto::{convert::blob::read_erased_part, v1};
use tenure_store::{Erasure, StoreError};

use super::{caller::Caller, find_job::find_job, job_view::write_job};
use crate::{
    coordinator::Parts,
    lane::work::LaneError,
    patience::within,
    refusals::{refuse_lane, refuse_missing, refuse_store},
};

/// How often it is planned again because the head moved.
const ATTEMPTS_MAX: u32 = 5;

/// Erases, and tells how the job stands then.
pub(super) async fn erase_job(
    parts: &Parts,
    caller: &Caller,
    request: v1::EraseJobRequest,
) -> Result<v1::EraseJobResponse, Refusal> {
    let part = read_erased_part("part", request.part)?;
    let job = find_job(parts, &caller.tenant, &request.job).await?.job;
    let erased = write_erasure(parts, caller, job, part, &request.why).await?;
    delete_pieces(parts, caller, job).await?;
    let row = parts.bulk.ask(parts.store.read_job(&caller.tenant, job)).await?;
    let row = row.ok_or_else(|| refuse_missing(&request.job))?;
    Ok(v1::EraseJobResponse { job: Some(write_job(row)), erased })
}

async fn write_erasure(
    parts: &Parts,
    caller: &Caller,
    job: JobId,
    part: ErasedPart,
    why: &str,
) -> Result<u64, Refusal> {
    let (input, key) = read_admission(parts, caller, job).await?;
    for _ in 0..ATTEMPTS_MAX {
        let facts = read_facts(parts, caller, job).await?;
        let draft = plan_erasure(&facts, part, caller.principal.clone(), why)?;
        let record = seal(parts, &facts, draft)?;
        let tenant = caller.tenant.clone();
        let erasure = Erasure { tenant, job, part, input, key, head: facts.head, record };
        match within(parts.store.erase_values(&erasure)).await? {
            Ok(Some(erased)) => {
                parts.wakes.wake_watchers(job);
                tracing::info!(%job, part = part.name(), erased, by = %caller.principal.actor, "values were erased");
                return Ok(erased);
            }
            Ok(None) | Err(StoreError::PositionTaken { .. }) => {}
            Err(error) => return Err(refuse_store(&error)),
        }
    }
    Err(refuse_lane(&LaneError::Contended { attempts: ATTEMPTS_MAX }))
}

/// How the job's input is named, and the key that it was submitted under.
async fn read_admission(
    parts: &Parts,
    caller: &Caller,
    job: JobId,
) -> Result<(tenure_core::id::Digest, Option<tenure_core::id::Digest>), Refusal> {
    let page = parts.bulk.ask(parts.store.read_records(&caller.tenant, job, Seq(1), &[], 1)).await?;
    match page.records.first().and_then(|stored| stored.parse().ok()) {
        Some(Record { kind: RecordKind::JobAdmitted { input, key, .. }, .. }) => Ok((input.sha256, key)),
        Some(_) | None => {
            let words = format!("the journal of job {} does not show how it began", job.short());
            Err(Refusal::new(Reason::ChainBroken, words).with_next(format!("tenure verify {}", job.short())))
        }
    }
}

async fn read_facts(parts: &Parts, caller: &Caller, job: JobId) -> Result<JobFacts, Refusal> {
    let key = (caller.tenant.clone(), job);
    let facts = parts.bulk.ask(parts.store.read_facts(std::slice::from_ref(&key))).await?;
    let facts = facts.into_iter().next().flatten().ok_or_else(|| refuse_missing(&job.to_string()))?;
    facts.map_err(|error| refuse_store(&error))
}

fn seal(parts: &Parts, facts: &JobFacts, draft: Draft) -> Result<SealedRecord, Refusal> {
    let header = Header {
        tenant: facts.tenant.clone(),
        job: facts.job,
        generation: facts.generation,
        epoch: facts.head_epoch,
        run: facts.run,
    };
    let head: Head = facts.head;
    let sealed = seal_records(&header, head, parts.clock.now().max(facts.head_at), vec![draft]);
    let sealed = sealed.map_err(|error| Refusal::new(Reason::InvalidArgument, error.to_string()))?;
    sealed.into_iter().next().ok_or_else(|| Refusal::new(Reason::Internal, "no record was sealed"))
}

/// Whoever is told that it is erased finds nothing left of it.
async fn delete_pieces(parts: &Parts, caller: &Caller, job: JobId) -> Result<(), Refusal> {
    let of = Some((&caller.tenant, job));
    for place in parts.bulk.ask(parts.store.list_gone_blobs(of, BLOB_SWEEP_MAX)).await? {
        parts.blobs.delete_pieces(&place).await.map_err(|refusal| {
            let words = format!(
                "what the database held is erased, and the journal says so; what lies in the blob store is not deleted \
                 yet, and is tried again: {}",
                refusal.message
            );
            Refusal { message: words, ..refusal }
        })?;
        parts.bulk.ask(parts.store.delete_blob(&place)).await?;
    }
    Ok(())
}
