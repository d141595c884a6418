//! How a run ends: what its holder's report, or somebody else's evidence, makes of the job. Planners look at facts of one
//! head and say what should be written there; they write nothing, and a plan is never carried to another head.
//!
//! The order in which an end is judged: a standing cancel, then the end's own cause. Before a restart is granted come the
//! rule of `recovery`, the session's deadline, and the hops. Whoever settles a run that is not its own takes the next
//! epoch; the holder writes under its own. Neighbours: `recovery` (may it be restarted), `verb` (what people ask), `job`
//! (the state machine), `plan` (what comes out).

mod evidence;
mod judgement;
mod run_end;

pub use evidence::{Evidence, plan_settlement};
pub use judgement::{Judgement, carry_out, judge, judge_again, plan_denial, restart_by_person};
pub use run_end::{EndDecision, EndReport, RunEnd, plan_end, plan_success};

use crate::{
    id::Epoch,
    job::{self, Event, Outcome},
    plan::{Changes, JobChange, JobFacts, LeaseChange, Plan, ReadyChange},
    record::{Draft, RecordKind},
    refusal::Refusal,
};

/// The plan that concludes a job: the drafts, and the verdict after them. Whatever lease or place in the queue is left is
/// given up, so the caller has made sure that no child is left.
///
/// # Errors
/// The job's state does not admit the outcome.
pub fn conclude(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    outcome: Outcome,
    reason: Option<&str>,
    detail: &str,
) -> Result<Plan, Refusal> {
    let state = job::apply(facts.state, Event::Concluded(outcome))?;
    drafts.push(Draft::bare(RecordKind::JobConcluded {
        outcome: state,
        reason: reason.map(str::to_owned),
        result: None,
        output_chunks: None,
    }));
    let job = JobChange {
        state: Some(state),
        reason: Some(reason.unwrap_or_default().to_owned()),
        detail: Some(detail.to_owned()),
        concluded: true,
        ..JobChange::default()
    };
    let lease = if facts.lease.is_some() { LeaseChange::Delete } else { LeaseChange::Keep };
    let ready = if facts.state == job::State::Ready { ReadyChange::Delete } else { ReadyChange::Keep };
    Ok(Plan { epoch, drafts, changes: Changes { job: Some(job), lease, ready } })
}

/// The epoch of a settlement by somebody who is not the holder.
#[must_use]
pub fn next_epoch(facts: &JobFacts) -> Epoch {
    facts.head_epoch.next()
}

/// The run whose lease the facts show: the epoch under which it was claimed.
fn run_epoch(facts: &JobFacts) -> Epoch {
    facts.lease.as_ref().map_or(facts.head_epoch, |lease| lease.run_epoch)
}

#[cfg(test)]
mod tests;
