//! The write that carries the load.

use tenure_core::{
    chain::Head,
    id::{Digest, Epoch, Generation, JobId, Seq, Tenant, WorkerName},
    plan::Changes,
    record::SealedRecord,
};

use crate::{Store, StoreError};

/// Records for one job, with what follows from them in the derived rows: written whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The generation of the writer's token.
    pub generation: Generation,
    /// What must be so for the writer to be allowed.
    pub guard: Guard,
    /// The head that the records were sealed at. Of several appends for one job in a batch, each is sealed at the last
    /// record of the one before.
    pub head: Head,
    /// At least one.
    pub records: Vec<SealedRecord>,
    /// The number of a worker's append in its run; stands on every record of it.
    pub n: Option<u64>,
    /// The digest of what the worker sent; stands beside `n`.
    pub request: Option<Digest>,
    /// What follows.
    pub changes: Changes,
}

/// What must be true of a job's lease for an append to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The lease is unreleased and has this epoch: the holder's appends and ends, settlements (whose records bear one
    /// more), notices.
    Lease(Epoch),
    /// The lease is released and has this epoch: the run is settled and its child is not known to be gone.
    ReleasedLease(Epoch),
    /// There is no lease.
    NoLease,
}

/// What became of one append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is durable.
    Applied {
        /// The seq of its last record.
        seq: Seq,
    },
    /// The head moved: read the tail, and decide again.
    Conflict,
    /// The guard or the generation does not hold.
    Fenced {
        /// Who holds the lease; none: nobody, or a released one.
        held_by: Option<WorkerName>,
        /// The present epoch.
        epoch: Epoch,
    },
    /// The job takes no more records.
    Sealed,
    /// There is no such job.
    Missing,
}

/// What became of a batch that was tried until each of its appends had an answer.
#[derive(Debug)]
pub struct AppendReport {
    /// In the order of the batch. An error is about that append alone, unless the database does not answer.
    pub outcomes: Vec<Result<AppendOutcome, StoreError>>,
    /// Writing statements that were sent.
    pub statements: u32,
    /// Read-only statements that told refusals apart.
    pub classifications: u32,
}

impl Store {
    /// Writes a batch in one statement. Outcomes are in the order of the batch. Several appends for one job must follow
    /// one another in the batch and in the chain; they are admitted together or not at all, and what comes after one that
    /// changes the lease or concludes the job is answered with `Conflict`.
    ///
    /// # Errors
    /// `PositionTaken`: nothing was written, send the batch again. `Data`: nothing was written. `TimelineChanged`.
    /// `Unavailable`: whether it was written is not known; sending identical bytes again is safe.
    pub async fn append_records(&self, _batch: &[Append]) -> Result<Vec<AppendOutcome>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// As `append_records`, but tries again: the batch whole (the competitor is visible by then, and its victim is
    /// filtered out), and after a second failure, or on a data error, in halves.
    pub async fn append_with_retry(&self, _batch: &[Append]) -> AppendReport {
        AppendReport { outcomes: Vec::new(), statements: 0, classifications: 0 }
    }
}
