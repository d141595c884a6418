//! What is done to the fleet. Each fault waits for a condition in the database, not for time: first a worker is killed
//! when a job of its has left the second note, so that its guardians see it; then another is killed together with its
//! guardians in one blow, so that nobody is left to say so and its term has to lapse.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use tenure_testkit::Pid;

use crate::fleet::{DemoJob, Fleet};

/// How long a condition may take to come about.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that was killed.
pub(crate) struct Kill {
    /// The worker.
    pub(crate) worker: String,
    /// When, in nanoseconds of the wall clock, which the heartbeat files use too.
    pub(crate) at_ns: u128,
}

/// Kills one worker where it is seen, and one with its guardians, where it is not.
pub(crate) async fn inflict(fleet: &mut Fleet, jobs: &[DemoJob]) -> Result<Vec<Kill>> {
    let first = wait_for_note(fleet, jobs, 2, 1).await?;
    println!("killing worker {first}: one of its jobs has left its second note");
    let seen = kill_worker(fleet, &first, &[])?;
    fleet.start_worker("w3")?;
    wait_for_handovers(fleet, &first).await?;
    fleet.open_gate("computed")?;

    let second = wait_for_note(fleet, jobs, 3, 2).await?;
    let guardians = fleet.cluster.guardian_pids(&second)?;
    println!("killing worker {second} and its {} guardians at once", guardians.len());
    let unseen = kill_worker(fleet, &second, &guardians)?;
    fleet.start_worker("w4")?;
    fleet.open_gate("pushed")?;
    Ok(vec![seen, unseen])
}

/// Waits until a running job has left so many notes in all of its runs, and names its worker.
async fn wait_for_note(fleet: &Fleet, jobs: &[DemoJob], notes: i64, least_run: i32) -> Result<String> {
    let ids: Vec<uuid::Uuid> = jobs.iter().map(|job| job.id).collect();
    let until = Instant::now() + PATIENCE;
    loop {
        let found: Option<(String,)> = sqlx::query_as(
            "SELECT l.worker FROM leases l
             WHERE l.tenant = 'default' AND l.job = ANY($1) AND l.released_at IS NULL AND l.run >= $3
               AND (SELECT count(*) FROM journal n
                    WHERE n.tenant = l.tenant AND n.job = l.job AND n.kind = 'note') >= $2
             LIMIT 1",
        )
        .bind(&ids)
        .bind(notes)
        .bind(least_run)
        .fetch_optional(&fleet.cluster.database)
        .await?;
        if let Some((worker,)) = found {
            return Ok(worker);
        }
        ensure!(Instant::now() < until, "no job of run {least_run} or later left {notes} notes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no job is held by this worker any more.
async fn wait_for_handovers(fleet: &Fleet, worker: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let (held,): (i64,) = sqlx::query_as("SELECT count(*) FROM leases WHERE worker = $1")
            .bind(worker)
            .fetch_one(&fleet.cluster.database)
            .await?;
        if held == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{held} jobs are still held by the dead worker {worker}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Kills a worker, with whoever is named beside it.
fn kill_worker(fleet: &mut Fleet, worker: &str, beside: &[Pid]) -> Result<Kill> {
    let at_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    fleet.cluster.kill_worker(worker, beside)?;
    Ok(Kill { worker: worker.to_owned(), at_ns })
}
