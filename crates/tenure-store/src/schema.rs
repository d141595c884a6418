//! The schema's version: what was applied, what this release knows, and the applying. Migrations are numbered and only go
//! forward; they are embedded in the program.

use sqlx::{PgConnection, migrate::Migrator, postgres::PgPoolOptions, query_file};

use crate::{Store, StoreError, settings::check_settings};

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

const READING: &str = "reading the version of the schema";

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
        check_schema(&mut *self.take(READING).await?).await
    }

    /// Passes where the settings of the role are in force, for a connection that this store has already.
    ///
    /// # Errors
    /// `SettingsMissing`, or the database does not answer.
    pub async fn check_settings(&self) -> Result<(), StoreError> {
        check_settings(&mut *self.take(READING).await?).await
    }

    /// Applies what is missing, notes the installation, makes the partitions, and writes the settings of the role that
    /// coordinators connect as; none: this one. Two may race: one waits for the other.
    ///
    /// # Errors
    /// `DatabaseTooNew`, `SettingsMissing`, a migration that fails, or the database does not answer.
    pub async fn migrate(&self, role: Option<&str>) -> Result<SchemaState, StoreError> {
        let SchemaState { found, known } = read_schema(&mut *self.take(READING).await?).await?;
        if found > known {
            return Err(StoreError::DatabaseTooNew { found, known });
        }
        self.apply_migrations().await?;
        self.note_installation().await?;
        self.ensure_partitions(self.read_clock().await?).await?;
        self.prepare_role(role).await?;
        self.check_schema().await
    }

    async fn apply_migrations(&self) -> Result<(), StoreError> {
        // A pool, because what borrows a single connection here could not be moved between threads.
        let pool = PgPoolOptions::new().max_connections(1).connect_with(self.patient_options()).await;
        let pool = pool.map_err(StoreError::while_doing("connecting in order to migrate"))?;
        let applied = MIGRATOR.run(&pool).await;
        pool.close().await;
        applied.map_err(StoreError::migrate)
    }
}

/// Passes where the schema is the one that this release knows.
pub(crate) async fn check_schema(connection: &mut PgConnection) -> Result<SchemaState, StoreError> {
    let SchemaState { found, known } = read_schema(connection).await?;
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(StoreError::NotMigrated { found, known }),
        std::cmp::Ordering::Equal => Ok(SchemaState { found, known }),
        std::cmp::Ordering::Greater => Err(StoreError::DatabaseTooNew { found, known }),
    }
}

async fn read_schema(connection: &mut PgConnection) -> Result<SchemaState, StoreError> {
    let attempted = || StoreError::while_doing(READING);
    let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    let row = query_file!("queries/installation/check_schema.sql").fetch_one(&mut *connection).await;
    if !row.map_err(attempted())?.migrated {
        return Ok(SchemaState { found: 0, known });
    }
    let row = query_file!("queries/installation/read_schema.sql").fetch_one(connection).await;
    Ok(SchemaState { found: row.map_err(attempted())?.newest.unwrap_or_default(), known })
}
