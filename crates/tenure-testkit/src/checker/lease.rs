//! No lease is left over: a live one has a running job, a released one stands only while its run's child is not accounted
//! for, and each has its term's row.

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

const LEFT_OVER: &str = "
    SELECT l.job, coalesce(j.state, 'missing') AS state, l.released_at IS NOT NULL AS released, t.worker IS NOT NULL AS known
    FROM leases AS l
    LEFT JOIN jobs AS j ON j.tenant = l.tenant AND j.job = l.job
    LEFT JOIN terms AS t ON t.worker = l.worker AND t.term = l.term
    WHERE j.job IS NULL
       OR t.worker IS NULL
       OR (l.released_at IS NULL AND j.state <> 'running')
       OR (l.released_at IS NOT NULL AND j.state NOT IN ('interrupted', 'quarantined', 'failed', 'exhausted', 'withheld'))";

/// Looks at every lease.
///
/// # Errors
/// The database cannot be read.
pub async fn check_leases(database: &PgPool) -> Result<Vec<Finding>> {
    let rows: Vec<(Uuid, String, bool, bool)> =
        sqlx::query_as(LEFT_OVER).fetch_all(database).await.context("reading the leases")?;
    let describe = |(job, state, released, known): (Uuid, String, bool, bool)| {
        let lease = if released { "released" } else { "live" };
        let term = if known { "" } else { ", and its term has no row" };
        Finding::new(Concern::Lease, job, format!("it has a {lease} lease and is {state}{term}"))
    };
    Ok(rows.into_iter().map(describe).collect())
}
