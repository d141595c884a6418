//! A fleet with workers for orders, as processes: they are killed and frozen here, and what they did is read from the
//! world's files, from the journal, and from nowhere else.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure_testkit::{Cluster, find_program, wait_for};

use crate::orders::{Fulfilled, Order, VERSION};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A fleet, its workers, and the world of its orders.
pub struct Stage {
    /// The coordinator and the database.
    pub cluster: Cluster,
    /// The directory that orders work in.
    pub world: PathBuf,
    workers: BTreeMap<String, Child>,
    ttl_s: u64,
}

impl Stage {
    /// Starts PostgreSQL and a coordinator, and declares the agent.
    ///
    /// # Errors
    /// A process does not start, or a file cannot be written.
    pub async fn start(ttl_s: u64) -> Result<Self> {
        let cluster = Cluster::start(find_program("tenure")?).await?;
        let world = cluster.directory().join("world");
        fs::create_dir(&world)?;
        let stage = Self { cluster, world, workers: BTreeMap::new(), ttl_s };
        stage.set_timeout("1h")?;
        Ok(stage)
    }

    /// Declares the agent, with this timeout.
    ///
    /// # Errors
    /// It is refused, or a file cannot be written.
    pub fn set_timeout(&self, timeout: &str) -> Result<()> {
        let fleet = self.cluster.directory().join("fleet.toml");
        let agent = format!("handler = \"{VERSION}\"\nstop-grace = \"2s\"\ntimeout = \"{timeout}\"");
        fs::write(&fleet, format!("schema = 1\n\n[agents.orders]\n{agent}\n"))?;
        self.cluster.run(&["apply", &fleet.to_string_lossy()])?;
        Ok(())
    }

    /// Starts a worker for orders.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_worker(&mut self, name: &str) -> Result<()> {
        let log = File::create(self.cluster.directory().join(format!("{name}.log")))?;
        let worker = Command::new(find_program("order-worker")?)
            .args([name, &self.cluster.endpoints()])
            .arg(self.cluster.directory().join(name))
            .arg(self.ttl_s.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting a worker for orders")?;
        self.workers.insert(name.to_owned(), worker);
        Ok(())
    }

    /// Submits an order of 450 and 1,200 cents. Returns the job.
    ///
    /// # Errors
    /// It is refused.
    pub fn submit(&self, holds_its_thread: bool) -> Result<String> {
        let order = Order {
            id: "a-17".to_owned(),
            prices: vec![450, 1_200],
            world: self.world.clone(),
            holds_its_thread,
        };
        let input = serde_json::to_string(&order)?;
        Ok(self.cluster.run(&["submit", "orders", "--input", &input])?.trim().to_owned())
    }

    /// Waits until the job's present run has paid and waits for its approval. Returns its worker.
    pub async fn wait_until_paid(&self, job: &str) -> String {
        wait_for("the order to be paid", PATIENCE, async || {
            let journal = self.cluster.journal(job).map_err(|error| error.to_string())?;
            let paid =
                journal.iter().filter(|record| record["value"] == "paid; waiting for the approval").count();
            let holder =
                self.cluster.job(job).map_err(|error| error.to_string())?["holder"]["worker"].clone();
            match holder.as_str() {
                Some(holder) if paid > 0 => Ok(holder.to_owned()),
                _ => Err(format!("{paid} payments, held by {holder}")),
            }
        })
        .await
    }

    /// Kills a worker with SIGKILL, its guardian not.
    ///
    /// # Errors
    /// There is no such worker.
    pub fn kill_worker(&mut self, name: &str) -> Result<()> {
        let mut worker = self.workers.remove(name).context("no such worker")?;
        worker.kill()?;
        worker.wait()?;
        Ok(())
    }

    /// Freezes or thaws a worker.
    ///
    /// # Errors
    /// There is no such worker.
    pub fn signal(&self, pid: Pid, signal: Signal) -> Result<()> {
        kill(pid, signal).with_context(|| format!("sending {signal} to {pid}"))
    }

    /// The process of a worker.
    ///
    /// # Errors
    /// There is no such worker.
    pub fn pid(&self, name: &str) -> Result<Pid> {
        let worker = self.workers.get(name).context("no such worker")?;
        Ok(Pid::from_raw(i32::try_from(worker.id())?))
    }

    /// The guardian of a worker: its only child.
    ///
    /// # Errors
    /// It has none, or the system's list of processes cannot be read.
    pub fn guardian(&self, name: &str) -> Result<Pid> {
        let pid = self.pid(name)?;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .or_else(|_| find_children(pid))
            .context("reading the children of a worker")?;
        let child = children.split_ascii_whitespace().next();
        let child = match child {
            Some(child) => child.to_owned(),
            None => find_children(pid)?,
        };
        Ok(Pid::from_raw(child.trim().parse()?))
    }

    /// Waits until the process of a worker has ended by itself, or by its guardian.
    pub async fn wait_until_ended(&mut self, name: &str) {
        let Some(mut worker) = self.workers.remove(name) else { return };
        wait_for("the worker to end", PATIENCE, async || match worker.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Approves every order.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn approve(&self) -> Result<()> {
        Ok(fs::write(self.world.join("approved"), "")?)
    }

    /// Waits until the job has succeeded. Returns its result.
    ///
    /// # Errors
    /// The result cannot be read.
    pub async fn wait_for_success(&self, job: &str) -> Result<Fulfilled> {
        self.cluster.wait_for_state(job, "succeeded", PATIENCE).await;
        Ok(serde_json::from_str(&self.cluster.run(&["result", job])?)?)
    }

    /// Waits until the journal of a job has a record of this kind.
    pub async fn wait_for_record(&self, job: &str, kind: &str) {
        wait_for(&format!("a record {kind}"), PATIENCE, async || match self.count_records(job, kind) {
            Ok(count) if count > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// How many records of a kind a job has.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn count_records(&self, job: &str, kind: &str) -> Result<usize> {
        Ok(self.cluster.journal(job)?.iter().filter(|record| record["kind"] == kind).count())
    }

    /// The lines of a file of the world.
    #[must_use]
    pub fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.world.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for worker in self.workers.values_mut() {
            // Whoever has ended already is as gone.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// Children of any thread of a process, by their own word.
fn find_children(parent: Pid) -> std::io::Result<String> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let named = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if named.is_some_and(|named| named.trim() == parent.to_string()) {
            return Ok(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Err(std::io::Error::other("the process has no child"))
}
