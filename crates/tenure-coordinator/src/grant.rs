//! Handing a claimed run to its worker: the lane learns of it first, then the handover is composed from the journal, then
//! the grant goes out. Nothing is granted before its claim's commit is known. Where the stream is gone by then, the grant
//! is lost and found again by the worker's next attach; that is no error here. Neighbours: `dispatch` and the submission
//! claim, `attachments` sends, the core composes.

use prost::bytes::Bytes;
use tenure_core::{
    brief::brief,
    deadline::Deadline,
    declaration::Declaration,
    handover::{Cause, Handover, History},
    id::Seq,
    limits::HANDOVER_EFFECT_OUTPUT_MAX_BYTES,
    memory::compose_tail,
    payload::{Origin, Preamble},
    reason::Reason,
    record::{KeptValue, Phase, Record, RecordKind},
    refusal::Refusal,
    run_ref::RunRef,
    wait::{AwaitedOutcome, AwaitedResult},
};
use tenure_proto::{
    convert::{blob::write_blob_ref, run::write_run_ref, time::write_timestamp},
    v1::{self, attach_response::Message},
};
use tenure_store::Claimed;

use crate::{
    coordinator::Parts, lane::Lanes, metrics::metrics, mint::Secret, promise::Promises,
    run_secret::RunSecrets, trace::grant_trace,
};

/// Lines of what an agent remembers that are read for a payload, which tells those of the last that fit.
const MEMORY_LINES_READ: u32 = 500;
/// Records that are read at once where a handover is composed.
const PAGE: u32 = 1_000;
/// Told to nobody: it says since when the job was without a run.
const INTERRUPTED: &str = "run_interrupted";

/// Hands claimed runs to the worker they were claimed for.
pub(crate) async fn grant_runs(
    parts: &Parts,
    promises: &mut Promises,
    claimed: Vec<Claimed>,
    secrets: &[Secret],
) {
    for run in claimed {
        let Some(secret) = secrets.get(run.secret_index) else { continue };
        let Some(promise) = promises.split_one() else { continue };
        if is_without_history(&run) && Declaration::with_payload(&run.document).is_none() {
            let secret = mark_secret(&parts.run_secrets, &run, secret);
            grant_first_run(&parts.lanes, promise, run, secret).await;
        } else {
            parts.lanes.remember_run(run_ref(&run), run.head, run.head_at).await;
            let secret = mark_secret(&parts.run_secrets, &run, secret);
            grant_with_history(parts, promise, run, secret);
        }
    }
}

/// A first run of a job to which nothing was said since its admission, whose two records stand before the claim.
fn is_without_history(run: &Claimed) -> bool {
    run.cause == Cause::Dispatch && run.head.seq <= Seq(3)
}

/// The secret of one run, for its worker.
pub(crate) struct RunSecret(Vec<u8>);

/// Makes what was drawn at the claim the secret of the run that was claimed with it.
pub(crate) fn mark_secret(secrets: &RunSecrets, run: &Claimed, random: &Secret) -> RunSecret {
    RunSecret(secrets.mark(random, &run.tenant, run.job, run.epoch))
}

/// Hands over the first run of a job: there is nothing before it.
pub(crate) async fn grant_first_run(lanes: &Lanes, promise: Promises, run: Claimed, secret: RunSecret) {
    lanes.remember_run(run_ref(&run), run.head, run.head_at).await;
    let deadline = remaining_deadline(&run);
    let handover = Handover::for_dispatch(run.job, run.run, run.input.clone(), &deadline, run.now);
    // Where it is refused, whoever wakes dispatch next uses the credit.
    let _ = send_grant(promise, run, secret, &handover, String::new());
}

/// Reads the journal in a task of its own, so that a long one delays nobody else's grant.
fn grant_with_history(parts: &Parts, promise: Promises, run: Claimed, secret: RunSecret) {
    let task_parts = parts.clone();
    let composing = promise.attached().begin_composing(run_ref(&run));
    parts.tasks.spawn(async move {
        let granted = match compose_told(&task_parts, &run).await {
            Ok((handover, preamble)) => send_grant(promise, run, secret, &handover, preamble),
            Err(refusal) => refuse_grant(promise, &run, &refusal.message),
        };
        drop(composing);
        if granted == Granted::Refused {
            task_parts.wakes.wake_dispatch();
        }
    });
}

/// What the run is told, and what its child reads above its work.
async fn compose_told(parts: &Parts, run: &Claimed) -> Result<(Handover, String), Refusal> {
    let history = read_history(parts, run).await?;
    let origin = history.origin().cloned();
    let composed = history.compose_handover(run.now, &remaining_deadline(run)).zip(origin);
    let (handover, origin) =
        composed.ok_or_else(|| Refusal::new(Reason::Internal, "its journal does not show how it began"))?;
    let handover = Handover { awaited: read_awaited(parts, run).await, ..handover };
    let preamble = compose_preamble(parts, run, &origin, &handover).await?;
    Ok((handover, preamble))
}

/// What came of the first of the jobs that the run before waited for. Where that cannot be read now, their outcomes are told
/// without what they returned.
async fn read_awaited(parts: &Parts, run: &Claimed) -> Vec<AwaitedResult> {
    let Cause::Woken { wait, .. } = &run.cause else { return Vec::new() };
    if wait.jobs.is_empty() {
        return Vec::new();
    }
    let jobs: Vec<_> = wait.jobs.iter().map(|awaited| awaited.job).collect();
    let most = HANDOVER_EFFECT_OUTPUT_MAX_BYTES;
    let found = parts.bulk.ask(parts.store.read_awaited(&run.tenant, &jobs, most)).await.unwrap_or_default();
    let mut found = found.into_iter();
    let tell = |outcome: &AwaitedOutcome| {
        let found = found.next().flatten();
        let (result, bytes) = found.map_or((None, 0), |found| (found.result, found.result_bytes));
        let shortened = result.as_ref().map_or(bytes > 0, |result| (result.len() as u64) < bytes);
        let result = result.map(|result| String::from_utf8_lossy(&result).into_owned());
        AwaitedResult { outcome: outcome.clone(), result, shortened }
    };
    wait.jobs.iter().map(tell).collect()
}

#[derive(Debug, PartialEq, Eq)]
enum Granted {
    Sent,
    Refused,
}

/// Its worker never hears of it, says so when asked, and the run is given back as never started. The worker still counts the
/// credit that was taken for it, so it is used for another run.
fn refuse_grant(promise: Promises, run: &Claimed, because: &str) -> Granted {
    drop(promise);
    tracing::warn!(
        job = %run.job, run = %run.run, epoch = %run.epoch, because,
        "a handover could not be composed, so the run is not granted"
    );
    Granted::Refused
}

async fn read_history(parts: &Parts, run: &Claimed) -> Result<History, Refusal> {
    let kinds: Vec<_> = History::KINDS.into_iter().chain([INTERRUPTED]).map(str::to_owned).collect();
    let mut history = History::up_to(run.head.seq);
    let mut next = Some(Seq(1));
    while let Some(from) = next.filter(|&from| from <= run.head.seq) {
        let page = parts.store.read_history(&run.tenant, run.job, from, &kinds, PAGE);
        let page = parts.bulk.ask(page).await?;
        for stored in page.records {
            // Nothing is decided from a record that this release does not know.
            if let Ok(record) = stored.parse() {
                note_recovery(run, &record);
                history.take_record(record, stored.value);
            }
        }
        next = page.next;
    }
    Ok(history)
}

/// The interruption that a run recovers from is the last before its claim.
fn note_recovery(run: &Claimed, record: &Record) {
    let RecordKind::RunInterrupted { interruption, .. } = &record.kind else { return };
    if let Cause::Recovered { previous, .. } = &run.cause
        && record.run == *previous
    {
        let took = run.head_at.duration_since(record.at);
        metrics().note_recovery(interruption, took.try_into().unwrap_or_default());
    }
}

/// What is left of the deadline counts from the claim.
fn remaining_deadline(run: &Claimed) -> Deadline {
    Deadline::new(run.now, run.deadline_at)
}

/// What the child of an agent with a payload reads before the input; empty for every other.
async fn compose_preamble(
    parts: &Parts,
    run: &Claimed,
    origin: &Origin,
    handover: &Handover,
) -> Result<String, Refusal> {
    let declaration = Declaration::with_payload(&run.document);
    // A run that undoes starts no agent.
    let Some(declaration) = declaration.filter(|_| run.cause.phase() == Phase::Forward) else {
        return Ok(String::new());
    };
    let lines = parts.store.list_memories(&run.tenant, &run.agent, MEMORY_LINES_READ);
    let lines = parts.bulk.ask(lines).await?;
    let has_more = lines.len() == MEMORY_LINES_READ as usize;
    let memory = compose_tail(lines.iter().map(|line| line.text.as_str()), has_more);
    let preamble = Preamble {
        agent: &run.agent,
        job: run.job,
        run: run.run,
        instructions: declaration.instructions(),
        memory: &memory,
        origin,
        brief: &brief(handover),
    };
    Ok(preamble.compose())
}

fn send_grant(
    promise: Promises,
    run: Claimed,
    secret: RunSecret,
    handover: &Handover,
    preamble: String,
) -> Granted {
    let json = match handover.to_json() {
        Ok(json) => json,
        Err(error) => return refuse_grant(promise, &run, &error.to_string()),
    };
    let attached = promise.attached();
    let (input, input_blob, input_erased) = match run.input.clone() {
        KeptValue::Beside(value) => (value.into(), None, false),
        KeptValue::Blob(reference) => (Bytes::new(), Some(write_blob_ref(reference)), false),
        KeptValue::Erased => (Bytes::new(), None, true),
    };
    tracing::info!(
        job = %run.job, run = %run.run, epoch = %run.epoch, worker = %attached.worker, agent = %run.agent,
        "granted a run"
    );
    let (phase, named) = (run.cause.phase(), run_ref(&run));
    let document: Bytes = run.document.into();
    let (declaration, unwinding) = match phase {
        Phase::Forward => (document, None),
        Phase::Compensating => (Bytes::new(), Some(v1::UnwindingGrant { declaration: document })),
    };
    attached.send(Message::Grant(v1::Grant {
        run: Some(write_run_ref(&named)),
        term: attached.term.0,
        attach: attached.attach().0,
        secret: secret.0.into(),
        agent: run.agent.to_string(),
        declaration,
        unwinding,
        input,
        input_blob,
        input_erased,
        handover: json.into(),
        brief: brief(handover),
        preamble,
        deadline_at: run.deadline_at.map(write_timestamp),
        now: Some(write_timestamp(run.now)),
        seq: run.head.seq.0,
        traceparent: grant_trace(run.job, run.traceparent.as_deref()).to_string(),
        attempt: run.attempt,
        session_started_at: Some(write_timestamp(run.started_at)),
    }));
    promise.keep();
    Granted::Sent
}

fn run_ref(run: &Claimed) -> RunRef {
    RunRef {
        tenant: run.tenant.clone(),
        job: run.job,
        epoch: run.epoch,
        run: run.run,
        generation: run.generation,
    }
}
