//! Row 8: PostgreSQL is shut down fast, shut down immediately, and killed, under load, and started again. What was
//! acknowledged is there; meanwhile the coordinators are alive and not ready; and nobody is declared dead for the outage.

use anyhow::{Result, ensure};
use tenure_testkit::{Crash, wait_for};
use uuid::Uuid;

use crate::{
    arena::{Arena, PATIENCE, PATIENT, draw_duration, wait_out},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 8, 2).await?;
    let endpoints = arena.cluster.endpoints();
    for name in ["w1", "w2"] {
        arena.cluster.start_worker_at(name, &endpoints, PATIENT)?;
    }
    let jobs = arena.submit(4).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let crashes: &[Crash] =
        if setting.short { &[Crash::Kill] } else { &[Crash::Fast, Crash::Immediate, Crash::Kill] };
    for crash in crashes {
        arena.wait_for_notes(&jobs, 1).await;
        crash_once(&mut arena, *crash, &jobs).await?;
    }
    arena.assert_undisturbed(&jobs).await?;
    arena.finish().await
}

async fn crash_once(arena: &mut Arena, crash: Crash, jobs: &[Uuid]) -> Result<()> {
    tokio::task::block_in_place(|| arena.cluster.crash_database(crash));
    for name in ["c1", "c2"] {
        wait_for(&format!("{name} to be live and not ready"), PATIENCE, async || {
            match (arena.probe(name, "/livez").await, arena.probe(name, "/readyz").await) {
                (Ok(200), Ok(503)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    let pause = draw_duration(&mut arena.random, 0, 2_000);
    wait_out(pause).await;
    tokio::task::block_in_place(|| arena.cluster.restart_database())?;
    for name in ["c1", "c2"] {
        wait_for(&format!("{name} to be ready"), PATIENCE, async || {
            match arena.probe(name, "/readyz").await {
                Ok(200) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    let more = arena.submit(1).await?;
    arena.wait_for_runs(&more, 1).await?;
    arena.wait_for_notes(jobs, 1).await;
    let (closed,): (i64,) = sqlx::query_as("SELECT count(*) FROM terms WHERE closed_at IS NOT NULL")
        .fetch_one(&arena.cluster.database)
        .await?;
    ensure!(closed == 0, "{closed} terms were closed for an outage of the database");
    Ok(())
}
