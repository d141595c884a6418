//! A lock on a table, by which a coordinator is caught in the middle of a statement: it can be killed or frozen there, and
//! when the lock is lifted the statement goes on without it.
//!
//! Coordinators wait for a lock for a second at most, so what is to happen happens at once.

use anyhow::{Result, ensure};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tenure_testkit::wait_for;

use super::{Arena, PATIENCE};

/// The lock, until it is lifted.
pub(crate) struct Blockade {
    connection: PgConnection,
}

impl Blockade {
    /// Lets nobody write to this table.
    pub(crate) async fn raise(arena: &Arena, table: &'static str) -> Result<Self> {
        ensure!(["jobs", "leases"].contains(&table), "nobody blocks {table}");
        let mut connection = PgConnection::connect(&arena.cluster.postgres.url("postgres")).await?;
        let statement = format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(Self { connection })
    }

    /// Waits until a coordinator waits for it.
    pub(crate) async fn wait_for_coordinator(&self, arena: &Arena) {
        wait_for("a coordinator to wait for the lock", PATIENCE, async || {
            let waiting: Result<(i64,), sqlx::Error> = sqlx::query_as(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND application_name = 'tenure coordinator'",
            )
            .fetch_one(&arena.cluster.database)
            .await;
            match waiting {
                Ok((1..,)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Lifts it.
    pub(crate) async fn lift(self) -> Result<()> {
        Ok(self.connection.close().await?)
    }
}
