//! What a run asks before it waits: whether the wait is over, because an earlier run of the job announced the same and was
//! woken, or because the jobs that it is for have concluded; and otherwise whether it may be waited. Nothing is written here: the worker ends the run, and its end is the wait.
//! Neighbours: `worker_service` takes the call, lanes write the end, the sweep wakes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tenure_core::{
    id::{JobId, Seq},
    job::State,
    limits::{AWAITED_RESULT_MAX_BYTES, AWAITED_RESULTS_MAX_BYTES},
    plan::JobFacts,
    reason::Reason,
    record::RecordKind,
    refusal::Refusal,
    run_ref::RunRef,
    wait::{AwaitedOutcome, Wait, admit_wait, is_awaited_end},
};
use tenure_proto::{
    convert::{
        run::read_run_ref,
        state::write_state,
        step::read_step_name,
        time::write_timestamp,
        wait::{read_awaited_ids, read_until, write_wait},
    },
    v1::{self, ask_wait_response::Answer},
};
use tenure_store::AwaitedJob;

use super::{
    caller::FleetCaller,
    effects::{check_holder, read_secret},
};
use crate::{coordinator::Parts, refusals::refuse_store};

/// Records of waits that are read at once.
const PAGE: u32 = 1_000;

/// Answers a run that holds its job. The lease is looked at last: where it still stands then, it stood when the journal was
/// read.
pub(super) async fn ask_wait(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::AskWaitRequest,
) -> Result<v1::AskWaitResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    let name = read_step_name("name", &request.name)?;
    let until = read_until("until", request.until.as_ref())?;
    let jobs = read_awaited_ids("job_ids", &request.job_ids)?;
    let facts = read_run_facts(parts, &run).await?;
    let admitted = admit_wait(name.clone(), until, jobs.clone(), run.job, facts.deadline_at, facts.now);
    // What is over already was admitted when it was announced, so it is looked for first.
    let mut seen = BTreeSet::new();
    let jobs = jobs.into_iter().filter(|job| seen.insert(*job)).collect();
    let asked = Wait { name, until: facts.now, jobs };
    let answer = match find_woken(parts, &run, &asked).await? {
        Some(Woken { due, outcomes }) => {
            let told = tell_outcomes(parts, &run, outcomes.unwrap_or_else(|| unknown(&asked.jobs))).await?;
            Answer::Over(write_over(&asked, due, told))
        }
        None => match conclude_awaited(parts, &run, admitted?).await? {
            Awaited::Concluded(told) => Answer::Over(write_over(&asked, None, told)),
            Awaited::Open(wait) => Answer::Pending(write_wait(&wait)),
        },
    };
    check_holder(parts, &run, &secret).await?;
    Ok(v1::AskWaitResponse { answer: Some(answer) })
}

async fn read_run_facts(parts: &Parts, run: &RunRef) -> Result<JobFacts, Refusal> {
    let wanted: [(_, JobId); 1] = [(run.tenant.clone(), run.job)];
    let found = parts.store.read_facts(&wanted).await.map_err(|error| refuse_store(&error))?;
    match found.into_iter().next().flatten() {
        Some(facts) => facts.map_err(|error| refuse_store(&error)),
        None => Err(Refusal::new(Reason::Fenced, format!("{run} does not hold its job"))),
    }
}

/// What an earlier wait came to.
struct Woken {
    due: Option<Timestamp>,
    /// None: it was erased what came of the jobs.
    outcomes: Option<Vec<AwaitedOutcome>>,
}

/// What is known of the jobs that a wait is for.
enum Awaited {
    /// All of them have concluded.
    Concluded(Vec<v1::AwaitedJob>),
    /// Some have not.
    Open(Wait),
}

/// Whether the jobs of a wait have concluded already. One that is not there, or another tenant's, is refused.
async fn conclude_awaited(parts: &Parts, run: &RunRef, wait: Wait) -> Result<Awaited, Refusal> {
    if wait.jobs.is_empty() {
        return Ok(Awaited::Open(wait));
    }
    let found = read_awaited(parts, run, &wait.jobs).await?;
    let mut outcomes = Vec::with_capacity(found.len());
    for (job, found) in wait.jobs.iter().zip(&found) {
        let Some(found) = found else { return Err(refuse_unknown(*job)) };
        let (outcome, reason) = (found.state, found.reason.clone());
        outcomes.push(AwaitedOutcome { job: *job, outcome, reason });
    }
    if outcomes.iter().all(|one| is_awaited_end(one.outcome)) {
        return Ok(Awaited::Concluded(write_outcomes(outcomes, found)));
    }
    Ok(Awaited::Open(wait))
}

/// What came of jobs, each with as much of what it returned as one answer takes.
async fn tell_outcomes(
    parts: &Parts,
    run: &RunRef,
    outcomes: Vec<AwaitedOutcome>,
) -> Result<Vec<v1::AwaitedJob>, Refusal> {
    let jobs: Vec<_> = outcomes.iter().map(|one| one.job).collect();
    let found = read_awaited(parts, run, &jobs).await?;
    let told = outcomes.into_iter().zip(&found).map(|(mut one, found)| {
        // Where it was erased what came of it, what stands now is told.
        if let (false, Some(found)) = (is_awaited_end(one.outcome), found) {
            (one.outcome, one.reason) = (found.state, found.reason.clone());
        }
        one
    });
    Ok(write_outcomes(told.collect(), found))
}

/// Jobs of which is not known any more what came of them.
fn unknown(jobs: &[JobId]) -> Vec<AwaitedOutcome> {
    jobs.iter().map(|job| AwaitedOutcome { job: *job, outcome: State::Running, reason: None }).collect()
}

async fn read_awaited(
    parts: &Parts,
    run: &RunRef,
    jobs: &[JobId],
) -> Result<Vec<Option<AwaitedJob>>, Refusal> {
    let share = AWAITED_RESULTS_MAX_BYTES / jobs.len().max(1);
    let most = share.min(AWAITED_RESULT_MAX_BYTES);
    parts.bulk.ask(parts.store.read_awaited(&run.tenant, jobs, most)).await
}

fn write_outcomes(outcomes: Vec<AwaitedOutcome>, found: Vec<Option<AwaitedJob>>) -> Vec<v1::AwaitedJob> {
    let write = |(one, found): (AwaitedOutcome, Option<AwaitedJob>)| {
        let (result, result_bytes) = found.map_or((None, 0), |found| (found.result, found.result_bytes));
        v1::AwaitedJob {
            job_id: one.job.to_string(),
            outcome: write_state(one.outcome).into(),
            reason: one.reason.unwrap_or_default(),
            result: result.map(Into::into),
            result_bytes,
        }
    };
    outcomes.into_iter().zip(found).map(write).collect()
}

fn refuse_unknown(job: JobId) -> Refusal {
    Refusal::new(Reason::JobNotFound, format!("there is no job {job} to be waited for"))
        .with_detail("field", "job_ids")
        .with_detail("job_id", job)
}

/// The last waking of the job from the same wait.
async fn find_woken(parts: &Parts, run: &RunRef, asked: &Wait) -> Result<Option<Woken>, Refusal> {
    let kinds = ["suspended", "woken"].map(str::to_owned);
    let (mut announced, mut found) = (None, None);
    let mut next = Some(Seq(1));
    while let Some(from) = next {
        let page = parts.store.read_history(&run.tenant, run.job, from, &kinds, PAGE);
        let page = parts.bulk.ask(page).await?;
        for stored in page.records {
            let value = stored.value.clone();
            match stored.parse().map(|record| (record.seq, record.kind)) {
                Ok((seq, RecordKind::Suspended { wait })) => announced = Some((seq, wait)),
                Ok((_, RecordKind::Woken { wait: of, due, .. })) => {
                    let same = |(seq, wait): &(Seq, Wait)| *seq == of && wait.is_same_as(asked);
                    if announced.as_ref().is_some_and(same) {
                        let outcomes = value.and_then(|json| serde_json::from_slice(&json).ok());
                        found = Some(Woken { due, outcomes });
                    }
                }
                // Nothing is read back from a record that this release does not know.
                Ok(_) | Err(_) => {}
            }
        }
        next = page.next;
    }
    Ok(found)
}

fn write_over(asked: &Wait, due: Option<Timestamp>, jobs: Vec<v1::AwaitedJob>) -> v1::WaitOver {
    v1::WaitOver { name: asked.name.as_str().to_owned(), due: due.map(write_timestamp), jobs }
}
