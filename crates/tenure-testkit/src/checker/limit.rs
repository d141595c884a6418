//! Counted limits are kept: no job was restarted more often than its frozen plan allows, or than undoing may be, and no term holds more live leases
//! than its worker has slots.

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use tenure_core::limits::{UNWIND_ATTEMPTS, UNWIND_LOSSES};
use uuid::Uuid;

use super::{Concern, Finding};

const RESTARTED_TOO_OFTEN: &str = "
    SELECT job, attempts, losses, recovery::text
    FROM jobs
    WHERE attempts > greatest((recovery ->> 'max_attempts')::integer, CASE WHEN unwinding IS NULL THEN 0 ELSE $1 END)
        OR losses > greatest((recovery ->> 'max_losses')::integer, CASE WHEN unwinding IS NULL THEN 0 ELSE $2 END)";

const HOLDS_TOO_MANY: &str = "
    SELECT t.worker, t.slots, count(*)
    FROM leases AS l
    JOIN terms AS t ON t.worker = l.worker AND t.term = l.term
    WHERE l.released_at IS NULL
    GROUP BY t.worker, t.term, t.slots
    HAVING count(*) > t.slots";

/// Looks at every job's restarts and every term's leases.
///
/// # Errors
/// The database cannot be read.
pub async fn check_limits(database: &PgPool) -> Result<Vec<Finding>> {
    let jobs: Vec<(Uuid, i32, i32, String)> = sqlx::query_as(RESTARTED_TOO_OFTEN)
        .bind(i32::try_from(UNWIND_ATTEMPTS)?)
        .bind(i32::try_from(UNWIND_LOSSES)?)
        .fetch_all(database)
        .await
        .context("reading the restarts")?;
    let terms: Vec<(String, i32, i64)> =
        sqlx::query_as(HOLDS_TOO_MANY).fetch_all(database).await.context("reading the slots")?;
    let often = jobs.into_iter().map(|(job, attempts, losses, plan)| {
        let words =
            format!("restarted {attempts} times after failures and {losses} after losses, under {plan}");
        Finding::new(Concern::Limit, job, words)
    });
    let many = terms.into_iter().map(|(worker, slots, leases)| {
        Finding::new(Concern::Limit, worker, format!("it has {slots} slots and holds {leases} jobs"))
    });
    Ok(often.chain(many).collect())
}
