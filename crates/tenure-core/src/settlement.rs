//! How a run ends: what its holder's report, or somebody else's evidence, makes of the job. Planners look at facts of one
//! head and say what should be written there; they write nothing, and a plan is never carried to another head.
//!
//! The order in which an end is judged: a standing abandon, a standing cancel, a standing steer, then the end's own cause. Before a restart is granted come the
//! rule of `recovery`, the session's deadline, the hops, and the effects that only a person can decide; before a verdict,
//! every effect in doubt. Whoever settles a run that is not its own takes the next
//! epoch; the holder writes under its own. Neighbours: `recovery` (may it be restarted), `verb` (what people ask), `job`
//! (the state machine), `plan` (what comes out).

mod evidence;
mod judgement;
mod quarantine;
mod reopening;
mod run_end;
mod unwinding;
mod waiting;

pub use evidence::{Evidence, plan_settlement};
pub use judgement::{
    Judgement, carry_out, continue_by_person, judge, judge_again, plan_denial, plan_limit_refusal, redirect,
    restart_by_person,
};
pub use quarantine::{
    BUNDLE_CHANGED, DECLARATION_CHANGED, EFFECT_IN_DOUBT, NOT_UNWOUND, plan_changed_bundle,
    plan_changed_declaration,
};
pub use reopening::reopen;
pub use run_end::{EndDecision, EndReport, RunEnd, Unasked, plan_end, plan_success};
pub use unwinding::{cancel, unwind_again};
pub use waiting::plan_wake;

pub(crate) use judgement::ask_for_run;
use judgement::conclude_at_limit;
use quarantine::{InsteadOf, Verdict, conclude_undoubted, quarantine_doubts};

use crate::{
    id::Epoch,
    job::{self, Event, Outcome},
    plan::{Changes, JobChange, JobFacts, LeaseChange, Plan, ReadyChange},
    record::{Draft, NewValue, RecordKind},
    refusal::Refusal,
};

/// The plan of a job that somebody gave up: sealed, whatever its effects are, with nothing undone. A child that is left works
/// for nobody: its epoch is over.
///
/// # Errors
/// The job's state does not admit it.
pub fn abandon(facts: &JobFacts, epoch: Epoch, drafts: Vec<Draft>) -> Result<Plan, Refusal> {
    conclude(facts, epoch, drafts, Outcome::Abandoned, None, "")
}

/// The plan that concludes a job whatever its effects are: the drafts, and the verdict after them. Whatever lease or place in
/// the queue is left is given up, so the caller has made sure that no child is left.
fn conclude(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    outcome: Outcome,
    reason: Option<&str>,
    detail: &str,
) -> Result<Plan, Refusal> {
    conclude_with(facts, epoch, drafts, Verdict { outcome, reason, detail, result: None })
}

fn conclude_with(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    verdict: Verdict<'_>,
) -> Result<Plan, Refusal> {
    let state = job::apply(facts.state, Event::Concluded(verdict.outcome))?;
    drafts.push(draft_conclusion(state, verdict.reason, verdict.result, None));
    let job = JobChange {
        state: Some(state),
        reason: Some(verdict.reason.unwrap_or_default().to_owned()),
        detail: Some(verdict.detail.to_owned()),
        concluded: true,
        ..JobChange::default()
    };
    let lease = if facts.lease.is_some() { LeaseChange::Delete } else { LeaseChange::Keep };
    let ready = if facts.state == job::State::Ready { ReadyChange::Delete } else { ReadyChange::Keep };
    Ok(Plan { epoch, drafts, changes: Changes { job: Some(job), lease, ready, ..Changes::default() } })
}

fn draft_conclusion(
    outcome: job::State,
    reason: Option<&str>,
    result: Option<NewValue>,
    output_chunks: Option<u64>,
) -> Draft {
    let reason = reason.map(str::to_owned);
    let concluded = |result| RecordKind::JobConcluded { outcome, reason, result, output_chunks };
    match result {
        Some(value) => Draft::with_new_value(value, |reference| concluded(Some(reference))),
        None => Draft::bare(concluded(None)),
    }
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
