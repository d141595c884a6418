//! The connections: one pool for everything, and one connection of its own for renewals, which no other work can starve.
//! Every connection runs READ COMMITTED with the three timeouts that keep a frozen coordinator from holding locks; behind
//! a pooler that refuses such options they belong into the role's settings. A connection that broke while it was idle is
//! noticed by its next user, who gets `Unavailable`: testing each before use would halve what a connection can do. The
//! address is never printed: it may contain a password.

use std::{str::FromStr as _, time::Duration};

use sqlx::{
    Connection as _, Postgres, Transaction,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tenure_core::limits::{
    DATABASE_ACQUIRE_TIMEOUT, DATABASE_CONNECTIONS_MAX, DATABASE_IDLE_TRANSACTION_TIMEOUT,
    DATABASE_LOCK_TIMEOUT, DATABASE_STATEMENT_TIMEOUT,
};

use crate::{
    StoreError,
    claim::UnreadableRows,
    pool::{Pool, Taken},
};

/// How long a connection is used before it is replaced, and how long it may lie idle.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(30 * 60);
const CONNECTION_IDLE: Duration = Duration::from_secs(5 * 60);

/// How to connect.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Connections of the pool; the connection for renewals comes on top.
    pub connections_max: u32,
    /// How long a caller waits for a free connection.
    pub acquire_timeout: Duration,
    /// How long a statement waits for a lock.
    pub lock_timeout: Duration,
    /// The name in `pg_stat_activity`.
    pub application_name: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            connections_max: DATABASE_CONNECTIONS_MAX,
            acquire_timeout: DATABASE_ACQUIRE_TIMEOUT,
            lock_timeout: DATABASE_LOCK_TIMEOUT,
            application_name: "tenure".to_owned(),
        }
    }
}

impl StoreOptions {
    /// What every connection sets. Behind a pooler that refuses such settings they belong into the role's
    /// (`ALTER ROLE … SET`).
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let ms = |timeout: Duration| timeout.as_millis().to_string();
        vec![
            ("default_transaction_isolation", "read committed".to_owned()),
            ("synchronous_commit", "on".to_owned()),
            ("timezone", "UTC".to_owned()),
            ("statement_timeout", ms(DATABASE_STATEMENT_TIMEOUT)),
            ("lock_timeout", ms(self.lock_timeout)),
            ("idle_in_transaction_session_timeout", ms(DATABASE_IDLE_TRANSACTION_TIMEOUT)),
            // Compiling a plan costs more than any of ours runs.
            ("jit", "off".to_owned()),
            // Every statement looks rows up by key, one by one. A plan that reads a table whole is right only while the
            // table is small, and would be kept by a connection that prepared it then.
            ("enable_seqscan", "off".to_owned()),
            ("enable_bitmapscan", "off".to_owned()),
            ("enable_hashjoin", "off".to_owned()),
            ("enable_mergejoin", "off".to_owned()),
        ]
    }
}

/// The database. Cheap to clone; all clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) pool: Pool,
    /// The one connection for renewals and attaches.
    pub(crate) term_pool: Pool,
    pub(crate) unreadable: UnreadableRows,
}

impl Store {
    /// Connects, and looks at nothing.
    ///
    /// # Errors
    /// The address is wrong, or nobody answers there.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let connect = connect_options(url, &options)?;
        let pool = pool_options(options.connections_max, &options).connect_with(connect.clone()).await;
        let term_pool = pool_options(1, &options).connect_lazy_with(connect);
        Ok(Self {
            pool: Pool::new(pool.map_err(StoreError::while_doing("connecting"))?),
            term_pool: Pool::new(term_pool),
            unreadable: UnreadableRows::default(),
        })
    }

    /// Closes all connections, after what is under way.
    pub async fn close(&self) {
        self.term_pool.close().await;
        self.pool.close().await;
    }

    /// Takes a connection, for a transaction.
    pub(crate) async fn take(&self, attempted: &'static str) -> Result<Taken, StoreError> {
        self.pool.take().await.map_err(StoreError::while_doing(attempted))
    }

    /// A connection outside the pool, without timeouts: for migrating, which waits for whoever migrates already.
    pub(crate) fn patient_options(&self) -> PgConnectOptions {
        self.pool.connect_options().options([
            ("statement_timeout", "0"),
            ("lock_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
        ])
    }
}

/// Begins a transaction; it is rolled back where it is dropped.
pub(crate) async fn begin<'c>(
    connection: &'c mut Taken,
    attempted: &'static str,
) -> Result<Transaction<'c, Postgres>, StoreError> {
    connection
        .begin_with("BEGIN ISOLATION LEVEL READ COMMITTED")
        .await
        .map_err(StoreError::while_doing(attempted))
}

fn connect_options(url: &str, options: &StoreOptions) -> Result<PgConnectOptions, StoreError> {
    let parsed = PgConnectOptions::from_str(url).map_err(StoreError::invalid_url)?;
    Ok(parsed.application_name(&options.application_name).options(options.settings()))
}

fn pool_options(connections_max: u32, options: &StoreOptions) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .max_lifetime(CONNECTION_LIFETIME)
        .idle_timeout(CONNECTION_IDLE)
}
