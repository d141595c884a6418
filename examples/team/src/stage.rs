//! A fleet of two workers for the team, and the world around it: the questions that the model was asked, and a ledger that counts releases.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tenure_testkit::{Cluster, Ledger, find_program, wait_for};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A fleet and the world around it.
pub struct Stage {
    /// The coordinator, the workers and the database.
    pub cluster: Cluster,
    /// Somebody else's service: what is released twice is written down twice.
    pub ledger: Ledger,
    place: PathBuf,
}

impl Stage {
    /// Starts PostgreSQL, a coordinator and two workers, and declares the team.
    ///
    /// # Errors
    /// A process does not start, or a file cannot be written.
    pub async fn start() -> Result<Self> {
        let mut cluster = Cluster::start(find_program("tenure")?).await?;
        let place = cluster.directory().join("world");
        fs::create_dir_all(place.join("gates")).context("making the world")?;
        fs::write(place.join("model.sh"), include_str!("../model.sh"))?;
        fs::write(place.join("asked"), "")?;
        let ledger = Ledger::start(&place.join("ledger.jsonl")).await?;
        let fleet = place.join("fleet.toml");
        fs::write(&fleet, fill_in(&place, &ledger)?)?;
        cluster.run(&["apply", &fleet.display().to_string()])?;
        for name in ["w1", "w2"] {
            cluster.start_worker(name, &["--slots", "4"])?;
        }
        Ok(Self { cluster, ledger, place })
    }

    /// Lets the developer go on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open_gate(&self, name: &str) -> Result<()> {
        fs::write(self.place.join("gates").join(name), "").with_context(|| format!("opening the gate {name}"))
    }

    /// How often the model was asked, by role.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn asked(&self) -> Result<BTreeMap<String, u32>> {
        let mut counts = BTreeMap::new();
        for role in fs::read_to_string(self.place.join("asked")).context("reading what was asked")?.lines() {
            *counts.entry(role.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    /// The session of a job.
    ///
    /// # Errors
    /// The fleet does not answer.
    pub fn session(&self, job: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.cluster.run(&["--json", "session", job])?)?)
    }

    /// Waits until an agent has a job in the session of a job, and returns it.
    pub async fn wait_for_agent(&self, job: &str, agent: &str) -> String {
        wait_for(&format!("a job of {agent}"), PATIENCE, async || {
            let session = self.session(job).map_err(|error| error.to_string())?;
            let jobs = session["jobs"].as_array().into_iter().flatten();
            let found = jobs.into_iter().find(|one| one["agent"] == agent);
            found.and_then(|one| one["id"].as_str()).map(str::to_owned).ok_or_else(|| session.to_string())
        })
        .await
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

/// The fleet file with the places of this world.
fn fill_in(place: &Path, ledger: &Ledger) -> Result<String> {
    let mut file: toml::Table = toml::from_str(include_str!("../fleet.toml"))?;
    let env = file["defaults"]["env"].as_table_mut().context("the fleet file has no env")?;
    for (name, value) in [
        ("MODEL", format!("sh {}", place.join("model.sh").display())),
        ("GATES", place.join("gates").display().to_string()),
        ("ASKED", place.join("asked").display().to_string()),
        ("LEDGER", find_program("tenure-ledger")?.display().to_string()),
        ("LEDGER_URL", ledger.url().to_owned()),
    ] {
        env.insert(name.into(), value.into());
    }
    Ok(toml::to_string(&file)?)
}
