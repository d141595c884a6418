//! What agents remember beyond sessions. It is written by `append`, with the record that leaves it.

use jiff::Timestamp;
use tenure_core::id::{AgentName, JobId, Tenant};
use uuid::Uuid;

use crate::{Store, StoreError, stored::to_bigint, timestamp::Stamp};

/// A line that a run left for its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// The job whose run left it.
    pub job: JobId,
    /// When.
    pub at: Timestamp,
    /// What it says.
    pub text: String,
}

impl Store {
    /// Lists the latest that an agent remembers, the latest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_memories(
        &self,
        tenant: &Tenant,
        agent: &AgentName,
        limit: u32,
    ) -> Result<Vec<MemoryRow>, StoreError> {
        let rows = sqlx::query_file_as!(
            StoredMemory,
            "queries/memories/list_memories.sql",
            tenant.as_str(),
            agent.as_str(),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing("listing what an agent remembers"))?;
        Ok(rows.into_iter().map(StoredMemory::into_row).collect())
    }

    /// Deletes of each agent all but the latest lines; tells how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_old_memories(&self, kept: u32) -> Result<u64, StoreError> {
        let deleted = sqlx::query_file!("queries/memories/delete_old_memories.sql", to_bigint(kept.into()))
            .execute(&self.pool)
            .await
            .map_err(StoreError::while_doing("deleting old memories"))?;
        Ok(deleted.rows_affected())
    }
}

struct StoredMemory {
    job: Uuid,
    at: Stamp,
    text: Vec<u8>,
}

impl StoredMemory {
    fn into_row(self) -> MemoryRow {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        MemoryRow { job: JobId(self.job), at: self.at.0, text }
    }
}
