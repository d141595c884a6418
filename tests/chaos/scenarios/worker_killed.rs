//! Scenarios 1 and 3: a worker is killed in the middle of its runs, and with it its guardians or not. Where they live, they end
//! the children and say that those were well: the next run starts at once, and draws on a loss. Where they die too, only the
//! lapsed term shows it, nobody can say how the children were, and the next run draws on an attempt.

use anyhow::Result;
use uuid::Uuid;

use crate::{
    arena::{Arena, Charges, PATIENT, QUICK},
    row::{Account, Setting},
};

/// Jobs of a worker that is killed.
const JOBS: usize = 3;

pub(crate) async fn make_alone(setting: Setting) -> Result<Account> {
    make(setting, 1, false).await
}

pub(crate) async fn make_with_guardians(setting: Setting) -> Result<Account> {
    make(setting, 3, true).await
}

async fn make(setting: Setting, row: u32, takes_guardians: bool) -> Result<Account> {
    let mut arena = Arena::start(&setting, row, 1).await?;
    let options = if takes_guardians { QUICK } else { PATIENT };
    arena.cluster.start_worker("w1", options)?;
    let jobs = arena.submit(JOBS).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let deaths = if setting.short { 1 } else { 4 };
    for death in 0..deaths {
        let (dying, next) = if death % 2 == 0 { ("w1", "w2") } else { ("w2", "w1") };
        arena.cluster.start_worker(next, options)?;
        arena.wait_for_worker(next).await;
        arena.wait_for_notes(&jobs, 2).await;
        kill(&mut arena, dying, takes_guardians, &jobs).await?;
    }
    let wanted = if takes_guardians {
        Charges { attempts: deaths, losses: 0 }
    } else {
        Charges { attempts: 0, losses: deaths }
    };
    // The short form runs beside other tests, where a short term may lapse by itself.
    if !(setting.short && takes_guardians) {
        arena.expect_charges(&jobs, wanted).await?;
    }
    arena.finish().await
}

async fn kill(arena: &mut Arena, dying: &str, takes_guardians: bool, jobs: &[Uuid]) -> Result<()> {
    let mut runs = Vec::new();
    for job in jobs {
        runs.push(arena.find_run(*job).await?);
    }
    let beside = if takes_guardians { arena.cluster.guardian_pids(dying)? } else { Vec::new() };
    arena.count_fault(dying);
    arena.kill_at_once(dying, &beside)?;
    for (job, run) in jobs.iter().zip(runs) {
        arena.wait_for_runs(&[*job], run + 1).await?;
    }
    Ok(())
}
