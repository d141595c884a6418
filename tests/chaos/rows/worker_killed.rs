//! Row 1: workers are killed in the middle of their work, with and without their guardians. The death is seen by the
//! guardians or, where they died too, found when the term lapses.

use anyhow::Result;

use crate::{
    arena::{Arena, QUICK},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 1, 1).await?;
    for name in ["w1", "w2"] {
        arena.cluster.start_worker(name, QUICK)?;
    }
    let jobs = arena.submit(4).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let deaths = if setting.short { 2 } else { 6 };
    for death in 0..deaths {
        let victim = arena.choose(&jobs)?;
        let worker = arena.wait_for_holder(victim).await;
        arena.wait_for_notes(&[victim], 1).await;
        let run = arena.find_run(victim).await?;
        // Every second death takes the guardians along.
        let beside = if death % 2 == 0 { Vec::new() } else { arena.cluster.guardian_pids(&worker)? };
        arena.count_fault(&worker);
        arena.cluster.kill_worker(&worker, &beside)?;
        arena.wait_for_runs(&[victim], run + 1).await?;
        arena.cluster.restart_worker(&worker)?;
    }
    arena.finish().await
}
