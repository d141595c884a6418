//! Declarations, content-addressed and kept for ever, and which of them is each agent's present one.

use jiff::Timestamp;
use tenure_core::{
    id::{AgentName, Digest, Tenant},
    principal::Principal,
};

use crate::{Store, StoreError};

/// A declaration to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeclaration {
    /// Whose.
    pub agent: AgentName,
    /// Its canonical JSON.
    pub document: Vec<u8>,
    /// SHA-256 of the document.
    pub digest: Digest,
}

/// A policy bundle to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBundle {
    /// Its canonical JSON.
    pub document: Vec<u8>,
    /// SHA-256 of the document.
    pub digest: Digest,
}

/// What applying did, or would do, to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The agent.
    pub agent: AgentName,
    /// What.
    pub kind: ChangeKind,
    /// The declaration from now on.
    pub digest: Digest,
    /// The declaration until now.
    pub previous: Option<Digest>,
}

/// What applying does to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// It had another declaration, or another bundle.
    Changed,
    /// Nothing.
    Unchanged,
}

/// An agent with its present declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRevision {
    /// The agent.
    pub agent: AgentName,
    /// SHA-256 of the declaration.
    pub digest: Digest,
    /// The declaration's canonical JSON.
    pub document: Vec<u8>,
    /// The tenant's policy bundle, where there is one.
    pub bundle: Option<Digest>,
    /// The bundle's canonical JSON.
    pub bundle_document: Option<Vec<u8>>,
    /// When it became the present one.
    pub applied_at: Timestamp,
    /// Who applied it.
    pub applied_by: String,
}

impl Store {
    /// Stores declarations and makes them the present ones; with `dry_run`, says only what that would do. Agents that are
    /// not named are left as they are, except that a given bundle becomes theirs too.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn apply_agents(
        &self,
        _tenant: &Tenant,
        _declarations: &[NewDeclaration],
        _bundle: Option<&NewBundle>,
        _by: &Principal,
        _dry_run: bool,
    ) -> Result<Vec<Change>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads an agent's present declaration.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_agent(
        &self,
        _tenant: &Tenant,
        _agent: &AgentName,
    ) -> Result<Option<AgentRevision>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads a page of a tenant's agents, by name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_agents(
        &self,
        _tenant: &Tenant,
        _after: Option<&AgentName>,
        _limit: u32,
    ) -> Result<Vec<AgentRevision>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads declarations by digest, in the order asked; nothing where there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_declarations(
        &self,
        _wanted: &[(Tenant, Digest)],
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        Err(StoreError::unwritten())
    }
}
