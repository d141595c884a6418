//! What was delivered to joins. A delivery is written by `append`, with its giver's record.

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    id::{AgentName, JobId, SessionId, Tenant},
    joining::Delivery,
    limits::SESSION_JOINS_LISTED,
};

use crate::{
    Store, StoreError,
    stored::{Reader, from_integer},
    timestamp::Stamp,
};

/// A wave of a join that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJoin {
    /// The agent that is to start.
    pub agent: AgentName,
    /// Which wave.
    pub wave: u32,
    /// The id that its job will have.
    pub child: JobId,
    /// Who has delivered, in that order.
    pub delivered: Vec<AgentName>,
    /// Who has not.
    pub missing: Vec<AgentName>,
    /// When the first came.
    pub since: Timestamp,
    /// True where no job of the session is left that could deliver.
    pub stalled: bool,
}

impl Store {
    /// Lists what was delivered to a join in a session, in the order in which it came.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_deliveries(
        &self,
        tenant: &Tenant,
        session: SessionId,
        agent: &AgentName,
    ) -> Result<Vec<Delivery>, StoreError> {
        let attempted = "listing deliveries to a join";
        let rows =
            query_file!("queries/sends/list_deliveries.sql", tenant.as_str(), session.0, agent.as_str())
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter()
            .map(|row| {
                Ok(Delivery {
                    upstream: Reader(attempted).parse("upstream", row.upstream)?,
                    wave: from_integer(row.wave),
                    giver: JobId(row.job),
                    child: JobId(row.child),
                    starts: row.starts,
                    body: row.body,
                })
            })
            .collect()
    }

    /// Lists what a session's joins wait for, the longest first, at most `limits::SESSION_JOINS_LISTED`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_waiting_joins(
        &self,
        tenant: &Tenant,
        session: SessionId,
    ) -> Result<Vec<WaitingJoin>, StoreError> {
        let attempted = "listing the joins of a session";
        let limit = i64::from(SESSION_JOINS_LISTED);
        let rows =
            sqlx::query_file_as!(JoinRow, "queries/sends/list_joins.sql", tenant.as_str(), session.0, limit)
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_join(Reader(attempted))).collect()
    }
}

struct JoinRow {
    agent: String,
    wave: i32,
    child: uuid::Uuid,
    upstreams: Vec<String>,
    missing: Vec<String>,
    since: Stamp,
    stalled: bool,
}

impl JoinRow {
    fn into_join(self, reader: Reader) -> Result<WaitingJoin, StoreError> {
        Ok(WaitingJoin {
            agent: reader.parse("agent", self.agent)?,
            wave: from_integer(self.wave),
            child: JobId(self.child),
            delivered: reader.parse_all("upstream", self.upstreams)?,
            missing: reader.parse_all("upstream", self.missing)?,
            since: self.since.0,
            stalled: self.stalled,
        })
    }
}
