//! Leases as the sweep and the guardians' reports need them. They are written by claims and by appends; only a history that
//! is rebuilt in a database of its own has one set down here.

use std::time::Duration;

use sqlx::query_file;
use tenure_core::{
    handover::Cause,
    id::{Digest, Epoch, Generation, JobId, Run, Tenant, Term, WorkerName},
    limits::LOST_GRANTS_MAX,
    plan::JobFacts,
};

use uuid::Uuid;

use crate::{
    Store, StoreError,
    facts::warn_unreadable,
    stored::{Reader, from_bigint, from_integer, to_bigint, to_ms},
    timestamp::Stamp,
};

/// A lease that its worker does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostGrant {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The run.
    pub run: Run,
    /// The generation of the claim.
    pub generation: Generation,
}

/// What proves that a report about a run comes from its guardian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSecret {
    /// SHA-256 of the run's secret.
    pub secret_hash: Digest,
    /// The generation of the claim.
    pub generation: Generation,
    /// Who holds or held the lease.
    pub worker: WorkerName,
    /// True until the run is settled.
    pub live: bool,
}

/// A page of what lapsed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LapsedPage {
    /// Jobs whose lease is unreleased and whose term is closed or has no row.
    pub lapsed: Vec<JobFacts>,
    /// Where the next page begins; none: this was the last.
    pub next: Option<LapsedCursor>,
}

/// A place in the list of lapsed leases: after one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LapsedCursor {
    granted_at: Stamp,
    tenant: String,
    job: Uuid,
}

impl Store {
    /// Lists every unreleased lease under a closed term, oldest first, `limit` a page. A lease that was settled between the
    /// listing and the reading of its facts is left out, and one that cannot be read is named in a warning.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_lapsed_leases(
        &self,
        after: Option<&LapsedCursor>,
        limit: u32,
    ) -> Result<LapsedPage, StoreError> {
        let attempted = "listing leases under closed terms";
        let rows = sqlx::query_file_as!(
            LapsedCursor,
            "queries/leases/list_lapsed_leases.sql",
            i64::from(limit),
            after.map(|after| after.granted_at) as _,
            after.map_or("", |after| &after.tenant),
            after.map_or(Uuid::nil(), |after| after.job)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let next = rows.last().filter(|_| rows.len() == limit as usize).cloned();
        let readable = |row: LapsedCursor| {
            let tenant = Reader(attempted).tenant(row.tenant.clone());
            let tenant = tenant.inspect_err(|error| warn_unreadable(&row.tenant, JobId(row.job), error));
            Some((tenant.ok()?, JobId(row.job)))
        };
        let wanted: Vec<_> = rows.into_iter().filter_map(readable).collect();
        let mut lapsed = self.read_readable_facts(&wanted).await?;
        lapsed.retain(|facts| facts.lease.as_ref().is_some_and(|lease| lease.live && lease.term_closed));
        Ok(LapsedPage { lapsed, next })
    }

    /// Reads the facts of jobs whose runs were asked more than `age` ago to end, because somebody gave the job up or redirected
    /// it, and have not ended; at most `limit`, the oldest first. One that cannot be read is named in a warning.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_unanswered_notices(
        &self,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<JobFacts>, StoreError> {
        let attempted = "listing leases whose runs were asked to end";
        let rows = query_file!("queries/leases/list_unanswered_notices.sql", to_ms(age), i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let wanted: Vec<_> = rows
            .into_iter()
            .filter_map(|row| {
                let tenant = Reader(attempted).tenant(row.tenant.clone());
                let tenant = tenant.inspect_err(|error| warn_unreadable(&row.tenant, JobId(row.job), error));
                Some((tenant.ok()?, JobId(row.job)))
            })
            .collect();
        self.read_readable_facts(&wanted).await
    }

    /// Lists the unreleased leases of a term that were granted more than `age` ago and are not among `known`, oldest
    /// first; at most `limits::LOST_GRANTS_MAX`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_lost_grants(
        &self,
        worker: &WorkerName,
        term: Term,
        known: &[(Tenant, JobId, Epoch)],
        age: Duration,
    ) -> Result<Vec<LostGrant>, StoreError> {
        let attempted = "listing grants that a worker does not name";
        let tenants: Vec<_> = known.iter().map(|(tenant, ..)| tenant.as_str().to_owned()).collect();
        let jobs: Vec<_> = known.iter().map(|(_, job, _)| job.0).collect();
        let epochs: Vec<_> = known.iter().map(|(.., epoch)| to_bigint(epoch.0)).collect();
        let rows = query_file!(
            "queries/leases/list_lost_grants.sql",
            worker.as_str(),
            to_bigint(term.0),
            to_ms(age),
            &tenants,
            &jobs,
            &epochs,
            i64::from(LOST_GRANTS_MAX)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter()
            .map(|row| {
                Ok(LostGrant {
                    tenant: Reader(attempted).tenant(row.tenant)?,
                    job: JobId(row.job),
                    epoch: Epoch(from_bigint(row.run_epoch)),
                    run: Run(from_integer(row.run)),
                    generation: Generation(from_bigint(row.generation)),
                })
            })
            .collect()
    }

    /// Reads the hashed secret of the run that was claimed under `epoch`, while it is unsettled or unaccounted for.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_run_secret(
        &self,
        tenant: &Tenant,
        job: JobId,
        epoch: Epoch,
    ) -> Result<Option<RunSecret>, StoreError> {
        let attempted = "reading the secret of a run";
        let row =
            query_file!("queries/leases/read_run_secret.sql", tenant.as_str(), job.0, to_bigint(epoch.0))
                .fetch_optional(&self.pool)
                .await
                .map_err(StoreError::while_doing(attempted))?;
        row.map(|row| {
            Ok(RunSecret {
                secret_hash: Reader(attempted).digest(&row.secret_hash)?,
                generation: Generation(from_bigint(row.generation)),
                worker: Reader(attempted).parse("worker", row.worker)?,
                live: row.live,
            })
        })
        .transpose()
    }

    /// Leaves a run as a crash leaves it, without a record: the lease that has this epoch is given up, the child counts as gone,
    /// and the job waits for whoever claims it next. False where no live lease has the epoch. For histories that are rebuilt in a
    /// database of their own; in a fleet a run ends by a record.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn set_down_run(
        &self,
        tenant: &Tenant,
        job: JobId,
        epoch: Epoch,
        cause: &Cause,
    ) -> Result<bool, StoreError> {
        let set_down = query_file!(
            "queries/leases/set_down_run.sql",
            tenant.as_str(),
            job.0,
            to_bigint(epoch.0),
            serde_json::json!(cause)
        )
        .execute(&self.pool)
        .await
        .map_err(StoreError::while_doing("setting a run down"))?;
        Ok(set_down.rows_affected() == 1)
    }
}
