//! Row 1: workers are killed in the middle of their work: before a start, between an announcement and its act, between the
//! act and its record, after the record; which of them is left to the moment, and the ledger is slow at random so that each
//! is met. Every second death takes the guardians along, so that only the lapsed term shows it. The ledger has each effect
//! once, or the effect is listed in doubt.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt as _;
use tenure_testkit::{Behaviour, count_in_doubt};
use uuid::Uuid;

use crate::{
    arena::{Arena, QUICK, draw_duration, wait_out},
    row::{Account, Setting},
};

/// How a doubt is settled, of which there is an agent each.
const ANNOUNCING: [&str; 4] = ["announce-idempotent", "announce-retry", "announce-probe", "announce-ask"];

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 1, 1).await?;
    for name in ["w1", "w2"] {
        arena.cluster.start_worker(name, QUICK)?;
    }
    let steady = arena.submit(2).await?;
    arena.wait_for_runs(&steady, 1).await?;
    let rounds = if setting.short { 1 } else { 3 };
    for round in 0..rounds {
        announce(&mut arena, round).await?;
        for takes_guardians in [false, true] {
            let behaviour = draw_behaviour(&mut arena);
            arena.ledger.behave(behaviour);
            let pause = draw_duration(&mut arena.random, 100, 2_500);
            wait_out(pause).await;
            kill_once(&mut arena, &steady, takes_guardians).await?;
        }
    }
    arena.ledger.behave(Behaviour::default());
    let database = arena.cluster.database.clone();
    let posted = arena.open_gate_and_wait().await?;
    let in_doubt = count_in_doubt(&database).await?;
    arena.remark(format!("{posted} entries in the ledger, {in_doubt} effects listed in doubt"));
    arena.finish().await
}

/// Submits one job of each announcing agent.
async fn announce(arena: &mut Arena, round: usize) -> Result<()> {
    let endpoints = arena.cluster.endpoints();
    for agent in ANNOUNCING {
        arena.submit_until_acknowledged(&format!("{agent}{round}"), agent, &endpoints).await?;
    }
    Ok(())
}

/// Slow before or after an entry, or neither; and every second time one answer is swallowed.
fn draw_behaviour(arena: &mut Arena) -> Behaviour {
    let mut delay_ms = || if arena.random.random_bool(0.5) { arena.random.random_range(0..600) } else { 0 };
    let (delay_before_ms, delay_after_ms) = (delay_ms(), delay_ms());
    Behaviour { delay_before_ms, delay_after_ms, swallow: arena.random.random_range(0..2) }
}

/// Kills the worker of a steady job, waits for the job's next run, and starts the worker again.
async fn kill_once(arena: &mut Arena, steady: &[Uuid], takes_guardians: bool) -> Result<()> {
    let victim = arena.choose(steady)?;
    let worker = arena.wait_for_holder(victim).await;
    let run = arena.find_run(victim).await?;
    arena.wait_for_runs(&[victim], run).await?;
    let beside = if takes_guardians { arena.cluster.guardian_pids(&worker)? } else { Vec::new() };
    arena.count_fault(&worker);
    arena.cluster.kill_worker(&worker, &beside)?;
    arena.wait_for_runs(&[victim], run + 1).await?;
    arena.cluster.restart_worker(&worker)?;
    arena.wait_for_worker(&worker).await;
    wait_out(Duration::from_millis(200)).await;
    Ok(())
}
