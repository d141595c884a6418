//! Row 2: a worker is frozen for half a lease, almost one, a little more than one, and three, with notes that it has not
//! sent; then thawed. Past its lease its child ends before the job goes on elsewhere, each of its late writes is fenced,
//! and it takes new work. Then a worker, its guardians and their children are frozen all at once, as a host that is
//! suspended would be: the writes are fenced, and the child ends within a second of the thaw; what it did until then is
//! measured and said.

use std::time::Duration;

use anyhow::{Result, ensure};
use tenure_testkit::{Concern, Proxy, Treatment, now_ns};
use uuid::Uuid;

use crate::{
    arena::{Arena, PATIENCE, QUICK, TTL, wait_out},
    row::{Account, Setting},
};

/// How long a child may live on after its host woke up.
const WAKING_MAX_MS: u64 = 1_000;

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 2, 1).await?;
    let proxy = Proxy::start(arena.cluster.coordinator_address("c1")?).await?;
    arena.cluster.start_worker_at("w1", &proxy.endpoint(), QUICK)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    arena.cluster.start_worker("w2", QUICK)?;
    let leases: &[f64] = if setting.short { &[1.01] } else { &[0.5, 0.99, 1.01, 3.0] };
    for factor in leases {
        freeze_once(&mut arena, &proxy, &jobs, TTL.mul_f64(*factor)).await?;
    }
    if setting.short {
        return arena.finish().await;
    }
    let slept = freeze_tree(&mut arena, &jobs).await?;
    let mut account = arena.finish().await?;
    // The one exception that is named: a host suspended whole. Its bound was checked above.
    account.findings.retain(|finding| {
        finding.concern != Concern::OverlappingChildren
            || !slept.iter().any(|job| finding.subject == job.to_string())
    });
    Ok(account)
}

/// Freezes w1 with its connection stalled, so that its notes pile up, and thaws it.
async fn freeze_once(arena: &mut Arena, proxy: &Proxy, jobs: &[Uuid], lasting: Duration) -> Result<()> {
    move_to(arena, "w1", "w2", jobs).await?;
    proxy.treat(Treatment::Stall);
    wait_out(Duration::from_millis(600)).await;
    arena.cluster.freeze_worker("w1")?;
    wait_out(lasting).await;
    if lasting > TTL {
        // What only a lapsed term shows may take two seconds more.
        wait_for_other_holder(arena, jobs, "w1").await;
    }
    arena.cluster.thaw_worker("w1")?;
    proxy.treat(Treatment::Pass);
    arena.wait_for_notes(jobs, 1).await;
    Ok(())
}

/// Freezes everything of w1 for longer than its lease, and thaws it when all jobs run elsewhere. Returns the jobs.
async fn freeze_tree(arena: &mut Arena, jobs: &[Uuid]) -> Result<Vec<Uuid>> {
    move_to(arena, "w1", "w2", jobs).await?;
    let mut runs = Vec::new();
    for job in jobs {
        runs.push(arena.find_run(*job).await?);
    }
    let tree = arena.cluster.freeze_tree("w1")?;
    wait_for_other_holder(arena, jobs, "w1").await;
    for (job, run) in jobs.iter().zip(&runs) {
        arena.wait_for_runs(&[*job], run + 1).await?;
    }
    let thawed_ns = now_ns();
    arena.cluster.thaw_tree(&tree);
    // Long enough for a child that lives on to beat past its bound.
    wait_out(Duration::from_millis(2 * WAKING_MAX_MS)).await;
    let mut longest_ms = 0;
    for (job, run) in jobs.iter().zip(runs) {
        if let Some(beats) = arena.heartbeats().read(*job, run)? {
            longest_ms = longest_ms.max(beats.last_ns.saturating_sub(thawed_ns) / 1_000_000);
        }
    }
    ensure!(longest_ms <= WAKING_MAX_MS, "a child lived on for {longest_ms} ms after its host woke up");
    arena.remark(format!("children of a host suspended whole lived on for {longest_ms} ms after it woke up"));
    Ok(jobs.to_vec())
}

/// Has every job run on one worker, by killing the other.
async fn move_to(arena: &mut Arena, to: &str, from: &str, jobs: &[Uuid]) -> Result<()> {
    arena.wait_for_worker(to).await;
    arena.cluster.kill_worker(from, &[])?;
    for job in jobs {
        tenure_testkit::wait_for(&format!("{to} to hold job {job}"), PATIENCE, async || {
            let holder = arena.wait_for_holder(*job).await;
            if holder == to { Ok(()) } else { Err(holder) }
        })
        .await;
        let run = arena.find_run(*job).await?;
        arena.wait_for_runs(&[*job], run).await?;
    }
    arena.cluster.restart_worker(from)?;
    arena.wait_for_worker(from).await;
    Ok(())
}

async fn wait_for_other_holder(arena: &Arena, jobs: &[Uuid], than: &str) {
    for job in jobs {
        tenure_testkit::wait_for(&format!("another than {than} to hold job {job}"), PATIENCE, async || {
            let holder = arena.wait_for_holder(*job).await;
            if holder == than { Err(holder) } else { Ok(()) }
        })
        .await;
    }
}
