//! Everything unfinished is accounted for: a ready job is in the queue, a running one has a live lease under an open term, a
//! suspended one has a timer, and what is interrupted, exhausted, withheld or quarantined is named to a person by its state.

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

const UNACCOUNTED: &str = "
    SELECT j.job, j.state, q.job IS NOT NULL AS queued, l.job IS NOT NULL AS held, coalesce(t.closed_at IS NULL, false) AS live
    FROM jobs AS j
    LEFT JOIN ready AS q ON q.tenant = j.tenant AND q.job = j.job
    LEFT JOIN leases AS l ON l.tenant = j.tenant AND l.job = j.job AND l.released_at IS NULL
    LEFT JOIN terms AS t ON t.worker = l.worker AND t.term = l.term
    WHERE CASE j.state
        WHEN 'ready' THEN q.job IS NULL
        WHEN 'running' THEN l.job IS NULL OR t.worker IS NULL OR t.closed_at IS NOT NULL
        WHEN 'suspended' THEN q.not_before IS NULL
        ELSE false
    END OR (q.job IS NOT NULL AND j.state NOT IN ('ready', 'suspended'))";

const QUEUED_WITHOUT_JOB: &str = "
    SELECT q.job FROM ready AS q
    WHERE NOT EXISTS (SELECT FROM jobs AS j WHERE j.tenant = q.tenant AND j.job = q.job)";

/// Looks at every job that is not finished, and at the whole queue.
///
/// # Errors
/// The database cannot be read.
pub async fn check_liveness(database: &PgPool) -> Result<Vec<Finding>> {
    let rows: Vec<(Uuid, String, bool, bool, bool)> =
        sqlx::query_as(UNACCOUNTED).fetch_all(database).await.context("reading what is unfinished")?;
    let strays: Vec<(Uuid,)> =
        sqlx::query_as(QUEUED_WITHOUT_JOB).fetch_all(database).await.context("reading the queue")?;
    let unaccounted = rows.into_iter().map(|(job, state, queued, held, live)| {
        let words =
            format!("it is {state}; in the queue: {queued}, has a lease: {held}, under an open term: {live}");
        Finding::new(Concern::Liveness, job, words)
    });
    let queued =
        strays.into_iter().map(|(job,)| Finding::new(Concern::Liveness, job, "it is queued and has no row"));
    Ok(unaccounted.chain(queued).collect())
}
