//! Runs that were asked to end by a notice, and do not answer: somebody gave the job up, or redirected it. Once the run has had the
//! `stop-grace` that its child has, and a moment on top, it is settled under the next epoch, and whatever is left of it works
//! for nobody. A job that was given up is sealed then. One that was redirected waits until its child is known to be gone:
//! its worker learns that it is fenced, ends the child, and says so. Neighbours: `abandon` and `steer` write the notices.

use std::time::Duration;

use crate::{
    deadline::add,
    limits::NOTICE_ANSWER_WAIT,
    plan::{Decision, JobFacts, LeaseChange, LeaseNotice},
    record::{Draft, RecordKind},
    recovery::{Child, Interruption},
    refusal::Refusal,
    settlement::{self, next_epoch},
};

/// Plans the settlement of a run that did not answer in time. A job to which that does not apply is `Already`.
///
/// # Errors
/// The job's state does not admit it.
pub fn plan_unanswered_notice(facts: &JobFacts, stop_grace: Duration) -> Result<Decision, Refusal> {
    let Some(lease) = facts.lease.as_ref().filter(|lease| lease.live) else { return Ok(Decision::Already) };
    let patience = stop_grace.saturating_add(NOTICE_ANSWER_WAIT);
    let is_late = |notice: &LeaseNotice| facts.now >= add(notice.since, patience);
    let (epoch, lost) = (next_epoch(facts), Interruption::LostContact);
    if lease.abandon.as_ref().is_some_and(is_late) {
        let of_epoch = lease.run_epoch;
        let interrupted = RecordKind::RunInterrupted { of_epoch, interruption: lost, restart: None };
        return settlement::abandon(facts, epoch, vec![Draft::bare(interrupted)]).map(Decision::Write);
    }
    if !lease.steer.as_ref().is_some_and(is_late) {
        return Ok(Decision::Already);
    }
    let judgement = settlement::judge(facts, &lost, Child::Unknown, false);
    settlement::carry_out(facts, epoch, Vec::new(), &lost, judgement, LeaseChange::Release)
        .map(Decision::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        factory::{facts, lease, running, second},
        id::{Epoch, Seq},
        job::State,
        plan::{LeaseFacts, Plan},
    };

    const GRACE: Duration = Duration::from_secs(10);

    fn notice() -> Option<LeaseNotice> {
        Some(LeaseNotice { seq: Seq(4), since: second(50) })
    }

    fn at(seconds: i64, lease: LeaseFacts) -> Result<Decision, Refusal> {
        let facts = JobFacts { now: second(seconds), lease: Some(lease), ..running() };
        plan_unanswered_notice(&facts, GRACE)
    }

    fn kinds(plan: &Plan) -> Vec<&'static str> {
        plan.drafts.iter().map(|draft| draft.kind.name()).collect()
    }

    #[test]
    fn a_run_that_does_not_answer_an_abandon_in_time_loses_the_job_to_the_next_epoch() {
        let asked = LeaseFacts { abandon: notice(), ..lease() };
        assert_eq!(at(74, asked.clone()), Ok(Decision::Already), "it has time left");
        let Ok(Decision::Write(plan)) = at(50 + 10 + 15, asked) else { panic!() };
        assert_eq!(kinds(&plan), ["run_interrupted", "job_concluded"]);
        assert_eq!((plan.epoch, plan.changes.lease), (Epoch(2), LeaseChange::Delete));
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Abandoned));
    }

    #[test]
    fn a_run_that_does_not_answer_a_steer_in_time_is_settled_and_nothing_starts_beside_its_child() {
        let asked = LeaseFacts { steer: notice(), ..lease() };
        assert_eq!(at(74, asked.clone()), Ok(Decision::Already), "it has time left");
        let Ok(Decision::Write(plan)) = at(50 + 10 + 15, asked) else { panic!() };
        assert_eq!(kinds(&plan), ["run_interrupted", "recovery_denied"]);
        assert_eq!((plan.epoch, plan.changes.lease), (Epoch(2), LeaseChange::Release));
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Interrupted));
    }

    #[test]
    fn nothing_is_settled_that_was_not_asked_or_has_ended() {
        let ended = LeaseFacts { steer: notice(), live: false, ..lease() };
        for lease in [lease(), ended] {
            assert_eq!(at(600, lease), Ok(Decision::Already));
        }
        assert_eq!(plan_unanswered_notice(&facts(State::Ready), GRACE), Ok(Decision::Already));
    }
}
