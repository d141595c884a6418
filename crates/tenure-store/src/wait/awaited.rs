//! Waits for other jobs: what came of each is noted once, when it concluded, and a wait that nothing is left of is found. Each
//! conclusion costs a look-up and, where somebody waits for it, one note, however many jobs a wait is for.

use sqlx::query_file;
use tenure_core::{
    id::{JobId, Seq, Tenant},
    job::State,
    limits::AWAITED_PAGE,
    record::{Record, RecordKind},
    wait::AwaitedOutcome,
};
use uuid::Uuid;

use super::WaitKey;
use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint, to_integer},
};

/// A page of the waits for jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitPage {
    /// Who waits, by key.
    pub waiting: Vec<(Tenant, JobId)>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<(Tenant, JobId)>,
}

/// How a job stands that somebody asks about, and what it returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedJob {
    /// Its state.
    pub state: State,
    /// Why, as a stable word.
    pub reason: Option<String>,
    /// The beginning of what it returned; none: nothing, or nothing that lies beside its record.
    pub result: Option<Vec<u8>>,
    /// The length of all that it returned; 0: nothing, or it was erased.
    pub result_bytes: u64,
}

impl Store {
    /// Notes for whoever waits what came of these jobs, as far as they have concluded. Returns who waits for one of them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn cross_off_awaited(
        &self,
        concluded: &[(Tenant, JobId)],
    ) -> Result<Vec<(Tenant, JobId)>, StoreError> {
        let attempted = "noting what came of awaited jobs";
        let (tenants, jobs) = split(concluded);
        let rows = query_file!("queries/waits/cross_off_awaited.sql", &tenants, &jobs)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| Ok((Reader(attempted).tenant(row.tenant)?, JobId(row.job)))).collect()
    }

    /// Notes for these jobs what came of everything that they wait for, as far as it has concluded.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn cross_off_waits(&self, waiting: &[(Tenant, JobId)]) -> Result<(), StoreError> {
        let (tenants, jobs) = split(waiting);
        query_file!("queries/waits/cross_off_waits.sql", &tenants, &jobs)
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(StoreError::while_doing("noting what waits are for"))
    }

    /// Lists those of these jobs that wait for jobs of which none is left.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_settled_waits(&self, waiting: &[(Tenant, JobId)]) -> Result<Vec<WaitKey>, StoreError> {
        let attempted = "listing waits that nothing is left of";
        let (tenants, jobs) = split(waiting);
        let rows = query_file!("queries/waits/list_settled_waits.sql", &tenants, &jobs)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let read = |tenant, job, seq| {
            Ok(WaitKey {
                tenant: Reader(attempted).tenant(tenant)?,
                job: JobId(job),
                seq: Seq(from_bigint(seq)),
            })
        };
        rows.into_iter().map(|row| read(row.tenant, row.job, row.seq)).collect()
    }

    /// Reads a page of the waits for jobs (`limits::AWAITED_PAGE`).
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_job_waits(&self, after: Option<&(Tenant, JobId)>) -> Result<WaitPage, StoreError> {
        let attempted = "listing waits for jobs";
        let (tenant, job) = after.map_or(("", Uuid::nil()), |(tenant, job)| (tenant.as_str(), job.0));
        let rows = query_file!("queries/waits/list_job_waits.sql", tenant, job, i64::from(AWAITED_PAGE))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let full = rows.len() == AWAITED_PAGE as usize;
        let waiting = rows.into_iter().map(|row| Ok((Reader(attempted).tenant(row.tenant)?, JobId(row.job))));
        let waiting: Vec<_> = waiting.collect::<Result<_, StoreError>>()?;
        let next = waiting.last().filter(|_| full).cloned();
        Ok(WaitPage { waiting, next })
    }

    /// Lists what came of the jobs that a job waits for, in the order in which they were asked for.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_outcomes(
        &self,
        tenant: &Tenant,
        job: JobId,
    ) -> Result<Vec<AwaitedOutcome>, StoreError> {
        let attempted = "reading what came of awaited jobs";
        let rows = query_file!("queries/waits/list_outcomes.sql", tenant.as_str(), job.0)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let read = |job, outcome, reason| {
            Ok(AwaitedOutcome { job: JobId(job), outcome: Reader(attempted).state(outcome)?, reason })
        };
        rows.into_iter().map(|row| read(row.awaited, row.outcome, row.reason)).collect()
    }

    /// Reads how some jobs of a tenant stand, and at most so much of what each returned, in the order asked; nothing where
    /// there is no such job.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_awaited(
        &self,
        tenant: &Tenant,
        jobs: &[JobId],
        result_max_bytes: usize,
    ) -> Result<Vec<Option<AwaitedJob>>, StoreError> {
        let attempted = "reading how awaited jobs stand";
        let numbers: Vec<_> = (0..jobs.len()).map(|no| to_bigint(no as u64)).collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.0).collect();
        let most = to_integer(u32::try_from(result_max_bytes).unwrap_or(u32::MAX));
        let rows = query_file!("queries/waits/read_awaited.sql", &numbers, tenant.as_str(), &ids, most)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let mut found = vec![None; jobs.len()];
        for row in rows {
            let Some(place) = usize::try_from(row.no).ok().and_then(|no| found.get_mut(no)) else { continue };
            let large = row.concluded.as_deref().map_or(0, large_result_bytes);
            *place = Some(AwaitedJob {
                state: Reader(attempted).state(row.state)?,
                reason: row.reason,
                result: row.result,
                result_bytes: row.result_bytes.map_or(large, from_bigint),
            });
        }
        Ok(found)
    }
}

/// The length of a result that lies in the blob store; 0: there is none, or it was erased.
fn large_result_bytes(concluded: &[u8]) -> u64 {
    match serde_json::from_slice::<Record>(concluded).map(|record| record.kind) {
        Ok(RecordKind::JobConcluded { result: Some(result), .. }) if result.is_blob() => result.bytes,
        Ok(_) | Err(_) => 0,
    }
}

fn split(keys: &[(Tenant, JobId)]) -> (Vec<String>, Vec<Uuid>) {
    keys.iter().map(|(tenant, job)| (tenant.as_str().to_owned(), job.0)).unzip()
}
