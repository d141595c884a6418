//! What people and clients ask of a job: which verb is allowed in which state, and the plans of the verbs that exist. The
//! table answers for every verb of the product, also for those whose plan comes later, so that it is one table and not
//! several. A plan is for one head: where the head has moved, the verb is planned again from new facts. It writes nothing.
//! Cancelling, recovering and confirming are here, the answers to a quarantine and what ends or continues a job in their
//! own files.
//! Neighbours: `job` (the state alone), `settlement` (how a run ends), `plan` (what comes out).

mod abandon;
mod permission;
mod raise;
mod reconcile;
mod reopen;
mod resume;
mod steer;
mod unanswered;

pub use abandon::plan_abandon;
pub use permission::{Permission, allowed};
pub use raise::{Raise, plan_raise};
pub use reconcile::{Answer, plan_reconcile};
pub use reopen::plan_reopen;
pub use resume::plan_resume;
pub use steer::{check_steer_note, plan_steer};
pub use unanswered::plan_unanswered_notice;

use crate::{
    id::Epoch,
    job::{self, Event, State},
    limits::WHY_MAX_BYTES,
    plan::{Changes, Decision, JobChange, JobFacts, Plan},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    recovery::GoneProof,
    refusal::Refusal,
    settlement,
};

/// What may be asked of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Stop it for good.
    Cancel,
    /// Redirect it.
    Steer,
    /// Restart an interrupted job.
    Recover,
    /// Continue one that stopped.
    Resume,
    /// Vouch that a run's child is gone.
    ConfirmGone,
    /// Answer a doubt.
    Reconcile,
    /// Judge a quarantined job again.
    Reopen,
    /// Give it up, undoing nothing.
    Abandon,
}

impl Verb {
    /// All verbs, in the order of the table.
    pub const ALL: &'static [Self] = &[
        Self::Cancel,
        Self::Steer,
        Self::Recover,
        Self::Resume,
        Self::ConfirmGone,
        Self::Reconcile,
        Self::Reopen,
        Self::Abandon,
    ];

    /// The verb as typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Steer => "steer",
            Self::Recover => "recover",
            Self::Resume => "resume",
            Self::ConfirmGone => "confirm-gone",
            Self::Reconcile => "reconcile",
            Self::Reopen => "reopen",
            Self::Abandon => "abandon",
        }
    }
}

/// The refusal of a verb that a state does not allow.
#[must_use]
pub fn refuse_verb(state: State, verb: Verb, permission: Permission) -> Refusal {
    let words = match permission {
        Permission::Over => {
            format!("the job is {state}, so it is over and there is nothing to {}", verb.name())
        }
        Permission::WhereWaitExpired => {
            format!("a job that is {state} takes {} only where its wait expired", verb.name())
        }
        _ if state == State::Quarantined && verb == Verb::Cancel => {
            "a quarantined job cannot be cancelled, because nothing can be unwound around a doubt: reopen or \
             abandon it"
                .to_owned()
        }
        _ => format!("a job that is {state} does not take {}", verb.name()),
    };
    Refusal::new(Reason::VerbNotAllowed, words).with_detail("state", state).with_detail("verb", verb.name())
}

/// Plans a cancel. A living run is asked by a notice at its own epoch, which fences nobody; of a job without
/// one what took effect is undone by a run of its own, where there is anything; otherwise it is sealed at once, or set aside where an
/// effect is in doubt or nobody declared how one is undone. The first asker stands, and so does an
/// abandon.
///
/// # Errors
/// The reason is blank, the state does not allow it, or the child of the last run is not known to be gone.
pub fn plan_cancel(facts: &JobFacts, by: Principal, why: &str) -> Result<Decision, Refusal> {
    let why = check_why(why)?;
    let next = ask(facts, Verb::Cancel)?;
    if facts.cancel_requested.is_some() || facts.abandoned().is_some() {
        return Ok(Decision::Already);
    }
    let request = Draft::bare(RecordKind::CancelRequested { by, why });
    if next == State::Running {
        let job = JobChange { cancel_requested_by_draft: Some(0), ..JobChange::default() };
        let changes = Changes { job: Some(job), ..Changes::default() };
        return Ok(Decision::Write(Plan { epoch: facts.head_epoch, drafts: vec![request], changes }));
    }
    demand_child_gone(facts, Verb::Cancel)?;
    let mut plan = settlement::cancel(facts, facts.head_epoch, vec![request])?;
    if let Some(job) = &mut plan.changes.job {
        job.cancel_requested_by_draft = Some(0);
    }
    Ok(Decision::Write(plan))
}

/// Plans a restart on a person's authority: it overrides policy and attempts, never an unaccounted child. It takes an
/// epoch of its own, counts as a restart, and draws on nothing. The session's deadline still holds: reached, the job is
/// concluded `exhausted`.
///
/// # Errors
/// The reason is blank, the job is not interrupted, or the child of its last run is not known to be gone.
pub fn plan_recover(facts: &JobFacts, by: Principal, why: &str) -> Result<Plan, Refusal> {
    let why = check_why(why)?;
    ask(facts, Verb::Recover)?;
    demand_child_gone(facts, Verb::Recover)?;
    demand_plan(facts, Verb::Recover)?;
    let acted = operator_acted(Verb::Recover, by, why);
    settlement::restart_by_person(facts, vec![acted])
}

/// Plans a person's testimony that the child of a run is gone; the run is named by the epoch under which it was claimed.
/// The job is then judged again: restarted, cancelled where a cancel stands, or still interrupted by its policy.
///
/// # Errors
/// The reason is blank, the state does not allow it, nothing is unaccounted for, or another epoch is meant.
pub fn plan_confirm_gone(facts: &JobFacts, epoch: Epoch, by: Principal, why: &str) -> Result<Plan, Refusal> {
    let why = check_why(why)?;
    ask(facts, Verb::ConfirmGone)?;
    let Some(lease) = &facts.lease else {
        return Err(refuse_confirm(facts, "the child of its last run is already known to be gone", None));
    };
    if lease.run_epoch != epoch {
        let words = format!("the run in question has epoch {}, and epoch {epoch} was named", lease.run_epoch);
        return Err(refuse_confirm(facts, &words, Some(lease.run_epoch)));
    }
    let gone = RecordKind::ChildGone { of_epoch: epoch, proof: GoneProof::Person, by: by.clone() };
    let drafts = vec![operator_acted(Verb::ConfirmGone, by, why), Draft::bare(gone)];
    settlement::judge_again(facts, drafts, false)
}

fn operator_acted(verb: Verb, by: Principal, why: String) -> Draft {
    Draft::bare(RecordKind::OperatorActed { verb: verb.name().to_owned(), by, why, erased: None })
}

fn ask(facts: &JobFacts, verb: Verb) -> Result<State, Refusal> {
    job::apply(facts.state, Event::Asked(verb)).map_err(|refusal| {
        let short = facts.job.short();
        Refusal { message: format!("cannot {} job {short}: {}", verb.name(), refusal.message), ..refusal }
            .with_next(format!("tenure job {short}"))
    })
}

fn demand_child_gone(facts: &JobFacts, verb: Verb) -> Result<(), Refusal> {
    let Some(lease) = &facts.lease else { return Ok(()) };
    let short = facts.job.short();
    let words = format!(
        "cannot {} job {short}: it is {}, and the child of its run under epoch {} on worker {} is not known to be gone",
        verb.name(),
        facts.state,
        lease.run_epoch,
        lease.worker,
    );
    Err(Refusal::new(Reason::ChildUnaccountedFor, words)
        .with_detail("state", facts.state)
        .with_detail("epoch", lease.run_epoch)
        .with_detail("worker", &lease.worker)
        .with_next(format!("tenure confirm-gone {short} --epoch {} --why W", lease.run_epoch)))
}

/// A job without its frozen plan never started: there is nothing that a run of it could go on with.
fn demand_plan(facts: &JobFacts, verb: Verb) -> Result<(), Refusal> {
    if facts.plan_frozen {
        return Ok(());
    }
    let short = facts.job.short();
    let words =
        format!("cannot {} job {short}: its journal has no frozen plan, so it never started", verb.name());
    Err(Refusal::new(Reason::PlanMissing, words)
        .with_detail("state", facts.state)
        .with_next(format!("tenure abandon {short} --why W")))
}

fn refuse_confirm(facts: &JobFacts, words: &str, epoch: Option<Epoch>) -> Refusal {
    let short = facts.job.short();
    let refusal = Refusal::new(Reason::EpochMismatch, format!("cannot confirm-gone job {short}: {words}"))
        .with_detail("state", facts.state);
    match epoch {
        Some(epoch) => refusal
            .with_detail("epoch", epoch)
            .with_next(format!("tenure confirm-gone {short} --epoch {epoch} --why W")),
        None => refusal.with_next(format!("tenure job {short}")),
    }
}

/// A reason that a person gave: trimmed, not blank, bounded.
///
/// # Errors
/// It is blank or too long.
pub fn check_why(why: &str) -> Result<String, Refusal> {
    let why = why.trim();
    if why.is_empty() {
        return Err(Refusal::new(Reason::ReasonMissing, "a reason is needed, and it is blank"));
    }
    if why.len() > WHY_MAX_BYTES {
        let words = format!("the reason has {} bytes, and at most {WHY_MAX_BYTES} are taken", why.len());
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "why"));
    }
    Ok(why.to_owned())
}

#[cfg(test)]
mod tests;
