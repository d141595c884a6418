//! One fresh database for one test.
//!
//! Owns its making, as a clone of a migrated template, and its end. The server is the one that
//! `TENURE_TEST_DATABASE_URL` names (`with-postgres` sets it); where that is unset, a private one that
//! the tests of this process share and that ends with the last of them. Promises that no test sees
//! another's rows. Does not hide PostgreSQL: tests connect to [`TestDatabase::url`] as users do.
//! Neighbours: `template`, `tenure-postgres`.

use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _};
use tenure_postgres::{Options, Server};
use tenure_store::own_role_settings;
use tokio::time::{Instant, sleep};

use crate::template::{ensure_template, execute};

/// The variable that names the server to use, as the address of a database on it whose role may
/// create databases.
const SERVER_VARIABLE: &str = "TENURE_TEST_DATABASE_URL";

/// How long those who are still connected to a database have to leave it when it is renamed, and how often that is tried.
const RENAMING_PATIENCE: Duration = Duration::from_secs(30);
const RENAMING_PAUSE: Duration = Duration::from_millis(20);

/// A database that exists as long as this value.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    admin: PgConnectOptions,
    url: String,
    // Dropped last: the database goes before its server.
    _server: Option<Arc<Server>>,
}

impl TestDatabase {
    /// A fresh, migrated database.
    ///
    /// # Errors
    /// When there is no server, or it refuses; the chain of causes says why.
    pub async fn create() -> anyhow::Result<Self> {
        let (admin_url, server) = find_server().await?;
        Self::create_at(&admin_url, true, server).await
    }

    /// A fresh database without any schema, to migrate or to find unmigrated.
    ///
    /// # Errors
    /// As [`TestDatabase::create`].
    pub async fn create_empty() -> anyhow::Result<Self> {
        let (admin_url, server) = find_server().await?;
        Self::create_at(&admin_url, false, server).await
    }

    /// A fresh, migrated database on the server of `admin_url`, for tests that stop or kill a server
    /// of their own.
    ///
    /// # Errors
    /// As [`TestDatabase::create`].
    pub async fn create_on(admin_url: &str) -> anyhow::Result<Self> {
        Self::create_at(admin_url, true, None).await
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A pool of at most `max_connections` connections to it.
    ///
    /// # Errors
    /// When the first connection cannot be made.
    pub async fn connect(&self, max_connections: u32) -> anyhow::Result<PgPool> {
        // The role's timeouts are for the store; a test may hold a lock for longer.
        let patient = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        let options = PgConnectOptions::from_str(&self.url)?.options(patient.map(|name| (name, "0")));
        PgPoolOptions::new()
            .max_connections(max_connections)
            .connect_with(options)
            .await
            .with_context(|| format!("could not connect to {}", self.url))
    }

    /// Takes it away from whoever is still connected, and gives it another name, so that nobody finds back to it who had its
    /// address. Its rows stay. It is much cheaper than an end and a new one, each of which the server takes for a checkpoint.
    pub(crate) async fn rename(&mut self) -> anyhow::Result<()> {
        let mut connection = self.admin.connect().await?;
        let name = format!("tenure_test_{}", uuid::Uuid::now_v7().simple());
        let until = Instant::now() + RENAMING_PATIENCE;
        loop {
            sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1")
                .bind(&self.name)
                .execute(&mut connection)
                .await?;
            // Whoever was ended may not be gone yet.
            match execute(&mut connection, format!("ALTER DATABASE {} RENAME TO {name}", self.name)).await {
                Ok(()) => break,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(RENAMING_PAUSE).await,
            }
        }
        connection.close().await?;
        self.url = replace_database(&self.url, &name);
        self.name = name;
        Ok(())
    }

    async fn create_at(admin_url: &str, migrated: bool, server: Option<Arc<Server>>) -> anyhow::Result<Self> {
        let admin = PgConnectOptions::from_str(admin_url)
            .with_context(|| format!("{admin_url} is no database address"))?;
        let mut connection =
            admin.connect().await.with_context(|| format!("could not connect to {admin_url}"))?;
        let name = format!("tenure_test_{}", uuid::Uuid::now_v7().simple());
        let clause = if migrated {
            format!(" TEMPLATE {}", ensure_template(&admin, &mut connection).await?)
        } else {
            String::new()
        };
        execute(&mut connection, format!("CREATE DATABASE {name}{clause}")).await?;
        if migrated {
            // A clone takes no settings along.
            for statement in own_role_settings(&name) {
                execute(&mut connection, statement).await?;
            }
        }
        connection.close().await?;
        let url = replace_database(admin_url, &name);
        Ok(Self { name, admin, url, _server: server })
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        // A thread with a runtime of its own: the test's runtime may be single-threaded or ending.
        let dropping = thread::spawn(move || drop_database(&admin, &name));
        if let Ok(Err(error)) = dropping.join() {
            // A test that killed its server has nothing left to drop.
            eprintln!("the test database {} stays: {error:#}", self.name);
        }
    }
}

fn drop_database(admin: &PgConnectOptions, name: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = admin.connect().await?;
        execute(&mut connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        connection.close().await?;
        Ok(())
    })
}

/// The address of the server to use, and the server itself where it is ours.
async fn find_server() -> anyhow::Result<(String, Option<Arc<Server>>)> {
    if let Ok(url) = std::env::var(SERVER_VARIABLE)
        && !url.is_empty()
    {
        return Ok((url, None));
    }
    let server = tokio::task::spawn_blocking(share_server).await??;
    Ok((server.url("postgres"), Some(server)))
}

/// The private server of this process, started by whoever comes first.
fn share_server() -> anyhow::Result<Arc<Server>> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return Ok(server);
    }
    let options = Options::default().with_setting("max_connections", "200");
    let server = Arc::new(Server::start(options).context("no private PostgreSQL for the tests")?);
    *shared = Arc::downgrade(&server);
    Ok(server)
}

/// The same address with another database; the path ends where the query begins.
fn replace_database(url: &str, database: &str) -> String {
    let (address, query) = match url.split_once('?') {
        Some((address, query)) => (address, format!("?{query}")),
        None => (url, String::new()),
    };
    let authority_start = address.find("://").map_or(0, |colon| colon + 3);
    let path_start =
        address[authority_start..].find('/').map_or(address.len(), |slash| authority_start + slash);
    format!("{}/{database}{query}", &address[..path_start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_is_replaced_in_every_form_of_address() {
        for (url, expected) in [
            ("postgresql://a@h:1/old?host=/s/t", "postgresql://a@h:1/new?host=/s/t"),
            ("postgres://h/old", "postgres://h/new"),
            ("postgres://h", "postgres://h/new"),
            ("postgres://h?sslmode=disable", "postgres://h/new?sslmode=disable"),
        ] {
            assert_eq!(replace_database(url, "new"), expected);
        }
    }
}
