//! Verdicts that effects stand in the way of. A job is never called succeeded, failed or cancelled while a mutating effect is
//! in doubt, nor cancelled while something that took effect could not be undone: it is set aside, and says what it
//! would have become. What it returned is kept. Exhausted is such a verdict only where a person has to
//! decide: it leaves the job open, and a later run settles the rest. Neighbours: `judgement`, `run_end` and `unwinding` ask, `effect` says what a doubt is.

use crate::{
    effect::{EffectKey, EffectRef},
    id::{Digest, Epoch},
    job::{self, Event, Outcome, State},
    plan::{Decision, JobFacts, Plan},
    record::{ChangedDeclaration, Draft, HeldTo, NewValue, RecordKind},
    refusal::Refusal,
    settlement::{conclude_with, unwinding::give_up},
    unwinding::Unwinding,
};

/// The reason of a job that is set aside because of effects in doubt.
pub const EFFECT_IN_DOUBT: &str = "effect_in_doubt";
/// The reason of a job that is set aside because what took effect was not undone.
pub const NOT_UNWOUND: &str = "not_unwound";

/// The reason of a job that is set aside because nothing carries out its declaration any more.
pub const DECLARATION_CHANGED: &str = "declaration_changed";

/// The reason of a job that is set aside because its policy bundle is not held any more.
pub const BUNDLE_CHANGED: &str = "bundle_changed";

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
    let state = job::apply(facts.state, Event::Concluded(verdict.outcome))?;
    let instead_of = InsteadOf { state, reason: verdict.reason.map(str::to_owned), result: verdict.result };
    quarantine_doubts(facts, epoch, drafts, instead_of)
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
    let state = unwinding.state();
    let detail = format!("it would have become {state}, and what took effect was not undone: {keys}; {why}");
    let because = unwinding.failure().map(|(reason, _)| reason.to_owned());
    let instead_of = InsteadOf { state, reason: because, result: None };
    let (reason, changed) = (NOT_UNWOUND, None);
    let aside = Aside { effects, count, instead_of, reason, detail: &detail, changed };
    let mut plan = set_aside(facts, epoch, drafts, aside)?;
    if let Some(job) = &mut plan.changes.job {
        job.unwinding = Some(unwinding.clone());
    }
    Ok(plan)
}

/// The plan of a ready job whose declaration nothing carries out any more: it is set aside, and the record names both
/// declarations. A job that is no longer ready is `Already`.
///
/// # Errors
/// The job's state does not admit it.
pub fn plan_changed_declaration(
    facts: &JobFacts,
    present: Option<Digest>,
    why: &str,
) -> Result<Decision, Refusal> {
    if facts.state != State::Ready {
        return Ok(Decision::Already);
    }
    let (admitted, short) = (facts.declaration, facts.job.short());
    let goes_on = match present {
        Some(present) => format!(
            "; the present one of agent {} is {present}. Bring the old one back and reopen the job, or have it go on under the \
             present one: tenure reopen {short} --accept-declaration {present} --why W",
            facts.agent
        ),
        None => {
            format!("; agent {} has none at present. Bring the old one back and reopen the job", facts.agent)
        }
    };
    let detail = format!("it was admitted under declaration {admitted}, {why}{goes_on}");
    let changed = ChangedDeclaration { what: HeldTo::Declaration, admitted, present };
    set_aside_changed(facts, DECLARATION_CHANGED, &detail, changed)
}

/// The plan of a ready job whose policy bundle the fleet does not hold any more: it is set aside, and the record names both
/// bundles. `present` is the declaration and the bundle that its agent has at present. A job whose bundle is held, or that is
/// no longer ready, is `Already`.
///
/// # Errors
/// The job's state does not admit it.
pub fn plan_changed_bundle(
    facts: &JobFacts,
    present: Option<(Digest, Option<Digest>)>,
) -> Result<Decision, Refusal> {
    let Some(admitted) = facts.unheld_bundle.filter(|_| facts.state == State::Ready) else {
        return Ok(Decision::Already);
    };
    let (agent, short) = (&facts.agent, facts.job.short());
    let bundle = present.and_then(|(_, bundle)| bundle);
    let stands = match bundle {
        Some(bundle) => format!("the present one of agent {agent} is {bundle}"),
        None => format!("agent {agent} has none at present"),
    };
    let or_else = present.map(|(declaration, _)| {
        format!(
            ", or have it go on under what its agent has at present: tenure reopen {short} --accept-declaration {declaration} --why W"
        )
    });
    let detail = format!(
        "it was admitted under policy bundle {admitted}, which the fleet does not hold any more; {stands}. Bring the old one \
         back and reopen the job{}",
        or_else.unwrap_or_default()
    );
    let changed = ChangedDeclaration { what: HeldTo::Bundle, admitted, present: bundle };
    set_aside_changed(facts, BUNDLE_CHANGED, &detail, changed)
}

fn set_aside_changed(
    facts: &JobFacts,
    reason: &str,
    detail: &str,
    changed: ChangedDeclaration,
) -> Result<Decision, Refusal> {
    let aside = Aside {
        effects: Vec::new(),
        count: 0,
        instead_of: InsteadOf::of(State::Ready),
        reason,
        detail,
        changed: Some(changed),
    };
    set_aside(facts, facts.head_epoch, Vec::new(), aside).map(Decision::Write)
}

/// The plan of a job that is set aside because of the effects that are in doubt.
pub(super) fn quarantine_doubts(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    instead_of: InsteadOf,
) -> Result<Plan, Refusal> {
    if let Some(unwinding) = &facts.unwinding {
        return give_up(facts, unwinding, epoch, drafts, None);
    }
    set_aside_doubts(facts, epoch, drafts, instead_of)
}

/// The same, where the job is being unwound or not.
pub(super) fn set_aside_doubts(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    instead_of: InsteadOf,
) -> Result<Plan, Refusal> {
    let doubts = &facts.doubts;
    let keys = name_keys(doubts.listed.iter().map(|doubt| &doubt.key), doubts.count);
    let detail = format!(
        "nobody knows whether these effects happened: {keys}; it would have become {}",
        instead_of.state
    );
    let aside = Aside {
        effects: doubts.listed.iter().map(crate::effect::Doubt::to_ref).collect(),
        count: doubts.count,
        instead_of,
        reason: EFFECT_IN_DOUBT,
        detail: &detail,
        changed: None,
    };
    set_aside(facts, epoch, drafts, aside)
}

/// What a job that is set aside would have become.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InsteadOf {
    pub(super) state: State,
    /// Why, as a stable word.
    pub(super) reason: Option<String>,
    /// What the run left as its result.
    pub(super) result: Option<NewValue>,
}

impl InsteadOf {
    /// It would have become this, and nothing is to be said about it.
    pub(super) const fn of(state: State) -> Self {
        Self { state, reason: None, result: None }
    }
}

/// Why a job is set aside.
struct Aside<'a> {
    effects: Vec<EffectRef>,
    count: u64,
    instead_of: InsteadOf,
    reason: &'a str,
    detail: &'a str,
    changed: Option<ChangedDeclaration>,
}

fn set_aside(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    aside: Aside<'_>,
) -> Result<Plan, Refusal> {
    let Aside { effects, count, instead_of, reason, detail, changed } = aside;
    let InsteadOf { state: instead_of, reason: instead_reason, result } = instead_of;
    drafts.push(Draft::bare(RecordKind::QuarantineDecided {
        effects,
        count,
        instead_of,
        reason: instead_reason,
        changed,
    }));
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
