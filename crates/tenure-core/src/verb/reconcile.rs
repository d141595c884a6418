//! A person's answer to one effect in doubt. It stands in the journal and changes no state: what follows from it is judged
//! when the job is reopened.

use super::{Verb, ask, check_why, demand_child_gone, operator_acted};
use crate::{
    effect::{Disposition, EffectKey, LastAttempt},
    plan::{Changes, JobFacts, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind, SaltedValue},
    refusal::Refusal,
};

/// What a person says became of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It happened, and this is what it returned.
    Done(SaltedValue),
    /// It did not happen.
    NotDone,
}

/// Plans the answer to one effect. `last` is the last attempt under its key as it stands at the head of the facts; none:
/// nothing was announced.
///
/// # Errors
/// The reason is blank, the job is not quarantined, the child of its last run is not known to be gone, there is no such
/// effect, or what became of it is known.
pub fn plan_reconcile(
    facts: &JobFacts,
    key: &EffectKey,
    last: Option<&LastAttempt>,
    answer: Answer,
    by: Principal,
    why: &str,
) -> Result<Plan, Refusal> {
    let why = check_why(why)?;
    ask(facts, Verb::Reconcile)?;
    demand_child_gone(facts, Verb::Reconcile)?;
    let last = last.ok_or_else(|| refuse_unknown(facts, key))?;
    if !last.mutates || !last.is_in_doubt() {
        return Err(refuse_decided(facts, key, last));
    }
    let (key, attempt, acted) = (key.clone(), last.attempt, operator_acted(Verb::Reconcile, by.clone(), why));
    let reconciled = match answer {
        Answer::Done(value) => Draft::with_value(value, |value| RecordKind::EffectReconciled {
            key,
            attempt,
            verdict: Disposition::Landed,
            by,
            value: Some(value),
        }),
        Answer::NotDone => Draft::bare(RecordKind::EffectReconciled {
            key,
            attempt,
            verdict: Disposition::DidNotHappen,
            by,
            value: None,
        }),
    };
    Ok(Plan { epoch: facts.head_epoch, drafts: vec![acted, reconciled], changes: Changes::default() })
}

fn refuse_unknown(facts: &JobFacts, key: &EffectKey) -> Refusal {
    let short = facts.job.short();
    let words =
        format!("cannot reconcile {:?} of job {short}: no effect was announced under that key", key.as_str());
    refuse(facts, Reason::EffectNotFound, key, words)
}

fn refuse_decided(facts: &JobFacts, key: &EffectKey, last: &LastAttempt) -> Refusal {
    let short = facts.job.short();
    let stands = if last.mutates { last.outcome.words() } else { "changes nothing in the world" };
    let words = format!(
        "cannot reconcile {:?} of job {short}: there is no doubt about it, its attempt {} {stands}",
        key.as_str(),
        last.attempt
    );
    refuse(facts, Reason::EffectDecided, key, words).with_detail("attempt", last.attempt)
}

fn refuse(facts: &JobFacts, reason: Reason, key: &EffectKey, words: String) -> Refusal {
    Refusal::new(reason, words)
        .with_detail("key", key)
        .with_next(format!("tenure undecided {}", facts.job.short()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        effect::{EffectRecovery, Outcome},
        factory::{doubts, facts, lease, person, salted},
        job::State,
        plan::LeaseFacts,
    };

    fn last(recovery: EffectRecovery, outcome: Outcome) -> LastAttempt {
        doubts(&[("git/push", recovery, outcome)]).listed.remove(0).last
    }

    fn reconcile(facts: &JobFacts, last: Option<&LastAttempt>, answer: Answer) -> Result<Plan, Refusal> {
        plan_reconcile(facts, &"git/push".parse().unwrap(), last, answer, person(), "asked the remote")
    }

    #[test]
    fn an_answer_is_two_records_and_changes_no_state() {
        let open = last(EffectRecovery::Ask, Outcome::Open);
        for (answer, verdict, value) in [
            (Answer::Done(salted("abc123")), Disposition::Landed, Some(salted("abc123"))),
            (Answer::NotDone, Disposition::DidNotHappen, None),
        ] {
            let plan = reconcile(&facts(State::Quarantined), Some(&open), answer).unwrap();
            let acted = operator_acted(Verb::Reconcile, person(), "asked the remote".to_owned());
            assert_eq!(plan.drafts[0], acted);
            let reconciled = RecordKind::EffectReconciled {
                key: "git/push".parse().unwrap(),
                attempt: 1,
                verdict,
                by: person(),
                value: value.as_ref().map(SaltedValue::reference),
            };
            assert_eq!((&plan.drafts[1].kind, &plan.drafts[1].value), (&reconciled, &value));
            assert_eq!(plan.changes, Changes::default());
        }
    }

    #[test]
    fn only_what_is_in_doubt_is_answered_whatever_would_settle_it() {
        for recovery in EffectRecovery::ALL {
            for outcome in Outcome::ALL {
                let answered =
                    reconcile(&facts(State::Quarantined), Some(&last(*recovery, *outcome)), Answer::NotDone);
                let refused = answered.err().map(|refusal| refusal.reason);
                let expected = (!outcome.is_in_doubt()).then_some(Reason::EffectDecided);
                assert_eq!(refused, expected, "{recovery:?} {outcome:?}");
            }
        }
        let reading = LastAttempt { mutates: false, ..last(EffectRecovery::Retry, Outcome::Open) };
        let refusal = reconcile(&facts(State::Quarantined), Some(&reading), Answer::NotDone).unwrap_err();
        assert_eq!(refusal.reason, Reason::EffectDecided);
        let refusal = reconcile(&facts(State::Quarantined), None, Answer::NotDone).unwrap_err();
        assert_eq!(refusal.reason, Reason::EffectNotFound);
    }

    #[test]
    fn nothing_is_answered_while_a_child_may_still_act() {
        let left =
            JobFacts { lease: Some(LeaseFacts { live: false, ..lease() }), ..facts(State::Quarantined) };
        let refusal = reconcile(&left, Some(&last(EffectRecovery::Ask, Outcome::Open)), Answer::NotDone);
        assert_eq!(refusal.unwrap_err().reason, Reason::ChildUnaccountedFor);
        let ready = reconcile(&facts(State::Ready), None, Answer::NotDone).unwrap_err();
        assert_eq!(ready.reason, Reason::VerbNotAllowed);
    }
}
