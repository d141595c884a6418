//! Declaring agents and listing them. The documents are made by `tenure_core::fleet`; here they only travel.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use tenure_core::id::{AgentName, Digest, JobId};
use tenure_proto::{
    convert::{
        InvalidField,
        id::{read_agent_name, read_digest, read_job_id},
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, agent_service},
    job::read_instant,
};

/// An agent to declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: AgentName,
    /// The canonical JSON of its table.
    pub document: Bytes,
}

/// What an apply did to one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It has another declaration from now on.
    Changed,
    /// The declaration was already the present one.
    Unchanged,
}

/// An agent that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Its name.
    pub name: AgentName,
    /// The digest of its declaration.
    pub digest: Digest,
    /// What changed.
    pub change: Change,
}

/// An agent and its present declaration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// The digest of its declaration.
    pub digest: Digest,
    /// The declaration as written, with the defaults merged.
    pub declaration: serde_json::Value,
    /// When it was applied.
    pub applied_at: Timestamp,
    /// By whom.
    pub applied_by: String,
}

/// A page of agents, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentPage {
    /// The agents.
    pub agents: Vec<Agent>,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

/// A line that an agent remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What it says.
    pub text: String,
    /// When it was left.
    pub at: Timestamp,
    /// The job whose run left it.
    pub job_id: JobId,
}

impl Client {
    /// Lists the latest that an agent remembers, the latest first.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_memories(&self, agent: &str, limit: u32) -> Result<Vec<Memory>, ClientError> {
        let request = v1::ListMemoriesRequest { agent: agent.to_owned(), limit };
        let ask = |channel| {
            let request = request.clone();
            async move { agent_service(channel).list_memories(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        let read = |memory: v1::Memory| -> Result<Memory, InvalidField> {
            let at = read_instant("at", memory.at.as_ref())?;
            Ok(Memory { at, job_id: read_job_id("job_id", &memory.job_id)?, text: memory.text })
        };
        Ok(answer.memories.into_iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Declares agents: all or nothing. An empty bundle leaves the tenant's as it is.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn apply_agents(
        &self,
        agents: Vec<Declared>,
        bundle: Bytes,
        dry_run: bool,
    ) -> Result<Vec<Applied>, ClientError> {
        let request = v1::ApplyAgentsRequest {
            agents: agents
                .into_iter()
                .map(|agent| v1::AgentDeclaration { name: agent.name.into(), document: agent.document })
                .collect(),
            bundle,
            dry_run,
        };
        let ask = |channel| {
            let request = request.clone();
            async move { agent_service(channel).apply_agents(request).await }
        };
        let answer = self.call(Repeat::Harmless, ask).await?;
        Ok(answer.agents.into_iter().map(Applied::read).collect::<Result<_, _>>()?)
    }

    /// Reads a page of agents; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_agents(&self, limit: u32, cursor: Option<&str>) -> Result<AgentPage, ClientError> {
        let request = v1::ListAgentsRequest { limit, cursor: cursor.unwrap_or_default().to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { agent_service(channel).list_agents(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        let agents = answer.agents.into_iter().map(Agent::read).collect::<Result<_, _>>()?;
        Ok(AgentPage { agents, cursor: Some(answer.cursor).filter(|cursor| !cursor.is_empty()) })
    }
}

impl Applied {
    fn read(given: v1::AppliedAgent) -> Result<Self, InvalidField> {
        Ok(Self {
            name: read_agent_name("agents.name", &given.name)?,
            digest: read_digest("agents.digest", &given.digest)?,
            change: read_change(given.change)?,
        })
    }
}

fn read_change(given: i32) -> Result<Change, InvalidField> {
    match v1::AgentChange::try_from(given) {
        Ok(v1::AgentChange::Created) => Ok(Change::Created),
        Ok(v1::AgentChange::Changed) => Ok(Change::Changed),
        Ok(v1::AgentChange::Unchanged) => Ok(Change::Unchanged),
        Ok(v1::AgentChange::Unspecified) | Err(_) => {
            Err(InvalidField::Unknown { field: "agents.change", value: given })
        }
    }
}

impl Agent {
    fn read(given: v1::Agent) -> Result<Self, InvalidField> {
        let declaration = serde_json::from_slice(&given.document).map_err(|_| InvalidField::Malformed {
            field: "agents.document",
            given: format!("{} bytes", given.document.len()),
            expected: "JSON",
        })?;
        Ok(Self {
            name: read_agent_name("agents.name", &given.name)?,
            digest: read_digest("agents.digest", &given.digest)?,
            declaration,
            applied_at: read_instant("agents.applied_at", given.applied_at.as_ref())?,
            applied_by: given.applied_by,
        })
    }
}
