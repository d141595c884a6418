//! Sessions as callers see them: the limits, what was used of them, and the jobs. What changes them is written with the records that say
//! so (`append`, `claim`); here they are only read.

use jiff::Timestamp;
use sqlx::{query_file, query_file_as};
use tenure_core::{
    admission::Amount,
    id::{AgentName, JobId, Run, SessionId, Tenant},
    job::State,
};

use crate::{
    Store, StoreError,
    facts::read_amount,
    stored::{Reader, from_bigint, from_integer, instant},
    timestamp::Stamp,
};

/// A session as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Which.
    pub session: SessionId,
    /// When it started.
    pub started_at: Timestamp,
    /// Its deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Hops that its first job began with.
    pub hops: u32,
    /// Runs: had and allowed.
    pub runs: Amount,
    /// Money: spent and allowed, in micro-units.
    pub budget_micros: Amount,
    /// Tokens of models that were spent.
    pub tokens: u64,
    /// Turns of models that were spent.
    pub turns: u64,
    /// Its first jobs, the oldest first.
    pub jobs: Vec<SessionJob>,
    /// How many jobs it has in all.
    pub job_count: u64,
    /// The database's clock.
    pub now: Timestamp,
}

/// A job of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionJob {
    /// Which.
    pub job: JobId,
    /// Its agent.
    pub agent: AgentName,
    /// Where it stands.
    pub state: State,
    /// Why, as a stable word.
    pub reason: Option<String>,
    /// Runs so far.
    pub run: Run,
    /// Hops of its present or next run.
    pub hops_left: u32,
}

impl Store {
    /// Reads a session with its first `limit` jobs; nothing where there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_session(
        &self,
        tenant: &Tenant,
        session: SessionId,
        limit: u32,
    ) -> Result<Option<SessionRow>, StoreError> {
        let attempted = "reading a session";
        let row = query_file_as!(LimitsRow, "queries/sessions/read_session.sql", tenant.as_str(), session.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let Some(row) = row else { return Ok(None) };
        let (jobs, job_count) = self.list_session_jobs(tenant, session, limit).await?;
        Ok(Some(SessionRow {
            session,
            started_at: row.started_at.0,
            deadline_at: instant(row.deadline_at),
            hops: from_integer(row.hops),
            runs: read_amount(row.runs.into(), row.run_cap.into()),
            budget_micros: read_amount(row.spent_micros, row.budget_micros),
            tokens: from_bigint(row.spent_tokens),
            turns: from_bigint(row.spent_turns),
            jobs,
            job_count,
            now: row.now.0,
        }))
    }

    async fn list_session_jobs(
        &self,
        tenant: &Tenant,
        session: SessionId,
        limit: u32,
    ) -> Result<(Vec<SessionJob>, u64), StoreError> {
        let attempted = "listing the jobs of a session";
        let rows = query_file!(
            "queries/sessions/list_session_jobs.sql",
            tenant.as_str(),
            session.0,
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let count = rows.first().map_or(0, |row| from_bigint(row.jobs));
        let reader = Reader(attempted);
        let jobs = rows.into_iter().map(|row| {
            Ok(SessionJob {
                job: JobId(row.job),
                agent: reader.parse("agent", row.agent)?,
                state: reader.state(row.state)?,
                reason: row.reason,
                run: Run(from_integer(row.run)),
                hops_left: from_integer(row.hops_left),
            })
        });
        Ok((jobs.collect::<Result<_, StoreError>>()?, count))
    }
}

struct LimitsRow {
    started_at: Stamp,
    deadline_at: Option<Stamp>,
    hops: i32,
    run_cap: i32,
    runs: i32,
    budget_micros: i64,
    spent_micros: i64,
    spent_tokens: i64,
    spent_turns: i64,
    now: Stamp,
}
