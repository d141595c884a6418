//! Closing: a term that lapsed is closed in a transaction of its own that touches nothing else. Its leases are found by the
//! sweep afterwards, all of them, also one whose claim committed after the closing.

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    id::{Term, WorkerName},
    limits::CLOSED_TERM_KEPT,
};

use super::{ClosableTerm, ClosedTerm, LapsedTerm};
use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, from_ms, to_bigint, to_ms},
    timestamp::Stamp,
};

impl Store {
    /// Lists terms that lapsed and are not closed, longest lapsed first. Only a hint: `close_lapsed_terms` judges.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_lapsed_terms(&self, limit: u32) -> Result<Vec<LapsedTerm>, StoreError> {
        let attempted = "listing lapsed terms";
        let rows = sqlx::query_file_as!(LapsedRow, "queries/terms/list_lapsed_terms.sql", i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter()
            .map(|row| {
                Ok(LapsedTerm {
                    worker: Reader(attempted).parse("worker", row.worker)?,
                    term: Term(from_bigint(row.term)),
                    ttl: from_ms(row.ttl_ms),
                    expires_at: row.expires_at.0,
                })
            })
            .collect()
    }

    /// Closes those of `which` that lapsed, on the row that renewals update, where the database's clock is as expected.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn close_lapsed_terms(
        &self,
        expected_now: Timestamp,
        which: &[ClosableTerm],
    ) -> Result<Vec<ClosedTerm>, StoreError> {
        let attempted = "closing lapsed terms";
        if which.is_empty() {
            return Ok(Vec::new());
        }
        let workers: Vec<_> = which.iter().map(|term| term.worker.as_str().to_owned()).collect();
        let terms: Vec<_> = which.iter().map(|term| to_bigint(term.term.0)).collect();
        let tolerances: Vec<_> = which.iter().map(|term| microseconds(term.tolerance)).collect();
        let rows = sqlx::query_file_as!(
            ClosedRow,
            "queries/terms/close_lapsed_terms.sql",
            Stamp(expected_now) as _,
            &workers,
            &terms,
            &tolerances
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        if rows.is_empty() {
            self.check_timeline().await?;
        }
        rows.into_iter()
            .map(|row| {
                let worker: WorkerName = Reader(attempted).parse("worker", row.worker)?;
                Ok(ClosedTerm { worker, term: Term(from_bigint(row.term)), expires_at: row.expires_at.0 })
            })
            .collect()
    }

    /// Deletes closed terms that have no leases and were closed `limits::CLOSED_TERM_KEPT` ago; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_closed_terms(&self) -> Result<u64, StoreError> {
        query_file!("queries/terms/delete_closed_terms.sql", to_ms(CLOSED_TERM_KEPT))
            .execute(&self.pool)
            .await
            .map(|done| done.rows_affected())
            .map_err(StoreError::while_doing("deleting closed terms"))
    }
}

fn microseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

struct LapsedRow {
    worker: String,
    term: i64,
    ttl_ms: i64,
    expires_at: Stamp,
}

struct ClosedRow {
    worker: String,
    term: i64,
    expires_at: Stamp,
}
