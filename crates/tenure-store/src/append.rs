//! The write that carries the load: appends of many jobs in one statement, each with everything that follows from it.
//!
//! Two things are fenced: an insert at a position of the chain, and the lease's row. All else that a run may cause is written
//! in the same statement as a record at a position, and falls with it:
//!
//! ```text
//!   batch ─▶ groups (one per job) ─▶ one statement ─▶ applied
//!                                        │  └─ not admitted ─▶ told apart by a second one, which only reads
//!                                        └─ a position was taken meanwhile ─▶ nothing is written; the batch again
//! ```
//!
//! A writer that acts on an old head finds the next position taken and is filtered out; one that races for it waits for the
//! primary key and loses the whole batch, which is then sent again with the competitor visible. `group` joins one job's
//! appends, `columns`, `effect` and `gift` turn groups into arrays, `refusal` tells apart, `retry` sends again.

mod columns;
mod effect;
mod gift;
mod group;
mod refusal;
mod retry;
mod wait;

pub use gift::{Gift, NewDelivery};

use sqlx::query_file;
use tenure_core::{
    admission::LimitRefusal,
    chain::Head,
    effect::ActRefused,
    id::{Digest, Epoch, Generation, JobId, Seq, Tenant, WorkerName},
    limits::JOB_EFFECTS_MAX,
    plan::Changes,
    record::SealedRecord,
};

use columns::{JobColumns, RecordColumns};
use effect::EffectColumns;
use gift::GiftColumns;
use group::{Group, group_appends};
use wait::{LayoverColumns, WaitColumns};

use crate::{Store, StoreError, stored::from_bigint};

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
    /// The job that its last record gives work to.
    pub gift: Option<Box<Gift>>,
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
    /// The head moved, or the batch has another append for the job that this one does not follow: read the tail, and decide
    /// again.
    Conflict,
    /// The guard or the generation does not hold.
    Fenced {
        /// Who holds the lease; none: nobody, or a released one.
        held_by: Option<WorkerName>,
        /// The present epoch.
        epoch: Epoch,
    },
    /// What stands of an effect does not admit what a record says about it.
    EffectRefused(ActRefused),
    /// It announces an effect, and the job has had as many attempts as it may: `limits::JOB_EFFECTS_MAX`.
    EffectsExhausted,
    /// It announces an effect, and a limit refuses that.
    LimitReached(LimitRefusal),
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

const ATTEMPTED: &str = "appending records";

impl Store {
    /// Writes a batch in one statement. Outcomes are in the order of the batch. Several appends for one job must follow
    /// one another in the batch and in the chain; they are admitted together or not at all, and what comes after one that
    /// changes the lease, the queue or the state is answered with `Conflict`.
    ///
    /// # Errors
    /// `PositionTaken`: nothing was written, send the batch again. `Data`, `AlreadyAnnounced`: nothing was written. `TimelineChanged`.
    /// `Unavailable`: whether it was written is not known; sending identical bytes again is safe, and answers `Conflict`
    /// where it was.
    pub async fn append_records(&self, batch: &[Append]) -> Result<Vec<AppendOutcome>, StoreError> {
        let (groups, mut outcomes) = group_appends(batch);
        for (index, outcome) in self.append_groups(batch, &groups).await?.outcomes {
            outcomes[index] = outcome;
        }
        Ok(outcomes)
    }

    /// Writes groups in one statement, and tells apart in a second what it did not admit.
    async fn append_groups(&self, batch: &[Append], groups: &[Group]) -> Result<Written, StoreError> {
        let admitted = if groups.is_empty() { Vec::new() } else { self.write_groups(batch, groups).await? };
        let (applied, refused): (Vec<_>, Vec<_>) =
            groups.iter().partition(|group| admitted.contains(&group.no));
        let mut outcomes: Vec<_> = applied
            .into_iter()
            .flat_map(|group| &group.members)
            .map(|&index| (index, AppendOutcome::Applied { seq: last_seq(&batch[index]) }))
            .collect();
        let classified = !refused.is_empty();
        if classified {
            outcomes.extend(self.explain_refusals(batch, &refused).await?);
        }
        Ok(Written { outcomes, classified })
    }

    /// Sends the statement; returns the numbers of the groups that it admitted.
    #[expect(clippy::too_many_lines, reason = "one statement, whose arguments stand one to a line")]
    async fn write_groups(&self, batch: &[Append], groups: &[Group]) -> Result<Vec<usize>, StoreError> {
        let job = JobColumns::of(batch, groups);
        let record = RecordColumns::of(batch, groups);
        let effect = EffectColumns::of(batch, groups);
        let wait = WaitColumns::of(batch, groups);
        let gift = GiftColumns::of(batch, groups);
        let layover = LayoverColumns::of(batch, groups);
        let rows = query_file!(
            "queries/journal/append_records.sql",
            &job.no,
            &job.tenant,
            &job.job,
            &job.generation,
            &job.guard,
            &job.guard_epoch,
            &job.head_seq,
            &job.head_hash as _,
            &job.last_epoch,
            &job.lease_change,
            &job.ready_change,
            &job.cause as _,
            &job.not_before as _,
            &job.changes_job,
            &job.state as _,
            &job.reason as _,
            &job.detail as _,
            &job.attempts as _,
            &job.losses as _,
            &job.hops_left as _,
            &job.cancel_seq as _,
            &job.concluded_seq as _,
            &job.concluded_hash as _,
            &record.no,
            &record.tenant as _,
            &record.job,
            &record.seq,
            &record.epoch,
            &record.run,
            &record.kind as _,
            &record.n as _,
            &record.request as _,
            &record.at as _,
            &record.bytes as _,
            &record.hash as _,
            &record.value as _,
            &record.salt as _,
            &effect.no,
            &effect.tenant as _,
            &effect.job,
            &effect.seq,
            &effect.epoch,
            &effect.run,
            &effect.key as _,
            &effect.attempt,
            &effect.need,
            &effect.state as _,
            &effect.disposition as _,
            &effect.recovery as _,
            &effect.mutates as _,
            &effect.tool as _,
            &effect.compensation as _,
            &effect.request as _,
            i64::from(JOB_EFFECTS_MAX),
            &job.unwinding as _,
            &job.declaration as _,
            &job.requires as _,
            &job.bundle as _,
            &job.runs_back,
            &job.spent_micros,
            &job.spent_tokens,
            &job.spent_turns,
            &job.limit_change as _,
            &wait.no,
            &wait.tenant as _,
            &wait.job,
            &wait.wait as _,
            &gift.no,
            &gift.tenant as _,
            &gift.job,
            &gift.seq,
            &gift.child,
            &gift.session,
            &gift.agent as _,
            &gift.declaration as _,
            &gift.bundle as _,
            &gift.recovery,
            &gift.hops,
            &gift.priority,
            &gift.requires,
            &gift.traceparent as _,
            &gift.key_hash as _,
            &gift.payload_digest as _,
            &gift.depth as _,
            &gift.run_cap,
            &gift.budget_micros,
            &gift.ceiling_s as _,
            &gift.deadline_at as _,
            &gift.submitted_by as _,
            &layover.no,
            &layover.tenant as _,
            &layover.job,
            &layover.seq,
            &gift.upstream as _,
            &gift.wave as _,
            &gift.delivery_no as _,
            &gift.missing,
            &gift.body as _,
            &gift.starts
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
        Ok(rows.into_iter().filter_map(|row| usize::try_from(from_bigint(row.no)).ok()).collect())
    }
}

/// What became of some groups: for each append its place in the batch.
struct Written {
    outcomes: Vec<(usize, AppendOutcome)>,
    classified: bool,
}

fn last_seq(append: &Append) -> Seq {
    append.records.last().map_or(append.head.seq, |record| record.seq)
}
