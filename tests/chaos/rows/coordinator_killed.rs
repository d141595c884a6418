//! Row 5: a coordinator is killed before it has committed a submission, and after the commit but before its answer arrives.
//! Either way the client does not know, asks another coordinator with the same key, and the job is there once. The notes of
//! running jobs go on through the other coordinator, and no run notices.

use anyhow::Result;
use tenure_testkit::{Proxy, Treatment, wait_for};

use crate::{
    arena::{Arena, Blockade, PATIENCE, PATIENT},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 5, 2).await?;
    let endpoints = arena.cluster.endpoints();
    arena.cluster.start_worker_at("w1", &endpoints, PATIENT)?;
    let jobs = arena.submit(3).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    for _ in 0..if setting.short { 1 } else { 3 } {
        kill_before_the_commit(&mut arena).await?;
        arena.cluster.restart_coordinator("c1").await?;
        kill_before_the_answer(&mut arena).await?;
        arena.cluster.restart_coordinator("c1").await?;
        arena.wait_for_notes(&jobs, 1).await;
    }
    arena.assert_undisturbed(&jobs).await?;
    arena.finish().await
}

/// A lock on the table of jobs holds the submission up; its coordinator dies while it waits.
async fn kill_before_the_commit(arena: &mut Arena) -> Result<()> {
    let blockade = Blockade::raise(arena, "jobs").await?;
    let mark = arena.next_mark();
    let (first, second) = (arena.cluster.endpoint("c1")?, arena.cluster.endpoint("c2")?);
    let unanswered = arena.spawn_submission(&mark, &first)?;
    blockade.wait_for_coordinator(arena).await;
    arena.cluster.kill_coordinator("c1")?;
    blockade.lift().await?;
    drop(unanswered);
    arena.submit_until_acknowledged(&mark, "steady", &second).await?;
    Ok(())
}

/// The answer is lost on its way; the coordinator dies once the job is stored.
async fn kill_before_the_answer(arena: &mut Arena) -> Result<()> {
    let proxy = Proxy::start(arena.cluster.coordinator_address("c1")?).await?;
    proxy.treat(Treatment::LoseAnswers);
    let mark = arena.next_mark();
    let unanswered = arena.spawn_submission(&mark, &proxy.endpoint())?;
    wait_for("the submission to be stored", PATIENCE, async || {
        let stored: Result<Option<(uuid::Uuid,)>, sqlx::Error> =
            sqlx::query_as("SELECT job FROM jobs WHERE labels ->> 'submission' = $1")
                .bind(&mark)
                .fetch_optional(&arena.cluster.database)
                .await;
        match stored {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    arena.cluster.kill_coordinator("c1")?;
    drop(unanswered);
    let second = arena.cluster.endpoint("c2")?;
    arena.submit_until_acknowledged(&mark, "steady", &second).await?;
    Ok(())
}
