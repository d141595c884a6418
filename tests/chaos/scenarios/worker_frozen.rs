//! Scenario 4: a worker is frozen for two leases, its guardians are not. They end the children at the local deadline; the jobs go on
//! elsewhere; and what the worker says when it is thawed is late. It is then given new work.

use anyhow::Result;
use tenure_testkit::wait_for;

use crate::{
    arena::{Arena, PATIENCE, QUICK, TTL, wait_out},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 4, 1).await?;
    arena.cluster.start_worker("w1", QUICK)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.cluster.start_worker("w2", QUICK)?;
    arena.wait_for_worker("w2").await;
    arena.wait_for_notes(&jobs, 2).await;
    arena.cluster.freeze_worker("w1")?;
    wait_out(TTL * 2).await;
    arena.wait_for_runs(&jobs, 2).await?;
    arena.cluster.thaw_worker("w1")?;
    arena.wait_for_worker("w1").await;
    arena.wait_for_notes(&jobs, 2).await;
    arena.cluster.kill_worker("w2", &[])?;
    for job in &jobs {
        wait_for(&format!("job {job} to run where it was frozen"), PATIENCE, async || {
            let holder = arena.wait_for_holder(*job).await;
            if holder == "w1" { Ok(()) } else { Err(holder) }
        })
        .await;
    }
    arena.finish().await
}
