//! Redirecting a job: its present run ends, and a run starts with a person's note. A living run is asked first, by a notice at its
//! own epoch; whoever settles it then has the next run start for the note. A job without a run has it start at once. Finished
//! effects stay finished; what is being undone, or was, is not redirected, because the next run would read back what is no longer
//! there. Neighbours: `settlement` starts the run, `unanswered` settles a run that does not answer, `handover` tells the note.

use super::{Verb, ask, demand_child_gone, demand_plan};
use crate::{
    job::State,
    limits::NOTE_MAX_BYTES,
    plan::{Changes, JobFacts, LeaseChange, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind, SaltedValue},
    recovery::Restart,
    refusal::Refusal,
    settlement,
};

/// A note as it is kept: trimmed, not blank, bounded.
///
/// # Errors
/// It is blank, or too large.
pub fn check_steer_note(given: &str) -> Result<String, Refusal> {
    let note = given.trim();
    if note.is_empty() {
        return Err(Refusal::new(Reason::ReasonMissing, "the note is blank, so it redirects nothing")
            .with_detail("field", "note"));
    }
    if note.len() > NOTE_MAX_BYTES {
        let words = format!("the note has {} bytes, and at most {NOTE_MAX_BYTES} are taken", note.len());
        return Err(Refusal::new(Reason::NoteTooLarge, words).with_detail("limit_bytes", NOTE_MAX_BYTES));
    }
    Ok(note.to_owned())
}

/// Plans it. A later note goes before an earlier one, and both are told.
///
/// # Errors
/// The state does not allow it, somebody cancelled the job or gave it up, something was undone or began to be, the job never
/// started, or the child of its last run is not known to be gone.
pub fn plan_steer(facts: &JobFacts, by: Principal, note: SaltedValue) -> Result<Plan, Refusal> {
    let next = ask(facts, Verb::Steer)?;
    demand_no_end(facts)?;
    demand_not_undone(facts)?;
    let steered =
        |restart: Option<Restart>| Draft::with_value(note, |note| RecordKind::Steered { by, note, restart });
    if next == State::Running {
        let changes = Changes { lease: LeaseChange::NoteSteer, ..Changes::default() };
        return Ok(Plan { epoch: facts.head_epoch, drafts: vec![steered(None)], changes });
    }
    demand_child_gone(facts, Verb::Steer)?;
    demand_plan(facts, Verb::Steer)?;
    settlement::redirect(facts, steered)
}

/// A cancel and an abandon go before it: nobody would ever be told the note.
fn demand_no_end(facts: &JobFacts) -> Result<(), Refusal> {
    let what = match (facts.abandoned(), facts.cancel_requested) {
        (Some(_), _) => "somebody gave it up",
        (None, Some(_)) => "somebody asked for it to be cancelled",
        (None, None) => return Ok(()),
    };
    Err(refuse(facts, Reason::CancelRequested, what).with_next(format!("tenure job {}", facts.job.short())))
}

fn demand_not_undone(facts: &JobFacts) -> Result<(), Refusal> {
    if facts.compensated == 0 && facts.unwinding.is_none() {
        return Ok(());
    }
    let what = "what it had done was undone or began to be";
    Err(refuse(facts, Reason::VerbNotAllowed, what)
        .with_detail("compensated", facts.compensated)
        .with_next(format!("tenure effects {}", facts.job.short())))
}

fn refuse(facts: &JobFacts, reason: Reason, what: &str) -> Refusal {
    let words = format!("cannot steer job {}: it is {}, and {what}", facts.job.short(), facts.state);
    Refusal::new(reason, words).with_detail("state", facts.state).with_detail("verb", Verb::Steer.name())
}

#[cfg(test)]
mod tests;
