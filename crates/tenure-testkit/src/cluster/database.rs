//! What can be done to a cluster's PostgreSQL.
//!
//! Neighbours: `cluster`; `tenure-postgres` runs the server.

use anyhow::{Context as _, Result};
use sqlx::AssertSqlSafe;
use tenure_postgres::Stop;

use super::{Cluster, WATCHING_NAME};

/// How a database goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// It rolls back what is open, writes a checkpoint and ends.
    Fast,
    /// It ends at once, and recovers when it is started again.
    Immediate,
    /// SIGKILL to the postmaster and all of its children.
    Kill,
}

impl Cluster {
    /// Makes the database go away, and returns when it is gone. Blocks for up to some seconds.
    pub fn crash_database(&mut self, how: Crash) {
        match how {
            Crash::Fast => self.postgres.stop(Stop::Fast),
            Crash::Immediate => self.postgres.stop(Stop::Immediate),
            Crash::Kill => self.postgres.kill9(),
        }
    }

    /// Starts the database again, and returns when it accepts connections. Blocks for up to some seconds.
    ///
    /// # Errors
    /// It does not start; the error shows the end of its log.
    pub fn restart_database(&mut self) -> Result<()> {
        self.postgres.start_again().context("starting PostgreSQL again")
    }

    /// Terminates the server's connections of which the condition over `pg_stat_activity` holds, for example `query LIKE
    /// 'LISTEN%'`, but for the test's own, and returns how many.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn terminate_connections(&self, condition: &'static str) -> Result<usize> {
        let statement = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE backend_type = 'client backend' AND application_name <> '{WATCHING_NAME}'
               AND ({condition})"
        );
        let ended = sqlx::query(AssertSqlSafe(statement)).fetch_all(&self.database).await;
        Ok(ended.context("terminating connections")?.len())
    }
}
