//! A fleet with two workers for payments. They are killed here; what was really done is asked of the ledger.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use tenure_testkit::{Cluster, Ledger, find_program, wait_for};

use crate::payments::{Order, VERSION};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A fleet, and the ledger that its agent writes to.
pub struct Stage {
    /// The coordinator, the workers and the database.
    pub cluster: Cluster,
    /// Somebody else's service.
    pub ledger: Ledger,
    gates: PathBuf,
}

impl Stage {
    /// Starts PostgreSQL, a coordinator, a ledger and two workers, and declares the agent.
    ///
    /// # Errors
    /// A process does not start, or a file cannot be written.
    pub async fn start() -> Result<Self> {
        let mut cluster = Cluster::start(find_program("tenure")?).await?;
        let gates = cluster.directory().join("gates");
        fs::create_dir(&gates)?;
        let ledger = Ledger::start(&cluster.directory().join("ledger.jsonl")).await?;
        let fleet = cluster.directory().join("fleet.toml");
        fs::write(
            &fleet,
            format!("schema = 1\n\n[agents.payments]\nhandler = \"{VERSION}\"\nstop-grace = \"2s\"\n"),
        )?;
        cluster.run(&["apply", &fleet.display().to_string()])?;
        let program = find_program("payment-worker")?;
        for name in ["w1", "w2"] {
            cluster.start_own_worker(name, &program, &[])?;
        }
        Ok(Self { cluster, ledger, gates })
    }

    /// Submits the payment of 1,650 cents for an order of a customer who may be charged so much at most. Returns the job.
    ///
    /// # Errors
    /// It is refused.
    pub fn submit(&self, id: &str, limit_cents: u64) -> Result<String> {
        let (ledger, gates) = (self.ledger.url(), self.gates.clone());
        let order = Order { id: id.to_owned(), cents: 1_650, limit_cents, ledger, gates };
        let input = serde_json::to_string(&order)?;
        Ok(self.cluster.run(&["submit", "payments", "--input", &input])?.trim().to_owned())
    }

    /// Lets the handler pass a gate.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open_gate(&self, name: &str) -> Result<()> {
        fs::write(self.gates.join(name), "").with_context(|| format!("opening the gate {name}"))
    }

    /// What was really done about an order, in that order.
    ///
    /// # Errors
    /// The ledger's file cannot be read.
    pub fn done(&self, id: &str) -> Result<Vec<String>> {
        let entries = self.ledger.entries()?.into_iter();
        Ok(entries.filter_map(|entry| Some(entry.text.strip_prefix(&format!("{id} "))?.to_owned())).collect())
    }

    /// Waits until the last thing that was done about an order begins so.
    pub async fn wait_until_done(&self, id: &str, begins: &str) {
        wait_for(&format!("{begins} of {id}"), PATIENCE, async || {
            let done = self.done(id).map_err(|error| error.to_string())?;
            if done.last().is_some_and(|last| last.starts_with(begins)) {
                Ok(())
            } else {
                Err(format!("{done:?}"))
            }
        })
        .await;
    }

    /// Kills the worker that holds a job with SIGKILL, and starts it again. Returns its name.
    ///
    /// # Errors
    /// Nobody holds it.
    pub fn kill_holder(&mut self, job: &str) -> Result<String> {
        let held = self.cluster.job(job)?["holder"]["worker"].as_str().map(str::to_owned);
        let holder = held.with_context(|| format!("nobody holds job {job}"))?;
        self.cluster.kill_worker(&holder, &[])?;
        self.cluster.restart_worker(&holder)?;
        Ok(holder)
    }
}
