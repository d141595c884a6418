//! Row 4: the connection between a worker and its coordinator stays open and carries nothing any more. Both sides notice
//! within their keepalive: the worker moves to another coordinator and no run notices; the coordinator gives the connection
//! up, so that it does not hold on to what is dead.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tenure_testkit::{Proxy, Treatment, Way, wait_for};
use tokio::time::Instant;

use crate::{
    arena::{Arena, PATIENCE, PATIENT},
    row::{Account, Setting},
};

/// The pause between two signs of life, the wait for the answer, and as much again for a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// How the kernel writes the state of an established connection.
const ESTABLISHED: &str = "01";

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 4, 2).await?;
    let (first, second) =
        (arena.cluster.coordinator_address("c1")?, arena.cluster.coordinator_address("c2")?);
    let (one, other) = (Proxy::start(first).await?, Proxy::start(second).await?);
    let endpoints = format!("{},{}", one.endpoint(), other.endpoint());
    arena.cluster.start_worker_at("w1", &endpoints, PATIENT)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    // Whichever carries its notes.
    let before = [&one, &other].map(|proxy| proxy.passed_bytes(Way::ToServer));
    arena.wait_for_notes(&jobs, 2).await;
    let grew = one.passed_bytes(Way::ToServer) - before[0] > other.passed_bytes(Way::ToServer) - before[1];
    let (stalled, left, address) = if grew { (&one, &other, first) } else { (&other, &one, second) };
    let (accepted, open) = (left.accepted(), count_connections(address)?);
    ensure!(open > 0, "the worker is not attached through a proxy");
    stalled.treat(Treatment::Stall);
    let began = Instant::now();
    wait_for("the worker to move on", PATIENCE, async || {
        let now = left.accepted();
        if now > accepted { Ok(()) } else { Err(now) }
    })
    .await;
    let worker_took = began.elapsed();
    wait_for("the coordinator to give the connection up", PATIENCE, async || {
        match count_connections(address) {
            Ok(now) if now < open => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let coordinator_took = began.elapsed();
    ensure!(worker_took <= NOTICED_WITHIN, "the worker noticed after {worker_took:?}");
    ensure!(coordinator_took <= NOTICED_WITHIN, "the coordinator noticed after {coordinator_took:?}");
    arena.remark(format!(
        "the worker noticed after {:.1} s, the coordinator after {:.1} s",
        worker_took.as_secs_f64(),
        coordinator_took.as_secs_f64()
    ));
    arena.wait_for_notes(&jobs, 1).await;
    arena.assert_undisturbed(&jobs).await?;
    stalled.treat(Treatment::Pass);
    arena.finish().await
}

/// Established connections that a server has accepted at this address, as the kernel lists them.
fn count_connections(server: SocketAddr) -> Result<usize> {
    let table = fs::read_to_string("/proc/net/tcp").context("listing the connections")?;
    let port = format!(":{:04X}", server.port());
    let is_one = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, local, _, state, ..] if local.ends_with(&port) && state == ESTABLISHED)
    };
    Ok(table.lines().filter(is_one).count())
}
