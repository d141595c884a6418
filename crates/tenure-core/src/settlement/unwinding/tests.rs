//! When undoing begins, what every end of a run that undoes makes of its job, and what nobody undoes.

use super::*;
use crate::{
    effect::{EffectRecovery, EffectRef, Outcome as EffectOutcome, StepsToUndo},
    factory::{crashed, doubts, facts, interrupted, lease, running, second, unaccounted},
    id::Seq,
    job::State,
    plan::Decision,
    principal::Principal,
    record::Phase,
    recovery::Policy,
    settlement::{
        EFFECT_IN_DOUBT, EndDecision, EndReport, Evidence, NOT_UNWOUND, plan_denial, plan_end,
        plan_settlement, restart_by_person,
    },
    verb::plan_cancel,
};

fn step(key: &str) -> EffectRef {
    EffectRef { key: key.parse().unwrap(), attempt: 1 }
}

/// Steps that can all be undone, the last that landed first.
fn steps(keys: &[&str]) -> StepsToUndo {
    let listed: Vec<_> = keys.iter().map(|key| step(key)).collect();
    StepsToUndo { count: listed.len() as u64, listed, ..StepsToUndo::default() }
}

fn by() -> Principal {
    Principal::asserted("ada")
}

fn kinds(plan: &Plan) -> Vec<&'static str> {
    plan.drafts.iter().map(|draft| draft.kind.name()).collect()
}

fn state(plan: &Plan) -> Option<State> {
    plan.changes.job.as_ref()?.state
}

fn detail(plan: &Plan) -> String {
    plan.changes.job.clone().unwrap().detail.unwrap()
}

fn cause(plan: &Plan) -> Option<Cause> {
    match plan.changes.ready.clone() {
        ReadyChange::Insert { cause, .. } | ReadyChange::Replace { cause } => Some(cause),
        ReadyChange::Keep | ReadyChange::Redirect { .. } | ReadyChange::Delete => None,
    }
}

/// A run that undoes, of a job that was cancelled and has these steps left.
fn undoing(keys: &[&str]) -> JobFacts {
    JobFacts {
        unwinding: Some(Unwinding::Cancelled),
        cancel_requested: Some(Seq(3)),
        steps: steps(keys),
        ..running()
    }
}

fn failure() -> Unwinding {
    Unwinding::Failed { reason: "execution".to_owned(), detail: "it exited with code 65".to_owned() }
}

fn end(facts: &JobFacts, end: RunEnd) -> Plan {
    let report = EndReport {
        epoch: Epoch(1),
        end,
        result: None,
        output_chunks: 0,
        last_notice: Seq(0),
        unasked: None,
        booking: None,
    };
    match plan_end(facts, report, by()) {
        Ok(EndDecision::Write(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn undo_failed() -> RunEnd {
    RunEnd::UndoFailed { key: "undo:b".parse().unwrap(), error: "exit code 1, did_not_happen".to_owned() }
}

#[test]
fn a_cancel_makes_every_job_with_steps_to_undo_ready_for_a_run_that_does() {
    for state in [State::Ready, State::Suspended, State::Failed, State::Exhausted, State::Withheld] {
        let facts = JobFacts { steps: steps(&["b", "a"]), attempts: 2, losses: 1, ..facts(state) };
        let Ok(Decision::Write(plan)) = plan_cancel(&facts, by(), "stop") else { panic!("{state}: no plan") };
        assert_eq!(kinds(&plan), ["cancel_requested", "unwind_started"], "{state}");
        assert_eq!(
            cause(&plan),
            Some(Cause::Unwinding { instead_of: State::Cancelled, attempt: 1 }),
            "{state}"
        );
        let job = plan.changes.job.unwrap();
        assert_eq!((job.state, job.unwinding), (Some(State::Ready), Some(Unwinding::Cancelled)), "{state}");
        assert_eq!((job.attempts, job.losses), (Some(0), Some(0)), "its restarts are counted anew");
        assert_eq!(matches!(plan.changes.ready, ReadyChange::Replace { .. }), state == State::Ready);
    }
}

#[test]
fn a_run_that_was_cancelled_is_undone_by_a_run_of_its_own_once_its_child_is_gone() {
    let facts = JobFacts { cancel_requested: Some(Seq(5)), steps: steps(&["a"]), ..running() };
    let report = EndReport {
        epoch: Epoch(1),
        end: RunEnd::Cancel,
        result: None,
        output_chunks: 0,
        last_notice: Seq(5),
        unasked: None,
        booking: None,
    };
    let Ok(EndDecision::Write(plan)) = plan_end(&facts, report, by()) else { panic!("no plan") };
    assert_eq!(kinds(&plan), ["child_gone", "unwind_started"]);
    assert_eq!((state(&plan), plan.changes.lease), (Some(State::Ready), LeaseChange::Delete));
}

#[test]
fn where_nothing_is_to_be_undone_a_cancel_seals_at_once() {
    let plan = cancel(&facts(State::Ready), Epoch(1), Vec::new()).unwrap();
    assert_eq!((kinds(&plan), state(&plan)), (vec!["job_concluded"], Some(State::Cancelled)));
}

#[test]
fn what_nobody_declared_how_to_undo_is_decided_before_anything_is_undone() {
    let undeclared = StepsToUndo { undeclared: vec![step("a")], undeclared_count: 1, ..steps(&["b", "a"]) };
    let facts = JobFacts { steps: undeclared, ..facts(State::Failed) };
    let plan = cancel(&facts, Epoch(1), Vec::new()).unwrap();
    assert_eq!(kinds(&plan), ["quarantine_decided", "job_concluded"]);
    assert!(detail(&plan).contains("\"a\"") && !detail(&plan).contains("\"b\""), "{}", detail(&plan));
    let job = plan.changes.job.unwrap();
    assert_eq!((job.state, job.reason.as_deref()), (Some(State::Quarantined), Some(NOT_UNWOUND)));
}

#[test]
fn a_failure_is_undone_where_the_agent_says_so_and_then_called_what_it_was() {
    let mut facts = JobFacts { steps: steps(&["a"]), ..running() };
    assert_eq!(state(&end(&facts, RunEnd::ExitCode(65))), Some(State::Failed), "it does not say so");
    facts.recovery.unwind_on_failure = true;
    let plan = end(&facts, RunEnd::ExitCode(65));
    assert_eq!(kinds(&plan), ["child_gone", "unwind_started"]);
    let unwinding = plan.changes.job.unwrap().unwinding.unwrap();
    assert_eq!(unwinding.failure().map(|(reason, _)| reason), Some("execution"));
    let undone = JobFacts { unwinding: Some(unwinding), ..running() };
    let plan = end(&undone, RunEnd::Unwound);
    let job = plan.changes.job.clone().unwrap();
    assert_eq!((job.state, job.reason.as_deref()), (Some(State::Failed), Some("execution")));
    assert!(detail(&plan).contains("code 65"), "{}", detail(&plan));
}

#[test]
fn out_of_attempts_is_a_failure_that_is_undone_too() {
    let mut facts = JobFacts { steps: steps(&["a"]), attempts: 2, ..running() };
    facts.recovery.unwind_on_failure = true;
    let plan = end(&facts, RunEnd::ExitCode(1));
    assert_eq!(kinds(&plan), ["child_gone", "run_interrupted", "recovery_denied", "unwind_started"]);
}

#[test]
fn a_job_that_is_exhausted_is_never_undone() {
    let mut facts = JobFacts { steps: steps(&["a"]), now: second(4_000), ..running() };
    facts.recovery.unwind_on_failure = true;
    assert_eq!(state(&end(&facts, RunEnd::ExitCode(1))), Some(State::Exhausted));
}

#[test]
fn when_everything_is_undone_the_cancel_is_carried_out() {
    let plan = end(&undoing(&[]), RunEnd::Unwound);
    assert_eq!(kinds(&plan), ["child_gone", "job_concluded"]);
    assert_eq!((state(&plan), plan.changes.lease), (Some(State::Cancelled), LeaseChange::Delete));
}

#[test]
fn a_run_that_ends_with_something_left_is_tried_again_within_its_bounds() {
    for ended in [RunEnd::Unwound, RunEnd::ExitCode(0), RunEnd::ExitCode(65), RunEnd::Signal(9)] {
        let facts = undoing(&["a"]);
        let plan = end(&facts, ended.clone());
        assert_eq!(state(&plan), Some(State::Ready), "{ended:?}");
        assert_eq!(cause(&plan), Some(Cause::Unwinding { instead_of: State::Cancelled, attempt: 2 }));
        let job = plan.changes.job.unwrap();
        assert_eq!((job.attempts, job.hops_left), (Some(1), Some(facts.hops_left)), "no hop is taken");
    }
    let spent = JobFacts { attempts: UNWIND_ATTEMPTS, ..undoing(&["a"]) };
    assert_eq!(state(&end(&spent, RunEnd::ExitCode(1))), Some(State::Quarantined));
    let lost = |losses| JobFacts { losses, ..undoing(&["a"]) };
    assert_eq!(state(&end(&lost(UNWIND_LOSSES - 1), RunEnd::ContactLost)), Some(State::Ready));
    assert_eq!(state(&end(&lost(UNWIND_LOSSES), RunEnd::ContactLost)), Some(State::Quarantined));
}

#[test]
fn an_undoing_that_failed_sets_the_job_aside_and_is_named() {
    let plan = end(&undoing(&["b", "a"]), undo_failed());
    assert_eq!(kinds(&plan), ["child_gone", "quarantine_decided", "job_concluded"]);
    let job = plan.changes.job.clone().unwrap();
    assert_eq!((job.state, job.reason.as_deref()), (Some(State::Quarantined), Some(NOT_UNWOUND)));
    for said in ["\"b\", \"a\"", "undo:b failed: exit code 1", "tenure reopen"] {
        assert!(detail(&plan).contains(said), "{said}: {}", detail(&plan));
    }
}

#[test]
fn a_doubt_about_an_undoing_is_settled_by_another_run_or_by_a_person() {
    let doubt = |recovery| JobFacts {
        doubts: doubts(&[("undo:b", recovery, EffectOutcome::Open)]),
        ..undoing(&["b"])
    };
    for recovery in [EffectRecovery::Retry, EffectRecovery::Idempotent, EffectRecovery::Probe] {
        assert_eq!(state(&end(&doubt(recovery), RunEnd::ContactLost)), Some(State::Ready), "{recovery:?}");
    }
    let plan = end(&doubt(EffectRecovery::Ask), RunEnd::ContactLost);
    let job = plan.changes.job.clone().unwrap();
    assert_eq!((job.state, job.reason.as_deref()), (Some(State::Quarantined), Some(NOT_UNWOUND)));
    assert!(detail(&plan).contains("\"undo:b\""), "{}", detail(&plan));
}

#[test]
fn undoing_meets_no_deadline_and_no_policy() {
    let mut late = JobFacts { now: second(4_000), ..undoing(&["a"]) };
    late.recovery.policy = Policy::Never;
    late.recovery.max_attempts = 0;
    assert_eq!(state(&end(&late, RunEnd::Signal(9))), Some(State::Ready));
    let waiting = JobFacts { state: State::Ready, lease: None, ..late };
    assert_eq!(plan_denial(&waiting), Ok(Decision::Already));
}

#[test]
fn a_worker_that_is_lost_is_no_reason_to_stop_undoing_once_its_child_is_gone() {
    let closed =
        |facts| JobFacts { lease: Some(crate::plan::LeaseFacts { term_closed: true, ..lease() }), ..facts };
    let settle = |facts: &JobFacts| match plan_settlement(facts, Evidence::TermLapsed, by()) {
        Ok(Decision::Write(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    };
    let plan = settle(&closed(undoing(&["a"])));
    assert_eq!((kinds(&plan), state(&plan)), (vec!["child_gone", "run_interrupted"], Some(State::Ready)));
    assert_eq!(plan.changes.job.unwrap().attempts, Some(1));
    let nothing_left = settle(&closed(undoing(&[])));
    assert_eq!(state(&nothing_left), Some(State::Cancelled));
    let unfenced = JobFacts { unwinding: Some(Unwinding::Cancelled), steps: steps(&["a"]), ..unaccounted() };
    let known = crate::settlement::judge_again(&unfenced, Vec::new(), false).unwrap();
    assert_eq!(state(&known), Some(State::Ready));
}

#[test]
fn a_person_who_restarts_an_interrupted_undoing_gets_an_undoing() {
    let facts = JobFacts { unwinding: Some(failure()), steps: steps(&["a"]), ..interrupted(crashed(1)) };
    let plan = restart_by_person(&facts, Vec::new()).unwrap();
    assert!(matches!(cause(&plan), Some(Cause::Unwinding { instead_of: State::Failed, .. })));
}

#[test]
fn a_cancel_of_a_job_whose_failure_is_being_undone_stands_and_changes_what_it_becomes() {
    let failed = JobFacts { unwinding: Some(failure()), steps: steps(&["a"]), ..running() };
    let Ok(Decision::Write(notice)) = plan_cancel(&failed, by(), "stop") else { panic!("no plan") };
    assert_eq!(kinds(&notice), ["cancel_requested"]);
    let asked = JobFacts { cancel_requested: Some(Seq(9)), ..failed };
    assert_eq!(asked.unanswered_cancel(), Some(Seq(9)));
    let plan = settle_unwinding(&asked, &failure(), Epoch(1), Vec::new(), RunEnd::Cancel).unwrap();
    assert_eq!(plan.changes.job.unwrap().unwinding, Some(Unwinding::Cancelled));
}

#[test]
fn cancelled_twice_a_job_is_undone_once() {
    for facts in [undoing(&["a"]), JobFacts { state: State::Ready, lease: None, ..undoing(&["a"]) }] {
        assert_eq!(plan_cancel(&facts, by(), "stop"), Ok(Decision::Already));
        assert_eq!(facts.unanswered_cancel(), None);
    }
}

#[test]
fn a_job_that_was_set_aside_goes_on_where_it_stopped() {
    let aside = |unwinding, cancel| JobFacts {
        unwinding,
        cancel_requested: cancel,
        steps: steps(&["a"]),
        ..facts(State::Quarantined)
    };
    let again =
        |facts: &JobFacts| unwind_again(facts, Epoch(2), Vec::new()).map(|plan| cause(&plan.unwrap()));
    let to = |instead_of| Some(Some(Cause::Unwinding { instead_of, attempt: 1 }));
    assert_eq!(again(&aside(None, Some(Seq(3)))), to(State::Cancelled));
    assert_eq!(again(&aside(Some(failure()), None)), to(State::Failed));
    assert_eq!(again(&aside(None, None)), None, "it works forward");
    let reconciled = JobFacts { steps: steps(&[]), ..aside(Some(Unwinding::Cancelled), Some(Seq(3))) };
    let plan = unwind_again(&reconciled, Epoch(2), Vec::new()).unwrap().unwrap();
    assert_eq!(state(&plan), Some(State::Cancelled), "nothing is left to undo");
}

#[test]
fn what_is_written_about_an_undoing_says_so() {
    let undone = undoing(&["a"]);
    let plan = end(&undone, RunEnd::Signal(9)).in_phase(undone.phase());
    assert!(plan.drafts.iter().all(|draft| draft.phase == Phase::Compensating));
    let started = cancel(&JobFacts { steps: steps(&["a"]), ..facts(State::Ready) }, Epoch(1), Vec::new());
    assert_eq!(started.unwrap().drafts[0].phase, Phase::Compensating);
}

#[test]
fn a_job_holds_landed_work_until_it_is_undone_and_while_anything_is_in_doubt() {
    let ready = facts(State::Ready);
    assert!(!ready.holds_landed_work());
    assert!(JobFacts { landed: 1, ..ready.clone() }.holds_landed_work());
    let doubts = doubts(&[("a", EffectRecovery::Probe, EffectOutcome::Open)]);
    assert!(JobFacts { doubts, ..ready }.holds_landed_work());
}

#[test]
fn a_cancel_has_what_can_be_looked_up_looked_up_first_and_sets_any_other_doubt_aside() {
    let cancelled = |recovery, outcome| {
        let facts = JobFacts { doubts: doubts(&[("mail", recovery, outcome)]), ..facts(State::Exhausted) };
        let Ok(Decision::Write(plan)) = plan_cancel(&facts, by(), "stop") else { panic!("no plan") };
        (state(&plan), plan.changes.job.unwrap().reason.unwrap())
    };
    use crate::effect::Disposition::InDoubt;
    for outcome in [EffectOutcome::Open, EffectOutcome::Failed(InDoubt)] {
        assert_eq!(cancelled(EffectRecovery::Probe, outcome), (Some(State::Ready), String::new()));
    }
    let aside = (Some(State::Quarantined), EFFECT_IN_DOUBT.to_owned());
    for (recovery, outcome) in [
        (EffectRecovery::Retry, EffectOutcome::Open),
        (EffectRecovery::Idempotent, EffectOutcome::Open),
        (EffectRecovery::Ask, EffectOutcome::Open),
        (EffectRecovery::Probe, EffectOutcome::Reconciled(InDoubt)),
    ] {
        assert_eq!(cancelled(recovery, outcome), aside, "{recovery:?} {outcome:?}");
    }
}

#[test]
fn a_failure_is_undone_although_something_is_in_doubt_that_can_be_looked_up() {
    let failed = |recovery, unwind_on_failure| {
        let doubts = doubts(&[("mail", recovery, EffectOutcome::Open)]);
        let mut facts = JobFacts { doubts, steps: steps(&["a"]), ..running() };
        facts.recovery.unwind_on_failure = unwind_on_failure;
        let plan = fail(&facts, Epoch(1), Vec::new(), "execution", "it exited with code 65").unwrap();
        state(&plan).unwrap()
    };
    assert_eq!(failed(EffectRecovery::Probe, true), State::Ready);
    assert_eq!(failed(EffectRecovery::Probe, false), State::Quarantined);
    assert_eq!(failed(EffectRecovery::Idempotent, true), State::Quarantined);
}

#[test]
fn a_look_that_found_nothing_out_sets_the_job_aside_and_names_what_is_in_doubt() {
    use crate::effect::Disposition::InDoubt;
    let looked = doubts(&[("mail", EffectRecovery::Probe, EffectOutcome::Reconciled(InDoubt))]);
    let unsure = JobFacts { doubts: looked, ..undoing(&["a"]) };
    let failed = RunEnd::UndoFailed { key: "mail".parse().unwrap(), error: "a person decides".to_owned() };
    for plan in [end(&unsure, failed), end(&unsure, RunEnd::ContactLost)] {
        let job = plan.changes.job.clone().unwrap();
        assert_eq!((job.state, job.reason.as_deref()), (Some(State::Quarantined), Some(EFFECT_IN_DOUBT)));
        assert!(
            detail(&plan).contains("\"mail\"") && detail(&plan).contains("cancelled"),
            "{}",
            detail(&plan)
        );
        assert_eq!(job.unwinding, None, "what it is unwound for stands");
    }
    let unlooked = doubts(&[("mail", EffectRecovery::Probe, EffectOutcome::Open)]);
    let killed = JobFacts { doubts: unlooked, ..undoing(&["a"]) };
    assert_eq!(state(&end(&killed, RunEnd::ContactLost)), Some(State::Ready), "the next run looks it up");
}

#[test]
fn what_is_found_to_have_taken_effect_and_nobody_can_undo_keeps_everything_as_it_is() {
    let undeclared =
        StepsToUndo { undeclared: vec![step("mail")], undeclared_count: 1, ..steps(&["mail", "a"]) };
    let found = JobFacts { steps: undeclared, ..undoing(&[]) };
    for ended in [RunEnd::Unwound, RunEnd::ContactLost] {
        let plan = end(&found, ended);
        let job = plan.changes.job.clone().unwrap();
        assert_eq!((job.state, job.reason.as_deref()), (Some(State::Quarantined), Some(NOT_UNWOUND)));
        assert!(detail(&plan).contains("\"mail\"; nobody declared how"), "{}", detail(&plan));
    }
}
