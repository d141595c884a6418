//! What every end of a run makes of its job, and what holds for every settlement.

use proptest::prelude::*;

use super::*;
use crate::{
    admission::{Amount, Limit, LimitRefusal},
    effect::{self, Disposition, Doubts, EffectRecovery, EffectRef, StepsToUndo},
    factory::{
        automatic, crashed, doubts, facts, interrupted, lease, person, run_started, running, salted, second,
        unaccounted,
    },
    handover::Cause,
    id::{Run, Seq},
    job::State,
    plan::{Decision, Fencing, LeaseFacts},
    principal::Principal,
    reason::Reason,
    record::{Header, Record, seal_records},
    recovery::{Denial, GoneProof, Interruption, Pays, Policy, Restart},
};

fn fleet() -> Principal {
    Principal::fleet("worker w1")
}

fn v1() -> NewValue {
    NewValue::Beside(salted("v1.2.0"))
}

fn report(end: RunEnd) -> EndReport {
    EndReport {
        epoch: Epoch(1),
        end,
        result: None,
        output_chunks: 3,
        last_notice: Seq(0),
        unasked: None,
        booking: None,
    }
}

fn end(facts: &JobFacts, end: RunEnd) -> Plan {
    match plan_end(facts, report(end), fleet()) {
        Ok(EndDecision::Write(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn settle(facts: &JobFacts, evidence: Evidence) -> Plan {
    match plan_settlement(facts, evidence, Principal::fleet("sweep")) {
        Ok(Decision::Write(plan)) => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn kinds(plan: &Plan) -> Vec<&'static str> {
    plan.drafts.iter().map(|draft| draft.kind.name()).collect()
}

fn job(plan: &Plan) -> JobChange {
    plan.changes.job.clone().unwrap()
}

fn cause(plan: &Plan) -> Option<(Cause, Option<jiff::Timestamp>)> {
    match plan.changes.ready.clone() {
        ReadyChange::Insert { cause, not_before } => Some((cause, not_before)),
        ReadyChange::Replace { cause } => Some((cause, None)),
        ReadyChange::Keep | ReadyChange::Redirect { .. } | ReadyChange::Delete => None,
    }
}

fn restart(plan: &Plan) -> Option<Restart> {
    plan.drafts.iter().find_map(|draft| match &draft.kind {
        RecordKind::RunInterrupted { restart, .. } => *restart,
        _ => None,
    })
}

fn every_end() -> Vec<RunEnd> {
    vec![
        RunEnd::ExitCode(0),
        RunEnd::ExitCode(1),
        RunEnd::ExitCode(65),
        RunEnd::Signal(11),
        RunEnd::OwnTimeout { limit_ms: 900_000 },
        RunEnd::IdleTimeout { limit_ms: 1_500 },
        RunEnd::Cancel,
        RunEnd::Drained,
        RunEnd::NotStarted { reason: "no such file: notes".to_owned() },
        RunEnd::ContactLost,
        RunEnd::HandlerFailed { error: "no such mailbox".to_owned(), is_final: false },
        RunEnd::HandlerFailed { error: "no such mailbox".to_owned(), is_final: true },
        RunEnd::DeadlineReached,
    ]
}

fn show(name: &str, plan: &Plan) -> String {
    let records: Vec<_> =
        plan.drafts.iter().map(|draft| serde_json::to_string(&draft.kind).unwrap()).collect();
    let changes = &plan.changes;
    let mut shown = format!("{name}\n  epoch {}, lease {:?}\n", plan.epoch, changes.lease);
    for record in records {
        shown.push_str(&format!("  {record}\n"));
    }
    let job = job(plan);
    shown.push_str(&format!(
        "  state {:?}, reason {:?}, detail {:?}\n  attempts {:?}, losses {:?}, hops {:?}\n  ready {:?}\n\n",
        job.state, job.reason, job.detail, job.attempts, job.losses, job.hops_left, changes.ready
    ));
    shown
}

#[test]
fn what_every_end_that_a_holder_reports_makes_of_its_job() {
    let shown: String =
        every_end().into_iter().map(|how| show(&format!("{how:?}"), &end(&running(), how))).collect();
    insta::assert_snapshot!(shown);
}

#[test]
fn what_every_end_that_a_guardian_reports_makes_of_its_job() {
    let mut shown = String::new();
    for healthy in [false, true] {
        for how in every_end() {
            let name = format!("{how:?}, healthy: {healthy}");
            let plan = settle(&running(), Evidence::GuardianReport { end: how, healthy });
            shown.push_str(&show(&name, &plan));
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_success_is_one_record_with_its_result_and_leaves_no_lease() {
    let report = EndReport { result: Some(v1()), ..report(RunEnd::ExitCode(0)) };
    let Ok(EndDecision::Write(plan)) = plan_end(&running(), report.clone(), fleet()) else {
        panic!("no plan")
    };
    assert_eq!(plan, plan_success(report));
    assert_eq!((kinds(&plan), plan.changes.lease), (vec!["job_concluded"], LeaseChange::Delete));
    assert_eq!(plan.drafts[0].value, Some(salted("v1.2.0")));
    assert!(job(&plan).concluded);
}

#[test]
fn a_report_under_another_epoch_or_without_a_live_lease_is_fenced() {
    let settled = unaccounted();
    let taken_over = JobFacts {
        lease: Some(LeaseFacts { epoch: Epoch(3), run_epoch: Epoch(3), ..lease() }),
        head_epoch: Epoch(3),
        ..running()
    };
    for (facts, held_by) in
        [(settled, None), (facts(State::Ready), None), (taken_over, Some(crate::factory::worker()))]
    {
        let decision = plan_end(&facts, report(RunEnd::ExitCode(0)), fleet());
        assert_eq!(decision, Ok(EndDecision::Fenced { held_by, epoch: facts.head_epoch }));
    }
    let sealed = plan_end(&facts(State::Succeeded), report(RunEnd::ExitCode(0)), fleet());
    assert_eq!(sealed, Ok(EndDecision::Sealed));
}

#[test]
fn a_cancel_that_the_worker_has_not_seen_is_answered_with_the_notice() {
    let asked = JobFacts { cancel_requested: Some(Seq(5)), ..running() };
    for how in every_end() {
        let decision = plan_end(&asked, report(how), fleet());
        assert_eq!(decision, Ok(EndDecision::Notice { seq: Seq(5), kind: "cancel_requested" }));
    }
}

#[test]
fn a_cancel_that_the_worker_has_seen_goes_before_every_cause_of_the_end() {
    let asked = JobFacts { cancel_requested: Some(Seq(5)), ..running() };
    for how in every_end() {
        let report = EndReport { last_notice: Seq(5), ..report(how) };
        let Ok(EndDecision::Write(plan)) = plan_end(&asked, report, fleet()) else { panic!("no plan") };
        assert_eq!(kinds(&plan), ["child_gone", "job_concluded"]);
        assert_eq!(job(&plan).state, Some(State::Cancelled));
    }
}

#[test]
fn the_first_failure_waits_a_jittered_second_and_the_next_about_two() {
    let first = restart(&end(&running(), RunEnd::ExitCode(1))).unwrap();
    let wait = crate::deadline::between(second(60), first.not_before.unwrap());
    assert!((500..=1_000).contains(&wait.as_millis()), "{wait:?}");
    let again = JobFacts { attempts: 1, ..running() };
    let second_restart = restart(&end(&again, RunEnd::ExitCode(1))).unwrap();
    let wait = crate::deadline::between(second(60), second_restart.not_before.unwrap());
    assert!((1_000..=2_000).contains(&wait.as_millis()), "{wait:?}");
    assert_eq!((first.attempt, second_restart.attempt), (2, 3));
}

#[test]
fn a_restart_never_waits_past_the_deadline() {
    let mut hurried = running();
    hurried.recovery.backoff_first_ms = 300_000;
    hurried.deadline_at = Some(second(61));
    let not_before = restart(&end(&hurried, RunEnd::ExitCode(1))).unwrap().not_before.unwrap();
    assert!(not_before < second(61), "{not_before}");
}

#[test]
fn the_first_restart_after_a_lost_worker_is_immediate_and_later_ones_wait() {
    let healthy = || Evidence::GuardianReport { end: RunEnd::Signal(9), healthy: true };
    let first = restart(&settle(&running(), healthy())).unwrap();
    assert_eq!(first, Restart { attempt: 2, pays: Pays::Loss, not_before: None });
    let again = JobFacts { losses: 1, ..running() };
    assert!(restart(&settle(&again, healthy())).unwrap().not_before.is_some());
}

#[test]
fn a_failure_pays_an_attempt_and_a_hop_and_a_loss_pays_neither() {
    let failed = job(&end(&running(), RunEnd::ExitCode(1)));
    assert_eq!((failed.attempts, failed.losses, failed.hops_left), (Some(1), Some(0), Some(7)));
    let lost = job(&end(&running(), RunEnd::ContactLost));
    assert_eq!((lost.attempts, lost.losses, lost.hops_left), (Some(0), Some(1), Some(8)));
}

#[test]
fn out_of_attempts_is_failed_by_execution_or_by_loss() {
    let spent = JobFacts { attempts: 2, losses: 10, ..running() };
    let crash = end(&spent, RunEnd::ExitCode(3));
    assert_eq!(kinds(&crash), ["child_gone", "run_interrupted", "recovery_denied", "job_concluded"]);
    assert_eq!(job(&crash).reason.as_deref(), Some("execution"));
    assert_eq!(
        job(&crash).detail.as_deref(),
        Some("it exited with code 3, and its restarts are used up (2)")
    );
    let lost = end(&spent, RunEnd::ContactLost);
    assert_eq!((job(&lost).state, job(&lost).reason.as_deref()), (Some(State::Failed), Some("lost")));
}

#[test]
fn without_attempts_innocents_are_not_restarted_either() {
    let mut none = running();
    none.recovery.max_attempts = 0;
    let plan = settle(&none, Evidence::GuardianReport { end: RunEnd::Signal(9), healthy: true });
    assert_eq!((job(&plan).state, job(&plan).reason.as_deref()), (Some(State::Failed), Some("lost")));
}

#[test]
fn a_lapsed_term_proves_the_child_gone_only_where_the_worker_fences() {
    for (fencing, expected) in [
        (Fencing::Kernel, vec!["child_gone", "run_interrupted"]),
        (Fencing::Guardian, vec!["child_gone", "run_interrupted"]),
        (Fencing::None, vec!["run_interrupted", "recovery_denied"]),
    ] {
        let lapsed =
            JobFacts { lease: Some(LeaseFacts { fencing, term_closed: true, ..lease() }), ..running() };
        let plan = settle(&lapsed, Evidence::TermLapsed);
        assert_eq!((kinds(&plan), plan.epoch), (expected, Epoch(2)));
        let gone = fencing.proves_gone();
        assert_eq!(plan.changes.lease, if gone { LeaseChange::Delete } else { LeaseChange::Release });
        assert_eq!(job(&plan).state, Some(if gone { State::Ready } else { State::Interrupted }));
    }
}

#[test]
fn an_open_term_is_no_evidence() {
    let refusal = plan_settlement(&running(), Evidence::TermLapsed, person()).unwrap_err();
    assert_eq!(refusal.reason, Reason::Internal);
}

#[test]
fn a_settled_and_accounted_run_is_already_known() {
    for facts in [facts(State::Ready), interrupted(crashed(1)), facts(State::Succeeded)] {
        for evidence in [
            Evidence::TermLapsed,
            Evidence::GuardianReport { end: RunEnd::ExitCode(0), healthy: false },
            Evidence::NotMine { records: Vec::new() },
        ] {
            assert_eq!(plan_settlement(&facts, evidence, person()), Ok(Decision::Already));
        }
    }
    assert_eq!(plan_settlement(&unaccounted(), Evidence::TermLapsed, person()), Ok(Decision::Already));
}

#[test]
fn a_late_guardian_report_accounts_for_the_child_and_restarts_the_job() {
    let plan = settle(&unaccounted(), Evidence::GuardianReport { end: RunEnd::Signal(9), healthy: true });
    assert_eq!(kinds(&plan), ["child_gone", "run_interrupted"]);
    assert_eq!((plan.epoch, plan.changes.lease), (Epoch(3), LeaseChange::Delete));
    assert_eq!(restart(&plan).map(|restart| restart.pays), Some(Pays::Loss));
    let RecordKind::ChildGone { of_epoch, proof, .. } = &plan.drafts[0].kind else { panic!("no proof") };
    assert_eq!((*of_epoch, *proof), (Epoch(1), GoneProof::Guardian));
}

#[test]
fn a_standing_cancel_is_carried_out_once_the_child_is_gone_and_not_before() {
    let asked = |lease| JobFacts { cancel_requested: Some(Seq(5)), lease: Some(lease), ..running() };
    let gone = settle(&asked(LeaseFacts { term_closed: true, ..lease() }), Evidence::TermLapsed);
    assert_eq!(kinds(&gone), ["child_gone", "run_interrupted", "job_concluded"]);
    assert_eq!(job(&gone).state, Some(State::Cancelled));
    let unfenced = LeaseFacts { term_closed: true, fencing: Fencing::None, ..lease() };
    let unknown = settle(&asked(unfenced), Evidence::TermLapsed);
    assert_eq!(job(&unknown).state, Some(State::Interrupted));
}

#[test]
fn past_the_deadline_and_without_hops_nothing_is_restarted() {
    let late = JobFacts { now: second(3_600), ..running() };
    let plan = end(&late, RunEnd::ExitCode(1));
    assert_eq!(kinds(&plan), ["child_gone", "run_interrupted", "deadline_denied", "job_concluded"]);
    assert_eq!((job(&plan).state, job(&plan).reason.as_deref()), (Some(State::Exhausted), Some("deadline")));
    let last_hop = JobFacts { hops_left: 1, ..running() };
    let plan = end(&last_hop, RunEnd::ExitCode(1));
    assert_eq!((job(&plan).state, job(&plan).reason.as_deref()), (Some(State::Exhausted), Some("hops")));
    assert_eq!(job(&end(&last_hop, RunEnd::ContactLost)).state, Some(State::Ready));
}

#[test]
fn a_session_that_has_used_up_its_runs_or_its_money_restarts_nothing_and_says_how_much_it_had() {
    let had_its_runs = JobFacts { runs: Amount { used: 3, limit: 3 }, ..running() };
    let spent = JobFacts { budget_micros: Amount { used: 7, limit: 5 }, ..running() };
    let both = JobFacts { runs: had_its_runs.runs, ..spent.clone() };
    for (facts, limit, used, allowed) in
        [(had_its_runs, "runs", 3, 3), (spent, "budget", 7, 5), (both, "budget", 7, 5)]
    {
        for run_end in [RunEnd::ExitCode(1), RunEnd::ContactLost] {
            let plan = end(&facts, run_end);
            assert_eq!(kinds(&plan), ["child_gone", "run_interrupted", "budget_refused", "job_concluded"]);
            let refused = RecordKind::BudgetRefused { limit: limit.to_owned(), used, allowed };
            assert_eq!(plan.drafts[2].kind, refused);
            let job = job(&plan);
            assert_eq!((job.state, job.reason.as_deref()), (Some(State::Exhausted), Some(limit)));
            let detail = job.detail.clone().unwrap();
            let words = |number| Limit::from_name(limit).unwrap().write(number);
            assert!(detail.contains(&format!("{} of {}", words(used), words(allowed))), "{detail}");
        }
        let waiting = JobFacts { state: State::Ready, lease: None, ..facts };
        let Ok(Decision::Write(plan)) = plan_denial(&waiting) else { panic!("no plan") };
        assert_eq!(kinds(&plan), ["budget_refused", "job_concluded"]);
        assert_eq!(plan.changes.ready, ReadyChange::Delete);
        // A success needs no further run.
        let done =
            end(&JobFacts { state: State::Running, lease: Some(lease()), ..waiting }, RunEnd::ExitCode(0));
        assert_eq!(kinds(&done), ["job_concluded"]);
    }
}

#[test]
fn a_run_that_a_limit_refused_something_is_exhausted_however_it_ends_unless_the_limit_was_raised() {
    let refused = LimitRefusal { limit: Limit::Budget, used: 5, allowed: 5 };
    let spent = JobFacts { budget_micros: Amount { used: 6, limit: 5 }, ..running() };
    let Decision::Write(noted) = plan_limit_refusal(&spent, Epoch(1), Limit::Budget) else {
        panic!("no plan")
    };
    assert_eq!(kinds(&noted), ["budget_refused"]);
    assert_eq!(
        (noted.epoch, noted.changes.lease),
        (Epoch(1), LeaseChange::NoteRefusal(LimitRefusal { used: 6, ..refused }))
    );
    let told = JobFacts { lease: Some(LeaseFacts { refused: Some(refused), ..lease() }), ..spent };
    for run_end in [RunEnd::ExitCode(0), RunEnd::ExitCode(125), RunEnd::ContactLost, RunEnd::Signal(9)] {
        let plan = end(&told, run_end);
        assert_eq!(kinds(&plan), ["child_gone", "job_concluded"], "it was said when it happened");
        assert_eq!(
            (job(&plan).state, job(&plan).reason.as_deref()),
            (Some(State::Exhausted), Some("budget"))
        );
    }
    let raised = JobFacts { budget_micros: Amount { used: 6, limit: 9 }, ..told.clone() };
    assert_eq!(job(&end(&raised, RunEnd::ExitCode(0))).state, Some(State::Succeeded));
    // It is said once, about the run that is refused, and while the limit stands.
    for (facts, epoch) in
        [(&told, Epoch(1)), (&raised, Epoch(1)), (&spent_elsewhere(), Epoch(1)), (&running(), Epoch(1))]
    {
        assert_eq!(plan_limit_refusal(facts, epoch, Limit::Budget), Decision::Already);
    }
    assert_eq!(
        plan_limit_refusal(&JobFacts { lease: Some(lease()), ..told }, Epoch(2), Limit::Budget),
        Decision::Already
    );
}

fn spent_elsewhere() -> JobFacts {
    JobFacts { budget_micros: Amount { used: 6, limit: 5 }, ..facts(State::Ready) }
}

#[test]
fn a_handler_that_ended_at_the_deadline_is_exhausted_and_nothing_was_interrupted() {
    let past = JobFacts { deadline_at: Some(running().now), ..running() };
    let plan = end(&past, RunEnd::DeadlineReached);
    assert_eq!(kinds(&plan), ["child_gone", "deadline_denied", "job_concluded"]);
    assert_eq!((job(&plan).state, job(&plan).reason.as_deref()), (Some(State::Exhausted), Some("deadline")));
    // Its worker's clock was ahead of the database's: it goes on, and pays no attempt.
    let before = end(&running(), RunEnd::DeadlineReached);
    assert_eq!(restart(&before).map(|restart| restart.pays), Some(Pays::Loss));
}

#[test]
fn a_ready_job_past_its_deadline_is_concluded_and_any_other_is_left_alone() {
    let late = JobFacts { now: second(3_600), ..facts(State::Ready) };
    let Ok(Decision::Write(plan)) = plan_denial(&late) else { panic!("no plan") };
    assert_eq!(kinds(&plan), ["deadline_denied", "job_concluded"]);
    assert_eq!((plan.epoch, plan.changes.ready.clone()), (Epoch(1), ReadyChange::Delete));
    assert_eq!(job(&plan).state, Some(State::Exhausted));
    assert_eq!(plan_denial(&facts(State::Ready)), Ok(Decision::Already));
    assert_eq!(plan_denial(&JobFacts { now: second(3_600), ..running() }), Ok(Decision::Already));
}

#[test]
fn policies_that_want_a_person_interrupt_the_job_and_name_the_denial() {
    for (policy, denial) in [(Policy::Manual, Denial::NeedsAHuman), (Policy::Never, Denial::PolicyForbids)] {
        let mut strict = running();
        strict.recovery.policy = policy;
        let plan = end(&strict, RunEnd::ExitCode(1));
        assert_eq!(plan.drafts[2].kind, RecordKind::RecoveryDenied { denial });
        assert_eq!(
            (job(&plan).state, job(&plan).reason.as_deref()),
            (Some(State::Interrupted), Some(denial.word()))
        );
        assert_eq!(plan.changes.lease, LeaseChange::Delete);
    }
}

fn journal_of(drafts: Vec<Draft>) -> Vec<Record> {
    let facts = running();
    let header = Header {
        tenant: facts.tenant,
        job: facts.job,
        generation: facts.generation,
        epoch: Epoch(1),
        run: Run(1),
    };
    let sealed = seal_records(&header, facts.head, second(1), drafts).unwrap();
    sealed.iter().map(|record| serde_json::from_slice(&record.bytes).unwrap()).collect()
}

#[test]
fn a_grant_that_never_started_is_given_back_with_its_cause_and_costs_nothing() {
    let cause_before =
        Cause::Recovered { previous: Run(3), interruption: Interruption::WorkerLost, attempt: 2 };
    let notice = Draft::bare(RecordKind::CancelRequested { by: person(), why: "stop".to_owned() });
    let records = journal_of(vec![run_started(cause_before.clone()), notice]);
    let plan = settle(&running(), Evidence::NotMine { records: records.clone() });
    assert_eq!((kinds(&plan), plan.epoch), (vec!["grant_released"], Epoch(2)));
    // At once it would be claimed and given back again as fast as the database allows.
    assert_eq!(cause(&plan), Some((cause_before, Some(second(61)))));
    assert_eq!((job(&plan).attempts, job(&plan).losses, job(&plan).hops_left), (None, None, None));
    let asked = JobFacts { cancel_requested: Some(Seq(5)), ..running() };
    let plan = settle(&asked, Evidence::NotMine { records });
    assert_eq!(kinds(&plan), ["grant_released", "job_concluded"]);
}

#[test]
fn a_grant_that_left_a_trace_is_an_interruption_with_an_unknown_child() {
    let records = journal_of(vec![run_started(Cause::Dispatch), crate::factory::note("began")]);
    let plan = settle(&running(), Evidence::NotMine { records });
    assert_eq!(kinds(&plan), ["run_interrupted", "recovery_denied"]);
    assert_eq!(plan.changes.lease, LeaseChange::Release);
}

/// One doubt of each kind.
fn every_doubt() -> Vec<(&'static str, Doubts)> {
    use effect::Outcome;
    let in_doubt = Disposition::InDoubt;
    let one = |recovery, outcome| doubts(&[("git/push", recovery, outcome)]);
    vec![
        ("retry, open", one(EffectRecovery::Retry, Outcome::Open)),
        ("idempotent, open", one(EffectRecovery::Idempotent, Outcome::Open)),
        ("probe, open", one(EffectRecovery::Probe, Outcome::Open)),
        ("probe, failed", one(EffectRecovery::Probe, Outcome::Failed(in_doubt))),
        ("probe, inconclusive", one(EffectRecovery::Probe, Outcome::Reconciled(in_doubt))),
        ("ask, open", one(EffectRecovery::Ask, Outcome::Open)),
        ("ask, failed", one(EffectRecovery::Ask, Outcome::Failed(in_doubt))),
    ]
}

#[test]
fn what_every_end_makes_of_a_job_with_a_doubt_of_every_kind() {
    let mut shown = String::new();
    for (name, doubts) in every_doubt() {
        shown.push_str(&format!("{name}\n"));
        let with = |facts: JobFacts| JobFacts { doubts: doubts.clone(), ..facts };
        let spent = || with(JobFacts { attempts: 2, ..running() });
        let manual = || {
            let recovery = crate::recovery::RecoveryPolicy { policy: Policy::Manual, ..automatic() };
            with(JobFacts { recovery, ..running() })
        };
        let asked = || with(JobFacts { cancel_requested: Some(Seq(5)), ..running() });
        let seen = EndReport { last_notice: Seq(5), ..report(RunEnd::Cancel) };
        let Ok(EndDecision::Write(cancelled)) = plan_end(&asked(), seen, fleet()) else { panic!("no plan") };
        let unfenced = LeaseFacts { fencing: Fencing::None, term_closed: true, ..lease() };
        for (what, plan) in [
            ("success", end(&with(running()), RunEnd::ExitCode(0))),
            ("final exit code", end(&with(running()), RunEnd::ExitCode(65))),
            ("crash", end(&with(running()), RunEnd::ExitCode(1))),
            ("crash, out of attempts", end(&spent(), RunEnd::ExitCode(1))),
            ("crash, policy manual", end(&manual(), RunEnd::ExitCode(1))),
            (
                "crash, past the deadline",
                end(&JobFacts { now: second(4_000), ..with(running()) }, RunEnd::ExitCode(1)),
            ),
            ("cancelled", cancelled),
            (
                "lost, its child unknown",
                settle(&JobFacts { lease: Some(unfenced), ..with(running()) }, Evidence::TermLapsed),
            ),
            ("judged again, its child gone", judge_again(&with(unaccounted()), Vec::new(), false).unwrap()),
            ("recovered by a person", restart_by_person(&with(interrupted(crashed(3))), Vec::new()).unwrap()),
            ("cancelled while ready", cancel(&with(facts(State::Ready)), Epoch(1), Vec::new()).unwrap()),
            ("cancelled after it failed", cancel(&with(facts(State::Failed)), Epoch(1), Vec::new()).unwrap()),
        ] {
            let instead_of = plan.drafts.iter().find_map(|draft| match &draft.kind {
                RecordKind::QuarantineDecided { instead_of, .. } => Some(format!(" instead of {instead_of}")),
                _ => None,
            });
            let state = job(&plan).state.unwrap();
            shown.push_str(&format!("    {what}: {state}{}\n", instead_of.unwrap_or_default()));
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_success_that_is_set_aside_keeps_its_result_and_says_what_is_in_doubt() {
    let doubts = doubts(&[("a", EffectRecovery::Probe, effect::Outcome::Open)]);
    let facts = JobFacts { doubts, ..running() };
    let unasked = Unasked { keys: vec!["old".parse().unwrap()], count: 1 };
    let report = EndReport { result: Some(v1()), unasked: Some(unasked), ..report(RunEnd::ExitCode(0)) };
    let Ok(EndDecision::Write(plan)) = plan_end(&facts, report, fleet()) else { panic!("no plan") };
    insta::assert_snapshot!(show("a success with a doubt", &plan));
    assert_eq!(plan.drafts.last().unwrap().value, Some(salted("v1.2.0")));
    assert!(job(&plan).concluded);
}

#[test]
fn a_cancel_of_what_nobody_can_undo_is_set_aside_and_names_it() {
    let step = |key: &str| EffectRef { key: key.parse().unwrap(), attempt: 1 };
    let listed = ["a", "b", "c", "d"].map(step).to_vec();
    let steps = StepsToUndo { undeclared: listed.clone(), undeclared_count: 21, listed, count: 21 };
    let waiting = JobFacts { steps: steps.clone(), ..facts(State::Ready) };
    let plan = cancel(&waiting, Epoch(1), Vec::new()).unwrap();
    insta::assert_snapshot!(show("a cancel with steps to undo", &plan));
    assert_eq!(plan.changes.ready, ReadyChange::Delete);
    let doubts = doubts(&[("e", EffectRecovery::Ask, effect::Outcome::Open)]);
    let plan = cancel(&JobFacts { doubts, steps, ..facts(State::Ready) }, Epoch(1), Vec::new()).unwrap();
    assert_eq!(job(&plan).reason.as_deref(), Some(EFFECT_IN_DOUBT), "a doubt goes first");
}

prop_compose! {
    fn any_facts()(
        attempts in 0..4u32,
        losses in 0..12u32,
        hops_left in 0..4u32,
        cancelled in any::<bool>(),
        policy in prop_oneof![Just(Policy::Automatic), Just(Policy::Manual), Just(Policy::Never)],
        fencing in prop_oneof![Just(Fencing::None), Just(Fencing::Guardian), Just(Fencing::Kernel)],
        live in any::<bool>(),
        now in 0..4_000i64,
        deadline in proptest::option::of(0..4_000i64),
        doubts in any_doubts(),
        to_undo in any::<bool>(),
    ) -> JobFacts {
        let mut facts = if live { running() } else { unaccounted() };
        facts.recovery = crate::recovery::RecoveryPolicy { policy, ..automatic() };
        facts.lease = facts.lease.map(|lease| LeaseFacts { fencing, term_closed: true, ..lease });
        facts.cancel_requested = cancelled.then_some(Seq(3));
        facts.deadline_at = deadline.map(second);
        facts.steps.count = u64::from(to_undo);
        JobFacts { attempts, losses, hops_left, doubts, now: second(now), ..facts }
    }
}

fn any_doubts() -> impl Strategy<Value = Doubts> {
    prop_oneof![
        3 => Just(Doubts::default()),
        1 => Just(doubts(&[("tag", EffectRecovery::Probe, effect::Outcome::Open)])),
        1 => Just(doubts(&[
            ("tag", EffectRecovery::Probe, effect::Outcome::Open),
            ("push", EffectRecovery::Ask, effect::Outcome::Open),
        ])),
    ]
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let reported = (proptest::sample::select(every_end()), any::<bool>())
        .prop_map(|(end, healthy)| Evidence::GuardianReport { end, healthy });
    prop_oneof![Just(Evidence::TermLapsed), reported, Just(Evidence::NotMine { records: Vec::new() })]
}

proptest! {
    #[test]
    fn every_settlement_is_consistent_in_itself(facts in any_facts(), evidence in any_evidence()) {
        let Ok(Decision::Write(plan)) = plan_settlement(&facts, evidence, fleet()) else { return Ok(()) };
        prop_assert_eq!(plan.epoch, facts.head_epoch.next());
        let job = job(&plan);
        let state = job.state.unwrap();
        let proved = kinds(&plan).contains(&"child_gone");
        let concludes = matches!(plan.drafts.last().unwrap().kind, RecordKind::JobConcluded { .. });
        prop_assert_eq!(job.concluded, concludes);
        prop_assert_eq!(cause(&plan).is_some(), state == State::Ready);
        prop_assert_eq!(plan.changes.lease == LeaseChange::Delete, proved);
        prop_assert!(state != State::Ready || proved, "restarted beside a child that may live");
        let cancelled = match (facts.doubts.bar_undoing, facts.doubts.count + facts.steps.count) {
            (0, 0) => State::Cancelled,
            (0, _) => State::Ready,
            (_, _) => State::Quarantined,
        };
        prop_assert!(!(facts.cancel_requested.is_some() && proved) || state == cancelled);
        let verdict = matches!(state, State::Succeeded | State::Failed | State::Cancelled);
        prop_assert!(!verdict || facts.doubts.is_empty(), "a verdict beside a doubt");
        prop_assert!(!proved || facts.doubts.undecided == 0 || state == State::Quarantined);
        prop_assert_eq!(state == State::Quarantined, kinds(&plan).contains(&"quarantine_decided"));
        if let Some((_, Some(not_before))) = cause(&plan) {
            prop_assert!(facts.deadline_at.is_none_or(|deadline| not_before < deadline));
        }
    }
}

#[test]
fn an_abandon_goes_before_a_cancel_and_before_every_end_and_needs_no_proof_that_the_child_is_gone() {
    let notice = crate::plan::LeaseNotice { seq: Seq(7), since: second(30) };
    let lease = LeaseFacts { abandon: Some(notice), fencing: Fencing::None, term_closed: true, ..lease() };
    let asked = JobFacts { lease: Some(lease), cancel_requested: Some(Seq(6)), ..running() };
    for how in every_end() {
        let unseen = plan_end(&asked, EndReport { last_notice: Seq(6), ..report(how.clone()) }, fleet());
        assert_eq!(unseen, Ok(EndDecision::Notice { seq: Seq(7), kind: "abandon_requested" }), "{how:?}");
        let seen = EndReport { last_notice: Seq(7), ..report(how.clone()) };
        let Ok(EndDecision::Write(plan)) = plan_end(&asked, seen, fleet()) else { panic!("{how:?}") };
        assert_eq!(kinds(&plan), ["child_gone", "job_concluded"], "{how:?}");
        assert_eq!(job(&plan).state, Some(State::Abandoned), "{how:?}");
        let plan = settle(&asked, Evidence::GuardianReport { end: how.clone(), healthy: false });
        assert_eq!(job(&plan).state, Some(State::Abandoned), "{how:?}");
    }
    let plan = settle(&asked, Evidence::TermLapsed);
    assert_eq!((job(&plan).state, plan.changes.lease), (Some(State::Abandoned), LeaseChange::Delete));
    let records = journal_of(vec![run_started(Cause::Dispatch)]);
    let plan = settle(&asked, Evidence::NotMine { records });
    assert_eq!(job(&plan).state, Some(State::Abandoned));
}
