//! Claims: ready jobs become runs under a lease, as many as wanted in one transaction. Their rows in the queue are locked,
//! the records composed from what was read with them, and one guarded statement takes the positions. Where somebody else
//! took one meanwhile, or this transaction was given up in favour of another, it is begun once more: by then that job is
//! seen as it is.

mod attempt;
mod unreadable;

use std::{collections::BTreeMap, time::Instant};

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    credential::Tenants,
    handover::Cause,
    id::{AgentName, Attach, Digest, Epoch, Generation, JobId, Run, SessionId, Tenant, Term, WorkerName},
    plan::JobFacts,
    record::KeptValue,
};

pub(crate) use unreadable::UnreadableRows;

use crate::{Store, StoreError, TermRefusal, facts::warn_unreadable};

use attempt::DeniedRow;

const ATTEMPTED: &str = "claiming jobs";

/// Who wants how many jobs of which kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRequest {
    /// For whom.
    pub worker: WorkerName,
    /// Under which term.
    pub term: Term,
    /// Under which attach.
    pub attach: Attach,
    /// The generation that the coordinator knows.
    pub generation: Generation,
    /// Only these tenants' jobs.
    pub tenants: Tenants,
    /// Only these agents; empty: all.
    pub agents: Vec<AgentName>,
    /// The worker's labels; a job is offered where it requires nothing else. Where some name handlers, it is offered only
    /// where it requires one of them.
    pub labels: Vec<String>,
    /// At most so many; `secret_hashes` has as many.
    pub limit: u32,
    /// Where in the queue to begin. Floors hold for one filter (tenants, agents, labels).
    pub floors: Floors,
    /// The database's clock as measured, for the records.
    pub at: Timestamp,
    /// SHA-256 of a secret for each run.
    pub secret_hashes: Vec<Digest>,
}

/// For each priority, the number in the queue below which nothing claimable is expected. A full pass uses
/// `Floors::default()`, which begins at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floors(pub [u64; 4]);

/// What a claim brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimOutcome {
    /// The runs that began.
    pub claimed: Vec<Claimed>,
    /// Jobs that a limit of their session refuses, or whose declaration or bundle is not held any more. They are still ready; the caller
    /// finds out which, and concludes them.
    pub denied: Vec<JobFacts>,
    /// Where to begin next time; some slack is already taken off.
    pub floors: Floors,
    /// True where as many were found as were wanted, so that more may wait.
    pub full: bool,
    /// Why nothing was claimed for this worker.
    pub refused: Option<TermRefusal>,
}

/// A run that began, with everything that a grant needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: AgentName,
    /// The run.
    pub run: Run,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The generation of the claim.
    pub generation: Generation,
    /// The head: the `run_started` record.
    pub head: Head,
    /// That record's time.
    pub head_at: Timestamp,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Why the run starts.
    pub cause: Cause,
    /// The declaration that the job was admitted under.
    pub declaration: Digest,
    /// Its canonical JSON.
    pub document: Vec<u8>,
    /// The raw input.
    pub input: KeptValue,
    /// When the session started.
    pub started_at: Timestamp,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// The database's clock at the claim.
    pub now: Timestamp,
    /// W3C trace context of the submitter.
    pub traceparent: Option<String>,
    /// What the submitter attached.
    pub labels: BTreeMap<String, String>,
    /// Which of the request's secrets is this run's, from 0.
    pub secret_index: usize,
}

impl Store {
    /// Claims ready jobs for a worker, in the order of priority and queue. A job that somebody else is claiming is passed
    /// over. One that this release cannot read is named in a warning and left, and what stands behind it is offered by the
    /// next claim, which `full` asks for.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn claim_jobs(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        let attempt = match self.attempt_claim(request).await {
            Err(StoreError::PositionTaken { .. } | StoreError::Deadlock { .. }) => {
                self.attempt_claim(request).await?
            }
            other => other?,
        };
        let mut outcome = attempt.outcome;
        if attempt.admitted_none {
            self.check_timeline().await?;
            outcome.refused =
                self.explain_term(ATTEMPTED, &request.worker, request.term, request.attach).await?;
        }
        let mut unreadable = attempt.unreadable;
        outcome.denied = self.read_denied(attempt.denied, &mut unreadable).await?;
        let all_passed_over = self.unreadable.note(&unreadable, Instant::now());
        if !all_passed_over && outcome.claimed.is_empty() && outcome.denied.is_empty() {
            // The next claim would find the same again.
            outcome.full = false;
        }
        Ok(outcome)
    }

    async fn read_denied(
        &self,
        denied: Vec<DeniedRow>,
        unreadable: &mut Vec<i64>,
    ) -> Result<Vec<JobFacts>, StoreError> {
        let wanted: Vec<_> = denied.iter().map(|row| (row.tenant.clone(), row.job)).collect();
        let mut readable = Vec::with_capacity(denied.len());
        for (row, found) in denied.iter().zip(self.read_facts(&wanted).await?) {
            match found {
                Some(Ok(facts)) => readable.push(facts),
                Some(Err(error)) => {
                    warn_unreadable(row.tenant.as_str(), row.job, &error);
                    unreadable.push(row.queue_no);
                }
                None => {}
            }
        }
        Ok(readable)
    }
}
