//! Submissions: a job comes into being, and where a worker is free, its first run with it. What may be submitted is decided
//! before; here only the key can refuse.

mod columns;

use std::collections::BTreeMap;

use jiff::Timestamp;
use tenure_core::{
    halt::StandingHalt,
    handover::Cause,
    id::{AgentName, Attach, Digest, Generation, JobId, SessionId, Tenant, Term, WorkerName},
    record::{DeadlineSetting, SealedRecord},
    recovery::RecoveryPolicy,
};
use uuid::Uuid;

use columns::{JobColumns, RecordColumns};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, instant, to_bigint},
    timestamp::Stamp,
};

/// Stands for the digest of a payload that was erased.
pub(crate) const ERASED_DIGEST: Digest = Digest([0; 32]);

const ATTEMPTED: &str = "storing submissions";

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
    /// Who submits, by name.
    pub submitted_by: String,
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
    /// Why its first run starts.
    pub cause: Cause,
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
    /// The key was used before, with the same payload: the earlier job. Also where the very job is there already, because
    /// an answer was lost.
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
    /// A halt stands against it, the broadest that does. Nothing is stored, and its key is free.
    Halted(StandingHalt),
}

impl Store {
    /// Stores submissions in one statement; outcomes are in the order given. Within one batch, the first of several with
    /// one key is admitted.
    ///
    /// # Errors
    /// `TimelineChanged`; `Data`: nothing was stored; `PositionTaken`: nothing was stored, the generation may be old.
    /// `Unavailable`: whether they are stored is not known; sending the same jobs with the same ids again is safe, and
    /// answers `Existing` where they are.
    pub async fn submit_jobs(&self, jobs: &[NewJob]) -> Result<Vec<Submitted>, StoreError> {
        let mut outcomes: Vec<Option<Submitted>> = vec![None; jobs.len()];
        for row in self.store_jobs(jobs).await? {
            if let Some(place) = usize::try_from(row.no).ok().and_then(|no| outcomes.get_mut(no)) {
                *place = Some(row.into_outcome());
            }
        }
        let refused: Vec<_> = (0..jobs.len()).filter(|&index| outcomes[index].is_none()).collect();
        if !refused.is_empty() {
            self.check_timeline().await?;
            for (index, outcome) in self.explain_submissions(jobs, &refused).await? {
                outcomes[index] = Some(outcome);
            }
            self.explain_halts(jobs, &mut outcomes).await?;
        }
        // Neither stored nor explained: the generation is old, or who had the key went away meanwhile.
        let answered: Option<Vec<_>> = outcomes.into_iter().collect();
        answered.ok_or(StoreError::PositionTaken { attempted: ATTEMPTED })
    }

    async fn store_jobs(&self, jobs: &[NewJob]) -> Result<Vec<StoredRow>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let job = JobColumns::of(jobs);
        let record = RecordColumns::of(jobs);
        sqlx::query_file_as!(
            StoredRow,
            "queries/jobs/submit_jobs.sql",
            &job.no,
            &job.tenant,
            &job.job,
            &job.session,
            &job.agent,
            &job.declaration as _,
            &job.bundle as _,
            &job.recovery,
            &job.hops,
            &job.run_cap,
            &job.budget_micros,
            &job.priority,
            &job.labels,
            &job.requires,
            &job.traceparent as _,
            &job.generation,
            &job.key_hash as _,
            &job.payload_digest as _,
            &job.not_before as _,
            &job.ceiling_s as _,
            &job.deadline_at as _,
            &job.worker as _,
            &job.term as _,
            &job.attach as _,
            &job.secret_hash as _,
            &record.no,
            &record.tenant as _,
            &record.job,
            &record.seq,
            &record.epoch,
            &record.run,
            &record.kind as _,
            &record.at as _,
            &record.bytes as _,
            &record.hash as _,
            &record.value as _,
            &record.salt as _,
            &job.submitted_by,
            &job.cause
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))
    }

    /// Tells who has each key, in the order given; nothing where nobody has it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_submissions(
        &self,
        tenant: &Tenant,
        keys: &[SubmissionKey],
    ) -> Result<Vec<Option<Submitted>>, StoreError> {
        let asked: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(no, key)| Asked { no, tenant, job: None, key: Some(*key) })
            .collect();
        let mut found = vec![None; keys.len()];
        for (no, outcome) in self.explain("looking up idempotency keys", &asked).await? {
            found[no] = Some(outcome);
        }
        Ok(found)
    }

    /// What is not stored, and whose key nobody has, meets the halts that stand.
    async fn explain_halts(
        &self,
        jobs: &[NewJob],
        outcomes: &mut [Option<Submitted>],
    ) -> Result<(), StoreError> {
        let places: Vec<_> = (0..jobs.len()).filter(|&index| outcomes[index].is_none()).collect();
        let refused: Vec<_> = places.iter().map(|&index| &jobs[index]).collect();
        let found = self.find_halts(ATTEMPTED, &refused).await?;
        for (index, halt) in places.into_iter().zip(found) {
            outcomes[index] = halt.map(Submitted::Halted);
        }
        Ok(())
    }

    async fn explain_submissions(
        &self,
        jobs: &[NewJob],
        refused: &[usize],
    ) -> Result<Vec<(usize, Submitted)>, StoreError> {
        let ask =
            |&no: &usize| Asked { no, tenant: &jobs[no].tenant, job: Some(jobs[no].job), key: jobs[no].key };
        self.explain(ATTEMPTED, &refused.iter().map(ask).collect::<Vec<_>>()).await
    }

    /// By number: who has the key, or that the job is there already. What is neither is left out.
    async fn explain(
        &self,
        attempted: &'static str,
        asked: &[Asked<'_>],
    ) -> Result<Vec<(usize, Submitted)>, StoreError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<_> = (0..asked.len()).map(|place| to_bigint(place as u64)).collect();
        let tenants: Vec<_> = asked.iter().map(|one| one.tenant.to_string()).collect();
        let ids: Vec<_> = asked.iter().map(|one| one.job.map(|job| job.0)).collect();
        let keys: Vec<_> = asked.iter().map(|one| one.key.map(|key| key.hash.0.to_vec())).collect();
        let rows = sqlx::query_file_as!(
            ExistingRow,
            "queries/jobs/explain_submissions.sql",
            &places,
            &tenants,
            &ids as _,
            &keys as _
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let explain = |row: ExistingRow| {
            let one = asked.get(usize::try_from(row.no).ok()?)?;
            Some(row.into_outcome(Reader(attempted), one.key).map(|outcome| (one.no, outcome)))
        };
        rows.into_iter().filter_map(explain).collect()
    }
}

/// A submission whose earlier job is asked for: by its key, or by its own id.
struct Asked<'a> {
    no: usize,
    tenant: &'a Tenant,
    job: Option<JobId>,
    key: Option<SubmissionKey>,
}

struct StoredRow {
    no: i64,
    deadline_at: Option<Stamp>,
    claimed: bool,
    queue_no: Option<i64>,
    now: Stamp,
}

impl StoredRow {
    fn into_outcome(self) -> Submitted {
        Submitted::Admitted {
            deadline_at: instant(self.deadline_at),
            claimed: self.claimed,
            queue_no: self.queue_no.map(from_bigint),
            now: self.now.0,
        }
    }
}

struct ExistingRow {
    no: i64,
    payload_digest: Option<Vec<u8>>,
    job: Uuid,
    session: Uuid,
    deadline_at: Option<Stamp>,
}

impl ExistingRow {
    fn into_outcome(self, reader: Reader, key: Option<SubmissionKey>) -> Result<Submitted, StoreError> {
        let stored = self.payload_digest.map(|digest| reader.digest(&digest)).transpose()?;
        // What was erased cannot be compared; the key stands for it.
        if stored != Some(ERASED_DIGEST) && stored != key.map(|key| key.payload) {
            return Ok(Submitted::KeyReused { job: JobId(self.job) });
        }
        Ok(Submitted::Existing {
            job: JobId(self.job),
            session: SessionId(self.session),
            deadline_at: instant(self.deadline_at),
        })
    }
}
