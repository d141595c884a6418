//! `AgentService`: declaring agents and listing them, and what they remember. A declaration is checked whole before anything is stored; what is
//! stored is the canonical JSON that came, and its digest. Neighbours: the core's `declaration` checks, the store keeps.

use std::collections::BTreeSet;

use tenure_core::{
    declaration::{Declaration, PolicyBundle},
    id::{AgentName, Digest},
    limits::{APPLY_MAX_AGENTS, DECLARATION_MAX_BYTES},
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{id::read_agent_name, time::write_timestamp},
    v1::{self, agent_service_server::AgentService},
};
use tenure_store::{AgentRevision, Change, ChangeKind, MemoryRow, NewBundle, NewDeclaration};
use tonic::{Request, Response, Status};

use super::{
    call::{answer, open, read_limit, refuse_cursor},
    caller::Caller,
};
use crate::{coordinator::Parts, refusals::refuse_store};

/// Agents on a page, where nothing is said.
const AGENTS_DEFAULT: u32 = 500;

/// Lines of a memory, where nothing is said.
const MEMORIES_DEFAULT: u32 = 50;

/// The service.
pub(super) struct Agents {
    parts: Parts,
}

impl Agents {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    async fn apply(
        &self,
        caller: &Caller,
        request: v1::ApplyAgentsRequest,
    ) -> Result<v1::ApplyAgentsResponse, Refusal> {
        let declarations = read_declarations(request.agents)?;
        let bundle = read_bundle(&request.bundle)?;
        if let Some(bundle) = &bundle {
            self.check_named(caller, &declarations, bundle).await?;
        }
        let bundle = bundle.as_ref().map(write_bundle);
        let changes = self
            .parts
            .store
            .apply_agents(&caller.tenant, &declarations, bundle.as_ref(), &caller.principal, request.dry_run)
            .await
            .map_err(|error| refuse_store(&error))?;
        Ok(v1::ApplyAgentsResponse { agents: changes.into_iter().map(write_change).collect() })
    }

    /// Whether each agent that a bundle names is one: of those that are given, or of those that the tenant has. None is ever taken away.
    async fn check_named(
        &self,
        caller: &Caller,
        declarations: &[NewDeclaration],
        bundle: &PolicyBundle,
    ) -> Result<(), Refusal> {
        let mut named = bundle.routes().agents();
        for given in declarations {
            named.remove(&given.agent);
        }
        if named.is_empty() {
            return Ok(());
        }
        let known = self.parts.store.find_agents(&caller.tenant, &named).await;
        for agent in known.map_err(|error| refuse_store(&error))? {
            named.remove(&agent);
        }
        let Some(unknown) = named.first() else { return Ok(()) };
        let words = format!("routes: there is no agent {unknown}, neither here nor applied before");
        Err(Refusal::new(Reason::InvalidDeclaration, words).with_detail("agent", unknown))
    }

    async fn list(
        &self,
        caller: &Caller,
        request: v1::ListAgentsRequest,
    ) -> Result<v1::ListAgentsResponse, Refusal> {
        let limit = read_limit(request.limit, AGENTS_DEFAULT)?;
        let after: Option<AgentName> = match request.cursor.as_str() {
            "" => None,
            cursor => Some(cursor.parse().map_err(|_| refuse_cursor(cursor))?),
        };
        let agents = self.parts.store.list_agents(&caller.tenant, after.as_ref(), limit).await;
        let agents = agents.map_err(|error| refuse_store(&error))?;
        let full = agents.len() == limit as usize;
        let cursor = agents.last().filter(|_| full).map(|last| last.agent.to_string()).unwrap_or_default();
        Ok(v1::ListAgentsResponse { agents: agents.into_iter().map(write_agent).collect(), cursor })
    }
}

impl Agents {
    async fn list_memories(
        &self,
        caller: &Caller,
        request: v1::ListMemoriesRequest,
    ) -> Result<v1::ListMemoriesResponse, Refusal> {
        let limit = read_limit(request.limit, MEMORIES_DEFAULT)?;
        let agent = read_agent_name("agent", &request.agent)?;
        let memories = self.parts.store.list_memories(&caller.tenant, &agent, limit).await;
        let memories = memories.map_err(|error| refuse_store(&error))?;
        let write = |memory: MemoryRow| v1::Memory {
            text: memory.text,
            at: Some(write_timestamp(memory.at)),
            job_id: memory.job.to_string(),
        };
        Ok(v1::ListMemoriesResponse { memories: memories.into_iter().map(write).collect() })
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    async fn list_memories(
        &self,
        request: Request<v1::ListMemoriesRequest>,
    ) -> Result<Response<v1::ListMemoriesResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(Self::list_memories(self, &caller, request)).await
    }

    async fn apply_agents(
        &self,
        request: Request<v1::ApplyAgentsRequest>,
    ) -> Result<Response<v1::ApplyAgentsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.apply(&caller, request)).await
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.list(&caller, request)).await
    }
}

fn read_declarations(agents: Vec<v1::AgentDeclaration>) -> Result<Vec<NewDeclaration>, Refusal> {
    if agents.len() > APPLY_MAX_AGENTS {
        let words = format!("{} agents were given, and at most {APPLY_MAX_AGENTS} are taken", agents.len());
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "agents"));
    }
    let mut names = BTreeSet::new();
    agents
        .into_iter()
        .map(|agent| {
            let declaration = read_declaration(agent)?;
            if !names.insert(declaration.agent.clone()) {
                let words = format!("the agent {} is given twice", declaration.agent);
                return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "agents.name"));
            }
            Ok(declaration)
        })
        .collect()
}

fn read_declaration(agent: v1::AgentDeclaration) -> Result<NewDeclaration, Refusal> {
    let name = read_agent_name("agents.name", &agent.name)?;
    check_size("the declaration", &agent.document)?;
    Declaration::parse(&agent.document)
        .map_err(|refusal| Refusal { message: format!("agent {name}: {}", refusal.message), ..refusal })?;
    let digest = Digest::of(&agent.document);
    Ok(NewDeclaration { agent: name, document: agent.document.into(), digest })
}

fn read_bundle(document: &[u8]) -> Result<Option<PolicyBundle>, Refusal> {
    if document.is_empty() {
        return Ok(None);
    }
    check_size("the policy bundle", document)?;
    PolicyBundle::parse(document).map(Some)
}

fn write_bundle(bundle: &PolicyBundle) -> NewBundle {
    NewBundle { document: bundle.document().to_vec(), digest: bundle.digest() }
}

fn check_size(what: &str, document: &[u8]) -> Result<(), Refusal> {
    if document.len() > DECLARATION_MAX_BYTES {
        let words =
            format!("{what} has {} bytes, and at most {DECLARATION_MAX_BYTES} are taken", document.len());
        return Err(
            Refusal::new(Reason::InvalidDeclaration, words).with_detail("limit_bytes", DECLARATION_MAX_BYTES)
        );
    }
    Ok(())
}

fn write_change(change: Change) -> v1::AppliedAgent {
    let kind = match change.kind {
        ChangeKind::Added => v1::AgentChange::Created,
        ChangeKind::Changed => v1::AgentChange::Changed,
        ChangeKind::Unchanged => v1::AgentChange::Unchanged,
    };
    v1::AppliedAgent {
        name: change.agent.to_string(),
        digest: change.digest.0.to_vec().into(),
        change: kind.into(),
    }
}

fn write_agent(agent: AgentRevision) -> v1::Agent {
    v1::Agent {
        name: agent.agent.to_string(),
        digest: agent.digest.0.to_vec().into(),
        document: agent.document.into(),
        applied_at: Some(write_timestamp(agent.applied_at)),
        applied_by: agent.applied_by,
    }
}
