//! The queue of ready jobs, as far as it is not claims: delayed jobs become claimable when they are due.

use jiff::Timestamp;
use tenure_core::limits::DUE_MAX_JOBS;

use crate::{
    Store, StoreError,
    stored::{from_bigint, instant},
    timestamp::Stamp,
};

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
    /// Gives delayed jobs that are due their numbers in the queue, at most `limits::DUE_MAX_JOBS` at once. Where more are
    /// due, `next_at` is not in the future.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn release_due_jobs(&self) -> Result<DueReport, StoreError> {
        let row = sqlx::query_file_as!(DueRow, "queries/ready/release_due_jobs.sql", i64::from(DUE_MAX_JOBS))
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing("releasing delayed jobs that are due"))?;
        let report =
            DueReport { released: from_bigint(row.released), next_at: instant(row.next_at), now: row.now.0 };
        if report.released == 0 && report.next_at.is_some_and(|next| next <= report.now) {
            self.check_timeline().await?;
        }
        Ok(report)
    }
}

struct DueRow {
    released: i64,
    next_at: Option<Stamp>,
    now: Stamp,
}
