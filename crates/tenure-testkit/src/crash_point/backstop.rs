//! The unique index of announcements, watched and laid bare. It is the last line of defence against a second announcement:
//! where it was what stopped a run, the lines before it did not hold, whatever the run made of the refusal. What it stops is
//! rolled back and leaves no row, so a trigger counts it on a sequence, which no rollback takes back.
//!
//! Laid bare it is by row security: a role that does not see the effects of before the crash neither reads them back nor is
//! stopped by the check in the statement. Neighbours: `rebuilt`, `honesty`.

use std::str::FromStr as _;

use anyhow::{Context as _, Result};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, PgPool, postgres::PgConnectOptions};
use tenure_core::id::Epoch;
use tenure_store::{Store, StoreOptions};

/// Counts announcements that the index is about to stop. It sees every row, whoever announces.
const WATCH: &str = "
    CREATE SEQUENCE announcements_stopped;
    CREATE FUNCTION count_stopped_announcement() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        IF EXISTS (
            SELECT FROM public.effects AS e
            WHERE e.tenant = NEW.tenant AND e.job = NEW.job AND e.key = NEW.key AND e.attempt = NEW.attempt
        ) THEN
            PERFORM nextval('public.announcements_stopped');
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER count_stopped_announcement BEFORE INSERT ON effects
    FOR EACH ROW EXECUTE FUNCTION count_stopped_announcement()";

/// What the watch counted, and the index that it watches: of the partitions the one that has rows, all of which are of one job.
const STOPPED: &str = "
    SELECT s.last_value, c.conname::text
    FROM announcements_stopped AS s
    CROSS JOIN LATERAL (SELECT e.tableoid FROM effects AS e LIMIT 1) AS p
    JOIN pg_constraint AS c ON c.conrelid = p.tableoid AND c.contype = 'p'
    WHERE s.is_called";

/// The role that sees no effect of before the crash. One for the whole server: what it sees is up to each database.
const ROLE: &str = "tenure_blind";

/// An index that stopped announcements.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct Stopped {
    #[sqlx(rename = "last_value")]
    pub(super) times: i64,
    #[sqlx(rename = "conname")]
    pub(super) index: String,
}

/// Begins to watch.
pub(super) async fn watch(connection: &mut PgConnection) -> Result<()> {
    sqlx::raw_sql(WATCH).execute(connection).await.context("watching the index of announcements")?;
    Ok(())
}

/// What the index stopped; none: nothing ever came so far.
pub(super) async fn read_stopped(pool: &PgPool) -> Result<Option<Stopped>> {
    sqlx::query_as(STOPPED)
        .fetch_optional(pool)
        .await
        .context("asking what the index of announcements stopped")
}

/// Makes the role in this database, and returns the address with which it connects.
pub(super) async fn blind(pool: &PgPool, url: &str, epoch: Epoch) -> Result<String> {
    // Another test may make it at this moment; then it is there, and that is all that is wanted.
    let script = format!(
        "DO $$ BEGIN
            CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}';
         EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
         GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {ROLE};
         ALTER TABLE effects ENABLE ROW LEVEL SECURITY;
         CREATE POLICY after_the_crash ON effects USING (epoch > {epoch}) WITH CHECK (true)"
    );
    sqlx::raw_sql(AssertSqlSafe(script))
        .execute(pool)
        .await
        .context("making a role that reads nothing back")?;
    let store = Store::connect_unprepared(url, StoreOptions::default()).await?;
    let prepared = store.prepare_role(Some(ROLE)).await;
    store.close().await;
    prepared.context("preparing the role that reads nothing back")?;
    let blind = PgConnectOptions::from_str(url)?.username(ROLE).password(ROLE);
    Ok(blind.to_url_lossy().to_string())
}
