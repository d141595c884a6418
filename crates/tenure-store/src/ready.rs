//! The queue of ready jobs, as far as it is not claims: delayed jobs become claimable when they are due, and those whose
//! session's deadline is reached are found also where no worker wants them.

use jiff::Timestamp;
use sqlx::{query_file, query_file_as};
use tenure_core::{
    id::{JobId, Tenant},
    limits::{DUE_MAX_JOBS, OVERDUE_PAGE_JOBS},
    plan::JobFacts,
};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, instant},
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

/// A page of the queue, and what each job needs of a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NeedsPage {
    /// The jobs, by key.
    pub jobs: Vec<((Tenant, JobId), Vec<String>)>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<(Tenant, JobId)>,
}

/// A page of the queue, and what in it is overdue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OverduePage {
    /// Jobs whose session's deadline is reached. They are still ready; the caller concludes them.
    pub overdue: Vec<JobFacts>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<(Tenant, JobId)>,
}

impl Store {
    /// Looks through a page of the queue (`limits::OVERDUE_PAGE_JOBS`) for jobs whose session's deadline is reached.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_overdue_jobs(
        &self,
        after: Option<&(Tenant, JobId)>,
    ) -> Result<OverduePage, StoreError> {
        let attempted = "listing jobs whose deadline is reached";
        let (tenant, job) = after.map_or(("", Uuid::nil()), |(tenant, job)| (tenant.as_str(), job.0));
        let rows = query_file_as!(
            OverdueRow,
            "queries/ready/list_overdue_jobs.sql",
            tenant,
            job,
            i64::from(OVERDUE_PAGE_JOBS)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        self.read_overdue(attempted, rows).await
    }

    /// What of a page is overdue, and where the next one begins.
    pub(crate) async fn read_overdue(
        &self,
        attempted: &'static str,
        rows: Vec<OverdueRow>,
    ) -> Result<OverduePage, StoreError> {
        let full = rows.len() == OVERDUE_PAGE_JOBS as usize;
        let (mut wanted, mut last) = (Vec::new(), None);
        for row in rows {
            let key = (Reader(attempted).tenant(row.tenant)?, JobId(row.job));
            last = Some(key.clone());
            if row.overdue == Some(true) {
                wanted.push(key);
            }
        }
        let overdue = self.read_readable_facts(&wanted).await?;
        Ok(OverduePage { overdue, next: last.filter(|_| full) })
    }

    /// Reads a page of the queue (`limits::OVERDUE_PAGE_JOBS`) with what each job needs of a worker.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_needs(&self, after: Option<&(Tenant, JobId)>) -> Result<NeedsPage, StoreError> {
        let attempted = "listing what waiting jobs need";
        let (tenant, job) = after.map_or(("", Uuid::nil()), |(tenant, job)| (tenant.as_str(), job.0));
        let rows = query_file!("queries/ready/list_needs.sql", tenant, job, i64::from(OVERDUE_PAGE_JOBS))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let full = rows.len() == OVERDUE_PAGE_JOBS as usize;
        let read = |tenant, job, requires| Ok(((Reader(attempted).tenant(tenant)?, JobId(job)), requires));
        let jobs = rows.into_iter().map(|row| read(row.tenant, row.job, row.requires));
        let jobs: Vec<((Tenant, JobId), Vec<String>)> = jobs.collect::<Result<_, StoreError>>()?;
        let next = jobs.last().filter(|_| full).map(|(key, _)| key.clone());
        Ok(NeedsPage { jobs, next })
    }

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

/// A job of a page, and whether its session's deadline is reached.
pub(crate) struct OverdueRow {
    pub(crate) tenant: String,
    pub(crate) job: Uuid,
    pub(crate) overdue: Option<bool>,
}

struct DueRow {
    released: i64,
    next_at: Option<Stamp>,
    now: Stamp,
}
