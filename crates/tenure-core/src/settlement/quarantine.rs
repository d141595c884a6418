//! Verdicts that effects stand in the way of. A job is never called succeeded, failed or cancelled while a mutating effect is
//! in doubt, nor cancelled while something that took effect could not be undone: it is set aside, and says what it
//! would have become. What it returned is kept. Exhausted is no such verdict: it leaves the job open, and whoever goes on
//! meets the doubt. Neighbours: `judgement`, `run_end` and `unwinding` ask, `effect` says what a doubt is.

use crate::{
    effect::{EffectKey, EffectRef},
    id::Epoch,
    job::{self, Event, Outcome, State},
    plan::{JobFacts, Plan},
    record::{Draft, NewValue, RecordKind},
    refusal::Refusal,
    settlement::{conclude_with, unwinding::give_up},
    unwinding::Unwinding,
};

/// The reason of a job that is set aside because of effects in doubt.
pub const EFFECT_IN_DOUBT: &str = "effect_in_doubt";
/// The reason of a job that is set aside because what took effect was not undone.
pub const NOT_UNWOUND: &str = "not_unwound";

/// A verdict about a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict<'a> {
    pub(super) outcome: Outcome,
    /// Why, as a stable word.
    pub(super) reason: Option<&'a str>,
    /// Why, for a person.
    pub(super) detail: &'a str,
    /// What the run left as its result.
    pub(super) result: Option<NewValue>,
}

impl<'a> Verdict<'a> {
    /// The one that an unwinding ends with.
    pub(super) fn of(unwinding: &'a Unwinding) -> Self {
        let (reason, detail) = unwinding.failure().unzip();
        Self { outcome: unwinding.outcome(), reason, detail: detail.unwrap_or_default(), result: None }
    }
}

/// The plan of a verdict that holds only where nothing is in doubt; otherwise the job is set aside.
pub(super) fn conclude_undoubted(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    verdict: Verdict<'_>,
) -> Result<Plan, Refusal> {
    if facts.doubts.is_empty() {
        return conclude_with(facts, epoch, drafts, verdict);
    }
    let instead_of = job::apply(facts.state, Event::Concluded(verdict.outcome))?;
    quarantine_doubts(facts, epoch, drafts, instead_of, verdict.result)
}

/// The plan of a job that is set aside because something that took effect was not undone; the effects are those that a
/// person has to look at.
pub(super) fn set_aside_not_unwound(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    (effects, count): (Vec<EffectRef>, u64),
    unwinding: &Unwinding,
    why: &str,
) -> Result<Plan, Refusal> {
    let keys = name_keys(effects.iter().map(|step| &step.key), count);
    let instead_of = unwinding.state();
    let detail =
        format!("it would have become {instead_of}, and what took effect was not undone: {keys}; {why}");
    let aside = Aside { effects, count, instead_of, reason: NOT_UNWOUND, detail: &detail, result: None };
    let mut plan = set_aside(facts, epoch, drafts, aside)?;
    if let Some(job) = &mut plan.changes.job {
        job.unwinding = Some(unwinding.clone());
    }
    Ok(plan)
}

/// The plan of a job that is set aside because of the effects that are in doubt.
pub(super) fn quarantine_doubts(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    instead_of: State,
    result: Option<NewValue>,
) -> Result<Plan, Refusal> {
    if let Some(unwinding) = &facts.unwinding {
        return give_up(facts, unwinding, epoch, drafts, None);
    }
    let doubts = &facts.doubts;
    let keys = name_keys(doubts.listed.iter().map(|doubt| &doubt.key), doubts.count);
    let detail =
        format!("nobody knows whether these effects happened: {keys}; it would have become {instead_of}");
    let aside = Aside {
        effects: doubts.listed.iter().map(crate::effect::Doubt::to_ref).collect(),
        count: doubts.count,
        instead_of,
        reason: EFFECT_IN_DOUBT,
        detail: &detail,
        result,
    };
    set_aside(facts, epoch, drafts, aside)
}

/// Why a job is set aside.
struct Aside<'a> {
    effects: Vec<EffectRef>,
    count: u64,
    instead_of: State,
    reason: &'a str,
    detail: &'a str,
    result: Option<NewValue>,
}

fn set_aside(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    aside: Aside<'_>,
) -> Result<Plan, Refusal> {
    let Aside { effects, count, instead_of, reason, detail, result } = aside;
    drafts.push(Draft::bare(RecordKind::QuarantineDecided { effects, count, instead_of }));
    let verdict = Verdict { outcome: Outcome::Quarantined, reason: Some(reason), detail, result };
    conclude_with(facts, epoch, drafts, verdict)
}

/// The keys for a person: as many as a line takes.
fn name_keys<'a>(keys: impl Iterator<Item = &'a EffectKey>, count: u64) -> String {
    const NAMED: usize = 3;
    let named: Vec<String> = keys.take(NAMED).map(|key| format!("{:?}", key.as_str())).collect();
    match count.saturating_sub(named.len() as u64) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
