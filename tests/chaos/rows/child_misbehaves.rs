//! Row 30: children that ignore SIGTERM, leave their session and their parent, flood their output, and fill their disk. Each
//! is ended with everything that it started, what is kept of its output is bounded, and the worker takes other work
//! meanwhile and afterwards.

use std::{os::unix::fs::symlink, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tenure_testkit::wait_for;
use uuid::Uuid;

use crate::{
    arena::{Arena, PATIENCE, wait_out},
    row::{Account, Setting},
};

/// What the agent `flood` may have kept of its output, and the line that says that there was more, in bytes.
const KEPT_MAX_BYTES: i64 = 64 * 1024 + 1024;

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 30, 1).await?;
    let disk = Disk::mount()?;
    // The worker's directories are on it: what fills up is what its runs stand on.
    symlink(disk.directory.path(), arena.cluster.directory().join("w1"))?;
    arena.cluster.start_worker("w1", &["--slots", "8", "--ttl", "30s"])?;
    let steady = arena.submit(1).await?;
    arena.wait_for_runs(&steady, 1).await?;
    let endpoints = arena.cluster.endpoints();
    let mut jobs = Vec::new();
    for agent in ["stubborn", "flood", "hoarder"] {
        jobs.push(arena.submit_until_acknowledged(agent, agent, &endpoints).await?);
    }
    for job in &jobs {
        wait_until_failed(&arena, *job).await;
    }
    assert_silent(&arena, jobs[0]).await?;
    let (kept,): (i64,) =
        sqlx::query_as("SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM output WHERE job = $1")
            .bind(jobs[1])
            .fetch_one(&arena.cluster.database)
            .await?;
    ensure!(kept > 0 && kept <= KEPT_MAX_BYTES, "{kept} bytes were kept of a flooded output");
    arena.remark(format!("{kept} bytes were kept of a flooded output"));

    let more = arena.submit(2).await?;
    arena.wait_for_runs(&more, 1).await?;
    arena.wait_for_notes(&steady, 1).await;
    arena.assert_undisturbed(&steady).await?;
    let account = arena.finish().await?;
    drop(disk);
    Ok(account)
}

async fn wait_until_failed(arena: &Arena, job: Uuid) {
    wait_for(&format!("job {job} to be given up"), PATIENCE, async || {
        let state: Result<(String,), sqlx::Error> = sqlx::query_as("SELECT state FROM jobs WHERE job = $1")
            .bind(job)
            .fetch_one(&arena.cluster.database)
            .await;
        match state {
            Ok((state,)) if state == "failed" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Nothing that a job's child left behind beats any more.
async fn assert_silent(arena: &Arena, job: Uuid) -> Result<()> {
    let run = arena.find_run(job).await?;
    let before = arena.heartbeats().read(job, run)?.context("the child never beat")?;
    // Ten beats' time.
    wait_out(Duration::from_millis(500)).await;
    let after = arena.heartbeats().read(job, run)?.context("the child never beat")?;
    ensure!(before == after, "something of job {job} still beats");
    Ok(())
}

/// What this host lacks for the row.
pub(crate) fn find_hindrance() -> Option<String> {
    Disk::mount().err().map(|error| format!("no small disk can be mounted: {error:#}"))
}

/// A disk of a few MiB.
struct Disk {
    directory: TempDir,
}

impl Disk {
    fn mount() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-disk-").tempdir()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m,mode=0755", "tenure-chaos"])
            .arg(directory.path())
            .output()
            .context("starting mount")?;
        ensure!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr).trim());
        Ok(Self { directory })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: whatever is still open there ends with its process.
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).status();
    }
}
