//! Databases for the points of one job. One that a point does not need any more is emptied for another and gets another name,
//! so that nobody who was pointed at the one finds the other. Making and ending a database for each point would take longer
//! than everything else. Neighbours: `rebuilt` gives back, `backstop` watches each.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use sqlx::{Connection as _, PgConnection};

use super::backstop;
use crate::TestDatabase;

/// Leaves what `migrate` makes, and nothing else: no rows, every sequence at its start, and everybody sees everything. The
/// table of agents refers to others, and goes first.
const EMPTY: &str = "
    DROP POLICY IF EXISTS after_the_crash ON effects;
    ALTER TABLE effects DISABLE ROW LEVEL SECURITY;
    DELETE FROM agents;
    DO $$
    DECLARE one regclass;
    BEGIN
        FOR one IN
            SELECT c.oid FROM pg_class AS c
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND c.relname NOT IN ('installation', '_sqlx_migrations')
        LOOP
            EXECUTE format('DELETE FROM %s', one);
        END LOOP;
        FOR one IN
            SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'S'
        LOOP
            PERFORM setval(one, (SELECT s.seqstart FROM pg_sequence AS s WHERE s.seqrelid = one), false);
        END LOOP;
    END $$";

/// Those that nobody needs at present.
#[derive(Debug, Default)]
pub(super) struct Databases {
    free: Mutex<Vec<TestDatabase>>,
}

impl Databases {
    /// One without rows.
    pub(super) async fn take(&self) -> Result<TestDatabase> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(mut database) => {
                database.rename().await.context("taking a database from the point before")?;
                let mut connection = PgConnection::connect(database.url()).await?;
                sqlx::raw_sql(EMPTY).execute(&mut connection).await.context("emptying a database")?;
                connection.close().await?;
                Ok(database)
            }
            None => {
                let database = TestDatabase::create().await?;
                let mut connection = PgConnection::connect(database.url()).await?;
                backstop::watch(&mut connection).await?;
                connection.close().await?;
                Ok(database)
            }
        }
    }

    /// One that nobody needs any more.
    pub(super) fn give_back(&self, database: TestDatabase) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(database);
    }
}
