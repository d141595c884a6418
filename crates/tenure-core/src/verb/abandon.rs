//! Giving a job up: it is sealed, and nothing is undone. A living run is asked to end its child first, by a notice at its
//! own epoch; where it does not answer in time, the job is sealed under the next epoch, and whatever is left of the run
//! works for nobody.

use super::{Verb, ask, check_why, operator_acted};
use crate::{
    job::State,
    plan::{Changes, Decision, JobFacts, LeaseChange, Plan},
    principal::Principal,
    record::{Draft, RecordKind},
    refusal::Refusal,
    settlement::{self, next_epoch},
};

/// Plans it. The first asker stands.
///
/// # Errors
/// The reason is blank, or the job is over.
pub fn plan_abandon(facts: &JobFacts, by: Principal, why: &str) -> Result<Decision, Refusal> {
    let why = check_why(why)?;
    let next = ask(facts, Verb::Abandon)?;
    if facts.abandoned().is_some() {
        return Ok(Decision::Already);
    }
    if next == State::Running {
        let request = Draft::bare(RecordKind::AbandonRequested { by, why });
        let changes = Changes { lease: LeaseChange::NoteAbandon, ..Changes::default() };
        return Ok(Decision::Write(Plan { epoch: facts.head_epoch, drafts: vec![request], changes }));
    }
    // A lease that is left is of a run that is settled: its holder may yet come back, and is fenced anew.
    let epoch = if facts.lease.is_some() { next_epoch(facts) } else { facts.head_epoch };
    let acted = operator_acted(Verb::Abandon, by, why);
    settlement::abandon(facts, epoch, vec![acted]).map(Decision::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        effect::{EffectRecovery, EffectRef, Outcome, StepsToUndo},
        factory::{doubts, facts, lease, person, running, second, unaccounted},
        id::{Epoch, Seq},
        plan::{LeaseFacts, LeaseNotice, ReadyChange},
        reason::Reason,
    };

    fn abandon(facts: &JobFacts) -> Decision {
        plan_abandon(facts, person(), "not worth it").unwrap()
    }

    fn kinds(plan: &Plan) -> Vec<&'static str> {
        plan.drafts.iter().map(|draft| draft.kind.name()).collect()
    }

    fn asked() -> JobFacts {
        let notice = LeaseNotice { seq: Seq(4), since: second(50) };
        JobFacts { lease: Some(LeaseFacts { abandon: Some(notice), ..lease() }), ..running() }
    }

    #[test]
    fn a_job_without_a_living_run_is_sealed_at_once_whatever_its_effects_are() {
        let step = EffectRef { key: "push".parse().unwrap(), attempt: 1 };
        for state in State::ALL.iter().copied().filter(|state| !state.is_sealed() && *state != State::Running)
        {
            let steps = StepsToUndo { listed: vec![step.clone()], count: 1, ..StepsToUndo::default() };
            let doubts = doubts(&[("ask", EffectRecovery::Ask, Outcome::Open)]);
            let Decision::Write(plan) = abandon(&JobFacts { steps, doubts, ..facts(state) }) else {
                panic!()
            };
            assert_eq!(kinds(&plan), ["operator_acted", "job_concluded"], "{state}");
            let job = plan.changes.job.unwrap();
            assert_eq!((job.state, job.concluded), (Some(State::Abandoned), true), "{state}");
            assert_eq!(plan.changes.ready == ReadyChange::Delete, state == State::Ready, "{state}");
        }
    }

    #[test]
    fn a_child_that_is_not_known_to_be_gone_keeps_no_job_and_its_epoch_is_over() {
        let Decision::Write(plan) = abandon(&unaccounted()) else { panic!() };
        assert_eq!((plan.epoch, plan.changes.lease), (Epoch(3), LeaseChange::Delete));
    }

    #[test]
    fn a_living_run_is_asked_first_at_its_own_epoch_and_the_first_asker_stands() {
        let Decision::Write(plan) = abandon(&running()) else { panic!() };
        assert_eq!((kinds(&plan), plan.epoch), (vec!["abandon_requested"], Epoch(1)));
        assert_eq!((plan.changes.lease, plan.changes.job), (LeaseChange::NoteAbandon, None));
        assert_eq!(abandon(&asked()), Decision::Already);
    }

    #[test]
    fn a_reason_is_needed_and_what_is_over_is_not_given_up() {
        assert_eq!(plan_abandon(&running(), person(), " ").unwrap_err().reason, Reason::ReasonMissing);
        let over = plan_abandon(&facts(State::Succeeded), person(), "late").unwrap_err();
        assert_eq!(over.reason, Reason::VerbNotAllowed);
    }
}
