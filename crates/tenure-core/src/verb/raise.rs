//! Raising a limit of a job's session, or the hops of the job. It is decided at the head of the job's journal, like every verb, and
//! the session's row changes in the statement that writes the record. It starts nothing: a job that was refused goes on with `resume`.

use super::{Permission, Verb, check_why};
use crate::{
    admission::Limit,
    limits::{COUNT_MAX, HOPS_MAX},
    money::read_money,
    plan::{Changes, Decision, JobChange, JobFacts, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    refusal::Refusal,
};

/// A limit and what it is raised to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raise {
    /// Which.
    pub limit: Limit,
    /// The new value, in the limit's own unit.
    pub to: u64,
}

impl Raise {
    /// Reads what somebody typed.
    ///
    /// # Errors
    /// There is no such limit, it is not one to be raised, or the value is none of it.
    pub fn read(limit: &str, value: &str) -> Result<Self, Refusal> {
        let known = Limit::from_name(limit).ok_or_else(|| {
            invalid("limit", &format!("there is no limit {limit:?}: budget, runs and hops can be raised"))
        })?;
        let most = match known {
            Limit::Budget => {
                let money =
                    read_money(value).map_err(|words| invalid("value", &format!("the budget {words}")))?;
                return Ok(Self { limit: known, to: money.0 });
            }
            Limit::Runs => COUNT_MAX,
            Limit::Hops => HOPS_MAX,
            Limit::Reserve => {
                let words = "the reserve is the tenant's and no session's: it is set in [policy.limits]";
                return Err(invalid("limit", words));
            }
        };
        let number = value.parse::<i64>().ok().filter(|number| (1..=most).contains(number));
        let number = number.and_then(|number| u64::try_from(number).ok()).filter(|_| !value.starts_with('+'));
        let number = number.ok_or_else(|| invalid("value", &format!("{value:?} is not from 1 to {most}")))?;
        Ok(Self { limit: known, to: number })
    }
}

/// Plans a raise. Hops are of a branch, so they are the job's alone; what is allowed of the others is the whole session's. What is
/// so already is `Already`.
///
/// # Errors
/// The reason is blank, the job is sealed, or more was used already.
pub fn plan_raise(facts: &JobFacts, raise: Raise, by: Principal, why: &str) -> Result<Decision, Refusal> {
    let why = check_why(why)?;
    if facts.state.is_sealed() {
        return Err(refuse_sealed(facts));
    }
    let Raise { limit, to } = raise;
    let (used, from) = match limit {
        Limit::Budget => (facts.budget_micros.used, facts.budget_micros.limit),
        Limit::Runs => (facts.runs.used, facts.runs.limit),
        // None of what is left is used.
        Limit::Hops => (facts.hops_left.into(), facts.hops_left.into()),
        Limit::Reserve => (0, 0),
    };
    if to == from {
        return Ok(Decision::Already);
    }
    if to < used {
        return Err(refuse_low(facts, raise, used));
    }
    let draft = Draft::bare(RecordKind::LimitRaised { limit, from, to, by, why });
    let job = (limit == Limit::Hops).then(|| JobChange {
        hops_left: Some(u32::try_from(to).unwrap_or(u32::MAX)),
        ..JobChange::default()
    });
    let changes = Changes { job, ..Changes::default() };
    Ok(Decision::Write(Plan { epoch: facts.head_epoch, drafts: vec![draft], changes }))
}

fn refuse_low(facts: &JobFacts, Raise { limit, to }: Raise, used: u64) -> Refusal {
    let short = facts.job.short();
    let what = if limit == Limit::Hops { "are left" } else { "are used already" };
    let words = format!(
        "cannot raise the {limit} of job {short} to {}: {} {what}",
        limit.write(to),
        limit.write(used)
    );
    invalid("value", &words)
        .with_detail("limit", limit)
        .with_detail("used", used)
        .with_detail("value", to)
        .with_next(format!("tenure session {short}"))
}

fn refuse_sealed(facts: &JobFacts) -> Refusal {
    let short = facts.job.short();
    let refusal = super::refuse_verb(facts.state, Verb::Resume, Permission::Over);
    let words = format!("cannot raise a limit of job {short}: it is {}, and goes on no more", facts.state);
    Refusal { message: words, ..refusal }
        .with_detail("verb", "raise")
        .with_next(format!("tenure job {short}"))
}

fn invalid(field: &str, words: &str) -> Refusal {
    Refusal::new(Reason::InvalidArgument, words).with_detail("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::Amount,
        factory::{facts, person},
        job::State,
    };

    fn spent() -> JobFacts {
        let (runs, budget_micros) =
            (Amount { used: 3, limit: 3 }, Amount { used: 5_500_000, limit: 5_000_000 });
        JobFacts { runs, budget_micros, hops_left: 1, ..facts(State::Exhausted) }
    }

    fn raise(facts: &JobFacts, limit: &str, value: &str) -> Result<Decision, Refusal> {
        plan_raise(facts, Raise::read(limit, value)?, person(), " it is nearly done ")
    }

    #[test]
    fn a_raise_is_a_record_at_the_head_and_starts_nothing() {
        for (limit, value, from, to, hops) in [
            ("budget", "7.50", 5_000_000, 7_500_000, None),
            ("runs", "5", 3, 5, None),
            ("hops", "4", 1, 4, Some(4)),
        ] {
            let Ok(Decision::Write(plan)) = raise(&spent(), limit, value) else { panic!("no plan: {limit}") };
            let (by, why) = (person(), "it is nearly done".to_owned());
            let raised =
                RecordKind::LimitRaised { limit: Limit::from_name(limit).unwrap(), from, to, by, why };
            assert_eq!(plan.drafts, [Draft::bare(raised)]);
            let hops_left = plan.changes.job.as_ref().and_then(|job| job.hops_left);
            assert_eq!((hops_left, plan.changes.job.and_then(|job| job.state)), (hops, None), "{limit}");
            assert_eq!(plan.epoch, spent().head_epoch);
        }
    }

    #[test]
    fn below_what_is_used_it_is_refused_and_at_what_it_is_it_changes_nothing() {
        for (limit, value) in [("budget", "5.49"), ("runs", "2")] {
            let refusal = raise(&spent(), limit, value).unwrap_err();
            assert_eq!((refusal.reason, &*refusal.details["limit"]), (Reason::InvalidArgument, limit));
        }
        // What is left is not taken away.
        assert!(raise(&JobFacts { hops_left: 3, ..spent() }, "hops", "2").is_err());
        for (limit, value) in [("budget", "5.00"), ("runs", "3"), ("hops", "1")] {
            let same = if limit == "budget" {
                JobFacts { budget_micros: Amount { used: 1, limit: 5_000_000 }, ..spent() }
            } else {
                spent()
            };
            assert_eq!(raise(&same, limit, value), Ok(Decision::Already), "{limit}");
        }
    }

    #[test]
    fn what_is_no_limit_or_no_value_of_it_is_refused_and_so_is_a_job_that_is_over() {
        let bad = [
            ("budget", "-1"),
            ("budget", "lots"),
            ("runs", "0"),
            ("runs", "-5"),
            ("runs", "+5"),
            ("runs", "5.0"),
            ("runs", "1000001"),
            ("hops", "1001"),
            ("reserve", "5"),
            ("patience", "5"),
        ];
        for (limit, value) in bad {
            assert_eq!(
                raise(&spent(), limit, value).unwrap_err().reason,
                Reason::InvalidArgument,
                "{limit} {value}"
            );
        }
        let over = JobFacts { state: State::Succeeded, ..spent() };
        assert_eq!(raise(&over, "runs", "9").unwrap_err().reason, Reason::VerbNotAllowed);
        let blank = plan_raise(&spent(), Raise { limit: Limit::Runs, to: 9 }, person(), " ").unwrap_err();
        assert_eq!(blank.reason, Reason::ReasonMissing);
    }
}
