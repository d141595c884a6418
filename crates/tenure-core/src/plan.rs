//! What a decision says should be written: the records, and what follows from them in the derived rows. Planners in
//! `settlement` and `verb` return plans from facts; a coordinator seals a plan at the head that the facts were read at, and
//! the store writes records and rows in one statement, at that position or not at all. Where the head has moved, the
//! decision is made again from new facts, never only renumbered.

use jiff::Timestamp;

use crate::{
    admission::{Amount, LimitRefusal},
    chain::Head,
    effect::{Doubts, StepsToUndo},
    halt::StandingHalt,
    handover::Cause,
    id::{AgentName, Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, Term, WorkerName},
    job::State,
    record::{ABANDON_REQUESTED, CANCEL_REQUESTED, ChangedDeclaration, Draft, NewValue, Phase, STEERED},
    recovery::{Interruption, RecoveryPolicy},
    run_ref::RunRef,
    unwinding::Unwinding,
    wait::{Wait, WaitFacts},
};

/// What is known of a job, read in one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFacts {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: AgentName,
    /// The declaration it is held to.
    pub declaration: Digest,
    /// The policy bundle that it is held to, where the fleet does not hold that any more.
    pub unheld_bundle: Option<Digest>,
    /// What its plan froze.
    pub recovery: RecoveryPolicy,
    /// Where it stands.
    pub state: State,
    /// Why, as a stable word.
    pub reason: Option<String>,
    /// Runs so far.
    pub run: Run,
    /// Restarts granted that drew on max-attempts, and those that a person granted.
    pub attempts: u32,
    /// Restarts granted that drew on max-losses.
    pub losses: u32,
    /// Hops that the present or next run has.
    pub hops_left: u32,
    /// Who submitted it, by name; none: it was submitted before that was noted.
    pub submitted_by: Option<String>,
    /// The halts that stand against it, the broadest first.
    pub halts: Vec<StandingHalt>,
    /// Runs of its session: had and allowed.
    pub runs: Amount,
    /// Money of its session: spent and allowed, in micro-units.
    pub budget_micros: Amount,
    /// The interruption of the last `run_interrupted` record in its journal, where the job is interrupted.
    pub interruption: Option<Interruption>,
    /// The seq of a cancel request that stands.
    pub cancel_requested: Option<Seq>,
    /// The mutating effects that are in doubt.
    pub doubts: Doubts,
    /// The steps that are to be undone where the job is unwound.
    pub steps: StepsToUndo,
    /// How many mutating effects took effect and were not undone.
    pub landed: u64,
    /// How many steps were undone.
    pub compensated: u64,
    /// Why the job is being unwound, or was; none: it works forward.
    pub unwinding: Option<Unwinding>,
    /// What it would have become, where it is set aside.
    pub set_aside: Option<SetAside>,
    /// What it waits for, where it is suspended.
    pub wait: Option<WaitFacts>,
    /// True where its journal has its frozen plan. Without it the job never started.
    pub plan_frozen: bool,
    /// The last position.
    pub head: Head,
    /// The epoch of the last record; the highest so far.
    pub head_epoch: Epoch,
    /// The time of the last record.
    pub head_at: Timestamp,
    /// The kind of the last record.
    pub head_kind: String,
    /// The lease, where the job has one.
    pub lease: Option<LeaseFacts>,
    /// When the session started.
    pub started_at: Timestamp,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// The number of the database's history.
    pub generation: Generation,
    /// The database's clock when this was read.
    pub now: Timestamp,
}

/// What a job that is set aside would have become, and what is kept of that.
#[derive(Debug, Clone, PartialEq)]
pub struct SetAside {
    /// The state.
    pub instead_of: State,
    /// Why, as a stable word.
    pub reason: Option<String>,
    /// What its last run left as its result; none: nothing, or it was erased.
    pub result: Option<NewValue>,
    /// The declarations, where it is set aside because of them.
    pub changed: Option<ChangedDeclaration>,
}

impl JobFacts {
    /// The direction in which the job works.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self.unwinding {
            None => Phase::Forward,
            Some(_) => Phase::Compensating,
        }
    }

    /// The seq of a cancel request that stands and that nothing was done about yet: a job that is unwound because of it is
    /// what was asked for.
    #[must_use]
    pub const fn unanswered_cancel(&self) -> Option<Seq> {
        match self.unwinding {
            Some(Unwinding::Cancelled) => None,
            None | Some(Unwinding::Failed { .. }) => self.cancel_requested,
        }
    }

    /// True where a mutating effect that is not known not to have happened stands uncompensated.
    #[must_use]
    pub const fn holds_landed_work(&self) -> bool {
        self.landed > 0 || !self.doubts.is_empty()
    }

    /// Where somebody has given the job up, and its run has not answered.
    #[must_use]
    pub fn abandoned(&self) -> Option<&LeaseNotice> {
        self.lease.as_ref().and_then(|lease| lease.abandon.as_ref())
    }

    /// The limit that refused something that the present run asked for.
    #[must_use]
    pub fn refused(&self) -> Option<LimitRefusal> {
        self.lease.as_ref().and_then(|lease| lease.refused)
    }

    /// Where somebody has redirected the job, and its run has not answered.
    #[must_use]
    pub fn steered(&self) -> Option<&LeaseNotice> {
        self.lease.as_ref().and_then(|lease| lease.steer.as_ref())
    }

    /// The notice that a living run has to answer first: its seq and its kind. A run that is settled has nothing to answer any
    /// more.
    #[must_use]
    pub fn standing_notice(&self) -> Option<(Seq, &'static str)> {
        if self.lease.as_ref().is_some_and(|lease| !lease.live) {
            return None;
        }
        let abandon = self.abandoned().map(|notice| (notice.seq, ABANDON_REQUESTED));
        let cancel = || self.unanswered_cancel().map(|seq| (seq, CANCEL_REQUESTED));
        let steer = || self.steered().map(|notice| (notice.seq, STEERED));
        abandon.or_else(cancel).or_else(steer)
    }

    /// The run that a lease of this job was granted for.
    #[must_use]
    pub fn leased_run(&self, lease: &LeaseFacts) -> RunRef {
        RunRef {
            tenant: self.tenant.clone(),
            job: self.job,
            epoch: lease.run_epoch,
            run: self.run,
            generation: self.generation,
        }
    }
}

/// A lease: there is one while a job has an unsettled run, or one whose child is not known to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The present epoch: that of the claim, or of the settlement after it.
    pub epoch: Epoch,
    /// The epoch under which the run was claimed.
    pub run_epoch: Epoch,
    /// Who holds or held it.
    pub worker: WorkerName,
    /// The term that holds or held it.
    pub term: Term,
    /// True until the run is settled.
    pub live: bool,
    /// True where the holder's term is closed.
    pub term_closed: bool,
    /// How the holder fences its children, in the words of the protocol: `none`, `guardian`, `kernel`.
    pub fencing: Fencing,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The notice that gives the job up, where one stands for this run.
    pub abandon: Option<LeaseNotice>,
    /// The last notice that redirects the job, where one stands for this run.
    pub steer: Option<LeaseNotice>,
    /// The limit that refused something that the run asked for, where one did.
    pub refused: Option<LimitRefusal>,
}

/// A notice that a lease remembers until its run has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseNotice {
    /// Its seq.
    pub seq: Seq,
    /// Since when its run is asked, by the database's clock.
    pub since: Timestamp,
}

/// How a worker keeps its children from outliving their runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// Nothing is promised.
    None,
    /// A guardian ends the process group.
    Guardian,
    /// As guardian, and the kernel ends the PID namespace when the guardian is gone.
    Kernel,
}

impl Fencing {
    /// True where a lapse of the term on a host that runs proves that the child was ended before.
    #[must_use]
    pub const fn proves_gone(self) -> bool {
        match self {
            Self::None => false,
            Self::Guardian | Self::Kernel => true,
        }
    }
}

/// What should be written about one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Under which epoch: the holder's own, or one more where somebody else settles.
    pub epoch: Epoch,
    /// The records, in order; at least one.
    pub drafts: Vec<Draft>,
    /// What becomes of the derived rows.
    pub changes: Changes,
}

impl Plan {
    /// The same plan about a job that works in this direction: what is written about its undoing says so.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        if phase == Phase::Compensating {
            for draft in &mut self.drafts {
                draft.phase = phase;
            }
        }
        self
    }
}

/// What a planner decided.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned, and never kept in numbers"
)]
pub enum Decision {
    /// Write this.
    Write(Plan),
    /// What was asked for is already so: nothing is written, and asking again was harmless.
    Already,
}

/// What becomes of the derived rows of a job, in the same statement as its records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// The job's row.
    pub job: Option<JobChange>,
    /// The lease.
    pub lease: LeaseChange,
    /// The ready row.
    pub ready: ReadyChange,
    /// The wait of a job that becomes suspended. Its row goes by itself once the job is in another state.
    pub wait: Option<Wait>,
    /// The booking that takes effect: the record of the concluding run.
    pub layover: Option<Seq>,
}

/// New values for a job's row; what is none is left as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobChange {
    /// The state; with it, `state_since` becomes the statement's time.
    pub state: Option<State>,
    /// The reason as a stable word; an empty text clears it.
    pub reason: Option<String>,
    /// The reason for a person; an empty text clears it.
    pub detail: Option<String>,
    /// Restarts granted.
    pub attempts: Option<u32>,
    /// Losses granted.
    pub losses: Option<u32>,
    /// Hops of the next run.
    pub hops_left: Option<u32>,
    /// Why the job is unwound from now on.
    pub unwinding: Option<Unwinding>,
    /// The declaration that it is held to from now on.
    pub declaration: Option<AcceptedDeclaration>,
    /// The seq of the draft (as an index into the plan's drafts) that is a cancel request.
    pub cancel_requested_by_draft: Option<usize>,
    /// True where the last draft concludes the job: the head is noted outside the chain.
    pub concluded: bool,
}

/// A declaration that a job is held to in place of the one that it was admitted under. Its frozen plan stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedDeclaration {
    /// Its digest.
    pub digest: Digest,
    /// The policy bundle that its agent has with it, where it has one.
    pub bundle: Option<Digest>,
    /// What a worker needs for it: labels.
    pub requires: Vec<String>,
}

/// What becomes of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LeaseChange {
    /// Nothing.
    #[default]
    Keep,
    /// The run is settled; its child is not known to be gone. The lease's epoch becomes the plan's.
    Release,
    /// The run is settled and its child is gone: no row is left.
    Delete,
    /// The plan's only record is a notice that gives the job up; the lease remembers it.
    NoteAbandon,
    /// A limit refused something that the run asked for; the lease remembers it.
    NoteRefusal(LimitRefusal),
    /// The plan's only record is a notice that redirects the job; the lease remembers it, and since when the first stands.
    NoteSteer,
}

/// What becomes of the row in the queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ReadyChange {
    /// Nothing.
    #[default]
    Keep,
    /// The job becomes ready for a run of this cause, not before this instant.
    Insert {
        /// Why the next run starts.
        cause: Cause,
        /// Not before; none: at once.
        not_before: Option<Timestamp>,
    },
    /// The job is ready, and stays so for a run of this cause, at once.
    Replace {
        /// Why the next run starts.
        cause: Cause,
    },
    /// The job is ready, and stays so in its place and with its instant, for a run of this cause.
    Redirect {
        /// Why the next run starts.
        cause: Cause,
    },
    /// The job is no longer ready.
    Delete,
}
