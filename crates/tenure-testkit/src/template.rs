//! The database that all test databases are clones of.
//!
//! Owns its name, which carries a digest of the migrations, and its making. Promises that it is
//! migrated once however many tests, also in other processes, want it at the same moment: an advisory
//! lock admits one builder, and the finished database gets its name last. Old templates stay with
//! their server, which is a temporary one. Neighbours: `database`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection};
use tenure_store::{Store, StoreOptions};

/// The key of the advisory lock under which a template is built: "tenure t" in ASCII.
const BUILD_LOCK: i64 = 0x7465_6e75_7265_2074;

/// Where the migrations are.
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");

/// Returns the name of the migrated template on the server of `admin`, building it if need be.
pub(crate) async fn ensure_template(
    options: &PgConnectOptions,
    admin: &mut PgConnection,
) -> anyhow::Result<String> {
    let migrator = Migrator::new(Path::new(MIGRATIONS))
        .await
        .with_context(|| format!("could not read the migrations in {MIGRATIONS}"))?;
    let name = format!("tenure_template_{}", digest_migrations(&migrator));
    sqlx::query("SELECT pg_advisory_lock($1)").bind(BUILD_LOCK).execute(&mut *admin).await?;
    let built = build_if_absent(options, admin, &name).await;
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(BUILD_LOCK).execute(&mut *admin).await?;
    built.map(|()| name)
}

async fn build_if_absent(
    options: &PgConnectOptions,
    admin: &mut PgConnection,
    name: &str,
) -> anyhow::Result<()> {
    let present: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
        .bind(name)
        .fetch_one(&mut *admin)
        .await?;
    if present {
        return Ok(());
    }
    let draft = format!("{name}_draft");
    execute(admin, format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await?;
    execute(admin, format!("CREATE DATABASE {draft}")).await?;
    // By the store itself, which also notes the installation and makes the partitions.
    let url = options.clone().database(&draft).to_url_lossy();
    let store = Store::connect_unprepared(url.as_str(), StoreOptions::default()).await?;
    let migrated = store.migrate(None).await;
    store.close().await;
    migrated.context("could not migrate the template for test databases")?;
    execute(admin, format!("ALTER DATABASE {draft} RENAME TO {name}")).await
}

/// Runs a statement about whole databases, whose names cannot be parameters. All of them are made
/// here from letters, digits and underscores.
pub(crate) async fn execute(connection: &mut PgConnection, sql: String) -> anyhow::Result<()> {
    sqlx::query(AssertSqlSafe(sql.clone()))
        .execute(connection)
        .await
        .with_context(|| format!("the server refused {sql}"))?;
    Ok(())
}

/// The first bytes of every migration's SHA-384 folded into one short name.
fn digest_migrations(migrator: &Migrator) -> String {
    let mut folded = [0_u8; 12];
    for (index, byte) in migrator.iter().flat_map(|migration| migration.checksum.iter()).enumerate() {
        let cell = &mut folded[index % 12];
        *cell = cell.rotate_left(3) ^ byte;
    }
    folded.iter().fold(String::new(), |mut name, byte| {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::migrate::{Migration, MigrationType};
    use std::borrow::Cow;

    fn migrator(statements: &[&'static str]) -> Migrator {
        let migrations: Vec<_> = statements
            .iter()
            .zip(1..)
            .map(|(sql, version)| {
                Migration::new(
                    version,
                    Cow::Borrowed("a step"),
                    MigrationType::Simple,
                    sqlx::SqlStr::from_static(sql),
                    false,
                )
            })
            .collect();
        let mut migrator = Migrator::DEFAULT;
        migrator.migrations = Cow::Owned(migrations);
        migrator
    }

    #[test]
    fn another_migration_gives_the_template_another_name() {
        let one = digest_migrations(&migrator(&["SELECT 1"]));
        let two = digest_migrations(&migrator(&["SELECT 1", "SELECT 2"]));
        let edited = digest_migrations(&migrator(&["SELECT 1", "SELECT 3"]));
        assert_eq!(one, digest_migrations(&migrator(&["SELECT 1"])));
        assert!(one != two && two != edited, "{one} {two} {edited}");
    }
}
