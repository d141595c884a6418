//! Jobs as callers see them: one, a page of them, or by the end of an id.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    chain::Head,
    halt::StandingHalt,
    id::{AgentName, Digest, Epoch, JobId, Run, Seq, SessionId, Tenant},
    job::State,
    limits::JOB_ENDING_MIN_DIGITS,
    plan::LeaseFacts,
    unwinding::Unwinding,
    wait::WaitFacts,
};

use crate::{
    Store, StoreError,
    facts::{FactsRow, read_head, read_rows},
    halt::read_standing_halts,
    stored::{Reader, from_bigint, from_integer, instant},
    timestamp::Stamp,
};

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
    /// The broadest halt that stands against it; none also where it was listed among others, and nobody looked.
    pub halt: Option<StandingHalt>,
    /// What the submitter attached.
    pub labels: BTreeMap<String, String>,
    /// The last position.
    pub head: Head,
    /// The epoch of the last record.
    pub head_epoch: Epoch,
    /// The head as noted outside the chain when it last concluded.
    pub concluded_head: Option<Head>,
    /// Why it is being unwound, or was; none: it works forward.
    pub unwinding: Option<Unwinding>,
    /// What it waits for, where it is suspended and was not listed among others.
    pub wait: Option<WaitFacts>,
    /// The database's clock.
    pub now: Timestamp,
    /// True where a mutating effect that is not known not to have happened stands uncompensated; none: it was listed among
    /// others, and that was not looked up.
    pub holds_landed_work: Option<bool>,
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
    pub async fn read_job(&self, tenant: &Tenant, job: JobId) -> Result<Option<JobRow>, StoreError> {
        let attempted = "reading a job";
        let rows = read_rows(&self.pool, attempted, &[(tenant.clone(), job)]).await?;
        let Some(row) = rows.into_iter().flatten().next() else { return Ok(None) };
        let holds_landed_work = row.holds_landed_work(Reader(attempted))?;
        let job = into_job(row, Reader(attempted))?;
        Ok(Some(JobRow { holds_landed_work: Some(holds_landed_work), ..job }))
    }

    /// Reads a page of jobs, newest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_jobs(&self, tenant: &Tenant, filter: &JobFilter) -> Result<Vec<JobRow>, StoreError> {
        let attempted = "listing jobs";
        let states: Vec<_> = filter.states.iter().map(|state| state.name().to_owned()).collect();
        let rows = sqlx::query_file_as!(
            FactsRow,
            "queries/jobs/list_jobs.sql",
            tenant.as_str(),
            filter.before.map(|job| job.0),
            &states,
            filter.agent.as_ref().map(AgentName::as_str),
            filter.since.map(Stamp) as _,
            serde_json::json!(filter.labels),
            i64::from(filter.limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| into_job(row, Reader(attempted))).collect()
    }

    /// Finds the jobs whose id, without hyphens, ends in these hexadecimal digits (6 to 32, lower case); at most `limit`,
    /// newest first. With a limit of 2 or more, an ambiguous ending shows. Anything else than such digits finds nothing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_jobs_by_ending(
        &self,
        tenant: &Tenant,
        hex: &str,
        limit: u32,
    ) -> Result<Vec<JobId>, StoreError> {
        if !is_ending(hex) {
            return Ok(Vec::new());
        }
        let rows =
            query_file!("queries/jobs/find_jobs_by_ending.sql", tenant.as_str(), hex, i64::from(limit))
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::while_doing("finding a job by the end of its id"))?;
        Ok(rows.into_iter().map(|row| JobId(row.job)).collect())
    }
}

fn is_ending(hex: &str) -> bool {
    (JOB_ENDING_MIN_DIGITS..=32).contains(&hex.len())
        && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn into_job(mut row: FactsRow, reader: Reader) -> Result<JobRow, StoreError> {
    let concluded_head = match (row.concluded_seq, &row.concluded_hash) {
        (Some(seq), Some(hash)) => Some(read_head(reader, seq, hash)?),
        (None | Some(_), None) | (None, Some(_)) => None,
    };
    Ok(JobRow {
        lease: row.lease(reader)?,
        halt: read_standing_halts(row.halts.take(), reader)?.into_iter().next(),
        wait: row.wait(reader)?,
        now: row.now.0,
        head: row.head(reader)?,
        not_before: row.delayed_until(),
        concluded_head,
        tenant: reader.tenant(row.tenant)?,
        job: JobId(row.job),
        session: SessionId(row.session),
        agent: reader.parse("agent", row.agent)?,
        declaration: reader.digest(&row.declaration)?,
        state: reader.state(row.state)?,
        state_since: row.state_since.0,
        reason: row.reason,
        detail: row.detail,
        submitted_at: row.submitted_at.0,
        deadline_at: instant(row.deadline_at),
        run: Run(from_integer(row.run)),
        attempts: from_integer(row.attempts),
        losses: from_integer(row.losses),
        priority: u8::try_from(row.priority).unwrap_or_default(),
        cancel_requested: row.cancel_seq.map(from_bigint).map(Seq),
        labels: reader.json("labels", row.labels)?,
        head_epoch: Epoch(from_bigint(row.head_epoch)),
        unwinding: row.unwinding.map(|found| reader.json("unwinding", found)).transpose()?,
        holds_landed_work: None,
    })
}
