//! The schema's version: what was applied, what this release knows, and the applying.

use crate::{Store, StoreError};

/// Where the schema stands. Migrations are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaState {
    /// The newest migration that was applied; 0: none.
    pub found: i64,
    /// The newest that this release knows.
    pub known: i64,
}

impl Store {
    /// Passes where the schema is the one that this release knows.
    ///
    /// # Errors
    /// `NotMigrated`, `DatabaseTooNew`, or the database does not answer.
    pub async fn check_schema(&self) -> Result<SchemaState, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Applies what is missing, notes the installation, makes the partitions. Two may race: one waits for the other.
    ///
    /// # Errors
    /// `DatabaseTooNew`, a migration that fails, or the database does not answer.
    pub async fn migrate(&self) -> Result<SchemaState, StoreError> {
        Err(StoreError::unwritten())
    }
}
