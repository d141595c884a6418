//! Submissions: a job comes into being, and where a worker is free, its first run with it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tenure_core::{
    id::{AgentName, Attach, Digest, Generation, JobId, SessionId, Tenant, Term, WorkerName},
    record::{DeadlineSetting, SealedRecord},
    recovery::RecoveryPolicy,
};

use crate::{Store, StoreError};

/// A submission that was admitted and sealed.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Whose.
    pub tenant: Tenant,
    /// A fresh id, minted from the database's clock.
    pub job: JobId,
    /// A fresh id.
    pub session: SessionId,
    /// The generation that the coordinator knows.
    pub generation: Generation,
    /// The agent.
    pub agent: AgentName,
    /// The declaration it is held to.
    pub declaration: Digest,
    /// The tenant's policy bundle it is held to.
    pub bundle: Option<Digest>,
    /// What its plan freezes.
    pub recovery: RecoveryPolicy,
    /// Hops that the session begins with.
    pub hops: u32,
    /// Runs that the session may have.
    pub run_cap: u32,
    /// What the session may spend, in micro-units.
    pub budget_micros: u64,
    /// The deadline that was asked for; a ceiling counts from the session's start, by the database's clock.
    pub deadline: DeadlineSetting,
    /// 0 to 3.
    pub priority: u8,
    /// What the submitter attached.
    pub labels: BTreeMap<String, String>,
    /// Labels that its worker must have.
    pub requires: Vec<String>,
    /// Not to be started before.
    pub not_before: Option<Timestamp>,
    /// W3C trace context of the submitter.
    pub traceparent: Option<String>,
    /// The idempotency key.
    pub key: Option<SubmissionKey>,
    /// `job_admitted` and `plan_frozen`, sealed at the genesis head; epoch and run are 0.
    pub records: Vec<SealedRecord>,
    /// A worker that is free for it. Where its guard refuses, the job is stored as ready.
    pub claim: Option<EagerClaim>,
}

/// An idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubmissionKey {
    /// SHA-256 of the key.
    pub hash: Digest,
    /// SHA-256 of what was submitted under it.
    pub payload: Digest,
}

/// The first run of a job, claimed in the statement that stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct EagerClaim {
    /// For whom.
    pub worker: WorkerName,
    /// Under which term.
    pub term: Term,
    /// Under which attach.
    pub attach: Attach,
    /// SHA-256 of the run's secret.
    pub secret_hash: Digest,
    /// `run_started`: seq 3, epoch 1, run 1.
    pub record: SealedRecord,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// It is durable.
    Admitted {
        /// The session's deadline; none: no ceiling.
        deadline_at: Option<Timestamp>,
        /// True where the eager claim holds; otherwise the job is ready.
        claimed: bool,
        /// Its number in the queue; none where it is claimed or delayed.
        queue_no: Option<u64>,
        /// The database's clock.
        now: Timestamp,
    },
    /// The key was used before, with the same payload: the earlier job.
    Existing {
        /// That job.
        job: JobId,
        /// Its session.
        session: SessionId,
        /// That session's deadline.
        deadline_at: Option<Timestamp>,
    },
    /// The key was used before, with another payload.
    KeyReused {
        /// The job that has the key.
        job: JobId,
    },
}

impl Store {
    /// Stores submissions in one statement; outcomes are in the order given. Within one batch, the first of several with
    /// one key is admitted.
    ///
    /// # Errors
    /// `TimelineChanged`; `Data`; the database does not answer (whether they are stored is not known; sending the same
    /// jobs with the same ids again gives `PositionTaken` where they are).
    pub async fn submit_jobs(&self, _jobs: &[NewJob]) -> Result<Vec<Submitted>, StoreError> {
        Err(StoreError::unwritten())
    }
}
