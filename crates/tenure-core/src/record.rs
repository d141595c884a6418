//! The entries of a job's journal: their shape, and how drafts become the bytes that are hashed and stored. A record is
//! its JSON; what lies beside it (inputs, notes, results) is named in it by digest and length only. Reading an unknown
//! kind is not an error of the chain, but nothing is decided from it. Neighbours: `chain` hashes, `plan` says what is to
//! be written, `tenure-store` writes.

mod balance;
mod changed;
mod erased;
mod hand_over;
mod marks;
mod notice;
mod seal;
mod value;

pub use balance::BalanceMark;
pub use changed::{ChangedDeclaration, HeldTo};
pub use erased::ErasedPart;
pub use hand_over::HandOver;
pub use notice::{ABANDON_REQUESTED, CANCEL_REQUESTED, NOTICE_KINDS, STEERED};
pub use seal::{Header, SealError, SealedRecord, seal_records};
pub use value::{KeptValue, NewValue, SaltedValue, ValueRef};

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    admission::{Limit, Spend},
    effect::{Compensation, Disposition, EffectKey, EffectRecovery, EffectRef},
    handover::Cause,
    id::{
        AgentName, Attach, Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, Term, WorkerName,
    },
    job::State,
    layover::PickedUp,
    principal::Principal,
    recovery::{Denial, GoneProof, Interruption, RecoveryPolicy, Restart},
    sending::{Given, Sender},
    step::StepName,
    wait::Wait,
};

/// The direction in which a job works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Doing.
    Forward,
    /// Undoing.
    Compensating,
}

/// What became of a group of effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupOutcome {
    /// Every invariant held: what was put off is performed.
    Committed,
    /// One did not: what was done is reversed, and what was put off is never performed.
    Reversed,
}

/// The deadline that a submission asked for; the session's row holds the instant that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineSetting {
    /// So many whole seconds after the session's start.
    CeilingS(u64),
    /// That instant.
    At(Timestamp),
    /// None.
    None,
}

/// What happened. Stored under `kind`, in snake case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "few are held at once, and each is soon sealed into its bytes")]
pub enum RecordKind {
    /// The job exists. Beside it: the input.
    JobAdmitted {
        /// The session that owns its deadline and shared limits.
        session: SessionId,
        /// Which agent.
        agent: AgentName,
        /// The declaration it is held to.
        declaration: Digest,
        /// The tenant's policy bundle it is held to, where there was one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        bundle: Option<Digest>,
        /// The raw input.
        input: ValueRef,
        /// Who submitted.
        by: Principal,
        /// SHA-256 of the idempotency key.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        key: Option<Digest>,
        /// What the submitter attached.
        #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
        labels: BTreeMap<String, String>,
        /// The deadline that was asked for.
        deadline: DeadlineSetting,
        /// 0 to 3.
        priority: u8,
        /// Not to be started before.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_before: Option<Timestamp>,
        /// W3C trace context of the submitter.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        traceparent: Option<String>,
        /// Whose run gave it the work, where one did.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        sender: Option<Box<Sender>>,
        /// Where it picks up work that was set down: which.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        layover: Option<PickedUp>,
    },
    /// What the job is held to. A job without it never started.
    PlanFrozen {
        /// How it may be restarted.
        recovery: RecoveryPolicy,
        /// Hops that it begins with.
        hops: u32,
        /// Names of the ways of doing the work, in order. Empty: one unnamed way.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        rungs: Vec<String>,
    },
    /// The claim: a run began under this record's epoch.
    RunStarted {
        /// Who claimed.
        worker: WorkerName,
        /// Under which term.
        term: Term,
        /// Under which attach.
        attach: Attach,
        /// Which attempt this is, from 1.
        attempt: u32,
        /// Why it starts. The whole handover is composed from the journal before this record.
        cause: Cause,
    },
    /// A line of progress. Beside it: the text.
    Note {
        /// The text.
        text: ValueRef,
    },
    /// The agent is to remember a line, beyond its session. Beside it: the text.
    Remembered {
        /// The text.
        text: ValueRef,
    },
    /// A step of a handler is about to be executed.
    StepStarted {
        /// Its name.
        name: StepName,
    },
    /// A step of a handler was executed. Beside it: what it returned, as JSON.
    StepFinished {
        /// Its name.
        name: StepName,
        /// What it returned.
        output: ValueRef,
    },
    /// An effect is about to be performed. Beside it: the command, its undo and its probe, as JSON.
    EffectStarted {
        /// Its key.
        key: EffectKey,
        /// From 1; above 1 only after the attempt before is known not to have happened.
        attempt: u32,
        /// What happens to it in doubt.
        recovery: EffectRecovery,
        /// False where nothing in the world is changed.
        mutates: bool,
        /// What it uses.
        tool: String,
        /// How it is undone.
        compensation: Compensation,
        /// What is performed.
        request: ValueRef,
    },
    /// An effect was performed. Beside it: its output.
    EffectDone {
        /// Its key.
        key: EffectKey,
        /// Its attempt.
        attempt: u32,
        /// What it returned, cut off at its limit.
        output: ValueRef,
        /// True where the output was cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        truncated: bool,
    },
    /// An attempt at an effect failed. Beside it: its error.
    EffectFailed {
        /// Its key.
        key: EffectKey,
        /// Its attempt.
        attempt: u32,
        /// What became of the world.
        disposition: Disposition,
        /// The code that its command exited with; none where a signal ended it or it could not be started.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        exit_code: Option<i32>,
        /// The end of what it wrote to stderr.
        error: ValueRef,
    },
    /// It was found out what became of an attempt. Beside it: the value, where it landed.
    EffectReconciled {
        /// Its key.
        key: EffectKey,
        /// Its attempt.
        attempt: u32,
        /// What was found; in doubt: the probe was inconclusive.
        verdict: Disposition,
        /// Who found out.
        by: Principal,
        /// What it returned.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        value: Option<ValueRef>,
    },
    /// A warning: earlier runs announced these keys, and the run that succeeded never asked for them.
    EffectsUnasked {
        /// The first of them.
        keys: Vec<EffectKey>,
        /// How many there are in all.
        count: u64,
    },
    /// Effects are in doubt that nobody but a person can decide, or nothing carries out the declaration that it was admitted
    /// under; the job is set aside.
    QuarantineDecided {
        /// The first of them.
        effects: Vec<EffectRef>,
        /// How many there are in all.
        count: u64,
        /// What the job would have become.
        instead_of: State,
        /// Why it would have become that, as a stable word.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        /// Where it is set aside because of its declaration and not because of effects: both declarations.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        changed: Option<ChangedDeclaration>,
    },
    /// A person has a job that was set aside judged again.
    Reopened {
        /// Who.
        by: Principal,
        /// Why.
        why: String,
        /// The declaration that it is held to from now on, where a person accepted another one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        declaration: Option<Digest>,
        /// The policy bundle that stands beside that declaration; none: there is none, or no other declaration was accepted.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        bundle: Option<Digest>,
    },
    /// A person has a job that had come to an end go on.
    Resumed {
        /// Who.
        by: Principal,
        /// Why.
        why: String,
    },
    /// What the job has done is undone from now on, the last first.
    UnwindStarted {
        /// What the job becomes once everything is undone: cancelled, or failed.
        instead_of: State,
        /// Why it failed, as a stable word.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        /// Why it failed, for a person.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        detail: Option<String>,
        /// How many steps are to be undone.
        steps: u64,
    },
    /// Effects of a handler belong together from now on.
    GroupOpened {
        /// The group's name, unique in the job.
        name: StepName,
    },
    /// A group is decided: what was put off is performed, or what was done is reversed. Written before either.
    GroupSettled {
        /// The group's name.
        name: StepName,
        /// What was decided.
        outcome: GroupOutcome,
        /// The keys of the effects that were performed in it, in their order.
        members: Vec<EffectKey>,
        /// The invariant that did not hold, in the handler's words.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        invariant: Option<String>,
    },
    /// The run gave work to an agent, as a job in the same session.
    Sent(Given),
    /// The run gave work to an agent, as a session of its own.
    Spawned(Given),
    /// A limit stood against giving work; the run goes on.
    SendRefused {
        /// `send` or `spawn`.
        verb: String,
        /// To whom.
        agent: AgentName,
        /// The stable code.
        code: String,
        /// The same for a person.
        detail: String,
    },
    /// The child of a run is known to be gone: its whole group is empty.
    ChildGone {
        /// The epoch of that run.
        of_epoch: Epoch,
        /// How it is known.
        proof: GoneProof,
        /// Who saw it.
        by: Principal,
    },
    /// The run set its work down: where it concludes with success, the last of these takes effect.
    LayoverBooked {
        /// Picked up no earlier.
        until: Timestamp,
        /// What it waits for.
        waiting_for: String,
    },
    /// The run announced a wait, and ended: the job has none until it is woken.
    Suspended {
        /// The wait.
        wait: Wait,
    },
    /// What the job waited for is there. Beside it, where that was jobs: what came of each, as JSON.
    Woken {
        /// The record that suspended it.
        wait: Seq,
        /// The name of the wait.
        name: StepName,
        /// The instant that was due, which is not the one at which it was woken; absent where it waited for jobs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        due: Option<Timestamp>,
        /// What came of the jobs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        outcomes: Option<ValueRef>,
    },
    /// A run ended without a verdict.
    RunInterrupted {
        /// The epoch of that run.
        of_epoch: Epoch,
        /// Why.
        interruption: Interruption,
        /// The restart that was granted. Absent: none, and the next record says why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        restart: Option<Restart>,
    },
    /// It may not be restarted on the fleet's own authority.
    RecoveryDenied {
        /// Why not.
        denial: Denial,
    },
    /// A lease was granted and the run never started; it counts for nothing.
    GrantReleased {
        /// The epoch of that grant.
        of_epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// The session's deadline refused a run.
    DeadlineDenied {
        /// Whole seconds since the session's start.
        elapsed_s: u64,
        /// The ceiling in whole seconds.
        ceiling_s: u64,
    },
    /// A run says that it spent something.
    Spent {
        /// How much.
        #[serde(flatten)]
        spend: Spend,
    },
    /// A limit that can be raised refused a run, or something that a run asked for.
    BudgetRefused {
        /// The limit, as a stable word.
        limit: String,
        /// What was used of it, in its own unit: runs, micro-units of money.
        used: u64,
        /// What was allowed.
        allowed: u64,
    },
    /// The limit that refused stands against the job no longer: it was raised, and the job goes on.
    BudgetReadmitted {
        /// The limit, as a stable word.
        limit: String,
        /// What was used of it, in its own unit.
        used: u64,
        /// What is allowed now.
        allowed: u64,
    },
    /// A person raised a limit: of the job's session, or the hops of the job.
    LimitRaised {
        /// Which.
        limit: Limit,
        /// What was allowed until now, in its own unit; of hops, what was left.
        from: u64,
        /// What is allowed from now on.
        to: u64,
        /// Who.
        by: Principal,
        /// Why.
        why: String,
    },
    /// Somebody asked for the job to be cancelled. A notice: it fences nobody.
    CancelRequested {
        /// Who.
        by: Principal,
        /// Why.
        why: String,
    },
    /// Somebody gives the job up. A notice: it fences nobody. Where no run is under way, `operator_acted` stands instead.
    AbandonRequested {
        /// Who.
        by: Principal,
        /// Why.
        why: String,
    },
    /// A person redirects the job. A notice where a run is under way: it fences nobody. Beside it: the note.
    Steered {
        /// Who.
        by: Principal,
        /// What the next run is told.
        note: ValueRef,
        /// The run that was granted. Absent: a living run is asked first, or a limit refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        restart: Option<Restart>,
    },
    /// A run was ended on purpose, and another one goes on with its work.
    RunHandedOver {
        /// The epoch of that run.
        of_epoch: Epoch,
        /// Why.
        because: HandOver,
        /// The run that was granted. Absent: none, and the next record says why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        restart: Option<Restart>,
    },
    /// A person acted on the job.
    OperatorActed {
        /// What was done: `recover`, `confirm-gone`, `reconcile`, `abandon` or `erase`.
        verb: String,
        /// Who.
        by: Principal,
        /// Why.
        why: String,
        /// What was erased, where something was.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        erased: Option<ErasedPart>,
    },
    /// A verdict. Beside it: the result, where there is one.
    JobConcluded {
        /// The state it concludes in.
        outcome: State,
        /// Why, as a stable word. Absent where the outcome says it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        /// What the job returned.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        result: Option<ValueRef>,
        /// Chunks of output that the concluding run wrote.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        output_chunks: Option<u64>,
    },
}

impl RecordKind {
    /// The kind's name, as stored.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::JobAdmitted { .. } => "job_admitted",
            Self::PlanFrozen { .. } => "plan_frozen",
            Self::RunStarted { .. } => "run_started",
            Self::Note { .. } => "note",
            Self::Remembered { .. } => "remembered",
            Self::StepStarted { .. } => "step_started",
            Self::StepFinished { .. } => "step_finished",
            Self::EffectStarted { .. } => "effect_started",
            Self::EffectDone { .. } => "effect_done",
            Self::EffectFailed { .. } => "effect_failed",
            Self::EffectReconciled { .. } => "effect_reconciled",
            Self::EffectsUnasked { .. } => "effects_unasked",
            Self::QuarantineDecided { .. } => "quarantine_decided",
            Self::UnwindStarted { .. } => "unwind_started",
            Self::GroupOpened { .. } => "group_opened",
            Self::GroupSettled { .. } => "group_settled",
            Self::Reopened { .. } => "reopened",
            Self::Resumed { .. } => "resumed",
            Self::LayoverBooked { .. } => "layover_booked",
            Self::Suspended { .. } => "suspended",
            Self::Woken { .. } => "woken",
            Self::Sent(_) => "sent",
            Self::Spawned(_) => "spawned",
            Self::SendRefused { .. } => "send_refused",
            Self::ChildGone { .. } => "child_gone",
            Self::RunInterrupted { .. } => "run_interrupted",
            Self::RecoveryDenied { .. } => "recovery_denied",
            Self::GrantReleased { .. } => "grant_released",
            Self::DeadlineDenied { .. } => "deadline_denied",
            Self::Spent { .. } => "spent",
            Self::BudgetRefused { .. } => "budget_refused",
            Self::BudgetReadmitted { .. } => "budget_readmitted",
            Self::LimitRaised { .. } => "limit_raised",
            Self::CancelRequested { .. } => CANCEL_REQUESTED,
            Self::AbandonRequested { .. } => ABANDON_REQUESTED,
            Self::Steered { .. } => STEERED,
            Self::RunHandedOver { .. } => "run_handed_over",
            Self::OperatorActed { .. } => "operator_acted",
            Self::JobConcluded { .. } => "job_concluded",
        }
    }
}

/// A record as it is read: the bytes that were hashed, parsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The position, from 1.
    pub seq: Seq,
    /// The number of the database's history.
    pub generation: Generation,
    /// The epoch under which it was written; 0 before the first claim.
    pub epoch: Epoch,
    /// The run it belongs to; 0 before the first.
    pub run: Run,
    /// The step within which it happened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// Doing or undoing.
    pub phase: Phase,
    /// The case that the job is bound to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub case: Option<String>,
    /// The coordinator's reading of the database's clock, never below the predecessor's; microseconds.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub kind: RecordKind,
}

/// A record that has no position yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What happened.
    pub kind: RecordKind,
    /// What lies beside it; its reference is in `kind`.
    pub value: Option<SaltedValue>,
    /// Of an announcement: SHA-256 of what is performed. It stands in the effect's row and not in the record, or a command
    /// could be guessed from the chain after it was erased.
    pub request: Option<Digest>,
    /// The direction in which the job works.
    pub phase: Phase,
}

impl Draft {
    /// A draft with nothing beside it.
    #[must_use]
    pub fn bare(kind: RecordKind) -> Self {
        let phase = kind.phase();
        Self { kind, value: None, request: None, phase }
    }

    /// A draft with a value beside it; `kind` gets the value's reference.
    #[must_use]
    pub fn with_value(value: SaltedValue, kind: impl FnOnce(ValueRef) -> RecordKind) -> Self {
        let draft = Self::bare(kind(value.reference()));
        Self { value: Some(value), ..draft }
    }

    /// A draft whose value may lie in the blob store.
    #[must_use]
    pub fn with_new_value(value: NewValue, kind: impl FnOnce(ValueRef) -> RecordKind) -> Self {
        match value {
            NewValue::Beside(value) => Self::with_value(value, kind),
            NewValue::Blob(reference) => Self::bare(kind(reference)),
        }
    }
}

#[cfg(test)]
mod tests;
