//! Declarations, content-addressed and kept for ever, and which of them is each agent's present one.

mod apply;

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    id::{AgentName, Digest, Tenant},
    money::Micros,
};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint},
    timestamp::Stamp,
};

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
    /// What the tenant has spent in 24 hours; a listing does not look.
    pub spent: Micros,
    /// When it became the present one.
    pub applied_at: Timestamp,
    /// Who applied it.
    pub applied_by: String,
}

impl Store {
    /// Reads an agent's present declaration.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_agent(
        &self,
        tenant: &Tenant,
        agent: &AgentName,
    ) -> Result<Option<AgentRevision>, StoreError> {
        let attempted = "reading an agent";
        let row =
            sqlx::query_file_as!(AgentRow, "queries/agents/read_agent.sql", tenant.as_str(), agent.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(StoreError::while_doing(attempted))?;
        row.map(|row| row.into_revision(Reader(attempted))).transpose()
    }

    /// Reads a page of a tenant's agents, by name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_agents(
        &self,
        tenant: &Tenant,
        after: Option<&AgentName>,
        limit: u32,
    ) -> Result<Vec<AgentRevision>, StoreError> {
        let attempted = "listing agents";
        let rows = sqlx::query_file_as!(
            AgentRow,
            "queries/agents/list_agents.sql",
            tenant.as_str(),
            after.map_or("", AgentName::as_str),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_revision(Reader(attempted))).collect()
    }

    /// Tells which of these agents the tenant has.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_agents(
        &self,
        tenant: &Tenant,
        wanted: &BTreeSet<AgentName>,
    ) -> Result<Vec<AgentName>, StoreError> {
        let attempted = "finding agents";
        let names: Vec<_> = wanted.iter().map(|agent| agent.as_str().to_owned()).collect();
        let rows = query_file!("queries/agents/find_agents.sql", tenant.as_str(), &names)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| Reader(attempted).parse("agent", row.agent)).collect()
    }

    /// Reads declarations by digest, in the order asked; nothing where there is none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_declarations(
        &self,
        wanted: &[(Tenant, Digest)],
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let numbers: Vec<_> = (0..wanted.len()).map(|no| to_bigint(no as u64)).collect();
        let tenants: Vec<_> = wanted.iter().map(|(tenant, _)| tenant.as_str().to_owned()).collect();
        let digests: Vec<_> = wanted.iter().map(|(_, digest)| digest.0.to_vec()).collect();
        let rows = query_file!("queries/declarations/read_declarations.sql", &numbers, &tenants, &digests)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing("reading declarations"))?;
        let mut found = vec![None; wanted.len()];
        for row in rows {
            if let Some(place) = usize::try_from(row.no).ok().and_then(|no| found.get_mut(no)) {
                *place = Some(row.document);
            }
        }
        Ok(found)
    }
}

struct AgentRow {
    agent: String,
    digest: Vec<u8>,
    document: Vec<u8>,
    bundle: Option<Vec<u8>>,
    bundle_document: Option<Vec<u8>>,
    applied_at: Stamp,
    applied_by: String,
    spent_micros: i64,
}

impl AgentRow {
    fn into_revision(self, reader: Reader) -> Result<AgentRevision, StoreError> {
        Ok(AgentRevision {
            agent: reader.parse("agent", self.agent)?,
            digest: reader.digest(&self.digest)?,
            document: self.document,
            bundle: self.bundle.map(|digest| reader.digest(&digest)).transpose()?,
            bundle_document: self.bundle_document,
            spent: Micros(from_bigint(self.spent_micros)),
            applied_at: self.applied_at.0,
            applied_by: self.applied_by,
        })
    }
}
