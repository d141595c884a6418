//! The connections: one pool for everything, and one connection of its own for renewals, which no other work can starve.
//! Every connection runs READ COMMITTED with the three timeouts that keep a frozen coordinator from holding locks. The
//! address is never printed: it may contain a password.

use std::time::Duration;

use crate::StoreError;

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
            connections_max: 10,
            acquire_timeout: Duration::from_secs(5),
            application_name: "tenure".to_owned(),
        }
    }
}

/// The database. Cheap to clone; all clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {}

impl Store {
    /// Connects, and looks at nothing.
    ///
    /// # Errors
    /// The address is wrong, or nobody answers there.
    pub async fn connect(_url: &str, _options: StoreOptions) -> Result<Self, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Closes all connections, after what is under way.
    pub async fn close(&self) {}
}
