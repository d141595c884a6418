//! The connections: one pool for everything, and one connection of its own for renewals, which no other work can starve.
//! They keep nothing in their sessions but prepared statements, so a pooler may share them out by the transaction. Every new
//! one is asked whether the settings of its role are in force, without which nothing is written. A connection that broke
//! while it was idle is noticed by its next user, who gets `Unavailable`: testing each before use would halve what a
//! connection can do. The address is never printed: it may contain a password. Neighbours: `settings`, `pool`.

use std::{str::FromStr as _, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, Postgres, Transaction,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tenure_core::limits::{DATABASE_ACQUIRE_TIMEOUT, DATABASE_CONNECTIONS_MAX};
use tokio::time::timeout;

use crate::{
    StoreError,
    claim::UnreadableRows,
    pool::{Pool, Taken},
    schema::check_schema,
    settings::check_settings,
};

/// How long a connection is used before it is replaced, and how long it may lie idle.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(30 * 60);
const CONNECTION_IDLE: Duration = Duration::from_secs(5 * 60);

const CONNECTING: &str = "connecting";

/// How to connect.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Connections of the pool; the connection for renewals comes on top.
    pub connections_max: u32,
    /// How long a caller waits for a free connection.
    pub acquire_timeout: Duration,
    /// The name in `pg_stat_activity`.
    pub application_name: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            connections_max: DATABASE_CONNECTIONS_MAX,
            acquire_timeout: DATABASE_ACQUIRE_TIMEOUT,
            application_name: "tenure".to_owned(),
        }
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
    /// Connects to a database that is prepared: its schema is the one that this release knows, and the settings of the role
    /// are in force.
    ///
    /// # Errors
    /// `NotMigrated`, `DatabaseTooNew`, `SettingsMissing`; the address is wrong, or nobody answers there.
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let connect = connect_options(url, &options)?;
        // By a connection of its own, because a pool does not tell why it could not make one.
        check_once(&connect, options.acquire_timeout).await?;
        let checked =
            |most| pool_options(most, &options).after_connect(|connection, _| Box::pin(check(connection)));
        Self::open(connect, checked(options.connections_max), checked(1)).await
    }

    /// Connects, and looks at nothing: for whoever prepares a database.
    ///
    /// # Errors
    /// The address is wrong, or nobody answers there.
    pub async fn connect_unprepared(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let connect = connect_options(url, &options)?;
        Self::open(connect, pool_options(options.connections_max, &options), pool_options(1, &options)).await
    }

    async fn open(
        connect: PgConnectOptions,
        pool: PgPoolOptions,
        term_pool: PgPoolOptions,
    ) -> Result<Self, StoreError> {
        let term_pool = term_pool.connect_lazy_with(connect.clone());
        let pool = pool.connect_with(connect).await;
        Ok(Self {
            pool: Pool::new(pool.map_err(StoreError::while_doing(CONNECTING))?),
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

    /// A connection outside the pool, without timeouts: for migrating, which waits for whoever migrates already. It needs
    /// the server itself, or a pooler that gives each client a connection of its own.
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
    Ok(plain_options(parsed, &options.application_name))
}

/// Asks the server for nothing at the start that a pooler would refuse.
pub(crate) fn plain_options(options: PgConnectOptions, application_name: &str) -> PgConnectOptions {
    options.application_name(application_name).extra_float_digits(None)
}

async fn check_once(connect: &PgConnectOptions, limit: Duration) -> Result<(), StoreError> {
    let checking = async {
        let mut connection = connect.connect().await.map_err(StoreError::while_doing(CONNECTING))?;
        let checked = check_prepared(&mut connection).await;
        // Whether it is closed properly makes no difference to anybody.
        let _ = connection.close().await;
        checked
    };
    let timed_out = |_| StoreError::while_doing(CONNECTING)(sqlx::Error::PoolTimedOut);
    timeout(limit, checking).await.map_err(timed_out)?
}

async fn check_prepared(connection: &mut PgConnection) -> Result<(), StoreError> {
    check_schema(connection).await?;
    check_settings(connection).await
}

/// For a pool, which gives up a connection that does not pass and writes why into the log.
async fn check(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    check_settings(connection).await.map_err(|error| sqlx::Error::Configuration(Box::new(error)))
}

fn pool_options(connections_max: u32, options: &StoreOptions) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .max_lifetime(CONNECTION_LIFETIME)
        .idle_timeout(CONNECTION_IDLE)
}
