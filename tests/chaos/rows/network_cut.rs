//! Row 3: a worker on a host of its own, with guardians and children, is cut off: the link is down; packets vanish both ways;
//! its beats arrive and the answers do not; nothing that it says arrives. Each time its children end before the job goes on
//! elsewhere, its term is not renewed, and once the link is mended it takes new work by itself.

use anyhow::Result;
use tenure_testkit::{Break, Host, Proxy, wait_for};
use uuid::Uuid;

use crate::{
    arena::{Arena, PATIENCE, QUICK},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 3, 1).await?;
    let host = Host::create()?;
    let outside = (host.outside(), 0).into();
    let proxy = Proxy::start_on(outside, arena.cluster.coordinator_address("c1")?).await?;
    arena.cluster.start_worker_on(&host, "far", &proxy.endpoint(), QUICK)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.cluster.start_worker("near", QUICK)?;
    arena.wait_for_worker("near").await;
    let cuts: &[Break] = if setting.short {
        &[Break::Inbound]
    } else {
        &[Break::LinkDown, Break::Blackhole, Break::Inbound, Break::Outbound]
    };
    for cut in cuts {
        cut_once(&mut arena, &host, *cut, &jobs).await?;
    }
    arena.finish().await
}

async fn cut_once(arena: &mut Arena, host: &Host, cut: Break, jobs: &[Uuid]) -> Result<()> {
    let mut runs = Vec::new();
    for job in jobs {
        runs.push(arena.find_run(*job).await?);
    }
    host.sever(cut)?;
    if cut != Break::Inbound {
        // A worker whose beats still arrive is told from a live one only after one TTL more.
        arena.count_fault("far");
    }
    for (job, run) in jobs.iter().zip(runs) {
        arena.wait_for_runs(&[*job], run + 1).await?;
    }
    host.mend(cut)?;
    // Everything runs near by now: only far is left once near is killed.
    arena.wait_for_worker("far").await;
    arena.count_fault("near");
    arena.cluster.kill_worker("near", &[])?;
    for job in jobs {
        wait_for(&format!("job {job} to run on the host that came back"), PATIENCE, async || {
            let holder = arena.wait_for_holder(*job).await;
            if holder == "far" { Ok(()) } else { Err(holder) }
        })
        .await;
        let run = arena.find_run(*job).await?;
        arena.wait_for_runs(&[*job], run).await?;
    }
    arena.cluster.restart_worker("near")?;
    arena.wait_for_worker("near").await;
    Ok(())
}
