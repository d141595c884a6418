//! Row 16: what workers and coordinators say to each other is delayed, lost on its way back, and cut off, at random, so that
//! it is sent again, through either of two coordinators, and old messages meet new ones. Every note is there once, and no
//! run notices.

use rand::RngExt as _;
use std::time::Duration;

use anyhow::Result;
use tenure_testkit::{Proxy, Treatment};

use crate::{
    arena::{Arena, PATIENT, draw_duration, wait_out},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 16, 2).await?;
    let proxies = [
        Proxy::start(arena.cluster.coordinator_address("c1")?).await?,
        Proxy::start(arena.cluster.coordinator_address("c2")?).await?,
    ];
    let endpoints = format!("{},{}", proxies[0].endpoint(), proxies[1].endpoint());
    for name in ["w1", "w2"] {
        arena.cluster.start_worker_at(name, &endpoints, PATIENT)?;
    }
    let jobs = arena.submit(4).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let disturbances = if setting.short { 12 } else { 60 };
    for _ in 0..disturbances {
        let proxy = &proxies[arena.random.random_range(0..proxies.len())];
        disturb(&mut arena, proxy).await;
    }
    proxies.iter().for_each(|proxy| proxy.treat(Treatment::Pass));
    let accepted: u64 = proxies.iter().map(Proxy::accepted).sum();
    arena.remark(format!("{disturbances} disturbances, {accepted} connections"));
    arena.wait_for_notes(&jobs, 2).await;
    arena.assert_undisturbed(&jobs).await?;
    arena.finish().await
}

/// Treats a proxy badly for a moment.
async fn disturb(arena: &mut Arena, proxy: &Proxy) {
    let late = |arena: &mut Arena| draw_duration(&mut arena.random, 0, 400);
    match arena.random.random_range(0..5) {
        0 => proxy.treat(Treatment::Delay { to_server: late(arena), to_client: late(arena) }),
        1 => proxy.treat(Treatment::LoseAnswers),
        2 => proxy.treat(Treatment::LoseRequests),
        3 => proxy.cut(),
        _ => proxy.treat(Treatment::Pass),
    }
    let pause: Duration = draw_duration(&mut arena.random, 50, 600);
    wait_out(pause).await;
    proxy.treat(Treatment::Pass);
}
