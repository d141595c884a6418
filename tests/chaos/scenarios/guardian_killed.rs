//! Scenario 2: the guardian of a run is killed. Its worker sees it at once, ends the group itself, and says so: the next run draws on
//! a loss, because nothing was wrong with the child; and the worker goes on.

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use tenure_testkit::{Pid, guardian_of};
use uuid::Uuid;

use crate::{
    arena::{Arena, Charges, PATIENT},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 2, 1).await?;
    arena.cluster.start_worker("w1", PATIENT)?;
    // One job alone: the figures of recoveries are kept by worker.
    let jobs = arena.submit(1).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let worker = arena.cluster.worker_pid("w1")?;
    let deaths = if setting.short { 1 } else { 4 };
    for death in 1..=deaths {
        arena.wait_for_notes(&jobs, 2).await;
        kill_guardian(&mut arena, worker, jobs[0])?;
        arena.wait_for_runs(&jobs, death + 1).await?;
    }
    arena.expect_charges(&jobs, Charges { attempts: 0, losses: deaths.cast_signed() }).await?;
    arena.finish().await
}

fn kill_guardian(arena: &mut Arena, worker: Pid, job: Uuid) -> Result<()> {
    let guardian = guardian_of(worker, &job.to_string())?.context("the run has no guardian")?;
    arena.count_fault("w1");
    Ok(kill(guardian, Signal::SIGKILL)?)
}
