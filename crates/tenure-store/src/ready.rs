//! The queue of ready jobs, as far as it is not claims: delayed jobs become claimable when they are due.

use jiff::Timestamp;

use crate::{Store, StoreError};

/// What became due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueReport {
    /// Jobs that became claimable.
    pub released: u64,
    /// When the next one will be due; none: no job is delayed.
    pub next_at: Option<Timestamp>,
    /// The database's clock.
    pub now: Timestamp,
}

impl Store {
    /// Gives every delayed job that is due its number in the queue.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn release_due_jobs(&self) -> Result<DueReport, StoreError> {
        Err(StoreError::unwritten())
    }
}
