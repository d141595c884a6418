//! What a run asks before it waits: whether the wait is over, because an earlier run of the job announced the same and was
//! woken, and otherwise whether it may be waited. Nothing is written here: the worker ends the run, and its end is the wait.
//! Neighbours: `worker_service` takes the call, lanes write the end, the sweep wakes.

use tenure_core::{
    id::{JobId, Seq},
    plan::JobFacts,
    reason::Reason,
    record::RecordKind,
    refusal::Refusal,
    run_ref::RunRef,
    wait::{Wait, admit_wait},
};
use tenure_proto::{
    convert::{
        run::read_run_ref,
        step::read_step_name,
        time::write_timestamp,
        wait::{read_until, write_wait},
    },
    v1::{self, ask_wait_response::Answer},
};

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
    let facts = read_run_facts(parts, &run).await?;
    let admitted = admit_wait(name.clone(), until, Vec::new(), run.job, facts.deadline_at, facts.now);
    // What is over already was admitted when it was announced, so it is looked for first.
    let asked = Wait { name, until: facts.now, jobs: Vec::new() };
    let answer = match find_woken(parts, &run, &asked).await? {
        Some(over) => Answer::Over(over),
        None => Answer::Pending(write_wait(&admitted?)),
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

/// The last waking of the job from the same wait.
async fn find_woken(parts: &Parts, run: &RunRef, asked: &Wait) -> Result<Option<v1::WaitOver>, Refusal> {
    let kinds = ["suspended", "woken"].map(str::to_owned);
    let (mut announced, mut found) = (None, None);
    let mut next = Some(Seq(1));
    while let Some(from) = next {
        let page = parts.store.read_history(&run.tenant, run.job, from, &kinds, PAGE);
        let page = parts.bulk.ask(page).await?;
        for stored in page.records {
            match stored.parse().map(|record| (record.seq, record.kind)) {
                Ok((seq, RecordKind::Suspended { wait })) => announced = Some((seq, wait)),
                Ok((_, RecordKind::Woken { wait: of, due, .. })) => {
                    let same = |(seq, wait): &(Seq, Wait)| *seq == of && wait.is_same_as(asked);
                    if announced.as_ref().is_some_and(same) {
                        found = Some(write_over(asked, due));
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

fn write_over(asked: &Wait, due: Option<jiff::Timestamp>) -> v1::WaitOver {
    v1::WaitOver { name: asked.name.as_str().to_owned(), due: due.map(write_timestamp) }
}
