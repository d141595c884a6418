//! Scenarios 5 and 6: a host is cut off with the worker, the guardians and the children on it, and comes back after the jobs have gone
//! on elsewhere, or never does. Nobody can say how the children were, so each cut costs an attempt; they end before their jobs go
//! on. A host that came back reports late, which changes nothing, and takes new work.

use anyhow::Result;
use tenure_testkit::{Break, Host, Proxy};
use uuid::Uuid;

use crate::{
    arena::{Arena, Charges, QUICK},
    row::{Account, Setting},
};

pub(crate) async fn make_and_mend(setting: Setting) -> Result<Account> {
    let (mut arena, host, _proxy, jobs) = start(&setting, 5).await?;
    host.sever(Break::LinkDown)?;
    arena.count_fault("far");
    arena.wait_for_runs(&jobs, 2).await?;
    host.mend(Break::LinkDown)?;
    arena.wait_for_worker("far").await;
    arena.expect_charges(&jobs, Charges { attempts: 1, losses: 0 }).await?;
    // Back means that it carries runs again.
    arena.count_fault("near");
    arena.kill_at_once("near", &[])?;
    arena.wait_for_runs(&jobs, 3).await?;
    arena.expect_charges(&jobs, Charges { attempts: 1, losses: 1 }).await?;
    arena.finish().await
}

pub(crate) async fn make_for_good(setting: Setting) -> Result<Account> {
    let (mut arena, host, _proxy, jobs) = start(&setting, 6).await?;
    host.sever(Break::Blackhole)?;
    arena.count_fault("far");
    arena.wait_for_runs(&jobs, 2).await?;
    // The short form runs beside other tests, where a short term may lapse by itself.
    if !setting.short {
        arena.expect_charges(&jobs, Charges { attempts: 1, losses: 0 }).await?;
    }
    arena.finish().await
}

/// A worker on a host of its own with jobs, and another that has none yet.
async fn start(setting: &Setting, row: u32) -> Result<(Arena, Host, Proxy, Vec<Uuid>)> {
    let mut arena = Arena::start(setting, row, 1).await?;
    let host = Host::create()?;
    let outside = (host.outside(), 0).into();
    let proxy = Proxy::start_on(outside, arena.cluster.coordinator_address("c1")?).await?;
    arena.cluster.start_worker_on(&host, "far", &proxy.endpoint(), QUICK)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.cluster.start_worker("near", QUICK)?;
    arena.wait_for_worker("near").await;
    Ok((arena, host, proxy, jobs))
}
