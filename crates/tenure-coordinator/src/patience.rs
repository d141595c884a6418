//! How long the database is waited for. Its own statement timeout ends what is slow; what is frozen or cut off never
//! answers, and is given up here, so that no caller hangs. It owns also the share of bulk work (output, followed streams,
//! the reading of histories, of jobs and of their lists) in the connections: beyond it bulk waits, so that appends, claims and ends do not.
//! Neighbours: services, lanes and background ask the store through it.

use std::{future::Future, sync::Arc};

use tenure_core::{
    limits::{BULK_CONNECTIONS, DATABASE_ANSWER_MAX},
    reason::Reason,
    refusal::Refusal,
};
use tenure_store::StoreError;
use tokio::sync::Semaphore;

use crate::refusals::{DATABASE_RETRY, refuse_store};

/// The database did not answer in time. Whether it did what it was asked is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database did not answer within {} s", DATABASE_ANSWER_MAX.as_secs())]
pub(crate) struct Unanswered;

/// Waits for an answer, within the bound.
pub(crate) async fn within<T>(asked: impl Future<Output = T>) -> Result<T, Unanswered> {
    tokio::time::timeout(DATABASE_ANSWER_MAX, asked).await.map_err(|_| Unanswered)
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Self {
        Self::new(Reason::DatabaseUnavailable, unanswered.to_string()).with_retry_after(DATABASE_RETRY)
    }
}

/// The share of bulk work. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Bulk {
    connections: Arc<Semaphore>,
}

impl Bulk {
    /// A whole share.
    pub(crate) fn new() -> Self {
        Self { connections: Arc::new(Semaphore::new(BULK_CONNECTIONS)) }
    }

    /// Asks the store something bulky.
    pub(crate) async fn ask<T>(
        &self,
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Refusal> {
        let within_share = async {
            // The semaphore is never closed.
            let _connection = self.connections.acquire().await;
            asked.await
        };
        within(within_share).await?.map_err(|error| refuse_store(&error))
    }
}
