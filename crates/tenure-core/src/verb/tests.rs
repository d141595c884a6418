//! The table of verbs and states, and the plans of the verbs.

use super::*;
use crate::{
    factory::{crashed, facts, interrupted, person, running, second, unaccounted},
    id::Seq,
    plan::LeaseChange,
    recovery::Policy,
};

fn write(decision: Result<Decision, Refusal>) -> Plan {
    match decision {
        Ok(Decision::Write(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn kinds(plan: &Plan) -> Vec<&'static str> {
    plan.drafts.iter().map(|draft| draft.kind.name()).collect()
}

fn state_after(plan: &Plan) -> Option<State> {
    plan.changes.job.as_ref().and_then(|job| job.state)
}

#[test]
fn which_verb_is_allowed_in_which_state() {
    let mut table = String::new();
    for verb in Verb::ALL {
        table.push_str(&format!("{}\n", verb.name()));
        for state in State::ALL {
            table.push_str(&format!("    {:<12} {:?}\n", state.name(), allowed(*state, *verb)));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_verb_that_is_not_allowed_is_refused_with_the_state_in_the_message() {
    for verb in Verb::ALL {
        for state in State::ALL.iter().filter(|state| !allowed(**state, *verb).is_granted()) {
            let refusal = job::apply(*state, Event::Asked(*verb)).expect_err(state.name());
            assert_eq!(refusal.reason, Reason::VerbNotAllowed);
            assert!(refusal.message.contains(state.name()), "{refusal}");
        }
    }
}

#[test]
fn cancelling_a_running_job_is_a_notice_at_its_own_epoch_that_fences_nobody() {
    let plan = write(plan_cancel(&running(), person(), " wrong branch "));
    assert_eq!(plan.epoch, Epoch(1));
    assert_eq!(
        plan.drafts,
        [Draft::bare(RecordKind::CancelRequested { by: person(), why: "wrong branch".to_owned() })]
    );
    assert_eq!(plan.changes.lease, LeaseChange::Keep);
    assert_eq!(state_after(&plan), None);
    assert_eq!(plan.changes.job.unwrap().cancel_requested_by_draft, Some(0));
}

#[test]
fn cancelling_a_job_without_a_run_seals_it_at_once() {
    for state in [State::Ready, State::Suspended, State::Failed, State::Exhausted, State::Withheld] {
        let plan = write(plan_cancel(&facts(state), person(), "not needed"));
        assert_eq!(kinds(&plan), ["cancel_requested", "job_concluded"], "{state}");
        assert_eq!(state_after(&plan), Some(State::Cancelled), "{state}");
        assert!(plan.changes.job.unwrap().concluded, "{state}");
        let deleted = plan.changes.ready == crate::plan::ReadyChange::Delete;
        assert_eq!(deleted, state == State::Ready, "{state}");
    }
    let plan = write(plan_cancel(&interrupted(crashed(1)), person(), "not needed"));
    assert_eq!(state_after(&plan), Some(State::Cancelled));
}

#[test]
fn the_first_cancel_stands_and_a_second_writes_nothing() {
    let asked = JobFacts { cancel_requested: Some(Seq(4)), ..running() };
    assert_eq!(plan_cancel(&asked, person(), "again"), Ok(Decision::Already));
}

#[test]
fn an_interrupted_job_is_neither_cancelled_nor_recovered_while_its_child_is_unaccounted_for() {
    for refusal in [
        plan_cancel(&unaccounted(), person(), "stop").unwrap_err(),
        plan_recover(&unaccounted(), person(), "go").unwrap_err(),
    ] {
        assert_eq!(refusal.reason, Reason::ChildUnaccountedFor);
        assert_eq!(refusal.next.as_deref(), Some("tenure confirm-gone …9f3c21 --epoch 1 --why W"));
        assert!(refusal.message.contains("interrupted"), "{refusal}");
    }
}

#[test]
fn a_blank_or_endless_reason_is_refused() {
    let long = "x".repeat(WHY_MAX_BYTES + 1);
    for (why, reason) in
        [("", Reason::ReasonMissing), (" \n", Reason::ReasonMissing), (&long, Reason::InvalidArgument)]
    {
        assert_eq!(plan_cancel(&running(), person(), why).unwrap_err().reason, reason);
        assert_eq!(plan_recover(&interrupted(crashed(1)), person(), why).unwrap_err().reason, reason);
        assert_eq!(plan_confirm_gone(&unaccounted(), Epoch(1), person(), why).unwrap_err().reason, reason);
    }
}

#[test]
fn recover_overrides_policy_and_attempts_and_draws_on_no_hop() {
    for policy in [Policy::Automatic, Policy::Manual, Policy::Never] {
        let mut facts = interrupted(crashed(3));
        (facts.recovery.policy, facts.attempts, facts.hops_left) = (policy, 5, 1);
        let plan = plan_recover(&facts, person(), "looked at it").unwrap();
        assert_eq!(kinds(&plan), ["operator_acted"]);
        assert_eq!(plan.epoch, Epoch(3));
        assert_eq!(state_after(&plan), Some(State::Ready));
        let job = plan.changes.job.unwrap();
        assert_eq!((job.attempts, job.losses, job.hops_left), (Some(6), Some(0), Some(1)));
        let crate::plan::ReadyChange::Insert { cause, not_before } = plan.changes.ready else { panic!() };
        assert_eq!((cause.attempt(), not_before), (7, None));
    }
}

#[test]
fn recover_past_the_deadline_concludes_the_job_exhausted() {
    let late = JobFacts { now: second(3_600), ..interrupted(crashed(3)) };
    let plan = plan_recover(&late, person(), "looked at it").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "deadline_denied", "job_concluded"]);
    assert_eq!(state_after(&plan), Some(State::Exhausted));
}

#[test]
fn confirm_gone_accounts_for_the_child_and_judges_the_job_again() {
    let plan = plan_confirm_gone(&unaccounted(), Epoch(1), person(), "the host is scrap").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "child_gone", "run_interrupted"]);
    assert_eq!((plan.epoch, plan.changes.lease), (Epoch(3), LeaseChange::Delete));
    assert_eq!(state_after(&plan), Some(State::Ready));
    let mut manual = unaccounted();
    manual.recovery.policy = Policy::Manual;
    let plan = plan_confirm_gone(&manual, Epoch(1), person(), "the host is scrap").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "child_gone", "recovery_denied"]);
    assert_eq!((state_after(&plan), plan.changes.lease), (Some(State::Interrupted), LeaseChange::Delete));
    let cancelled = JobFacts { cancel_requested: Some(Seq(3)), ..unaccounted() };
    let plan = plan_confirm_gone(&cancelled, Epoch(1), person(), "the host is scrap").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "child_gone", "job_concluded"]);
    assert_eq!(state_after(&plan), Some(State::Cancelled));
}

#[test]
fn confirm_gone_is_about_one_run_and_names_its_epoch() {
    let refusal = plan_confirm_gone(&unaccounted(), Epoch(2), person(), "gone").unwrap_err();
    assert_eq!(refusal.reason, Reason::EpochMismatch);
    assert_eq!(refusal.next.as_deref(), Some("tenure confirm-gone …9f3c21 --epoch 1 --why W"));
    let accounted = interrupted(crashed(1));
    let refusal = plan_confirm_gone(&accounted, Epoch(1), person(), "gone").unwrap_err();
    assert_eq!(refusal.reason, Reason::EpochMismatch);
    let refusal = plan_confirm_gone(&running(), Epoch(1), person(), "gone").unwrap_err();
    assert_eq!(refusal.reason, Reason::VerbNotAllowed);
}

#[test]
fn confirm_gone_of_a_job_that_is_set_aside_accounts_for_the_child_and_changes_nothing_else() {
    let aside = JobFacts { state: State::Quarantined, ..unaccounted() };
    let plan = plan_confirm_gone(&aside, Epoch(1), person(), "the host is scrap").unwrap();
    assert_eq!(kinds(&plan), ["operator_acted", "child_gone"]);
    assert_eq!((plan.changes.lease, plan.changes.job), (LeaseChange::Delete, None));
}

#[test]
fn a_cancel_after_an_abandon_writes_nothing() {
    let notice = crate::plan::LeaseNotice { seq: Seq(4), since: second(30) };
    let lease = crate::plan::LeaseFacts { abandon: Some(notice), ..crate::factory::lease() };
    let asked = JobFacts { lease: Some(lease), ..running() };
    assert_eq!(plan_cancel(&asked, person(), "stop"), Ok(Decision::Already));
}

#[test]
fn what_never_started_is_not_recovered() {
    let unfrozen = JobFacts { plan_frozen: false, ..interrupted(crashed(1)) };
    assert_eq!(plan_recover(&unfrozen, person(), "go").unwrap_err().reason, Reason::PlanMissing);
}
