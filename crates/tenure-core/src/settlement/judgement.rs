//! What becomes of a job whose run ended without a verdict: restarted, denied, out of attempts, past its deadline, out of
//! hops, or cancelled; and the records and rows that say so.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    admission::{Amount, Limit, LimitRefusal, RunAdmission, RunRefusal, admit_run},
    deadline::{self, Deadline, duration_ms},
    handover::Cause,
    id::Epoch,
    job::{self, Event, Outcome, State},
    plan::{Changes, Decision, JobChange, JobFacts, LeaseChange, Plan, ReadyChange},
    record::{Draft, HandOver, RecordKind},
    recovery::{self, Child, Denial, Interruption, Pays, Restart},
    refusal::Refusal,
    settlement::{
        abandon, cancel, conclude, next_epoch,
        quarantine::{InsteadOf, quarantine_doubts},
        run_epoch,
        unwinding::{conclude_unwound, fail, give_up, judge_unwinding},
    },
    unwinding::Unwinding,
    verb::Verb,
};

/// What becomes of a job whose run ended without a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is ready for another run.
    Restart(Restart),
    /// It is interrupted: a person decides.
    Denied(Denial),
    /// It failed: nothing is left to draw on.
    OutOfAttempts(Denial),
    /// A limit is used up, and refuses another run: the deadline, the hops.
    Exhausted(RunRefusal, &'static str),
    /// Somebody gave it up.
    Abandoned,
    /// A cancel stands.
    Cancelled,
    /// Effects are in doubt that another run could not settle, or that a verdict would have to leave; what it would have
    /// become, and why, as a stable word.
    Quarantined(State, Option<&'static str>),
    /// Its undoing is over: it gets the verdict that it was unwound for.
    Unwound,
    /// Its undoing goes no further without a person.
    NotUnwound,
}

/// Judges an interruption: a standing abandon, a standing cancel and a standing steer (once the child is gone), the rule of recovery, the deadline, the hops, the
/// effects in doubt. `healthy` says that the child was well when its worker was lost, so that the restart is a loss and no
/// attempt.
#[must_use]
pub fn judge(facts: &JobFacts, interruption: &Interruption, child: Child, healthy: bool) -> Judgement {
    weigh_doubts(facts, interruption, child, judge_run(facts, interruption, child, healthy))
}

/// What only a person can decide is not left to another run, nor to a policy that would be asked later; a doubt of any kind
/// does not go with a failure. While the child may live, its effects may still get an outcome, and the job is judged again.
pub(super) fn weigh_doubts(
    facts: &JobFacts,
    interruption: &Interruption,
    child: Child,
    judgement: Judgement,
) -> Judgement {
    let undecided = facts.doubts.undecided > 0;
    let (instead_of, reason) = match &judgement {
        Judgement::Restart(_) if undecided => (State::Ready, None),
        Judgement::Denied(_) if undecided => (State::Interrupted, None),
        Judgement::Exhausted(_, limit) if undecided => (State::Exhausted, Some(*limit)),
        Judgement::OutOfAttempts(..) if !facts.doubts.is_empty() => {
            (State::Failed, Some(interruption.failure_reason()))
        }
        Judgement::Restart(_)
        | Judgement::Denied(_)
        | Judgement::Exhausted(..)
        | Judgement::OutOfAttempts(_)
        | Judgement::Abandoned
        | Judgement::Cancelled
        | Judgement::Quarantined(..)
        | Judgement::Unwound
        | Judgement::NotUnwound => return judgement,
    };
    match child {
        Child::Gone => Judgement::Quarantined(instead_of, reason),
        Child::Unknown => judgement,
    }
}

fn judge_run(facts: &JobFacts, interruption: &Interruption, child: Child, healthy: bool) -> Judgement {
    // Nobody else will work on it, so nothing is waited for.
    if facts.abandoned().is_some() {
        return Judgement::Abandoned;
    }
    if facts.unwinding.is_some() {
        return judge_unwinding(facts, interruption, child, healthy);
    }
    if facts.cancel_requested.is_some() && child == Child::Gone {
        return Judgement::Cancelled;
    }
    // A person said what comes next, so the policy is not asked.
    if facts.steered().is_some() && child == Child::Gone {
        return judge_hand_over(facts, Pays::Hop);
    }
    let policy = &facts.recovery;
    let (pays, granted, most) = if healthy {
        (Pays::Loss, facts.losses, recovery::losses_allowed(policy))
    } else {
        (Pays::Attempt, facts.attempts, policy.max_attempts)
    };
    match recovery::authorize_recovery(policy.policy, interruption, child, granted, most) {
        Err(denial @ Denial::OutOfAttempts { .. }) => return Judgement::OutOfAttempts(denial),
        Err(
            denial @ (Denial::NotRetryable
            | Denial::ChildUnaccountedFor
            | Denial::PolicyForbids
            | Denial::NeedsAHuman),
        ) => return Judgement::Denied(denial),
        Ok(()) => {}
    }
    let restart = || Judgement::Restart(grant_restart(facts, pays, Some((interruption, granted))));
    ask_admission(facts, pays).unwrap_or_else(restart)
}

/// The judgement of a run that was ended on purpose: another one goes on at once, unless a limit stands against it.
fn judge_hand_over(facts: &JobFacts, pays: Pays) -> Judgement {
    let restart = || Judgement::Restart(grant_restart(facts, pays, None));
    ask_admission(facts, pays).unwrap_or_else(restart)
}

/// The plan of a run that was ended on purpose, whose child is gone; the drafts prove it. Effects that only a person can decide are not
/// left to the next run.
///
/// # Errors
/// The job's state does not admit it.
pub(super) fn hand_over(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    because: HandOver,
) -> Result<Plan, Refusal> {
    let pays = match because {
        HandOver::Drained => Pays::Run,
        HandOver::Steered => Pays::Hop,
    };
    let judgement = judge_hand_over(facts, pays);
    let judgement = weigh_doubts(facts, &Interruption::LostContact, Child::Gone, judgement);
    let granted = match &judgement {
        Judgement::Restart(restart) => Some(*restart),
        _ => None,
    };
    drafts.push(Draft::bare(RecordKind::RunHandedOver {
        of_epoch: run_epoch(facts),
        because,
        restart: granted,
    }));
    let Some(restart) = granted else { return conclude_at_limit(facts, epoch, drafts, judgement) };
    let cause = match because {
        HandOver::Steered => steered_cause(facts, restart.attempt),
        HandOver::Drained => unwinding_cause(facts, restart.attempt),
    };
    let cause = cause.unwrap_or(Cause::Drained { previous: facts.run, attempt: restart.attempt });
    queue(facts, epoch, drafts, cause, restart, LeaseChange::Delete)
}

/// Where a person has redirected the job and its run has not answered.
fn steered_cause(facts: &JobFacts, attempt: u32) -> Option<Cause> {
    let steered = facts.steered()?.seq;
    Some(Cause::Steered { previous: Some(facts.run), steered, attempt })
}

fn unwinding_cause(facts: &JobFacts, attempt: u32) -> Option<Cause> {
    let unwinding = facts.unwinding.as_ref()?;
    Some(Cause::Unwinding { instead_of: unwinding.state(), attempt })
}

/// The plan of a job without a run that a person redirects. `steered` makes the record from the restart that is granted; where a
/// limit stands against one, the job meets it, and the note is told to whatever run comes after.
///
/// # Errors
/// The job's state does not admit it.
pub fn redirect(facts: &JobFacts, steered: impl FnOnce(Option<Restart>) -> Draft) -> Result<Plan, Refusal> {
    let (epoch, at) = (facts.head_epoch, facts.head.seq.next());
    let previous = Some(facts.run).filter(|run| run.0 > 0);
    let pays = if previous.is_some() { Pays::Hop } else { Pays::Run };
    let judgement = judge_hand_over(facts, pays);
    let judgement = weigh_doubts(facts, &Interruption::LostContact, Child::Gone, judgement);
    let Judgement::Restart(restart) = judgement else {
        return conclude_at_limit(facts, epoch, vec![steered(None)], judgement);
    };
    let cause = Cause::Steered { previous, steered: at, attempt: restart.attempt };
    let mut job = pay(facts, restart.pays);
    let ready = if facts.state == State::Ready {
        ReadyChange::Redirect { cause }
    } else {
        job.state = Some(job::apply(facts.state, Event::Asked(Verb::Steer))?);
        (job.reason, job.detail) = (Some(String::new()), Some(String::new()));
        ReadyChange::Insert { cause, not_before: None }
    };
    let changes = Changes { job: Some(job), lease: LeaseChange::Keep, ready, ..Changes::default() };
    Ok(Plan { epoch, drafts: vec![steered(Some(restart))], changes })
}

/// The judgement of the limits that stand against another run now, where one does. A refusal that uses nothing up ends no
/// job: it is ready, and waits.
pub(super) fn ask_admission(facts: &JobFacts, pays: Pays) -> Option<Judgement> {
    let refusal = admit_run(&ask_for_run(facts, pays)).err()?;
    let limit = refusal.limit()?;
    Some(Judgement::Exhausted(refusal, limit))
}

/// What is asked before another run of a job. Undoing meets no ceiling.
pub(crate) fn ask_for_run(facts: &JobFacts, pays: Pays) -> RunAdmission {
    let run = RunAdmission::at(facts.now, session_deadline(facts));
    let hops_left = matches!(pays, Pays::Attempt | Pays::Hop).then_some(facts.hops_left);
    match facts.unwinding {
        Some(_) => RunAdmission { hops_left, ..run },
        None => RunAdmission {
            hops_left,
            // What is moved was asked about its money when its attempt began.
            budget_micros: (pays != Pays::Run).then_some(facts.budget_micros),
            runs: Some(facts.runs),
            ..run
        },
    }
}

/// What becomes of a job whose run ended at the session's deadline; none: by the database's clock it is not reached.
pub(super) fn judge_deadline(facts: &JobFacts) -> Option<Judgement> {
    let weigh = |judgement| weigh_doubts(facts, &Interruption::LostContact, Child::Gone, judgement);
    ask_admission(facts, Pays::Nothing).map(weigh)
}

/// What becomes of a job whose run was refused something by a limit: however the run ended, its work is not done. None: none refused, or
/// it was raised meanwhile.
pub(super) fn judge_refusal(facts: &JobFacts) -> Option<Judgement> {
    let refused = facts.refused()?;
    let refusal = match refused.limit {
        Limit::Budget => RunRefusal::BudgetSpent(facts.budget_micros),
        Limit::Runs => RunRefusal::RunCapReached(facts.runs),
        Limit::Hops | Limit::Reserve => return None,
    };
    let stands = match &refusal {
        RunRefusal::BudgetSpent(amount) | RunRefusal::RunCapReached(amount) => amount.is_used_up(),
        RunRefusal::Halted(_)
        | RunRefusal::DeadlineReached(_)
        | RunRefusal::HopsExhausted { .. }
        | RunRefusal::ReserveSpent(_)
        | RunRefusal::QuotaSpent(_)
        | RunRefusal::ConcurrencyReached(_) => true,
    };
    let judgement = Judgement::Exhausted(refusal, refused.limit.name());
    stands.then(|| weigh_doubts(facts, &Interruption::LostContact, Child::Gone, judgement))
}

/// The plan of a limit that refuses what a run asks for: the first time, a record at the head, under the run's own epoch. `Already` where
/// the run is over, where it was said before, and where the limit refuses no longer.
#[must_use]
pub fn plan_limit_refusal(facts: &JobFacts, epoch: Epoch, limit: Limit) -> Decision {
    let amount = match limit {
        Limit::Budget => facts.budget_micros,
        Limit::Runs => facts.runs,
        Limit::Hops | Limit::Reserve => return Decision::Already,
    };
    let is_ours = facts.lease.as_ref().is_some_and(|lease| lease.live && lease.epoch == epoch);
    if !is_ours || facts.refused().is_some() || !amount.is_used_up() {
        return Decision::Already;
    }
    let refused = LimitRefusal { limit, used: amount.used, allowed: amount.limit };
    let drafts = vec![draft_limit_refusal(refused)];
    let changes = Changes { lease: LeaseChange::NoteRefusal(refused), ..Changes::default() };
    Decision::Write(Plan { epoch, drafts, changes })
}

/// The plan of such a judgement: nothing was interrupted, and nothing else is to be said.
///
/// # Errors
/// The job's state does not admit it.
pub(super) fn conclude_at_limit(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    judgement: Judgement,
) -> Result<Plan, Refusal> {
    match judgement {
        Judgement::Exhausted(refusal, limit) => {
            exhaust(facts, epoch, drafts, &refusal, limit, &refusal.to_string())
        }
        other => follow(facts, epoch, drafts, &Interruption::LostContact, other, LeaseChange::Delete),
    }
}

/// The plan of a ready or suspended job whose session's deadline refuses its next run. A job that is neither any longer, or
/// that the deadline does not refuse, is `Already`.
///
/// # Errors
/// The job's state does not admit it.
pub fn plan_denial(facts: &JobFacts) -> Result<Decision, Refusal> {
    let is_waiting = matches!(facts.state, State::Ready | State::Suspended);
    match ask_admission(facts, Pays::Nothing).filter(|_| is_waiting) {
        Some(Judgement::Exhausted(refusal, limit)) => {
            exhaust(facts, facts.head_epoch, Vec::new(), &refusal, limit, &refusal.to_string())
                .map(Decision::Write)
        }
        Some(_) | None => Ok(Decision::Already),
    }
}

/// A restart: the next attempt, after a pause that depends on the interruption and on how many restarts of its kind were
/// granted before; without one at once. At most half of what remains of the deadline is spent on waiting.
pub(super) fn grant_restart(facts: &JobFacts, pays: Pays, after: Option<(&Interruption, u32)>) -> Restart {
    // What is handed over on purpose is the same attempt.
    let next = match pays {
        Pays::Attempt | Pays::Loss | Pays::Nothing => 2,
        Pays::Hop | Pays::Run => 1,
    };
    let attempt = facts.attempts.saturating_add(facts.losses).saturating_add(next);
    let not_before =
        after.and_then(|(interruption, granted)| pause_until(facts, interruption, granted, attempt));
    Restart { attempt, pays, not_before }
}

fn pause_until(
    facts: &JobFacts,
    interruption: &Interruption,
    granted: u32,
    attempt: u32,
) -> Option<Timestamp> {
    let restart = recovery::pause_number(interruption, granted)?;
    let pause = recovery::jitter(recovery::backoff(&facts.recovery, restart), facts.job, attempt);
    pause_for(facts, pause)
}

/// The end of a pause, of which the deadline takes what is more than half of what remains of it.
pub(super) fn pause_for(facts: &JobFacts, pause: Duration) -> Option<Timestamp> {
    let remaining = session_deadline(facts).remaining(facts.now).map(|remaining| remaining / 2);
    let pause_ms = duration_ms(deadline::clamp(Some(pause), remaining)?);
    Some(deadline::add(facts.now, Duration::from_millis(pause_ms)))
}

/// Undoing meets no ceiling.
const fn session_deadline(facts: &JobFacts) -> Deadline {
    let deadline_at = match facts.unwinding {
        None => facts.deadline_at,
        Some(_) => None,
    };
    Deadline::new(facts.started_at, deadline_at)
}

/// The plan of a judgement about a run that is being settled: after the drafts that prove what is known of the child come
/// the interruption and what follows from it. `lease` says what becomes of the lease where the job is not concluded.
///
/// # Errors
/// The job's state does not admit it.
pub fn carry_out(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    interruption: &Interruption,
    judgement: Judgement,
    lease: LeaseChange,
) -> Result<Plan, Refusal> {
    let restart = match &judgement {
        Judgement::Restart(restart) => Some(*restart),
        Judgement::Denied(_)
        | Judgement::OutOfAttempts(_)
        | Judgement::Exhausted(..)
        | Judgement::Abandoned
        | Judgement::Cancelled
        | Judgement::Quarantined(..)
        | Judgement::Unwound
        | Judgement::NotUnwound => None,
    };
    drafts.push(Draft::bare(RecordKind::RunInterrupted {
        of_epoch: run_epoch(facts),
        interruption: interruption.clone(),
        restart,
    }));
    follow(facts, epoch, drafts, interruption, judgement, lease)
}

/// Judges an interrupted job again, now that the child is known to be gone (the drafts say how). A restart that is granted
/// now repeats the interruption with it, so that the journal says what the next run draws on. A job that is set aside
/// stays so: only a person has it judged again.
///
/// # Errors
/// The job's state does not admit what follows.
pub fn judge_again(facts: &JobFacts, drafts: Vec<Draft>, healthy: bool) -> Result<Plan, Refusal> {
    let (epoch, interruption) = (next_epoch(facts), last_interruption(facts));
    if facts.state == State::Quarantined {
        let changes = Changes { lease: LeaseChange::Delete, ..Changes::default() };
        return Ok(Plan { epoch, drafts, changes });
    }
    let judgement = judge(facts, &interruption, Child::Gone, healthy);
    if let Judgement::Restart(_) = judgement {
        carry_out(facts, epoch, drafts, &interruption, judgement, LeaseChange::Delete)
    } else {
        follow(facts, epoch, drafts, &interruption, judgement, LeaseChange::Delete)
    }
}

/// The plan of a restart on a person's authority, which draws on nothing and overrides everything but the deadline and the
/// effects that only a person can decide. The drafts say who granted it.
///
/// # Errors
/// The job's state does not admit what follows.
pub fn restart_by_person(facts: &JobFacts, drafts: Vec<Draft>) -> Result<Plan, Refusal> {
    let (epoch, interruption) = (next_epoch(facts), last_interruption(facts));
    let granted = || Judgement::Restart(grant_restart(facts, Pays::Nothing, None));
    let judgement = ask_admission(facts, Pays::Nothing).unwrap_or_else(granted);
    let judgement = weigh_doubts(facts, &interruption, Child::Gone, judgement);
    follow(facts, epoch, drafts, &interruption, judgement, LeaseChange::Keep)
}

/// The plan of a job that a person has go on after it had come to an end or was set aside; the drafts say who and why. Its
/// next run draws on this, and the limits that stand against it conclude the job.
///
/// # Errors
/// The job's state does not admit it.
pub fn continue_by_person(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    pays: Pays,
    cause: impl FnOnce(u32) -> Cause,
) -> Result<Plan, Refusal> {
    if let Some(Judgement::Exhausted(refusal, limit)) = ask_admission(facts, pays) {
        return exhaust(facts, epoch, drafts, &refusal, limit, &refusal.to_string());
    }
    let restart = grant_restart(facts, pays, None);
    queue(facts, epoch, drafts, cause(restart.attempt), restart, LeaseChange::Keep)
}

/// Why the last run was interrupted. A journal that does not say so knows no more than that sight of it was lost.
fn last_interruption(facts: &JobFacts) -> Interruption {
    facts.interruption.clone().unwrap_or(Interruption::LostContact)
}

/// The records and rows that follow from a judgement.
fn follow(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    interruption: &Interruption,
    judgement: Judgement,
    lease: LeaseChange,
) -> Result<Plan, Refusal> {
    match judgement {
        Judgement::Restart(restart) => make_ready(facts, epoch, drafts, interruption, restart, lease),
        Judgement::Denied(denial) => deny(facts, epoch, drafts, interruption, denial, lease),
        Judgement::OutOfAttempts(denial) => {
            drafts.push(Draft::bare(RecordKind::RecoveryDenied { denial }));
            let detail = format!("{}, and {denial}", interruption.sentence());
            fail(facts, epoch, drafts, interruption.failure_reason(), &detail)
        }
        Judgement::Exhausted(refusal, limit) => {
            let detail = format!("{}, and {refusal}", interruption.sentence());
            exhaust(facts, epoch, drafts, &refusal, limit, &detail)
        }
        Judgement::Abandoned => abandon(facts, epoch, drafts),
        Judgement::Cancelled => cancel(facts, epoch, drafts),
        Judgement::Quarantined(state, reason) => {
            let instead_of = InsteadOf { state, reason: reason.map(str::to_owned), result: None };
            quarantine_doubts(facts, epoch, drafts, instead_of)
        }
        Judgement::Unwound => conclude_unwound(facts, unwinding_of(facts), epoch, drafts),
        Judgement::NotUnwound => give_up(facts, unwinding_of(facts), epoch, drafts, None),
    }
}

/// Only a job that is unwound is judged so.
const fn unwinding_of(facts: &JobFacts) -> &Unwinding {
    match &facts.unwinding {
        Some(unwinding) => unwinding,
        None => &Unwinding::Cancelled,
    }
}

/// The plan of a job for which a limit refuses a run.
///
/// # Errors
/// The job's state does not admit it.
fn exhaust(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    refusal: &RunRefusal,
    limit: &'static str,
    detail: &str,
) -> Result<Plan, Refusal> {
    // What refused the run that ends here was said when it did.
    drafts.extend(
        draft_refusal(refusal).filter(|_| facts.refused().map(|refused| refused.limit.name()) != Some(limit)),
    );
    conclude(facts, epoch, drafts, Outcome::Exhausted, Some(limit), detail)
}

/// The record of a limit that refused a run: it names the limit, what was used of it and what was allowed.
fn draft_refusal(refusal: &RunRefusal) -> Option<Draft> {
    let refused = |limit, Amount { used, limit: allowed }| {
        Some(draft_limit_refusal(LimitRefusal { limit, used, allowed }))
    };
    match *refusal {
        RunRefusal::DeadlineReached(deadline::DeadlineReached { elapsed_s, ceiling_s }) => {
            Some(Draft::bare(RecordKind::DeadlineDenied { elapsed_s, ceiling_s }))
        }
        RunRefusal::BudgetSpent(amount) => refused(Limit::Budget, amount),
        RunRefusal::RunCapReached(amount) => refused(Limit::Runs, amount),
        RunRefusal::ReserveSpent(amount) => refused(Limit::Reserve, amount),
        RunRefusal::Halted(_)
        | RunRefusal::HopsExhausted { .. }
        | RunRefusal::QuotaSpent(_)
        | RunRefusal::ConcurrencyReached(_) => None,
    }
}

fn draft_limit_refusal(LimitRefusal { limit, used, allowed }: LimitRefusal) -> Draft {
    Draft::bare(RecordKind::BudgetRefused { limit: limit.name().to_owned(), used, allowed })
}

fn make_ready(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    interruption: &Interruption,
    restart: Restart,
    lease: LeaseChange,
) -> Result<Plan, Refusal> {
    let attempt = restart.attempt;
    let steered = || steered_cause(facts, attempt);
    let recovered = || Cause::Recovered { previous: facts.run, interruption: interruption.clone(), attempt };
    let cause = unwinding_cause(facts, attempt).or_else(steered).unwrap_or_else(recovered);
    queue(facts, epoch, drafts, cause, restart, lease)
}

/// The job waits for a run of this cause.
fn queue(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    cause: Cause,
    restart: Restart,
    lease: LeaseChange,
) -> Result<Plan, Refusal> {
    let state = job::apply(facts.state, Event::Readied)?;
    let job = JobChange {
        state: Some(state),
        reason: Some(String::new()),
        detail: Some(String::new()),
        ..pay(facts, restart.pays)
    };
    let ready = ReadyChange::Insert { cause, not_before: restart.not_before };
    Ok(Plan { epoch, drafts, changes: Changes { job: Some(job), lease, ready, ..Changes::default() } })
}

/// What a run that is granted draws on.
fn pay(facts: &JobFacts, pays: Pays) -> JobChange {
    let (attempts, losses, hops) = match pays {
        Pays::Attempt if facts.unwinding.is_some() => (1, 0, 0),
        Pays::Attempt => (1, 0, 1),
        Pays::Loss => (0, 1, 0),
        Pays::Hop => (0, 0, 1),
        Pays::Run => (0, 0, 0),
        Pays::Nothing => (1, 0, 0),
    };
    JobChange {
        attempts: Some(facts.attempts.saturating_add(attempts)),
        losses: Some(facts.losses.saturating_add(losses)),
        hops_left: Some(facts.hops_left.saturating_sub(hops)),
        ..JobChange::default()
    }
}

fn deny(
    facts: &JobFacts,
    epoch: Epoch,
    mut drafts: Vec<Draft>,
    interruption: &Interruption,
    denial: Denial,
    lease: LeaseChange,
) -> Result<Plan, Refusal> {
    let state = job::apply(facts.state, Event::Interrupted)?;
    drafts.push(Draft::bare(RecordKind::RecoveryDenied { denial }));
    let job = JobChange {
        state: Some(state),
        reason: Some(denial.word().to_owned()),
        detail: Some(format!("{}, and {denial}", interruption.sentence())),
        ..JobChange::default()
    };
    Ok(Plan { epoch, drafts, changes: Changes { job: Some(job), lease, ..Changes::default() } })
}
