//! Having a quarantined job judged again.

use super::{Verb, ask, check_why, demand_child_gone, demand_plan};
use crate::{
    handover::Cause,
    plan::{AcceptedDeclaration, JobFacts, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    refusal::Refusal,
    settlement,
};

/// Plans the judgement of a job that was set aside. Where a doubt is left that only a person can settle it is set aside
/// again; where a cancel stands it goes on to be cancelled.
///
/// `accepted` is the declaration that the job is held to from now on, where a person accepts another one; only a job that was
/// set aside because of its declaration, or of its bundle, takes one, and with it the bundle that stands beside it.
///
/// # Errors
/// The reason is blank, the job is not quarantined, the child of its last run is not known to be gone, it never started, or
/// it takes no other declaration.
pub fn plan_reopen(
    facts: &JobFacts,
    by: Principal,
    why: &str,
    accepted: Option<&AcceptedDeclaration>,
) -> Result<Plan, Refusal> {
    let why = check_why(why)?;
    ask(facts, Verb::Reopen)?;
    demand_child_gone(facts, Verb::Reopen)?;
    demand_plan(facts, Verb::Reopen)?;
    let changed = facts.set_aside.as_ref().and_then(|aside| aside.changed);
    if let (Some(accepted), None) = (accepted, changed) {
        return Err(refuse_declaration(facts, accepted));
    }
    let declaration = accepted.map(|accepted| accepted.digest);
    let bundle = accepted.and_then(|accepted| accepted.bundle);
    let reopened =
        Draft::bare(RecordKind::Reopened { by: by.clone(), why: why.clone(), declaration, bundle });
    let plan = settlement::reopen(facts, vec![reopened], |attempt| continued(facts, by, why, attempt));
    plan.map(|mut plan| {
        if let Some(job) = &mut plan.changes.job {
            job.declaration = accepted.cloned();
        }
        plan
    })
}

fn refuse_declaration(facts: &JobFacts, accepted: &AcceptedDeclaration) -> Refusal {
    let short = facts.job.short();
    let words = format!(
        "cannot reopen job {short} under declaration {}: it was not set aside because of its declaration or bundle",
        accepted.digest
    );
    Refusal::new(Reason::DeclarationMismatch, words).with_next(format!("tenure reopen {short} --why W"))
}

/// Why a run starts that a person had go on. A job that never ran is begun, and goes on with nothing.
pub(super) fn continued(facts: &JobFacts, by: Principal, why: String, attempt: u32) -> Cause {
    let previous = facts.run;
    if previous.0 == 0 { Cause::Dispatch } else { Cause::Continued { previous, by, why, attempt } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        effect::{Doubts, EffectRecovery, EffectRef, Outcome, StepsToUndo},
        factory::{doubts, facts, lease, person, salted, second},
        id::{Digest, Run, Seq},
        job::State,
        plan::{Decision, LeaseFacts, ReadyChange, SetAside},
        record::{ChangedDeclaration, HeldTo, NewValue},
    };

    fn set_aside(instead_of: State) -> JobFacts {
        let result = (instead_of == State::Succeeded).then(|| NewValue::Beside(salted("the result")));
        let reason = (instead_of == State::Failed).then(|| "lost".to_owned());
        let set_aside = Some(SetAside { instead_of, reason, result, changed: None });
        JobFacts { set_aside, ..facts(State::Quarantined) }
    }

    fn reopen(facts: &JobFacts) -> Plan {
        plan_reopen(facts, person(), "looked", None).unwrap()
    }

    fn show(what: &str, plan: &Plan) -> String {
        let kinds: Vec<_> = plan.drafts.iter().map(|draft| draft.kind.name()).collect();
        let job = plan.changes.job.clone().unwrap();
        let cause = match &plan.changes.ready {
            ReadyChange::Insert { cause: Cause::Continued { attempt, .. }, .. } => {
                format!("continued, attempt {attempt}")
            }
            other => format!("{other:?}"),
        };
        format!(
            "{what}: {} {:?}\n    {}; hops {:?}, ready {cause}\n",
            job.state.unwrap(),
            job.reason.unwrap_or_default(),
            kinds.join(", "),
            job.hops_left,
        )
    }

    #[test]
    fn what_reopening_makes_of_a_job_over_what_it_would_have_become_and_what_is_known_now() {
        let probed = doubts(&[("look", EffectRecovery::Probe, Outcome::Open)]);
        let asked = doubts(&[("ask", EffectRecovery::Ask, Outcome::Open)]);
        let denied = Doubts { denied: 1, ..Doubts::default() };
        let known = [
            ("answered", Doubts::default()),
            ("one of them did not happen", denied),
            ("a run can settle one", probed),
            ("a person has to settle one", asked),
        ];
        let mut shown = String::new();
        for instead_of in [State::Succeeded, State::Failed, State::Ready, State::Interrupted] {
            for (what, doubts) in &known {
                let plan = reopen(&JobFacts { doubts: doubts.clone(), ..set_aside(instead_of) });
                shown.push_str(&show(&format!("instead of {instead_of}, {what}"), &plan));
            }
        }
        let late = JobFacts { now: second(3_600), ..set_aside(State::Exhausted) };
        shown.push_str(&show("instead of exhausted, past the deadline", &reopen(&late)));
        let no_hops = JobFacts { hops_left: 1, ..set_aside(State::Exhausted) };
        shown.push_str(&show("instead of exhausted, without a hop", &reopen(&no_hops)));
        shown.push_str(&show(
            "instead of exhausted, the limit was raised",
            &reopen(&set_aside(State::Exhausted)),
        ));
        let late = JobFacts { now: second(3_600), ..set_aside(State::Ready) };
        shown.push_str(&show("instead of ready, past the deadline", &reopen(&late)));
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn the_result_that_was_kept_stands_beside_the_verdict_and_is_kept_again_beside_another_quarantine() {
        let plan = reopen(&set_aside(State::Succeeded));
        assert_eq!(plan.drafts.last().unwrap().value, Some(salted("the result")));
        let asked = doubts(&[("ask", EffectRecovery::Ask, Outcome::Open)]);
        let plan = reopen(&JobFacts { doubts: asked, ..set_aside(State::Succeeded) });
        assert_eq!(plan.drafts.last().unwrap().value, Some(salted("the result")));
        let RecordKind::QuarantineDecided { instead_of, .. } = plan.drafts[1].kind else {
            panic!("{plan:?}")
        };
        assert_eq!(instead_of, State::Succeeded);
    }

    #[test]
    fn a_standing_cancel_goes_on_to_be_carried_out() {
        let cancelled = JobFacts { cancel_requested: Some(Seq(3)), ..set_aside(State::Ready) };
        assert_eq!(reopen(&cancelled).changes.job.unwrap().state, Some(State::Cancelled));
        let step = EffectRef { key: "push".parse().unwrap(), attempt: 1 };
        let steps = StepsToUndo { listed: vec![step], count: 1, ..StepsToUndo::default() };
        let ReadyChange::Insert { cause, .. } = reopen(&JobFacts { steps, ..cancelled }).changes.ready else {
            panic!("nothing is undone")
        };
        assert_eq!(cause, Cause::Unwinding { instead_of: State::Cancelled, attempt: 1 });
    }

    #[test]
    fn nothing_is_judged_while_the_child_is_not_known_to_be_gone_nor_where_nothing_ever_started() {
        let left = LeaseFacts { live: false, ..lease() };
        let refusal =
            plan_reopen(&JobFacts { lease: Some(left), ..set_aside(State::Ready) }, person(), "go", None)
                .unwrap_err();
        assert_eq!(refusal.reason, Reason::ChildUnaccountedFor);
        let unfrozen = JobFacts { plan_frozen: false, ..set_aside(State::Ready) };
        assert_eq!(plan_reopen(&unfrozen, person(), "go", None).unwrap_err().reason, Reason::PlanMissing);
        assert_eq!(
            plan_reopen(&set_aside(State::Ready), person(), " ", None).unwrap_err().reason,
            Reason::ReasonMissing
        );
    }

    #[test]
    fn a_job_that_never_ran_is_begun_and_not_continued() {
        let unrun = JobFacts { run: Run(0), ..set_aside(State::Ready) };
        let ReadyChange::Insert { cause, .. } = reopen(&unrun).changes.ready else {
            panic!("it is not ready")
        };
        assert_eq!(cause, Cause::Dispatch);
    }

    #[test]
    fn another_declaration_is_accepted_only_where_it_was_what_the_job_was_set_aside_for() {
        let accepted = AcceptedDeclaration {
            digest: Digest::of(b"new"),
            bundle: Some(Digest::of(b"strict")),
            requires: vec!["zone=eu".to_owned()],
        };
        let refused = plan_reopen(&set_aside(State::Ready), person(), "go", Some(&accepted)).unwrap_err();
        assert_eq!(refused.reason, Reason::DeclarationMismatch);
        let Ok(Decision::Write(aside)) =
            settlement::plan_changed_declaration(&facts(State::Ready), Some(accepted.digest), "gone")
        else {
            panic!("it is not set aside")
        };
        let RecordKind::QuarantineDecided { instead_of, changed, .. } = aside.drafts[0].kind.clone() else {
            panic!("{aside:?}")
        };
        let admitted = facts(State::Ready).declaration;
        assert_eq!(
            changed,
            Some(ChangedDeclaration { what: HeldTo::Declaration, admitted, present: Some(accepted.digest) })
        );
        let job = aside.changes.job.unwrap();
        let detail = job.detail.unwrap();
        assert!(
            detail.contains(&admitted.to_string()) && detail.contains(&accepted.digest.to_string()),
            "{detail}"
        );
        let set_aside = Some(SetAside { instead_of, reason: None, result: None, changed });
        let facts = JobFacts { set_aside, ..facts(State::Quarantined) };
        for accepted in [None, Some(accepted)] {
            let job = plan_reopen(&facts, person(), "go", accepted.as_ref()).unwrap().changes.job.unwrap();
            assert_eq!((job.state, job.declaration), (Some(State::Ready), accepted));
        }
    }

    #[test]
    fn a_bundle_that_is_not_held_sets_the_job_aside_and_the_present_revision_of_its_agent_is_accepted_in_its_place()
     {
        let [gone, present] = [Digest::of(b"lenient"), Digest::of(b"strict")];
        let unheld = JobFacts { unheld_bundle: Some(gone), ..facts(State::Ready) };
        let revision =
            AcceptedDeclaration { digest: unheld.declaration, bundle: Some(present), requires: Vec::new() };
        let bare = AcceptedDeclaration { bundle: None, ..revision.clone() };
        let of = |accepted: Option<&AcceptedDeclaration>| accepted.map(|new| (new.digest, new.bundle));
        for (accepted, digest) in [(Some(&revision), Some(present)), (Some(&bare), None), (None, None)] {
            let Ok(Decision::Write(aside)) = settlement::plan_changed_bundle(&unheld, of(accepted)) else {
                panic!("it is not set aside")
            };
            let RecordKind::QuarantineDecided { instead_of, changed, .. } = aside.drafts[0].kind.clone()
            else {
                panic!("{aside:?}")
            };
            let named = ChangedDeclaration { what: HeldTo::Bundle, admitted: gone, present: digest };
            assert_eq!((instead_of, changed), (State::Ready, Some(named)));
            let job = aside.changes.job.unwrap();
            assert_eq!(job.reason.as_deref(), Some(settlement::BUNDLE_CHANGED));
            let detail = job.detail.unwrap();
            assert!(detail.contains(&gone.to_string()), "{detail}");
            assert_eq!(detail.contains(&present.to_string()), digest.is_some(), "{detail}");
            assert_eq!(detail.contains("--accept-declaration"), accepted.is_some(), "{detail}");
            let set_aside = Some(SetAside { instead_of, reason: None, result: None, changed });
            let aside = JobFacts { set_aside, ..facts(State::Quarantined) };
            let plan = plan_reopen(&aside, person(), "go", accepted).unwrap();
            assert_eq!(plan.changes.job.as_ref().unwrap().declaration.as_ref(), accepted);
            let RecordKind::Reopened { bundle, .. } = &plan.drafts[0].kind else { panic!("{plan:?}") };
            assert_eq!(*bundle, digest);
        }
        assert_eq!(
            settlement::plan_changed_bundle(&facts(State::Ready), of(Some(&revision))),
            Ok(Decision::Already),
            "it is held"
        );
        let running = JobFacts { state: State::Running, ..unheld };
        assert_eq!(settlement::plan_changed_bundle(&running, of(Some(&revision))), Ok(Decision::Already));
    }

    #[test]
    fn only_what_waits_for_a_worker_is_set_aside_for_its_declaration() {
        for state in State::ALL.iter().filter(|state| **state != State::Ready) {
            let judged = settlement::plan_changed_declaration(&facts(*state), None, "gone");
            assert_eq!(judged, Ok(Decision::Already), "{state}");
        }
    }
}
