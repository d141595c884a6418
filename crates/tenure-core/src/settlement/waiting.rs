//! A job that waits: its run ended on purpose, and a later one starts once what it waits for is there. The run's end and the
//! wait are written together, and so are the waking and its place in the queue. Whoever wakes names the record that
//! suspended the job, so that a wait is woken once, whatever number of coordinators sweep. Neighbours: `run_end` suspends,
//! the sweep wakes, `verb` has an expired wait go on.

use super::{
    InsteadOf, conclude_at_limit,
    judgement::{ask_admission, weigh_doubts},
    quarantine_doubts,
};
use crate::{
    handover::Cause,
    id::{Epoch, Seq},
    job::{self, Event, State},
    limits::WOKEN_JOBS_TOLD_MAX,
    plan::{Changes, Decision, JobChange, JobFacts, LeaseChange, Plan, ReadyChange},
    record::{Draft, RecordKind},
    recovery::{Child, Interruption, Pays},
    refusal::Refusal,
    wait::{AwaitedOutcomes, Wait, WokenBy},
};

/// The plan of a run that ended because it waits. What only a person can decide is not left to the run after the wait: such
/// a job is set aside, and would have been ready.
pub(super) fn suspend(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    wait: Wait,
) -> Result<Plan, Refusal> {
    if facts.doubts.undecided > 0 {
        return quarantine_doubts(facts, epoch, drafts, InsteadOf::of(State::Ready));
    }
    let state = job::apply(facts.state, Event::Suspended)?;
    drafts.push(Draft::bare(RecordKind::Suspended { wait: wait.clone() }));
    let job = JobChange {
        state: Some(state),
        reason: Some(String::new()),
        detail: Some(String::new()),
        ..JobChange::default()
    };
    let changes =
        Changes { job: Some(job), lease: LeaseChange::Delete, wait: Some(wait), ..Changes::default() };
    Ok(Plan { epoch, drafts, changes })
}

/// The plan of a job whose wait is over: it is ready for a run that is told so. `seq` is the record that suspended it,
/// `outcomes` what came of the jobs that it waited for. A job that does not stand at that record, or whose wait is not
/// over, is `Already`.
///
/// # Errors
/// The job's state does not admit it.
pub fn plan_wake(
    facts: &JobFacts,
    seq: Seq,
    outcomes: Option<&AwaitedOutcomes>,
) -> Result<Decision, Refusal> {
    let waits = facts.state == State::Suspended;
    let Some(wait) = facts.wait.as_ref().filter(|wait| waits && wait.seq == seq) else {
        return Ok(Decision::Already);
    };
    if !wait.is_over(facts.now) || (wait.jobs > 0) != outcomes.is_some() {
        return Ok(Decision::Already);
    }
    if let Some(judgement) = ask_admission(facts, Pays::Nothing) {
        let judgement = weigh_doubts(facts, &Interruption::LostContact, Child::Gone, judgement);
        return conclude_at_limit(facts, facts.head_epoch, Vec::new(), judgement).map(Decision::Write);
    }
    let due = (wait.jobs == 0).then_some(wait.until);
    let named = |outcomes| RecordKind::Woken { wait: seq, name: wait.name.clone(), due, outcomes };
    let woken = match outcomes {
        Some(outcomes) => Draft::with_value(outcomes.value.clone(), |value| named(Some(value))),
        None => Draft::bare(named(None)),
    };
    let told = outcomes.map(|outcomes| &outcomes.outcomes[..]).unwrap_or_default();
    let by = WokenBy {
        name: wait.name.clone(),
        due,
        jobs: told.iter().take(WOKEN_JOBS_TOLD_MAX).cloned().collect(),
        count: wait.jobs,
    };
    let attempt = facts.attempts.saturating_add(facts.losses).saturating_add(1);
    let cause = Cause::Woken { previous: facts.run, wait: by, attempt };
    let job = JobChange { state: Some(job::apply(facts.state, Event::Woken)?), ..JobChange::default() };
    let ready = ReadyChange::Insert { cause, not_before: None };
    let changes = Changes { job: Some(job), ready, ..Changes::default() };
    Ok(Decision::Write(Plan { epoch: facts.head_epoch, drafts: vec![woken], changes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        effect::{EffectRecovery, Outcome},
        factory::{doubts, facts, job_id, person, running, salted, second},
        id::{JobId, Run},
        settlement::{EndDecision, EndReport, RunEnd, plan_end},
        wait::{AwaitedOutcome, WaitFacts},
    };

    fn wait() -> Wait {
        Wait { name: "#1".parse().unwrap(), until: second(90), jobs: Vec::new() }
    }

    fn report() -> EndReport {
        EndReport {
            epoch: Epoch(1),
            end: RunEnd::Waiting(wait()),
            result: None,
            output_chunks: 0,
            last_notice: Seq(0),
            unasked: None,
            booking: None,
        }
    }

    fn end(facts: &JobFacts) -> Plan {
        match plan_end(facts, report(), person()) {
            Ok(EndDecision::Write(plan)) => plan,
            other => panic!("{other:?}"),
        }
    }

    fn kinds(plan: &Plan) -> Vec<&'static str> {
        plan.drafts.iter().map(|draft| draft.kind.name()).collect()
    }

    fn suspended(jobs: u64, left: u64) -> JobFacts {
        let (seq, name) = (Seq(4), "#1".parse().unwrap());
        let wait = WaitFacts { seq, name, until: second(90), jobs, left };
        JobFacts { wait: Some(wait), now: second(90), ..facts(State::Suspended) }
    }

    fn wake(facts: &JobFacts, outcomes: Option<&AwaitedOutcomes>) -> Option<Plan> {
        match plan_wake(facts, Seq(4), outcomes).unwrap() {
            Decision::Write(plan) => Some(plan),
            Decision::Already => None,
        }
    }

    fn outcomes(count: u128) -> AwaitedOutcomes {
        let job = |number| JobId(uuid::Uuid::from_u128(job_id().0.as_u128() + number));
        let outcome = |number| AwaitedOutcome { job: job(number), outcome: State::Failed, reason: None };
        AwaitedOutcomes { outcomes: (1..=count).map(outcome).collect(), value: salted("[]") }
    }

    #[test]
    fn a_run_that_waits_leaves_its_job_suspended_with_its_wait_in_the_same_plan() {
        let plan = end(&running());
        assert_eq!((kinds(&plan), plan.epoch), (vec!["child_gone", "suspended"], Epoch(1)));
        assert_eq!((plan.changes.lease, plan.changes.wait), (LeaseChange::Delete, Some(wait())));
        assert_eq!(plan.changes.ready, ReadyChange::Keep);
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Suspended));
    }

    #[test]
    fn a_cancel_goes_before_the_wait_and_what_only_a_person_can_decide_does_too() {
        let plan = end(&JobFacts { cancel_requested: Some(Seq(0)), ..running() });
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Cancelled));
        let asked = doubts(&[("ask", EffectRecovery::Ask, Outcome::Open)]);
        let plan = end(&JobFacts { doubts: asked, ..running() });
        assert_eq!((plan.changes.job.unwrap().state, plan.changes.wait), (Some(State::Quarantined), None));
        let probed = doubts(&[("look", EffectRecovery::Probe, Outcome::Open)]);
        let plan = end(&JobFacts { doubts: probed, ..running() });
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Suspended), "a later run settles it");
    }

    #[test]
    fn an_instant_that_is_due_wakes_and_the_record_bears_it_however_late_it_is() {
        let plan = wake(&JobFacts { now: second(300), ..suspended(0, 0) }, None).unwrap();
        let RecordKind::Woken { wait, due, .. } = &plan.drafts[0].kind else { panic!("{plan:?}") };
        assert_eq!((*wait, *due), (Seq(4), Some(second(90))));
        assert_eq!((plan.epoch, plan.changes.job.unwrap().state), (Epoch(1), Some(State::Ready)));
        let ReadyChange::Insert { cause: Cause::Woken { previous, wait, attempt }, not_before: None } =
            plan.changes.ready
        else {
            panic!("it is not ready")
        };
        assert_eq!((previous, attempt, wait.due, wait.count), (Run(1), 1, Some(second(90)), 0));
    }

    #[test]
    fn what_is_not_due_or_stands_at_another_record_or_in_another_state_is_not_woken() {
        assert_eq!(wake(&JobFacts { now: second(89), ..suspended(0, 0) }, None), None);
        assert_eq!(plan_wake(&suspended(0, 0), Seq(9), None), Ok(Decision::Already));
        for state in State::ALL.iter().filter(|state| **state != State::Suspended) {
            assert_eq!(wake(&JobFacts { state: *state, ..suspended(0, 0) }, None), None, "{state}");
        }
    }

    #[test]
    fn jobs_wake_once_none_is_left_and_an_expired_wait_for_them_does_not() {
        assert_eq!(wake(&suspended(30, 1), Some(&outcomes(30))), None);
        let plan = wake(&suspended(30, 0), Some(&outcomes(30))).unwrap();
        assert_eq!(plan.drafts[0].value, Some(salted("[]")));
        let ReadyChange::Insert { cause: Cause::Woken { wait, .. }, .. } = plan.changes.ready else {
            panic!("it is not ready")
        };
        assert_eq!((wait.jobs.len(), wait.count, wait.due), (WOKEN_JOBS_TOLD_MAX, 30, None));
    }

    #[test]
    fn the_deadline_goes_before_the_wait() {
        let plan = wake(&JobFacts { now: second(3_600), ..suspended(0, 0) }, None).unwrap();
        assert_eq!(kinds(&plan), ["deadline_denied", "job_concluded"]);
        assert_eq!(plan.changes.job.unwrap().state, Some(State::Exhausted));
    }
}
