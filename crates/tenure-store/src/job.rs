//! Jobs as callers see them: one, a page of them, or by the end of an id.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    id::{AgentName, Digest, Epoch, JobId, Run, Seq, SessionId, Tenant},
    job::State,
    plan::LeaseFacts,
};

use crate::{Store, StoreError};

/// A job as it stood when it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Whose.
    pub tenant: Tenant,
    /// Which.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: AgentName,
    /// The declaration it is held to.
    pub declaration: Digest,
    /// Where it stands.
    pub state: State,
    /// Since when.
    pub state_since: Timestamp,
    /// Why, as a stable word.
    pub reason: Option<String>,
    /// Why, for a person.
    pub detail: Option<String>,
    /// When it was admitted.
    pub submitted_at: Timestamp,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Ready, but not to be started before; none: at once, or not ready.
    pub not_before: Option<Timestamp>,
    /// Runs so far.
    pub run: Run,
    /// Restarts granted that drew on max-attempts.
    pub attempts: u32,
    /// Restarts granted that drew on max-losses.
    pub losses: u32,
    /// 0 to 3.
    pub priority: u8,
    /// The lease, where it has one.
    pub lease: Option<LeaseFacts>,
    /// The seq of a cancel request that stands.
    pub cancel_requested: Option<Seq>,
    /// What the submitter attached.
    pub labels: BTreeMap<String, String>,
    /// The last position.
    pub head: Head,
    /// The epoch of the last record.
    pub head_epoch: Epoch,
    /// The head as noted outside the chain when it last concluded.
    pub concluded_head: Option<Head>,
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobFilter {
    /// Only these states; empty: all.
    pub states: Vec<State>,
    /// Only this agent.
    pub agent: Option<AgentName>,
    /// Only those submitted at or after.
    pub since: Option<Timestamp>,
    /// Only those that bear all of these.
    pub labels: BTreeMap<String, String>,
    /// Only those older than this one: the last of the page before.
    pub before: Option<JobId>,
    /// At most so many.
    pub limit: u32,
}

impl Store {
    /// Reads one job.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_job(&self, _tenant: &Tenant, _job: JobId) -> Result<Option<JobRow>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads a page of jobs, newest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_jobs(&self, _tenant: &Tenant, _filter: &JobFilter) -> Result<Vec<JobRow>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Finds the jobs whose id, without hyphens, ends in these hexadecimal digits (6 to 32, lower case); at most `limit`,
    /// newest first. With a limit of 2 or more, an ambiguous ending shows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_jobs_by_ending(
        &self,
        _tenant: &Tenant,
        _hex: &str,
        _limit: u32,
    ) -> Result<Vec<JobId>, StoreError> {
        Err(StoreError::unwritten())
    }
}
