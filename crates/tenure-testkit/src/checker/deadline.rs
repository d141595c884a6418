//! Deadlines are kept: no run starts at or after the deadline of its session, by the database's clock, and nothing waits in
//! the queue once it is reached. Undoing meets no deadline.

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

const STARTED_LATE: &str = "
    SELECT r.job, r.seq, r.at::text, s.deadline_at::text
    FROM journal AS r
    JOIN jobs AS j ON j.tenant = r.tenant AND j.job = r.job
    JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
    WHERE r.kind = 'run_started' AND (r.at >= s.deadline_at OR r.stored_at >= s.deadline_at)
        AND position(convert_to('\"cause\":{\"kind\":\"unwinding\"', 'UTF8') IN r.bytes) = 0";

/// The pause between two looks of a coordinator for reached deadlines is much shorter than this.
const WAITS_PAST_IT: &str = "
    SELECT j.job, s.deadline_at::text
    FROM jobs AS j
    JOIN sessions AS s ON s.tenant = j.tenant AND s.session = j.session
    WHERE j.state = 'ready' AND j.unwinding IS NULL AND s.deadline_at < statement_timestamp() - interval '30 seconds'";

/// Looks at every start, and at whatever waits.
///
/// # Errors
/// The database cannot be read.
pub async fn check_deadlines(database: &PgPool) -> Result<Vec<Finding>> {
    let started: Vec<(Uuid, i64, String, String)> =
        sqlx::query_as(STARTED_LATE).fetch_all(database).await.context("reading the starts")?;
    let waiting: Vec<(Uuid, String)> =
        sqlx::query_as(WAITS_PAST_IT).fetch_all(database).await.context("reading what waits")?;
    let late = started.into_iter().map(|(job, seq, at, deadline)| {
        let words = format!("seq {seq} starts a run at {at}, and the deadline was {deadline}");
        Finding::new(Concern::Deadline, job, words)
    });
    let waits = waiting.into_iter().map(|(job, deadline)| {
        Finding::new(Concern::Deadline, job, format!("it still waits, and the deadline was {deadline}"))
    });
    Ok(late.chain(waits).collect())
}
