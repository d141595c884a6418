//! Scenario 7: a coordinator is killed while 200 jobs run. Their workers move to the other one within their terms: no run notices,
//! and nothing is used up.

use anyhow::Result;

use crate::{
    arena::{Arena, Charges, PATIENT},
    row::{Account, Setting},
};

/// How many run, and in the short form.
const JOBS: usize = 200;
const JOBS_SHORT: usize = 20;

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 7, 2).await?;
    let workers = ["w1", "w2", "w3", "w4"];
    for name in workers {
        arena.cluster.start_worker(name, PATIENT)?;
    }
    let jobs = if setting.short { JOBS_SHORT } else { JOBS };
    let jobs = arena.submit_batch("steady-light", jobs).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.cluster.kill_coordinator("c1")?;
    for name in workers {
        arena.wait_for_worker(name).await;
    }
    // Acknowledged by the one that is left.
    let after = arena.submit(1).await?;
    arena.wait_for_runs(&after, 1).await?;
    arena.wait_for_notes(&after, 1).await;
    arena.assert_undisturbed(&jobs).await?;
    arena.expect_charges(&jobs, Charges { attempts: 0, losses: 0 }).await?;
    arena.remark(format!("{} jobs ran on", jobs.len()));
    arena.finish().await
}
