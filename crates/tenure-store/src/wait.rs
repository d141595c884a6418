//! The waits of suspended jobs: which are due, which have nothing left to wait for, and which stand under a deadline that is
//! reached. It takes no job out of its wait: that is written where the job's journal is. Neighbours: `append` writes and deletes the rows, the
//! sweep asks.

use jiff::Timestamp;
use sqlx::{query_file, query_file_as};
use tenure_core::{
    id::{JobId, Seq, Tenant},
    limits::{OVERDUE_PAGE_JOBS, TIMERS_MAX},
};
use uuid::Uuid;

use crate::{
    OverduePage, Store, StoreError,
    ready::OverdueRow,
    stored::{Reader, from_bigint, instant},
    timestamp::Stamp,
};

mod awaited;

pub use awaited::{AwaitedJob, WaitPage};

/// A wait of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitKey {
    /// Whose.
    pub tenant: Tenant,
    /// The job.
    pub job: JobId,
    /// The record that suspended it.
    pub seq: Seq,
}

/// What is due at instants, and when the next of it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due<T> {
    /// The earliest of it.
    pub due: Vec<T>,
    /// True where as much is due as one answer names, so that more may be.
    pub full: bool,
    /// When the next of it will be; none: there is none.
    pub next_at: Option<Timestamp>,
    /// The database's clock.
    pub now: Timestamp,
}

impl Store {
    /// Lists waits for an instant that are due, at most `limits::TIMERS_MAX`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_due_waits(&self) -> Result<Due<WaitKey>, StoreError> {
        let attempted = "listing waits that are due";
        let reader = Reader(attempted);
        let rows = query_file!("queries/waits/list_due_waits.sql", i64::from(TIMERS_MAX))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let due = rows.into_iter().map(|row| {
            let tenant = reader.tenant(row.tenant)?;
            Ok(WaitKey { tenant, job: JobId(row.job), seq: Seq(from_bigint(row.seq)) })
        });
        let due: Vec<_> = due.collect::<Result<_, StoreError>>()?;
        let next = sqlx::query_file_as!(NextRow, "queries/waits/find_next_wait.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let full = due.len() == TIMERS_MAX as usize;
        Ok(Due { due, full, next_at: instant(next.next_at), now: next.now.0 })
    }

    /// Looks through a page of the waits (`limits::OVERDUE_PAGE_JOBS`) for jobs whose session's deadline is reached.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_overdue_waits(
        &self,
        after: Option<&(Tenant, JobId)>,
    ) -> Result<OverduePage, StoreError> {
        let attempted = "listing waits under a deadline that is reached";
        let (tenant, job) = after.map_or(("", Uuid::nil()), |(tenant, job)| (tenant.as_str(), job.0));
        let rows = query_file_as!(
            OverdueRow,
            "queries/waits/list_overdue_waits.sql",
            tenant,
            job,
            i64::from(OVERDUE_PAGE_JOBS)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        self.read_overdue(attempted, rows).await
    }
}

struct NextRow {
    next_at: Option<Stamp>,
    now: Stamp,
}
