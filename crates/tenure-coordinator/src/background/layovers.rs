//! Picking up what was set down: at the next known instant, and at least every second, each layover that is due becomes a session
//! of its own, with the agent's present declaration, the same input, and the limits anew. It is submitted under a key of its
//! booking, so that it is picked up once by whichever coordinator is first, also where that one dies before it has said so.
//! What is refused stays due, says why, and is tried again with pauses. Neighbours: `submission` admits and stores, the core
//! books, the store lists.

use std::{collections::BTreeMap, time::Duration};

use tenure_core::{
    admission::{Input, Submission},
    id::{Digest, JobId, Seq, Tenant},
    layover::PickedUp,
    limits::{LAYOVER_RETRY_FIRST, LAYOVER_RETRY_MAX},
    principal::Principal,
    reason::Reason,
    record::{KeptValue, Record, RecordKind},
    refusal::Refusal,
};
use tenure_store::{DueLayover, StoredRecord, SubmissionKey, Submitted};

use super::pass::follow_due;
use crate::{
    blob_transfer::{copy_input, open_blob, refuse_erased},
    coordinator::Parts,
    credentials::standing::Standing,
    patience::within,
    refusals::{chain, refuse_store},
    server::caller::Caller,
};

/// Picks up what is due until the coordinator stops.
pub(super) async fn pick_up_due(parts: Parts) {
    let list = async || Ok(within(parts.store.list_due_layovers()).await??);
    follow_due(&parts, "layovers", list, |layover| settle(&parts, layover)).await;
}

/// True where the layover is not due any longer.
async fn settle(parts: &Parts, layover: DueLayover) -> bool {
    let noted = match pick_up(parts, &layover).await {
        Ok(()) => parts.store.delete_layover(&layover.tenant, layover.job).await,
        Err(refusal) => {
            tracing::warn!(
                job = %layover.job, code = refusal.reason.code(), because = refusal.message,
                "what a job had set down is due, and its pick-up is refused"
            );
            parts.store.put_off_layover(&layover, &refusal, pause_after(layover.refusals)).await
        }
    };
    noted.inspect_err(|error| tracing::debug!(error = chain(error), "a pick-up could not be noted")).is_ok()
}

/// Doubling, at most the longest.
fn pause_after(refusals: u32) -> Duration {
    LAYOVER_RETRY_FIRST.saturating_mul(1 << refusals.min(16)).min(LAYOVER_RETRY_MAX)
}

/// Returns once there is a session that has picked it up.
async fn pick_up(parts: &Parts, layover: &DueLayover) -> Result<(), Refusal> {
    let DueLayover { tenant, job, seq, .. } = layover;
    let booked = read_record(parts, tenant, *job, *seq).await?;
    let admitted = read_record(parts, tenant, *job, Seq(1)).await?;
    let caller = Caller {
        tenant: tenant.clone(),
        principal: Principal::fleet(format!("layover of job {job}")),
        standing: Standing::on_loopback(&parts.credentials),
    };
    let submission = compose(parts, layover, booked, admitted).await?;
    match parts.submissions.pick_up(&caller, submission, booking_key(*job, *seq)).await? {
        Submitted::Admitted { .. } => {
            tracing::info!(%job, "what a job had set down is picked up");
            Ok(())
        }
        // Another was first, or this one before it could say so.
        Submitted::Existing { .. } | Submitted::KeyReused { .. } => Ok(()),
        Submitted::Halted(halt) => Err(halt.refuse("cannot pick up what was set down")),
    }
}

/// No key that anybody can give: what is given is text.
fn booking_key(job: JobId, seq: Seq) -> SubmissionKey {
    let named = [b"\xfftenure layover".as_slice(), job.0.as_bytes(), &seq.0.to_be_bytes()].concat();
    let hash = Digest::of(&named);
    SubmissionKey { hash, payload: hash }
}

async fn read_record(parts: &Parts, tenant: &Tenant, job: JobId, seq: Seq) -> Result<StoredRecord, Refusal> {
    let page = parts.bulk.ask(parts.store.read_records(tenant, job, seq, &[], 1)).await?;
    let found = page.records.into_iter().next().filter(|stored| stored.seq == seq);
    found.ok_or_else(|| Refusal::new(Reason::Internal, format!("job {job} has no record {seq}")))
}

async fn compose(
    parts: &Parts,
    layover: &DueLayover,
    booked: StoredRecord,
    admitted: StoredRecord,
) -> Result<Submission, Refusal> {
    let (booked_at, waiting_for) = match parse(&booked)? {
        Record { at, kind: RecordKind::LayoverBooked { waiting_for, .. }, .. } => (at, waiting_for),
        other => return Err(refuse_kind(&other)),
    };
    let value = admitted.value.clone();
    let record = parse(&admitted)?;
    let RecordKind::JobAdmitted {
        session,
        agent,
        input,
        labels,
        deadline,
        priority,
        traceparent,
        sender,
        layover: before,
        ..
    } = record.kind
    else {
        return Err(refuse_kind(&record));
    };
    let input = match KeptValue::find(input, value) {
        KeptValue::Beside(bytes) => Input::Bytes(bytes),
        KeptValue::Blob(named) => copy_large(parts, layover, named.sha256).await?,
        KeptValue::Erased => return Err(refuse_erased(layover.job)),
    };
    let checks = before.map_or(0, |before| before.checks.saturating_add(1));
    let picked_up = PickedUp { session, job: layover.job, seq: layover.seq, booked_at, waiting_for, checks };
    let labels: BTreeMap<String, String> = labels;
    Ok(Submission {
        agent,
        input,
        key: None,
        // A job that was sent has the instant of its sender's session, and not one of its own.
        deadline: sender.is_none().then_some(deadline),
        labels,
        priority: Some(priority.into()),
        not_before: None,
        traceparent,
        layover: Some(picked_up),
    })
}

/// The new job has an input of its own, so that either can be erased.
async fn copy_large(parts: &Parts, layover: &DueLayover, name: Digest) -> Result<Input, Refusal> {
    let blob = open_blob(parts, &layover.tenant, layover.job, name).await?;
    let reference = copy_input(parts, &blob).await?;
    let found = parts.store.find_blob(&layover.tenant, reference.sha256).await;
    let live = found.map_err(|error| refuse_store(&error))?.and_then(|found| found.live);
    let live = live.ok_or_else(|| refuse_erased(layover.job))?;
    Ok(Input::Blob { reference, content: live.content })
}

fn parse(stored: &StoredRecord) -> Result<Record, Refusal> {
    stored.parse().map_err(|error| Refusal::new(Reason::Internal, format!("record {}: {error}", stored.seq)))
}

fn refuse_kind(record: &Record) -> Refusal {
    Refusal::new(Reason::Internal, format!("record {} is a {}", record.seq, record.kind.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds: Vec<u64> = [0, 1, 2, 8, 9, 60].map(|count| pause_after(count).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300]);
    }
}
