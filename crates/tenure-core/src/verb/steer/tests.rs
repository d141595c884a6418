//! What steering makes of a job in each state, and of its living run.

use super::*;
use crate::{
    effect::{EffectRecovery, EffectRef, Outcome, StepsToUndo},
    factory::{doubts, facts, lease, person, running, salted, second, unaccounted, worker},
    handover::Cause,
    id::{Epoch, Run, Seq},
    plan::{LeaseFacts, LeaseNotice, ReadyChange},
    recovery::{GoneProof, Pays},
    settlement::{EndDecision, EndReport, Evidence, RunEnd, plan_end, plan_settlement},
    unwinding::Unwinding,
    verb::{plan_abandon, plan_cancel, plan_confirm_gone},
};

fn steer(facts: &JobFacts) -> Result<Plan, Refusal> {
    plan_steer(facts, person(), salted("the other branch"))
}

fn kinds(plan: &Plan) -> Vec<&'static str> {
    plan.drafts.iter().map(|draft| draft.kind.name()).collect()
}

/// A running job that was redirected at seq 5.
fn asked() -> JobFacts {
    let notice = LeaseNotice { seq: Seq(5), since: second(50) };
    JobFacts { lease: Some(LeaseFacts { steer: Some(notice), ..lease() }), ..running() }
}

fn cause_of(plan: &Plan) -> Cause {
    match &plan.changes.ready {
        ReadyChange::Insert { cause, not_before: None } | ReadyChange::Redirect { cause } => cause.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_without_a_run_starts_one_with_the_note_which_pays_a_hop_and_no_attempt() {
    for state in [State::Suspended, State::Interrupted, State::Failed, State::Exhausted, State::Ready] {
        let at = JobFacts { attempts: 1, losses: 1, ..facts(state) };
        let plan = steer(&at).unwrap();
        assert_eq!((kinds(&plan), plan.epoch), (vec!["steered"], Epoch(1)), "{state}");
        let cause = Cause::Steered { previous: Some(Run(1)), steered: Seq(5), attempt: 3 };
        assert_eq!(cause_of(&plan), cause, "{state}");
        let job = plan.changes.job.unwrap();
        assert_eq!((job.attempts, job.losses, job.hops_left), (Some(1), Some(1), Some(7)), "{state}");
        assert_eq!(job.state, (state != State::Ready).then_some(State::Ready), "{state}");
        let RecordKind::Steered { restart: Some(restart), .. } = plan.drafts[0].kind else { panic!() };
        assert_eq!(restart.pays, Pays::Hop);
    }
}

#[test]
fn a_job_that_never_ran_keeps_its_place_and_its_hops() {
    let waiting = JobFacts { run: Run(0), hops_left: 1, ..facts(State::Ready) };
    let plan = steer(&waiting).unwrap();
    let cause = Cause::Steered { previous: None, steered: Seq(5), attempt: 1 };
    assert_eq!(plan.changes.ready, ReadyChange::Redirect { cause });
    assert_eq!(plan.changes.job.unwrap().hops_left, Some(1));
}

#[test]
fn the_same_limit_is_met_again_and_the_note_is_kept() {
    let late = second(3_600);
    for (facts, kinds_written, limit) in [
        (JobFacts { hops_left: 1, ..facts(State::Exhausted) }, vec!["steered", "job_concluded"], "hops"),
        (
            JobFacts { now: late, ..facts(State::Exhausted) },
            vec!["steered", "deadline_denied", "job_concluded"],
            "deadline",
        ),
        (JobFacts { hops_left: 1, ..facts(State::Failed) }, vec!["steered", "job_concluded"], "hops"),
        (JobFacts { hops_left: 1, ..facts(State::Ready) }, vec!["steered", "job_concluded"], "hops"),
    ] {
        let plan = steer(&facts).unwrap();
        assert_eq!(kinds(&plan), kinds_written);
        let job = plan.changes.job.unwrap();
        assert_eq!((job.state, job.reason.as_deref()), (Some(State::Exhausted), Some(limit)));
    }
}

#[test]
fn a_living_run_is_asked_first_at_its_own_epoch_and_a_later_note_goes_before_an_earlier_one() {
    for facts in [running(), asked()] {
        let plan = steer(&facts).unwrap();
        assert_eq!((kinds(&plan), plan.epoch), (vec!["steered"], Epoch(1)));
        assert_eq!((plan.changes.lease, plan.changes.job), (LeaseChange::NoteSteer, None));
    }
}

#[test]
fn a_cancel_and_an_abandon_go_before_it_and_what_is_undone_is_not_redirected() {
    let cancelled = JobFacts { cancel_requested: Some(Seq(4)), ..running() };
    let notice = LeaseNotice { seq: Seq(4), since: second(50) };
    let given_up = JobFacts { lease: Some(LeaseFacts { abandon: Some(notice), ..lease() }), ..running() };
    for facts in [cancelled, given_up] {
        assert_eq!(steer(&facts).unwrap_err().reason, Reason::CancelRequested);
    }
    let undone = JobFacts { compensated: 1, ..facts(State::Failed) };
    let undoing = JobFacts { unwinding: Some(Unwinding::Cancelled), ..running() };
    for facts in [undone, undoing] {
        assert_eq!(steer(&facts).unwrap_err().reason, Reason::VerbNotAllowed);
    }
}

#[test]
fn a_child_that_may_live_a_job_that_never_started_and_a_note_that_says_nothing_are_refused() {
    assert_eq!(steer(&unaccounted()).unwrap_err().reason, Reason::ChildUnaccountedFor);
    let unfrozen = JobFacts { plan_frozen: false, ..facts(State::Failed) };
    assert_eq!(steer(&unfrozen).unwrap_err().reason, Reason::PlanMissing);
    assert_eq!(check_steer_note(" \n").unwrap_err().reason, Reason::ReasonMissing);
    assert_eq!(check_steer_note(&"x".repeat(NOTE_MAX_BYTES + 1)).unwrap_err().reason, Reason::NoteTooLarge);
    assert_eq!(check_steer_note(" the other\nbranch \n").unwrap(), "the other\nbranch");
}

fn report(end: RunEnd, last_notice: u64) -> EndReport {
    let last_notice = Seq(last_notice);
    EndReport {
        epoch: Epoch(1),
        end,
        result: None,
        output_chunks: 3,
        last_notice,
        unasked: None,
        booking: None,
    }
}

fn end(facts: &JobFacts, end: RunEnd) -> Plan {
    match plan_end(facts, report(end, 5), Principal::fleet("worker w1")) {
        Ok(EndDecision::Write(plan)) => plan,
        other => panic!("{other:?}"),
    }
}

#[test]
fn however_a_redirected_run_ends_the_note_goes_before_it_once_its_worker_has_seen_it() {
    for how in
        [RunEnd::ExitCode(0), RunEnd::ExitCode(65), RunEnd::Signal(15), RunEnd::Drained, RunEnd::ContactLost]
    {
        let unseen = plan_end(&asked(), report(how.clone(), 0), Principal::fleet("worker w1"));
        assert_eq!(unseen, Ok(EndDecision::Notice { seq: Seq(5), kind: "steered" }), "{how:?}");
        let plan = end(&asked(), how.clone());
        assert_eq!(kinds(&plan), ["child_gone", "run_handed_over"], "{how:?}");
        let cause = Cause::Steered { previous: Some(Run(1)), steered: Seq(5), attempt: 1 };
        assert_eq!(cause_of(&plan), cause, "{how:?}");
        let job = plan.changes.job.unwrap();
        assert_eq!(
            (job.state, job.attempts, job.hops_left),
            (Some(State::Ready), Some(0), Some(7)),
            "{how:?}"
        );
    }
}

#[test]
fn a_cancel_and_an_abandon_after_it_go_before_it() {
    assert!(matches!(plan_cancel(&asked(), person(), "stop"), Ok(crate::plan::Decision::Write(_))));
    let cancelled = JobFacts { cancel_requested: Some(Seq(6)), ..asked() };
    let seen = plan_end(&cancelled, report(RunEnd::Cancel, 6), Principal::fleet("worker w1"));
    let Ok(EndDecision::Write(plan)) = seen else { panic!() };
    assert_eq!(kinds(&plan), ["child_gone", "job_concluded"]);
    let crate::plan::Decision::Write(plan) = plan_abandon(&asked(), person(), "stop").unwrap() else {
        panic!()
    };
    assert_eq!(kinds(&plan), ["abandon_requested"]);
}

#[test]
fn what_only_a_person_can_decide_and_a_limit_go_before_the_note() {
    let doubts = doubts(&[("pay", EffectRecovery::Ask, Outcome::Open)]);
    let plan = end(&JobFacts { doubts, ..asked() }, RunEnd::Signal(15));
    assert_eq!(kinds(&plan), ["child_gone", "run_handed_over", "quarantine_decided", "job_concluded"]);
    let plan = end(&JobFacts { hops_left: 1, ..asked() }, RunEnd::Signal(15));
    assert_eq!(kinds(&plan), ["child_gone", "run_handed_over", "job_concluded"]);
    assert_eq!(plan.changes.job.unwrap().state, Some(State::Exhausted));
}

#[test]
fn a_guardian_that_reports_a_redirected_run_has_the_note_told_whatever_the_policy_is() {
    let mut facts = asked();
    facts.recovery.policy = crate::recovery::Policy::Never;
    let report = Evidence::GuardianReport { end: RunEnd::ExitCode(65), healthy: false };
    let by = Principal::fleet("guardian");
    let Ok(crate::plan::Decision::Write(plan)) = plan_settlement(&facts, report, by) else { panic!() };
    assert_eq!(kinds(&plan), ["child_gone", "run_interrupted"]);
    assert!(matches!(cause_of(&plan), Cause::Steered { .. }));
    assert_eq!((plan.epoch, plan.changes.job.unwrap().hops_left), (Epoch(2), Some(7)));
}

#[test]
fn a_note_stands_while_the_child_is_unaccounted_for_and_is_told_once_it_is_gone() {
    let lost = unaccounted();
    let steer = Some(LeaseNotice { seq: Seq(5), since: second(50) });
    let lost = JobFacts { lease: lost.lease.clone().map(|lease| LeaseFacts { steer, ..lease }), ..lost };
    let plan = plan_confirm_gone(&lost, Epoch(1), person(), "scrap").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "child_gone", "run_interrupted"]);
    assert!(matches!(cause_of(&plan), Cause::Steered { steered: Seq(5), .. }));
}

#[test]
fn a_redirected_grant_that_never_started_is_given_back_with_the_note() {
    let started = crate::factory::Journal::of(crate::factory::job_id()).write(
        1,
        1,
        vec![crate::factory::run_started(Cause::Dispatch)],
    );
    let records =
        started.records.iter().map(|sealed| serde_json::from_slice(&sealed.bytes).unwrap()).collect();
    let by = Principal::fleet(format!("worker {}", worker()));
    let Ok(crate::plan::Decision::Write(plan)) = plan_settlement(&asked(), Evidence::NotMine { records }, by)
    else {
        panic!()
    };
    assert_eq!(kinds(&plan), ["grant_released"]);
    let ReadyChange::Insert { cause, .. } = plan.changes.ready else { panic!() };
    assert_eq!(cause, Cause::Steered { previous: None, steered: Seq(5), attempt: 1 });
}

#[test]
fn a_run_that_is_moved_uses_nothing_up_and_goes_on_at_once_in_its_direction() {
    let facts = JobFacts { attempts: 2, losses: 10, hops_left: 1, ..running() };
    let plan = end(&facts, RunEnd::Drained);
    assert_eq!(kinds(&plan), ["child_gone", "run_handed_over"]);
    assert_eq!(cause_of(&plan), Cause::Drained { previous: Run(1), attempt: 13 });
    let job = plan.changes.job.unwrap();
    assert_eq!((job.attempts, job.losses, job.hops_left), (Some(2), Some(10), Some(1)));
    let RecordKind::ChildGone { proof: GoneProof::Observed, .. } = plan.drafts[0].kind else { panic!() };
    let step = EffectRef { key: "push".parse().unwrap(), attempt: 1 };
    let steps = StepsToUndo { listed: vec![step], count: 1, ..StepsToUndo::default() };
    let undoing = JobFacts { unwinding: Some(Unwinding::Cancelled), steps, ..running() };
    let plan = end(&undoing, RunEnd::Drained);
    assert_eq!(cause_of(&plan), Cause::Unwinding { instead_of: State::Cancelled, attempt: 1 });
    assert_eq!(plan.changes.job.unwrap().attempts, Some(0));
    let late = end(&JobFacts { now: second(3_600), ..running() }, RunEnd::Drained);
    assert_eq!(late.changes.job.unwrap().state, Some(State::Exhausted));
}
