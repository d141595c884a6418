//! Erasing what a job was given or what it wrote: when that is allowed, and the record that says it. The chain keeps the
//! digests, so it still verifies; value and salt are gone, so nothing can be guessed from a digest. It is allowed on jobs that
//! are over too: the record of an erasure is the only one that a sealed journal takes. It deletes nothing itself. Neighbours:
//! `verb` (what else a person asks of a job), `verify` (which tells an erased value from one that is missing).

use crate::{
    job::State,
    plan::JobFacts,
    principal::Principal,
    reason::Reason,
    record::{Draft, ErasedPart, RecordKind},
    refusal::Refusal,
    verb::check_why,
};

/// The verb as typed and journaled.
pub const ERASE: &str = "erase";

/// Plans an erasure: the one record that is written together with it.
///
/// # Errors
/// The reason is blank, a run of the job is live or to come, or the child of its last run is not known to be gone.
pub fn plan_erasure(facts: &JobFacts, part: ErasedPart, by: Principal, why: &str) -> Result<Draft, Refusal> {
    let why = check_why(why)?;
    check_state(facts)?;
    check_child(facts)?;
    Ok(Draft::bare(RecordKind::OperatorActed { verb: ERASE.to_owned(), by, why, erased: Some(part) }))
}

/// A run that is live or to come would find its own ground taken away.
fn check_state(facts: &JobFacts) -> Result<(), Refusal> {
    match facts.state {
        State::Ready | State::Running | State::Suspended => {
            let short = facts.job.short();
            let words = format!(
                "cannot erase what job {short} holds: it is {}, so a run of it is live or to come; cancel it first",
                facts.state
            );
            Err(Refusal::new(Reason::VerbNotAllowed, words)
                .with_detail("state", facts.state)
                .with_detail("verb", ERASE)
                .with_next(format!("tenure cancel {short} --why W")))
        }
        State::Interrupted
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Ok(()),
    }
}

/// A child that may live has what it was given, and may write more.
fn check_child(facts: &JobFacts) -> Result<(), Refusal> {
    let Some(lease) = &facts.lease else { return Ok(()) };
    let short = facts.job.short();
    let words = format!(
        "cannot erase what job {short} holds: it is {}, and the child of its run under epoch {} on worker {} is not \
         known to be gone",
        facts.state, lease.run_epoch, lease.worker,
    );
    Err(Refusal::new(Reason::ChildUnaccountedFor, words)
        .with_detail("state", facts.state)
        .with_detail("epoch", lease.run_epoch)
        .with_next(format!("tenure confirm-gone {short} --epoch {} --why W", lease.run_epoch)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::{facts, person, unaccounted};

    fn plan(facts: &JobFacts, why: &str) -> Result<Draft, Reason> {
        plan_erasure(facts, ErasedPart::Input, person(), why).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn what_a_live_or_coming_run_holds_is_not_erased() {
        for state in State::ALL.iter().copied() {
            let at = JobFacts { lease: None, ..facts(state) };
            let erased = plan(&at, "asked for");
            if matches!(state, State::Ready | State::Running | State::Suspended) {
                assert_eq!(erased, Err(Reason::VerbNotAllowed), "{state}");
            } else {
                assert!(erased.is_ok(), "{state}");
            }
        }
    }

    #[test]
    fn what_a_child_that_may_live_holds_is_not_erased() {
        assert_eq!(plan(&unaccounted(), "asked for"), Err(Reason::ChildUnaccountedFor));
    }

    #[test]
    fn the_record_says_what_was_erased_by_whom_and_why() {
        let sealed = facts(State::Succeeded);
        let draft = plan(&sealed, "  asked for ").unwrap();
        let why = "asked for".to_owned();
        let (by, erased) = (person(), Some(ErasedPart::Input));
        assert_eq!(draft.kind, RecordKind::OperatorActed { verb: ERASE.to_owned(), by, why, erased });
        assert_eq!(plan(&sealed, " "), Err(Reason::ReasonMissing));
    }
}
