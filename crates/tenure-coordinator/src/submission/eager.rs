//! The eager claim: a submission that finds a free fitting worker on its own coordinator, with nothing that fits waiting
//! before it, becomes a run in the statement that stores it; where the claim's guard refuses, it is stored as ready.
//! Neighbours: `writer`, `attachments` says who is free and what it last saw of the queue.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    handler::may_be_offered,
    handover::Cause,
    id::{Digest, Epoch, Run, Tenant},
    record::{DeadlineSetting, Draft, Header, RecordKind, SealedRecord, seal_records},
};
use tenure_store::{Claimed, EagerClaim, NewJob, Submitted};

use super::SealedJob;
use crate::{attachments::Attached, mint::Secret, promise::Promises, run_secret::RunSecrets};

/// A worker that was found for a job.
pub(super) struct Match {
    pub(super) promise: Promises,
    pub(super) secret: Secret,
}

/// Finds a free worker that fits, and notes the claim in the job.
pub(super) fn match_worker(
    job: &mut NewJob,
    workers: &[Arc<Attached>],
    ready_count: u64,
    now: Timestamp,
    secrets: &RunSecrets,
) -> Option<Match> {
    // What is told of an earlier session is composed from the journal, as at any claim.
    if job.cause != Cause::Dispatch || job.not_before.is_some() || is_denied(job.deadline, now) {
        return None;
    }
    let promise = workers.iter().find_map(|worker| {
        let is_free = worker.queue_view().empty_at == Some(ready_count) && fits(worker, job);
        let promise = is_free.then(|| worker.take_credits(1))?;
        (promise.count() == 1).then_some(promise)
    })?;
    let (attached, secret) = (promise.attached(), secrets.mint());
    let record = seal_start(job, attached, now)?;
    job.claim = Some(EagerClaim {
        worker: attached.worker.clone(),
        term: attached.term,
        attach: attached.attach(),
        secret_hash: Digest(secret.hash()),
        record,
    });
    Some(Match { promise, secret })
}

/// A deadline that is reached from the start: dispatch concludes the job.
fn is_denied(deadline: DeadlineSetting, now: Timestamp) -> bool {
    match deadline {
        DeadlineSetting::CeilingS(ceiling_s) => ceiling_s == 0,
        DeadlineSetting::At(instant) => instant <= now,
        DeadlineSetting::None => false,
    }
}

fn fits(worker: &Attached, job: &NewJob) -> bool {
    let registration = &worker.registration;
    let labels: BTreeSet<&str> = registration.labels.iter().map(String::as_str).collect();
    let tenant: &Tenant = &job.tenant;
    registration.tenants.names(tenant)
        && (registration.agents.is_empty() || registration.agents.contains(&job.agent))
        && job.requires.iter().all(|label| labels.contains(label.as_str()))
        && may_be_offered(&registration.labels, &job.requires)
}

fn seal_start(job: &NewJob, attached: &Attached, now: Timestamp) -> Option<SealedRecord> {
    let last = job.records.last()?;
    let header = Header {
        tenant: job.tenant.clone(),
        job: job.job,
        generation: job.generation,
        epoch: Epoch(1),
        run: Run(1),
    };
    let started = RecordKind::RunStarted {
        worker: attached.worker.clone(),
        term: attached.term,
        attach: attached.attach(),
        attempt: 1,
        cause: Cause::Dispatch,
    };
    let head = Head { seq: last.seq, hash: last.hash };
    let sealed = seal_records(&header, head, now.max(last.at), vec![Draft::bare(started)]);
    sealed.ok()?.pop()
}

/// The run that a stored submission began, as a claim would tell of it.
pub(super) fn claimed_run(job: SealedJob, outcome: &Submitted) -> Option<Claimed> {
    let Submitted::Admitted { deadline_at, claimed: true, now, .. } = outcome else { return None };
    let SealedJob { new, document, input } = job;
    let record = new.claim?.record;
    Some(Claimed {
        tenant: new.tenant,
        job: new.job,
        session: new.session,
        agent: new.agent,
        run: record.run,
        epoch: record.epoch,
        generation: record.generation,
        head: Head { seq: record.seq, hash: record.hash },
        head_at: record.at,
        attempt: 1,
        cause: Cause::Dispatch,
        declaration: new.declaration,
        document: document.to_vec(),
        input,
        // A claim at the submission: the session starts with it.
        started_at: *now,
        deadline_at: *deadline_at,
        now: *now,
        traceparent: new.traceparent,
        labels: new.labels,
        secret_index: 0,
    })
}
