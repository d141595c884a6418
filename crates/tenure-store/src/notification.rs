//! Notifications between coordinators: one channel of the database, on which they tell each other that looking is worth it.
//! What is sent says nothing that the tables do not say, and whatever is lost costs latency and nothing else. It owns the
//! channel, the connection that listens and nothing of what is said. Sending is a statement of its own, on any connection of
//! the pool; listening needs a connection that is the listener's alone, which no pooler shares out by the transaction.
//! Neighbours: the coordinator's `wake` says what is sent and what is made of what is heard.

use std::{io, str::FromStr as _};

use sqlx::{
    Executor as _,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
    query_file,
};
use tenure_core::limits::DATABASE_ACQUIRE_TIMEOUT;

use crate::{Store, StoreError, connection::plain_options};

/// The channel; the query that sends names it too.
const CHANNEL: &str = "tenure";

/// Listening, from the first connection on.
const ATTEMPTED: &str = "listening for notifications";

/// A connection that hears every notification sent from its start on, until it is lost. It is not made again: what was sent
/// meanwhile was not heard, and whoever connects anew knows that.
#[derive(Debug)]
pub struct Listener {
    listener: PgListener,
}

impl Store {
    /// Sends notifications, each shorter than 8,000 bytes.
    ///
    /// # Errors
    /// The database does not answer, or refuses one that is too long.
    pub async fn send_notifications(&self, payloads: &[String]) -> Result<(), StoreError> {
        query_file!("queries/notifications/send_notifications.sql", payloads)
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(StoreError::while_doing("sending notifications"))
    }
}

impl Listener {
    /// Connects and listens. The address is that of the database itself, or of a pooler that gives each client a
    /// connection of its own.
    ///
    /// # Errors
    /// The address is wrong, or nobody answers there.
    pub async fn connect(url: &str, application_name: &str) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(StoreError::invalid_url)?;
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(DATABASE_ACQUIRE_TIMEOUT)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_with(plain_options(options, application_name))
            .await
            .map_err(StoreError::while_doing(ATTEMPTED))?;
        let mut listener =
            PgListener::connect_with(&pool).await.map_err(StoreError::while_doing(ATTEMPTED))?;
        listener.ignore_pool_close_event(true);
        // Made again in here, it could be lost and there again while whoever hears looks elsewhere, and the gap would be nobody's.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await.map_err(StoreError::while_doing(ATTEMPTED))?;
        Ok(Self { listener })
    }

    /// Waits for the next notification. May be dropped while it waits; nothing is lost by that.
    ///
    /// # Errors
    /// The connection is lost: connect anew.
    pub async fn hear(&mut self) -> Result<String, StoreError> {
        let heard = self.listener.try_recv().await.and_then(|heard| heard.ok_or_else(lost));
        heard.map(|heard| heard.payload().to_owned()).map_err(StoreError::while_doing(ATTEMPTED))
    }

    /// Asks whether the connection lives: one that died without a word is never heard of otherwise. What is heard meanwhile
    /// is kept for `hear`.
    ///
    /// # Errors
    /// It does not answer: connect anew.
    pub async fn check(&mut self) -> Result<(), StoreError> {
        let asked = (&mut self.listener).execute("SELECT 1").await;
        asked.map(drop).map_err(StoreError::while_doing("asking whether the listener's connection lives"))
    }
}

fn lost() -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionAborted, "the listener's connection was lost"))
}
