//! What becomes of a job that was set aside and that a person has judged again. A standing cancel and an unwinding go
//! first, then what only a person can decide. After that the verdict stands that the doubts stood in the way of, unless what was answered says
//! that the work is not done, or a doubt is left that a run can settle; what was no verdict goes on with a run. Neighbours:
//! `quarantine` set it aside, `judgement` queues runs, the verb asks.

use super::{
    InsteadOf, Verdict, conclude_undoubted, judgement::continue_by_person, quarantine_doubts, unwind_again,
    unwinding::fail,
};
use crate::{
    handover::Cause,
    job::{Outcome, State},
    plan::{JobFacts, Plan, SetAside},
    reason::Reason,
    record::Draft,
    recovery::Pays,
    refusal::Refusal,
};

/// The plan; the drafts say who asked and why, `cause` why a run would start.
///
/// # Errors
/// The facts do not say what it would have become.
pub fn reopen(
    facts: &JobFacts,
    drafts: Vec<Draft>,
    cause: impl FnOnce(u32) -> Cause,
) -> Result<Plan, Refusal> {
    let epoch = facts.head_epoch;
    if facts.cancel_requested.is_some() || facts.unwinding.is_some() {
        return unwind_again(facts, epoch, drafts).unwrap_or_else(|| Err(refuse_unknown()));
    }
    let Some(SetAside { instead_of, reason, result, changed: _ }) = facts.set_aside.clone() else {
        return Err(refuse_unknown());
    };
    if facts.doubts.undecided > 0 {
        return quarantine_doubts(facts, epoch, drafts, InsteadOf { state: instead_of, reason, result });
    }
    match instead_of {
        // Whoever says that something did not happen that the run counted on says that the work is not done.
        State::Succeeded if facts.doubts.is_empty() && facts.doubts.denied == 0 => {
            let verdict = Verdict { outcome: Outcome::Succeeded, reason: None, detail: "", result };
            conclude_undoubted(facts, epoch, drafts, verdict)
        }
        State::Failed if facts.doubts.is_empty() => {
            let detail = "its run had failed, and what was in doubt about its effects is answered";
            fail(facts, epoch, drafts, reason.as_deref().unwrap_or("execution"), detail)
        }
        // The limit is asked again: it may have been raised.
        State::Exhausted => continue_by_person(facts, epoch, drafts, Pays::Attempt, cause),
        State::Ready | State::Interrupted | State::Succeeded | State::Failed => {
            continue_by_person(facts, epoch, drafts, Pays::Nothing, cause)
        }
        // What would have been cancelled has its cancel standing, and was unwound above.
        State::Cancelled
        | State::Running
        | State::Suspended
        | State::Withheld
        | State::Quarantined
        | State::Abandoned
        | State::Expired => {
            let words = format!("a job that was set aside cannot have become {instead_of}");
            Err(Refusal::new(Reason::Internal, words))
        }
    }
}

fn refuse_unknown() -> Refusal {
    Refusal::new(Reason::Internal, "the journal does not say why the job was set aside")
}
