//! Submissions: what is asked for is admitted by the core under the agent's present declaration, sealed, and stored by one
//! writer for all, so that what arrives while one statement is on its way goes with the next. Promises: an answer means
//! durable; a refusal leaves nothing behind, also its key. Ids are minted from the database's clock as measured.
//! Neighbours: `job_service` asks, `writer` stores, `eager` finds a worker that is free.

mod admission;
mod eager;
mod gift;
mod writer;

use std::sync::Arc;

use tenure_core::{
    admission::Submission, id::Generation, limits, reason::Reason, record::KeptValue, refusal::Refusal,
};
use tenure_proto::{convert::time::write_timestamp, v1};
use tenure_store::{NewJob, SubmissionKey, Submitted};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    attachments::Attachments,
    lane::{LaneParts, Lanes, count_waiting, work::LaneError},
    metrics::{Limit, metrics},
    refusals::{refuse_lane, refuse_store},
    run_secret::RunSecrets,
    server::caller::Caller,
    vital::VitalTasks,
};
use admission::{Admission, Admissions};
use writer::Writer;

/// The way for submissions. Clones share it.
#[derive(Clone)]
pub(crate) struct Submissions {
    admissions: Admissions,
    queue: mpsc::Sender<Group>,
    /// What may wait, in KiB.
    room: Arc<Semaphore>,
}

/// Jobs that are stored in one transaction, and who waits for them.
pub(crate) struct Group {
    jobs: Vec<SealedJob>,
    /// Its share of what may wait.
    room: OwnedSemaphorePermit,
    reply: oneshot::Sender<Vec<Result<Submitted, Refusal>>>,
}

/// A job that was admitted and sealed, and what a grant needs beside it.
pub(crate) struct SealedJob {
    new: NewJob,
    /// Shared by all jobs of a batch that are admitted under it.
    document: Arc<[u8]>,
    input: KeptValue,
}

/// Where the answer to a submission comes from.
enum Placed {
    /// Its key has a job.
    Known(Submitted),
    /// From the writer, for this job and session.
    Stored(String, String),
}

impl SealedJob {
    fn size_bytes(&self) -> usize {
        match &self.input {
            KeptValue::Beside(input) => input.len(),
            KeptValue::Blob(_) | KeptValue::Erased => 0,
        }
    }
}

impl Submissions {
    /// Starts the writer.
    pub(crate) fn start(
        parts: &LaneParts,
        generation: Generation,
        attachments: &Attachments,
        lanes: &Lanes,
        secrets: RunSecrets,
        vital: &VitalTasks,
    ) -> Self {
        let (queue, groups) = mpsc::channel(limits::SUBMIT_QUEUE_MAX);
        let writer = Writer {
            parts: parts.clone(),
            attachments: attachments.clone(),
            lanes: lanes.clone(),
            secrets,
            groups,
            held: None,
        };
        vital.spawn("submissions", writer.run());
        let admissions = Admissions { store: parts.store.clone(), clock: parts.clock.clone(), generation };
        Self { admissions, queue, room: Arc::new(Semaphore::new(limits::SUBMIT_QUEUE_MAX_KIB)) }
    }

    /// Tells how many calls wait, for as long as anybody can submit.
    pub(crate) fn watch_depth(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let queue = self.queue.downgrade();
        move || queue.upgrade().as_ref().map_or(0, count_waiting)
    }

    /// Submits one job.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        submission: v1::Submission,
    ) -> Result<v1::Admitted, Refusal> {
        let outcomes = self.submit_batch(caller, vec![submission]).await;
        outcomes.into_iter().next().unwrap_or_else(|| Err(lost()))
    }

    /// Submits several; each is admitted or refused by itself, and what is admitted is stored in one transaction.
    pub(crate) async fn submit_batch(
        &self,
        caller: &Caller,
        submissions: Vec<v1::Submission>,
    ) -> Vec<Result<v1::Admitted, Refusal>> {
        let mut jobs = Vec::new();
        let mut admitted = Vec::new();
        for outcome in self.admissions.admit_all(caller, submissions).await {
            admitted.push(outcome.map(|admission| match admission {
                Admission::Known(known) => Placed::Known(known),
                Admission::New(job) => {
                    let placed = Placed::Stored(job.new.job.to_string(), job.new.session.to_string());
                    jobs.push(*job);
                    placed
                }
            }));
        }
        let mut stored = self.store(jobs).await.into_iter();
        let mut write = |placed| match placed {
            Placed::Known(known) => write_admitted((String::new(), String::new()), known),
            Placed::Stored(job_id, session_id) => stored
                .next()
                .unwrap_or_else(|| Err(lost()))
                .and_then(|outcome| write_admitted((job_id, session_id), outcome)),
        };
        admitted.into_iter().map(|outcome| outcome.and_then(&mut write)).collect()
    }

    /// Makes the session that picks up work that was set down, once for each key.
    pub(crate) async fn pick_up(
        &self,
        caller: &Caller,
        submission: Submission,
        key: SubmissionKey,
    ) -> Result<Submitted, Refusal> {
        let outcome = match self.admissions.admit_pick_up(caller, submission, key).await? {
            Admission::Known(known) => known,
            Admission::New(job) => {
                let stored = self.store(vec![*job]).await;
                stored.into_iter().next().unwrap_or_else(|| Err(lost()))?
            }
        };
        metrics().note_submission(&outcome);
        Ok(outcome)
    }

    async fn store(&self, jobs: Vec<SealedJob>) -> Vec<Result<Submitted, Refusal>> {
        let count = jobs.len();
        if count == 0 {
            return Vec::new();
        }
        let bytes: usize = jobs.iter().map(SealedJob::size_bytes).sum();
        let size_kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let Ok(room) = self.room.clone().try_acquire_many_owned(size_kib) else {
            metrics().note_limit(Limit::SubmitRoom);
            return vec![Err(refuse_lane(&LaneError::Overloaded)); count];
        };
        let (reply, answer) = oneshot::channel();
        let refusal = match self.queue.try_send(Group { jobs, room, reply }) {
            Ok(()) => match answer.await {
                Ok(outcomes) => return outcomes,
                Err(_) => lost(),
            },
            Err(mpsc::error::TrySendError::Full(_)) => {
                metrics().note_limit(Limit::SubmitQueue);
                refuse_lane(&LaneError::Overloaded)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => lost(),
        };
        vec![Err(refusal); count]
    }
}

fn lost() -> Refusal {
    refuse_lane(&LaneError::Stopping)
}

fn write_admitted(
    (job_id, session_id): (String, String),
    outcome: Submitted,
) -> Result<v1::Admitted, Refusal> {
    metrics().note_submission(&outcome);
    match outcome {
        Submitted::Admitted { deadline_at, .. } => Ok(v1::Admitted {
            job_id,
            session_id,
            deadline_at: deadline_at.map(write_timestamp),
            already_submitted: false,
        }),
        Submitted::Existing { job, session, deadline_at } => Ok(v1::Admitted {
            job_id: job.to_string(),
            session_id: session.to_string(),
            deadline_at: deadline_at.map(write_timestamp),
            already_submitted: true,
        }),
        Submitted::Halted(halt) => Err(halt.refuse("cannot submit")),
        Submitted::KeyReused { job } => {
            let words = format!("the idempotency key was used by job {} with another payload", job.short());
            Err(Refusal::new(Reason::KeyReused, words)
                .with_detail("job", job)
                .with_next(format!("tenure job {}", job.short())))
        }
    }
}
