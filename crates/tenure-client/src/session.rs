//! Sessions: what they have used of their limits, and raising those. A session is named by its whole id, or by a job of it.

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    id::{AgentName, JobId, Run, SessionId},
    job::State,
};
use tenure_proto::{
    convert::{
        InvalidField,
        id::{read_agent_name, read_job_id, read_session_id},
        require,
        state::read_state,
        time::{read_optional_timestamp, read_timestamp},
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
};

/// A session as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// When it started.
    pub started_at: Timestamp,
    /// Its deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Hops that its first job began with.
    pub hops: u32,
    /// Runs of all its jobs together.
    pub runs: UsedAmount,
    /// Money, in micro-units of the tenant's currency.
    pub budget_micros: UsedAmount,
    /// Tokens of models that were spent.
    pub tokens: u64,
    /// Turns of models that were spent.
    pub turns: u64,
    /// Its first jobs, the oldest first.
    pub jobs: Vec<SessionJob>,
    /// How many jobs it has in all.
    pub job_count: u64,
    /// Its joins that wait for deliveries, the longest first.
    pub joins: Vec<WaitingJoin>,
}

/// A join that waits in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingJoin {
    /// The agent that is to start.
    pub agent: AgentName,
    /// Which wave of deliveries, from 1.
    pub wave: u32,
    /// The id that its job will have.
    pub job_id: JobId,
    /// Who has delivered, in that order.
    pub delivered: Vec<AgentName>,
    /// Who has not.
    pub missing: Vec<AgentName>,
    /// When the first delivery came.
    pub since: Timestamp,
    /// True where no job of the session is left that could deliver.
    pub stalled: bool,
}

/// What was used of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UsedAmount {
    /// What was used.
    pub used: u64,
    /// What is allowed.
    pub allowed: u64,
}

/// A job of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionJob {
    /// Which.
    pub id: JobId,
    /// Its agent.
    pub agent: AgentName,
    /// Where it stands.
    pub state: State,
    /// Why, as a stable word; empty where nothing is to be said.
    pub reason: String,
    /// Runs so far.
    pub run: Run,
    /// Hops of its present or next run.
    pub hops_left: u32,
}

/// What a raise came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Raised {
    /// The session as it stands now.
    pub session: Session,
    /// The job in whose journal it stands.
    pub job_id: JobId,
    /// True where it was so already, and nothing was written.
    pub unchanged: bool,
}

impl Client {
    /// Reads a session.
    ///
    /// # Errors
    /// There is none, or the fleet does not answer.
    pub async fn get_session(&self, session: &str) -> Result<Session, ClientError> {
        let request = v1::GetSessionRequest { session: session.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).get_session(request).await }
        };
        Ok(Session::read(self.call(Repeat::Reads, ask).await?.session)?)
    }

    /// Raises a limit. Sent again only where it was never sent: it stands in a journal.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn raise_limit(
        &self,
        target: &str,
        limit: &str,
        value: &str,
        why: &str,
    ) -> Result<Raised, ClientError> {
        let [target, limit, value, why] = [target, limit, value, why].map(str::to_owned);
        let request = v1::RaiseLimitRequest { target, limit, value, why };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).raise_limit(request).await }
        };
        let v1::RaiseLimitResponse { session, job_id, unchanged } =
            self.call(Repeat::OnlyUnsent, ask).await?;
        let (session, job_id) = (Session::read(session)?, read_job_id("job_id", &job_id)?);
        Ok(Raised { session, job_id, unchanged })
    }
}

impl Session {
    fn read(given: Option<v1::Session>) -> Result<Self, InvalidField> {
        let given = require("session", given)?;
        Ok(Self {
            id: read_session_id("session.id", &given.id)?,
            started_at: read_timestamp(
                "session.started_at",
                &require("session.started_at", given.started_at)?,
            )?,
            deadline_at: read_optional_timestamp("session.deadline_at", given.deadline_at.as_ref())?,
            hops: given.hops,
            runs: UsedAmount::read("session.runs", given.runs)?,
            budget_micros: UsedAmount::read("session.budget_micros", given.budget_micros)?,
            tokens: given.tokens,
            turns: given.turns,
            jobs: given.jobs.into_iter().map(SessionJob::read).collect::<Result<_, _>>()?,
            job_count: given.job_count,
            joins: given.joins.into_iter().map(WaitingJoin::read).collect::<Result<_, _>>()?,
        })
    }
}

impl UsedAmount {
    fn read(field: &'static str, given: Option<v1::UsedAmount>) -> Result<Self, InvalidField> {
        let v1::UsedAmount { used, allowed } = require(field, given)?;
        Ok(Self { used, allowed })
    }
}

impl WaitingJoin {
    fn read(given: v1::WaitingJoin) -> Result<Self, InvalidField> {
        let names = |field, names: Vec<String>| {
            names.iter().map(|name| read_agent_name(field, name)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            agent: read_agent_name("session.joins.agent", &given.agent)?,
            wave: given.wave,
            job_id: read_job_id("session.joins.job_id", &given.job_id)?,
            delivered: names("session.joins.delivered", given.delivered)?,
            missing: names("session.joins.missing", given.missing)?,
            since: read_timestamp("session.joins.since", &require("session.joins.since", given.since)?)?,
            stalled: given.stalled,
        })
    }
}

impl SessionJob {
    fn read(given: v1::SessionJob) -> Result<Self, InvalidField> {
        Ok(Self {
            id: read_job_id("session.jobs.id", &given.id)?,
            agent: read_agent_name("session.jobs.agent", &given.agent)?,
            state: read_state("session.jobs.state", given.state)?,
            reason: given.reason,
            run: Run(given.run),
            hops_left: given.hops_left,
        })
    }
}
