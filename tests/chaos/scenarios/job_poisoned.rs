//! Scenario 9: a job kills its worker wherever it is started, and its own guardian each time, so that nobody can vouch for it. It runs
//! out of attempts after three workers, and fails. The guardians of its neighbours say that those were well: three times moved, they
//! have used no attempt.

use anyhow::{Context as _, Result, ensure};
use tenure_testkit::{guardian_of, wait_for};
use uuid::Uuid;

use crate::{
    arena::{Arena, Charges, PATIENCE},
    row::{Account, Setting},
};

/// Neighbours of the poisoned job.
const NEIGHBOURS: usize = 4;

/// Long enough that guardians on a busy host report before it is over, whatever else runs. How long its lapses take is no figure of
/// this book, because others are measured with the shortest term.
const UNHURRIED: &[&str] = &["--slots", "64", "--ttl", "12s"];

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 9, 1).await?;
    arena.cluster.start_worker("w1", UNHURRIED)?;
    let neighbours = arena.submit_to("steady-neighbour", NEIGHBOURS).await?;
    let poisoned = arena.submit_to("poisoned", 1).await?[0];
    for run in 1..=3 {
        let (victim, next) = (format!("w{run}"), format!("w{}", run + 1));
        for job in neighbours.iter().chain([&poisoned]) {
            arena.wait_for_runs(&[*job], run).await?;
        }
        ensure!(
            arena.wait_for_holder(poisoned).await == victim,
            "the poisoned job is not where it should be"
        );
        arena.cluster.start_worker(&next, UNHURRIED)?;
        arena.wait_for_worker(&next).await;
        let guardian = guardian_of(arena.cluster.worker_pid(&victim)?, &poisoned.to_string())?;
        arena.kill_at_once(&victim, &[guardian.context("the poisoned run has no guardian")?])?;
    }
    wait_until_failed(&arena, poisoned).await;
    for job in &neighbours {
        arena.wait_for_runs(&[*job], 4).await?;
    }
    arena.expect_charges(&[poisoned], Charges { attempts: 2, losses: 0 }).await?;
    arena.expect_charges(&neighbours, Charges { attempts: 0, losses: 3 }).await?;
    arena.remark("the poisoned job ran out after three workers");
    arena.finish().await
}

async fn wait_until_failed(arena: &Arena, job: Uuid) {
    wait_for("the poisoned job to run out", PATIENCE, async || {
        let row: Result<(String, String), sqlx::Error> =
            sqlx::query_as("SELECT state, reason FROM jobs WHERE job = $1")
                .bind(job)
                .fetch_one(&arena.cluster.database)
                .await;
        match row {
            Ok((state, _)) if state == "failed" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
