//! Having a job go on that had come to an end and was left open.

use super::{
    Permission, Verb, ask, check_why, demand_child_gone, demand_plan, refuse_verb, reopen::continued,
};
use crate::{
    admission::{Limit, admit_run},
    job::State,
    plan::{JobFacts, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    recovery::Pays,
    refusal::Refusal,
    settlement,
};

/// Plans a new run of a job that failed, ran into a limit, was withheld, or whose wait for other jobs expired. The run pays
/// a hop, as every one that repeats work; the last does not. A limit that stands against it refuses, and nothing changes.
///
/// # Errors
/// The reason is blank, the state does not allow it, the job never started, or a limit refuses.
pub fn plan_resume(facts: &JobFacts, by: Principal, why: &str) -> Result<Plan, Refusal> {
    let why = check_why(why)?;
    ask(facts, Verb::Resume)?;
    let has_expired = facts.wait.as_ref().is_some_and(|wait| wait.has_expired(facts.now));
    if facts.state == State::Suspended && !has_expired {
        return Err(refuse_wait(facts));
    }
    // A run that reaches an expired wait again repeats nothing: the one before it ended on purpose.
    let pays = if has_expired { Pays::Nothing } else { Pays::Attempt };
    demand_child_gone(facts, Verb::Resume)?;
    demand_plan(facts, Verb::Resume)?;
    demand_forward(facts)?;
    demand_limits(facts, pays)?;
    let resumed = Draft::bare(RecordKind::Resumed { by: by.clone(), why: why.clone() });
    let drafts = [resumed].into_iter().chain(draft_readmission(facts)).collect();
    settlement::continue_by_person(facts, facts.head_epoch, drafts, pays, |attempt| {
        continued(facts, by, why, attempt)
    })
}

fn refuse_wait(facts: &JobFacts) -> Refusal {
    let refusal = refuse_verb(facts.state, Verb::Resume, Permission::WhereWaitExpired);
    match &facts.wait {
        Some(wait) => refusal.with_detail("until", wait.until).with_detail("left", wait.left),
        None => refusal,
    }
}

/// What was undone, or began to be, cannot be gone on with: the next run would read back what is no longer there.
fn demand_forward(facts: &JobFacts) -> Result<(), Refusal> {
    if facts.compensated == 0 && facts.unwinding.is_none() {
        return Ok(());
    }
    let short = facts.job.short();
    let words = format!(
        "cannot resume job {short}: it is {}, and what it had done was undone or began to be ({} steps)",
        facts.state, facts.compensated
    );
    Err(Refusal::new(Reason::VerbNotAllowed, words)
        .with_detail("state", facts.state)
        .with_detail("compensated", facts.compensated)
        .with_next(format!("tenure effects {short}")))
}

/// The limit that had refused was raised, or the job would not go on.
fn draft_readmission(facts: &JobFacts) -> Option<Draft> {
    let limit =
        facts.reason.as_deref().and_then(Limit::from_name).filter(|_| facts.state == State::Exhausted)?;
    let (used, allowed) = match limit {
        Limit::Budget => (facts.budget_micros.used, facts.budget_micros.limit),
        Limit::Runs => (facts.runs.used, facts.runs.limit),
        Limit::Hops => (0, facts.hops_left.into()),
        Limit::Reserve => return None,
    };
    Some(Draft::bare(RecordKind::BudgetReadmitted { limit: limit.name().to_owned(), used, allowed }))
}

fn demand_limits(facts: &JobFacts, pays: Pays) -> Result<(), Refusal> {
    admit_run(&settlement::ask_for_run(facts, pays)).map_err(|refused| {
        let short = facts.job.short();
        let refusal = Refusal::new(Reason::LimitReached, format!("cannot resume job {short}: {refused}"))
            .with_detail("state", facts.state)
            .with_next(match refused.limit().and_then(Limit::from_name) {
                Some(limit) => format!("tenure raise {short} {limit} VALUE --why W"),
                None => format!("tenure job {short}"),
            });
        match refused.limit() {
            Some(limit) => refusal.with_detail("limit", limit),
            None => refusal,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::Amount,
        factory::{facts, person, second},
        handover::Cause,
        id::{Run, Seq},
        plan::ReadyChange,
        unwinding::Unwinding,
        wait::WaitFacts,
    };

    fn resume(facts: &JobFacts) -> Result<Plan, Refusal> {
        plan_resume(facts, person(), " the bucket is there now ")
    }

    #[test]
    fn a_job_that_came_to_an_end_and_is_open_gets_a_run_that_pays_a_hop() {
        for state in [State::Failed, State::Exhausted, State::Withheld] {
            let plan = resume(&JobFacts { attempts: 2, ..facts(state) }).unwrap();
            let why = "the bucket is there now".to_owned();
            let resumed = RecordKind::Resumed { by: person(), why: why.clone() };
            assert_eq!(plan.drafts, [Draft::bare(resumed)], "{state}");
            let job = plan.changes.job.unwrap();
            assert_eq!((job.state, job.attempts, job.hops_left), (Some(State::Ready), Some(3), Some(7)));
            let cause = Cause::Continued { previous: Run(1), by: person(), why, attempt: 4 };
            assert_eq!(plan.changes.ready, ReadyChange::Insert { cause, not_before: None });
        }
    }

    #[test]
    fn a_limit_that_stands_against_it_refuses_and_names_itself() {
        let late = JobFacts { now: second(3_600), ..facts(State::Failed) };
        let out_of_hops = JobFacts { hops_left: 1, ..facts(State::Exhausted) };
        let had_its_runs = JobFacts { runs: Amount { used: 3, limit: 3 }, ..facts(State::Exhausted) };
        let spent = JobFacts { budget_micros: Amount { used: 5, limit: 5 }, ..facts(State::Exhausted) };
        for (facts, limit) in
            [(late, "deadline"), (out_of_hops, "hops"), (had_its_runs, "runs"), (spent, "budget")]
        {
            let refusal = resume(&facts).unwrap_err();
            assert_eq!(refusal.reason, Reason::LimitReached);
            assert_eq!(refusal.details["limit"], limit);
        }
    }

    #[test]
    fn a_limit_that_was_raised_stands_beside_what_goes_on() {
        let raised = JobFacts {
            reason: Some("runs".to_owned()),
            runs: Amount { used: 3, limit: 5 },
            ..facts(State::Exhausted)
        };
        let plan = resume(&raised).unwrap();
        let readmitted = RecordKind::BudgetReadmitted { limit: "runs".to_owned(), used: 3, allowed: 5 };
        assert_eq!(plan.drafts[1..], [Draft::bare(readmitted)]);
        let still_too_low = JobFacts { runs: Amount { used: 3, limit: 3 }, ..raised };
        let refusal = resume(&still_too_low).unwrap_err();
        assert!(refusal.next.unwrap().starts_with("tenure raise "));
    }

    #[test]
    fn an_expired_wait_is_reached_again_by_a_run_that_pays_no_hop() {
        let (seq, name) = (Seq(4), "#1".parse().unwrap());
        let wait = Some(WaitFacts { seq, name, until: second(90), jobs: 3, left: 1 });
        let expired = JobFacts { wait, now: second(90), hops_left: 1, ..facts(State::Suspended) };
        let plan = resume(&expired).unwrap();
        assert_eq!(plan.drafts[0].kind.name(), "resumed");
        let job = plan.changes.job.unwrap();
        assert_eq!((job.state, job.hops_left), (Some(State::Ready), Some(1)));
        let early = JobFacts { now: second(89), ..expired };
        let refusal = resume(&early).unwrap_err();
        assert_eq!((refusal.reason, &refusal.details["left"][..]), (Reason::VerbNotAllowed, "1"));
    }

    #[test]
    fn what_was_undone_is_not_gone_on_with() {
        let undone = JobFacts { compensated: 1, ..facts(State::Failed) };
        let failed = Unwinding::Failed { reason: "execution".to_owned(), detail: "it exited".to_owned() };
        let began = JobFacts { unwinding: Some(failed), ..facts(State::Failed) };
        for facts in [undone, began] {
            assert_eq!(resume(&facts).unwrap_err().reason, Reason::VerbNotAllowed);
        }
    }

    #[test]
    fn what_never_started_is_not_resumed_and_a_wait_that_did_not_expire_is_not_broken_off() {
        let unfrozen = JobFacts { plan_frozen: false, ..facts(State::Failed) };
        assert_eq!(resume(&unfrozen).unwrap_err().reason, Reason::PlanMissing);
        assert_eq!(resume(&facts(State::Suspended)).unwrap_err().reason, Reason::VerbNotAllowed);
        let blank = plan_resume(&facts(State::Failed), person(), "\n").unwrap_err();
        assert_eq!(blank.reason, Reason::ReasonMissing);
    }
}
