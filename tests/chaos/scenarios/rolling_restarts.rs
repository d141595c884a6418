//! Scenario 8: five workers are restarted one after the other, ten times around, while jobs run on them and more come. Each job is moved
//! as often as its worker leaves, and none of that is held against it.

use anyhow::{Result, ensure};
use tenure_testkit::read_histories;
use uuid::Uuid;

use crate::{
    arena::{Arena, Charges},
    row::{Account, Setting},
};

/// Few slots each, so that all five have work.
const ROOM: &[&str] = &["--slots", "6", "--ttl", "30s"];

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 8, 2).await?;
    let workers = ["w1", "w2", "w3", "w4", "w5"];
    for name in workers {
        arena.cluster.start_worker(name, ROOM)?;
    }
    let mut jobs = arena.submit_to("steady-mobile", 10).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    for round in 0..if setting.short { 1 } else { 10 } {
        for name in workers {
            arena.cluster.stop_worker(name).await?;
            arena.cluster.restart_worker(name)?;
            arena.wait_for_worker(name).await;
        }
        if round < 5 {
            jobs.extend(arena.submit_to("steady-mobile", 1).await?);
        }
    }
    arena.expect_charges(&jobs, Charges { attempts: 0, losses: 0 }).await?;
    let moves = count_moves(&arena, &jobs).await?;
    ensure!(moves > 0, "no restart met a run");
    arena.remark(format!("{} jobs were moved {moves} times", jobs.len()));
    arena.finish().await
}

async fn count_moves(arena: &Arena, jobs: &[Uuid]) -> Result<usize> {
    let histories = read_histories(&arena.cluster.database, &arena.heartbeats()).await?;
    Ok(jobs.iter().filter_map(|job| histories.get(job)).map(|runs| runs.len().saturating_sub(1)).sum())
}
