//! What is done to the fleet, while every job stands between an act on the world and its record. Each fault waits for a
//! condition in the database, not for time:
//!
//! 1. a worker is killed: its jobs have announced to the world, and nobody has written it down;
//! 2. another is cut off with notes that nobody has taken yet, frozen until its jobs are held by others, and thawed;
//! 3. a coordinator is killed, and the workers move to the other one;
//! 4. PostgreSQL crashes while the outcomes are being recorded, and is started again.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure_testkit::{Crash, Fault, Treatment, Way, now_ns};

use crate::fleet::{BEHIND_PROXY, DemoJob, Fleet};

/// How long a condition may take to come about.
const PATIENCE: Duration = Duration::from_secs(60);

/// Announcements that are out, and of which nothing is recorded yet.
const ANNOUNCED: &str =
    "SELECT count(*) FROM effects e JOIN leases l ON l.tenant = e.tenant AND l.job = e.job
    WHERE e.key = 'announce' AND e.state = 'started' AND l.released_at IS NULL";
/// A note on the wire has more bytes than this, and a renewal fewer.
const NOTE_BYTES: u64 = 100;

/// Something that was done, and when, in nanoseconds of the wall clock.
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    pub(crate) what: String,
}

/// What was done.
pub(crate) struct Inflicted {
    /// What recoveries are measured from.
    pub(crate) measured: Vec<Fault>,
    /// Everything, in its order.
    pub(crate) marks: Vec<Mark>,
}

/// Does all of it.
pub(crate) async fn inflict(fleet: &mut Fleet, jobs: &[DemoJob]) -> Result<Inflicted> {
    let mut marks = Vec::new();
    let killed = kill_a_worker(fleet, jobs, &mut marks).await?;
    let frozen = freeze_a_worker(fleet, jobs, &mut marks).await?;
    kill_a_coordinator(fleet, &mut marks).await?;
    crash_the_database(fleet, jobs, &mut marks).await?;
    Ok(Inflicted { measured: vec![killed, frozen], marks })
}

/// Says what is about to be done, and notes when.
fn tell(marks: &mut Vec<Mark>, what: String) {
    println!("{what}");
    marks.push(Mark { at_ns: now_ns(), what });
}

async fn kill_a_worker(fleet: &mut Fleet, jobs: &[DemoJob], marks: &mut Vec<Mark>) -> Result<Fault> {
    wait_for_entries(fleet, jobs.len()).await?;
    let held = count_held_by(fleet, "w1").await?;
    tell(marks, format!("killing worker w1: its {held} jobs have announced, and nothing of it is recorded"));
    let fault = Fault::now("w1");
    fleet.cluster.kill_worker("w1", &[])?;
    wait_until_held_by_others(fleet, "w1").await?;
    fleet.wait_for_count(i64::try_from(jobs.len())?, "announcements under way", ANNOUNCED).await?;
    fleet.start_worker("w4")?;
    Ok(fault)
}

/// The worker is frozen as soon as it has tried to send its notes, and everything that it has to say comes once others hold
/// its jobs.
async fn freeze_a_worker(fleet: &mut Fleet, jobs: &[DemoJob], marks: &mut Vec<Mark>) -> Result<Fault> {
    let held = count_held_by(fleet, BEHIND_PROXY).await?;
    let lost_before = fleet.proxy.lost_bytes(Way::ToServer);
    fleet.proxy.treat(Treatment::LoseRequests);
    fleet.open_gate("noting")?;
    wait_for_lost_notes(fleet, lost_before, u64::try_from(held)?).await?;
    let what = format!("it has {held} jobs, and notes that it could not send");
    tell(marks, format!("freezing worker {BEHIND_PROXY} past its lease: {what}"));
    let fault = Fault::now(BEHIND_PROXY);
    fleet.cluster.freeze_worker(BEHIND_PROXY)?;
    wait_until_held_by_others(fleet, BEHIND_PROXY).await?;
    fleet.wait_for_count(i64::try_from(jobs.len())?, "announcements under way", ANNOUNCED).await?;
    fleet.proxy.treat(Treatment::Pass);
    fleet.cluster.thaw_worker(BEHIND_PROXY)?;
    let what = "whatever it still has to say about these jobs is late";
    tell(marks, format!("thawed worker {BEHIND_PROXY}: {what}"));
    wait_for_fence(fleet).await?;
    Ok(fault)
}

async fn kill_a_coordinator(fleet: &mut Fleet, marks: &mut Vec<Mark>) -> Result<()> {
    tell(marks, "killing coordinator c1: its workers move to c2".to_owned());
    fleet.cluster.kill_coordinator("c1")?;
    fleet.cluster.restart_coordinator("c1").await
}

/// The outcomes of all announcements are on their way when the database goes away.
async fn crash_the_database(fleet: &mut Fleet, jobs: &[DemoJob], marks: &mut Vec<Mark>) -> Result<()> {
    fleet.wait_for_count(i64::try_from(jobs.len())?, "announcements under way", ANNOUNCED).await?;
    tell(marks, "crashing PostgreSQL while the announcements are being recorded".to_owned());
    fleet.open_gate("recorded")?;
    fleet.cluster.crash_database(Crash::Immediate);
    fleet.cluster.restart_database()?;
    fleet.open_gate("done")
}

/// Waits until the proxy has thrown away as much as half of so many notes have.
async fn wait_for_lost_notes(fleet: &Fleet, before: u64, notes: u64) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let wanted = notes.div_ceil(2) * NOTE_BYTES;
    loop {
        let lost = fleet.proxy.lost_bytes(Way::ToServer) - before;
        if lost >= wanted {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{notes} notes were waited for, and {lost} bytes were sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the ledger has so many entries.
async fn wait_for_entries(fleet: &Fleet, wanted: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let entered = fleet.ledger.entries()?.len();
        if entered >= wanted {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the ledger has {entered} entries, and {wanted} were waited for");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn count_held_by(fleet: &Fleet, worker: &str) -> Result<i64> {
    let (held,) = sqlx::query_as("SELECT count(*) FROM leases WHERE worker = $1 AND released_at IS NULL")
        .bind(worker)
        .fetch_one(&fleet.cluster.database)
        .await?;
    Ok(held)
}

/// Waits until no job is held by this worker any more.
async fn wait_until_held_by_others(fleet: &Fleet, worker: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let held = count_held_by(fleet, worker).await?;
        if held == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{held} jobs are still held by worker {worker}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a coordinator has refused something late.
async fn wait_for_fence(fleet: &Fleet) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while fleet.cluster.count_fenced_writes()? == 0 {
        ensure!(Instant::now() < until, "nothing late was refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
