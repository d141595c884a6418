//! Row 12: the database has no connection left, and the pools starve. Whoever submits gets an answer within a bound, refused
//! or not; renewals have a connection of their own, so that no lease is lost; and with connections back, work goes on.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::{Connection as _, PgConnection};
use tenure_postgres::Options;
use tenure_testkit::{Answer, wait_for};
use tokio::time::Instant;

use crate::{
    arena::{Arena, PATIENCE, QUICK, TTL, wait_out},
    row::{Account, Setting},
};

/// Connections of the database. A coordinator has at most ten in its pool, besides those for renewals and for listening.
const CONNECTIONS: &str = "24";

/// A client that retries by itself and waits for a free connection must have an answer by then.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let options = Options::default().with_setting("max_connections", CONNECTIONS);
    let mut arena = Arena::start_with(&setting, 12, 1, options).await?;
    arena.cluster.start_worker("w1", QUICK)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.wait_for_notes(&jobs, 1).await;

    // One of our own is kept throughout: a pool that finds none free at this very moment would wait for a new one.
    let mut watching = arena.cluster.database.acquire().await?;
    let mut idle = take_all(&arena).await?;
    let renewing = find_renewing(&mut watching).await;
    // What the pool has goes too, but for the one that renews; and what is free is taken before the pool gets it.
    let until = Instant::now() + if setting.short { TTL + TTL / 2 } else { 3 * TTL };
    let mut starved = 0;
    while Instant::now() < until {
        starved += end_pooled(&mut watching, renewing).await?;
        idle.extend(take_all(&arena).await?);
        wait_out(Duration::from_millis(50)).await;
    }
    arena.remark(format!("{} connections were taken, {starved} of the pool ended", idle.len()));

    let asked = Instant::now();
    let mark = arena.next_mark();
    let endpoints = arena.cluster.endpoints();
    let answer = arena.submit_once(&mark, "steady", &endpoints).await?;
    ensure!(asked.elapsed() <= ANSWERED_WITHIN, "a submission was answered after {:?}", asked.elapsed());
    drop(idle);
    drop(watching);
    arena.assert_undisturbed(&jobs).await?;

    if !matches!(answer, Answer::Acknowledged(_)) {
        arena.submit_until_acknowledged(&mark, "steady", &endpoints).await?;
    }
    arena.wait_for_notes(&jobs, 2).await;
    arena.assert_undisturbed(&jobs).await?;
    wait_for("the coordinator to be ready", PATIENCE, async || match arena.probe("c1", "/readyz").await {
        Ok(200) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    arena.finish().await
}

/// Connects until the database has no connection left.
async fn take_all(arena: &Arena) -> Result<Vec<PgConnection>> {
    let url = format!("{}&application_name=idle", arena.cluster.postgres.url("postgres"));
    let mut taken = Vec::new();
    while let Ok(connection) = PgConnection::connect(&url).await {
        taken.push(connection);
    }
    Ok(taken)
}

/// The backend whose last statement renewed a term.
async fn find_renewing(watching: &mut PgConnection) -> i32 {
    let until = Instant::now() + PATIENCE;
    loop {
        let found: Result<Option<(i32,)>, sqlx::Error> = sqlx::query_as(
            "SELECT pid FROM pg_stat_activity
             WHERE application_name = 'tenure coordinator' AND query ILIKE '%UPDATE terms%expires_at%'",
        )
        .fetch_optional(&mut *watching)
        .await;
        match found {
            Ok(Some((pid,))) => return pid,
            other => assert!(Instant::now() < until, "waited for a renewal: {other:?}"),
        }
        wait_out(Duration::from_millis(10)).await;
    }
}

async fn end_pooled(watching: &mut PgConnection, but: i32) -> Result<usize> {
    let ended = sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure coordinator' AND pid <> $1",
    )
    .bind(but)
    .fetch_all(watching)
    .await?;
    Ok(ended.len())
}
