//! A pool of connections that none is lost from. A pool of sqlx tests each connection that is given back, and waits for the
//! answer without a bound: one that died without a word, or that a caller left in the middle of a statement, keeps its place
//! for as long as the kernel believes in the peer. Here giving back has a bound: what does not come back in time is dropped
//! with its socket, and its place is free. Everything else is sqlx's: see `connection` for how each is set up.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use futures_util::{TryStreamExt as _, future::BoxFuture, stream, stream::BoxStream};
use sqlx::{
    Describe, Either, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};
use tenure_core::limits::DATABASE_RETURN_TIMEOUT;

/// The pool. Cheap to clone; all clones share the connections.
#[derive(Debug, Clone)]
pub(crate) struct Pool(PgPool);

impl Pool {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self(pool)
    }

    /// Takes a connection; it is given back where it is dropped.
    pub(crate) async fn take(&self) -> Result<Taken, sqlx::Error> {
        self.0.acquire().await.map(Taken)
    }

    /// Closes all connections, after what is under way.
    pub(crate) async fn close(&self) {
        self.0.close().await;
    }

    /// How its connections are made.
    pub(crate) fn connect_options(&self) -> PgConnectOptions {
        (*self.0.connect_options()).clone()
    }
}

/// A connection, while somebody uses it.
pub(crate) struct Taken(PoolConnection<Postgres>);

impl Deref for Taken {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Taken")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let giving_back = self.0.return_to_pool();
        tokio::spawn(async move {
            if tokio::time::timeout(DATABASE_RETURN_TIMEOUT, giving_back).await.is_err() {
                tracing::info!("a database connection did not answer and is dropped");
            }
        });
    }
}

/// One statement on a connection of the pool.
impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    /// The rows are read whole before the first is given, so that the connection is free by then.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let fetched = async move {
            let mut connection = self.take().await?;
            let fetched: Vec<_> = connection.fetch_many(query).try_collect().await?;
            Ok::<_, sqlx::Error>(stream::iter(fetched.into_iter().map(Ok)))
        };
        Box::pin(stream::once(fetched).try_flatten())
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move { self.take().await?.fetch_optional(query).await })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.take().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Postgres>, sqlx::Error>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.take().await?.describe(sql).await })
    }
}
