//! Row 19: a thousand workers, each with a run in its hands, lose their connections at the same moment, twice. They are
//! simulated, over real connections and the real protocol, because a thousand processes would measure this host. Each is attached again
//! before its term is over, no lease is lost, and every run ends with its first verdict.
//!
//! Neighbours: `simulated` is one such worker.

mod simulated;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use tenure_postgres::Options;
use tenure_testkit::{Proxy, wait_for};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

use self::simulated::Simulated;
use crate::{
    arena::{Arena, PATIENCE},
    row::{Account, Setting},
};

/// How many there are, and in the short form.
const WORKERS: i64 = 1_000;
const WORKERS_SHORT: i64 = 100;

/// How many register at a time, before the fault.
const AT_A_TIME: usize = 16;

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    // Each renewal and each attach is a commit: without this the row would measure the disk.
    let options = Options::default().with_setting("fsync", "off");
    let mut arena = Arena::start_with(&setting, 19, 1, options).await?;
    let proxy = Proxy::start(arena.cluster.coordinator_address("c1")?).await?;
    let count = if setting.short { WORKERS_SHORT } else { WORKERS };
    let (end_runs, told) = watch::channel(false);
    let door = Arc::new(Semaphore::new(AT_A_TIME));
    let holding = Arc::new(AtomicI64::new(0));
    let mut workers = JoinSet::new();
    for number in 0..count {
        let (door, holding) = (Arc::clone(&door), Arc::clone(&holding));
        let worker = Simulated::new(format!("sim{number}"), proxy.endpoint(), door, told.clone(), holding);
        workers.spawn(worker.live());
    }
    wait_for_attached(&arena, &mut workers, count, 1).await?;
    arena.submit_batch("simulated", usize::try_from(count)?).await?;
    // In their hands, not only claimed: what is cut on its way is lost and given back, which is another matter.
    wait_for("every worker to hold its run", PATIENCE, async || {
        let now = holding.load(Ordering::Relaxed);
        if now == count { Ok(()) } else { Err(now) }
    })
    .await;

    let mut slowest = Duration::ZERO;
    for attach in 2..=3 {
        let began = Instant::now();
        proxy.cut();
        wait_for_attached(&arena, &mut workers, count, attach).await?;
        slowest = slowest.max(began.elapsed());
    }
    arena.remark(format!("{count} workers were back after {:.1} s at most", slowest.as_secs_f64()));
    let (closed,): (i64,) = sqlx::query_as("SELECT count(*) FROM terms WHERE closed_at IS NOT NULL")
        .fetch_one(&arena.cluster.database)
        .await?;
    ensure!(closed == 0, "{closed} terms were closed");

    end_runs.send_replace(true);
    wait_for_jobs(&arena, count, "succeeded").await;
    let (restarted,): (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs WHERE run <> 1").fetch_one(&arena.cluster.database).await?;
    ensure!(restarted == 0, "{restarted} runs were lost");
    while let Some(ended) = timeout(PATIENCE, workers.join_next()).await? {
        ended??;
    }
    arena.finish().await
}

/// Waits until so many workers have attached so often, under terms that are open; or until one gives up.
async fn wait_for_attached(
    arena: &Arena,
    workers: &mut JoinSet<Result<()>>,
    count: i64,
    attach: i64,
) -> Result<()> {
    let what = format!("attach {attach} of {count} workers");
    let attached = wait_for(&what, PATIENCE, async || {
        let attached: Result<(i64,), sqlx::Error> =
            sqlx::query_as("SELECT count(*) FROM terms WHERE attach >= $1 AND closed_at IS NULL")
                .bind(attach)
                .fetch_one(&arena.cluster.database)
                .await;
        match attached {
            Ok((now,)) if now >= count => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    tokio::select! {
        () = attached => Ok(()),
        Some(ended) = workers.join_next() => {
            ended??;
            bail!("a worker left before it was told to")
        }
    }
}

async fn wait_for_jobs(arena: &Arena, count: i64, state: &str) {
    wait_for(&format!("{count} jobs to be {state}"), PATIENCE, async || {
        let found: Result<(i64,), sqlx::Error> = sqlx::query_as("SELECT count(*) FROM jobs WHERE state = $1")
            .bind(state)
            .fetch_one(&arena.cluster.database)
            .await;
        match found {
            Ok((now,)) if now == count => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
