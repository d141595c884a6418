//! What was set down and waits to be picked up. A row comes with the success of the run that booked it, and goes once a session
//! has picked it up; in between its pick-up may be refused, and the row says why. Neighbours: `append` writes the rows,
//! `submission` makes the session, the sweep asks.

use std::time::Duration;

use sqlx::query_file;
use tenure_core::{
    deadline::duration_ms,
    id::{JobId, Seq, Tenant},
    limits::LAYOVERS_MAX,
    refusal::Refusal,
};

use crate::{
    Due, Store, StoreError,
    stored::{Reader, from_bigint, from_integer, instant, to_bigint, to_integer},
    timestamp::Stamp,
};

/// Work that was set down and is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueLayover {
    /// Whose.
    pub tenant: Tenant,
    /// The job that set it down.
    pub job: JobId,
    /// The record that booked it.
    pub seq: Seq,
    /// How often its pick-up was refused.
    pub refusals: u32,
}

impl Store {
    /// Lists what was set down and is due, at most `limits::LAYOVERS_MAX`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_due_layovers(&self) -> Result<Due<DueLayover>, StoreError> {
        let attempted = "listing what was set down and is due";
        let rows = query_file!("queries/layovers/list_due_layovers.sql", i64::from(LAYOVERS_MAX))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let due = rows.into_iter().map(|row| {
            Ok(DueLayover {
                tenant: Reader(attempted).tenant(row.tenant)?,
                job: JobId(row.job),
                seq: Seq(from_bigint(row.seq)),
                refusals: from_integer(row.refusals),
            })
        });
        let due: Vec<_> = due.collect::<Result<_, StoreError>>()?;
        let next = sqlx::query_file_as!(NextRow, "queries/layovers/find_next_layover.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let full = due.len() == LAYOVERS_MAX as usize;
        Ok(Due { due, full, next_at: instant(next.next_at), now: next.now.0 })
    }

    /// Forgets what was picked up.
    ///
    /// # Errors
    /// The database does not answer; it is found again then, and picked up as the same session.
    pub async fn delete_layover(&self, tenant: &Tenant, job: JobId) -> Result<(), StoreError> {
        query_file!("queries/layovers/delete_layover.sql", tenant.as_str(), job.0)
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(StoreError::while_doing("forgetting what was picked up"))
    }

    /// Notes that a pick-up was refused; it is tried again after the pause.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn put_off_layover(
        &self,
        layover: &DueLayover,
        refusal: &Refusal,
        pause: Duration,
    ) -> Result<(), StoreError> {
        query_file!(
            "queries/layovers/put_off_layover.sql",
            layover.tenant.as_str(),
            layover.job.0,
            to_integer(layover.refusals),
            refusal.reason.code(),
            refusal.message,
            to_bigint(duration_ms(pause))
        )
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(StoreError::while_doing("noting that a pick-up was refused"))
    }
}

struct NextRow {
    next_at: Option<Stamp>,
    now: Stamp,
}
