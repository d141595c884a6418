//! Row 28: every notification between coordinators is lost, because the connections that listen for them are ended again and
//! again. Jobs that are submitted to one coordinator start on a worker that is attached to another, late by the poll
//! interval at most.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::PgPool;
use tokio::time::Instant;

use crate::{
    arena::{Arena, PATIENT, wait_out},
    row::{Account, Setting},
};

/// The longest pause between two polls, 5 s and a fifth, and what a start takes on a busy machine.
const STARTED_WITHIN: Duration = Duration::from_millis(6_000 + 3_000);

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 28, 2).await?;
    let (first, second) = (arena.cluster.endpoint("c1")?, arena.cluster.endpoint("c2")?);
    arena.cluster.start_worker_at("w1", &second, PATIENT)?;
    arena.wait_for_worker("w1").await;
    let deafening = tokio::spawn(wait_without_notifications(arena.cluster.database.clone()));
    let mut latest = Duration::ZERO;
    for _ in 0..if setting.short { 1 } else { 4 } {
        let mark = arena.next_mark();
        let job = arena.submit_until_acknowledged(&mark, "steady", &first).await?;
        let submitted = Instant::now();
        arena.wait_for_runs(&[job], 1).await?;
        let took = submitted.elapsed();
        // In the short form other tests run beside it, and how quick it is says nothing.
        ensure!(setting.short || took <= STARTED_WITHIN, "job {job} started {took:?} after it was submitted");
        latest = latest.max(took);
    }
    deafening.abort();
    arena.remark(format!("the latest start came after {:.1} s", latest.as_secs_f64()));
    arena.finish().await
}

/// Ends whoever listens, for as long as this runs.
async fn wait_without_notifications(database: PgPool) {
    loop {
        // Where the database is busy, the next look ends them.
        let _ = sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> $1 AND query ILIKE 'LISTEN%'",
        )
        .bind("tenure-testkit")
        .execute(&database)
        .await;
        wait_out(Duration::from_millis(5)).await;
    }
}
