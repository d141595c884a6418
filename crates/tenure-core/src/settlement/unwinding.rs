//! Undoing what a job has done. It begins where a job is cancelled, or fails and its agent says so, and something that took
//! effect is to be undone; from then on the job's runs undo, the last step first, and meet no ceiling: neither the deadline
//! nor the hops nor the agent's policy of restarts refuse them. It ends with the verdict that it began with, or with a job
//! that is set aside because something was not undone.
//!
//! What nobody declared how to undo is decided by a person before anything is undone: half of an undoing is worse than
//! none. What is in doubt and can be looked up is looked up by the run that undoes, before it undoes anything; around any other doubt
//! nothing is undone. Neighbours: `judgement` and `run_end` ask, `quarantine` sets aside, the worker undoes.

use crate::{
    effect::EffectKey,
    handover::Cause,
    id::Epoch,
    job::{self, Event},
    limits::{UNWIND_ATTEMPTS, UNWIND_LOSSES},
    plan::{Changes, JobChange, JobFacts, LeaseChange, Plan, ReadyChange},
    record::{Draft, HandOver, RecordKind},
    recovery::{self, Child, Denial, Interruption, Pays},
    refusal::Refusal,
    settlement::{
        carry_out, conclude_with, judge,
        judgement::{Judgement, grant_restart, hand_over},
        quarantine::{
            InsteadOf, Verdict, conclude_undoubted, quarantine_doubts, set_aside_doubts,
            set_aside_not_unwound,
        },
        run_end::RunEnd,
    },
    unwinding::Unwinding,
};

/// The plan of a cancel whose job has no child left: what took effect is undone first.
///
/// # Errors
/// The job's state does not admit it.
pub fn cancel(facts: &JobFacts, epoch: Epoch, drafts: Vec<Draft>) -> Result<Plan, Refusal> {
    unwind(facts, epoch, drafts, Unwinding::Cancelled)
}

/// The plan of a failure: what took effect is undone first where the agent says so.
pub(super) fn fail(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    reason: &str,
    detail: &str,
) -> Result<Plan, Refusal> {
    let unwinding = Unwinding::Failed { reason: reason.to_owned(), detail: detail.to_owned() };
    if facts.recovery.unwind_on_failure && facts.unwinding.is_none() && facts.doubts.bar_undoing == 0 {
        return unwind(facts, epoch, drafts, unwinding);
    }
    conclude_undoubted(facts, epoch, drafts, Verdict::of(&unwinding))
}

/// Takes the unwinding of a job up again, whose child is gone: where a cancel stands that nothing was done about, or where it
/// was being unwound. None: neither is so, and the job works forward.
#[must_use]
pub fn unwind_again(facts: &JobFacts, epoch: Epoch, drafts: Vec<Draft>) -> Option<Result<Plan, Refusal>> {
    let unwinding = match (facts.cancel_requested, &facts.unwinding) {
        (Some(_), _) => Unwinding::Cancelled,
        (None, Some(unwinding)) => unwinding.clone(),
        (None, None) => return None,
    };
    Some(unwind(facts, epoch, drafts, unwinding))
}

/// The plan of a job that is unwound from now on; where nothing is to be undone it is concluded at once.
fn unwind(facts: &JobFacts, epoch: Epoch, drafts: Vec<Draft>, unwinding: Unwinding) -> Result<Plan, Refusal> {
    if facts.doubts.bar_undoing > 0 {
        return quarantine_doubts(facts, epoch, drafts, InsteadOf::of(unwinding.state()));
    }
    if facts.steps.count == 0 && facts.doubts.is_empty() {
        return conclude_with(facts, epoch, drafts, Verdict::of(&unwinding));
    }
    if is_undeclared(facts) {
        return set_aside_undeclared(facts, epoch, drafts, &unwinding);
    }
    begin(facts, epoch, drafts, unwinding)
}

/// True where something took effect of whose undoing nobody spoke. A doubt is settled first: it may be about a pivot.
const fn is_undeclared(facts: &JobFacts) -> bool {
    facts.doubts.is_empty() && facts.steps.undeclared_count > 0
}

fn set_aside_undeclared(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    unwinding: &Unwinding,
) -> Result<Plan, Refusal> {
    let why = "nobody declared how, so nothing was undone: undo it by hand, and abandon the job";
    let steps = (facts.steps.undeclared.clone(), facts.steps.undeclared_count);
    set_aside_not_unwound(facts, epoch, drafts, steps, unwinding, why)
}

/// The job waits for a run that undoes; whatever restarts it had, those of its undoing are counted anew.
fn begin(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    unwinding: Unwinding,
) -> Result<Plan, Refusal> {
    let state = job::apply(facts.state, Event::Unwinding)?;
    let cause = Cause::Unwinding { instead_of: unwinding.state(), attempt: 1 };
    let (reason, detail) = unwinding.failure().unzip();
    drafts.push(Draft::bare(RecordKind::UnwindStarted {
        instead_of: unwinding.state(),
        reason: reason.map(str::to_owned),
        detail: detail.map(str::to_owned),
        steps: facts.steps.count,
    }));
    let job = JobChange {
        state: Some(state),
        reason: Some(String::new()),
        detail: Some(String::new()),
        attempts: Some(0),
        losses: Some(0),
        unwinding: Some(unwinding),
        ..JobChange::default()
    };
    let lease = if facts.lease.is_some() { LeaseChange::Delete } else { LeaseChange::Keep };
    let ready = match facts.state {
        job::State::Ready => ReadyChange::Replace { cause },
        _ => ReadyChange::Insert { cause, not_before: None },
    };
    Ok(Plan { epoch, drafts, changes: Changes { job: Some(job), lease, ready, ..Changes::default() } })
}

/// The end of an unwinding run as its holder reports it.
pub(super) fn settle_unwinding(
    facts: &JobFacts,
    unwinding: &Unwinding,
    epoch: Epoch,
    drafts: Vec<Draft>,
    end: RunEnd,
) -> Result<Plan, Refusal> {
    if facts.unanswered_cancel().is_some() {
        return cancel(facts, epoch, drafts);
    }
    let (interruption, healthy) = match end {
        RunEnd::Drained => return hand_over(facts, epoch, drafts, HandOver::Drained),
        RunEnd::Unwound if is_undone(facts) => {
            return conclude_with(facts, epoch, drafts, Verdict::of(unwinding));
        }
        _ if is_undeclared(facts) => return set_aside_undeclared(facts, epoch, drafts, unwinding),
        RunEnd::UndoFailed { key, error } => {
            return give_up(facts, unwinding, epoch, drafts, Some((&key, &error)));
        }
        RunEnd::Cancel | RunEnd::ContactLost | RunEnd::DeadlineReached => (Interruption::LostContact, true),
        end => (end.interruption(), false),
    };
    let judgement = judge(facts, &interruption, Child::Gone, healthy);
    carry_out(facts, epoch, drafts, &interruption, judgement, LeaseChange::Delete)
}

/// Judges an interruption of an unwinding run: it is the fleet's own, so the agent's policy is not asked.
pub(super) fn judge_unwinding(
    facts: &JobFacts,
    interruption: &Interruption,
    child: Child,
    healthy: bool,
) -> Judgement {
    match child {
        Child::Unknown => return Judgement::Denied(Denial::ChildUnaccountedFor),
        Child::Gone if facts.unanswered_cancel().is_some() => return Judgement::Cancelled,
        Child::Gone if is_undone(facts) => return Judgement::Unwound,
        Child::Gone if facts.doubts.undecided > 0 || is_undeclared(facts) => return Judgement::NotUnwound,
        Child::Gone => {}
    }
    if !interruption.retryable() {
        return Judgement::Denied(Denial::NotRetryable);
    }
    let policy = &facts.recovery;
    let (pays, granted, most) = if healthy {
        (Pays::Loss, facts.losses, recovery::losses_allowed(policy).max(UNWIND_LOSSES))
    } else {
        (Pays::Attempt, facts.attempts, policy.max_attempts.max(UNWIND_ATTEMPTS))
    };
    if granted >= most {
        return Judgement::NotUnwound;
    }
    Judgement::Restart(grant_restart(facts, pays, Some((interruption, granted))))
}

/// True where nothing is left to be undone, and nobody doubts it.
fn is_undone(facts: &JobFacts) -> bool {
    facts.steps.count == 0 && facts.doubts.is_empty()
}

/// The verdict of a job whose undoing is over.
pub(super) fn conclude_unwound(
    facts: &JobFacts,
    unwinding: &Unwinding,
    epoch: Epoch,
    drafts: Vec<Draft>,
) -> Result<Plan, Refusal> {
    conclude_with(facts, epoch, drafts, Verdict::of(unwinding))
}

/// The plan of a job whose undoing goes no further without a person; `failed` is the undoing that failed, and what it said.
pub(super) fn give_up(
    facts: &JobFacts,
    unwinding: &Unwinding,
    epoch: Epoch,
    drafts: Vec<Draft>,
    failed: Option<(&EffectKey, &str)>,
) -> Result<Plan, Refusal> {
    if facts.doubts.are_about_work() {
        let reason = unwinding.failure().map(|(reason, _)| reason.to_owned());
        let instead_of = InsteadOf { reason, ..InsteadOf::of(unwinding.state()) };
        return set_aside_doubts(facts, epoch, drafts, instead_of);
    }
    if is_undeclared(facts) {
        return set_aside_undeclared(facts, epoch, drafts, unwinding);
    }
    let job = facts.job.short();
    let doubts: Vec<_> = facts.doubts.listed.iter().map(crate::effect::Doubt::to_ref).collect();
    let go_on = format!("tenure reopen {job} goes on");
    let (effects, count) = if doubts.is_empty() {
        (facts.steps.listed.clone(), facts.steps.count)
    } else {
        (doubts, facts.doubts.count)
    };
    let why = match failed {
        Some((key, "")) => format!("{key} failed; {go_on}"),
        Some((key, error)) => format!("{key} failed: {error}; {go_on}"),
        None if facts.doubts.undecided > 0 => {
            format!("nobody knows whether the undoing happened; once that is reconciled, {go_on}")
        }
        None => format!("the restarts of its undoing are used up; {go_on}"),
    };
    set_aside_not_unwound(facts, epoch, drafts, (effects, count), unwinding, &why)
}

#[cfg(test)]
mod tests;
