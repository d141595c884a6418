//! What the fleet says about its jobs, asked as a user would ask it.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::Cluster;
use crate::wait::wait_for;

impl Cluster {
    /// A job, as `tenure job --json` gives it.
    ///
    /// # Errors
    /// It cannot be asked about.
    pub fn job(&self, job: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.run(&["--json", "job", job])?)?)
    }

    /// The records of a job, as `tenure journal --json` gives them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn journal(&self, job: &str) -> Result<Vec<Value>> {
        let lines = self.run(&["--json", "journal", job])?;
        Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Waits until a job is in this state, and returns it.
    ///
    /// # Panics
    /// When that does not come true in time.
    pub async fn wait_for_state(&self, job: &str, state: &str, patience: Duration) -> Value {
        wait_for(&format!("job {job} to be {state}"), patience, async || {
            let job = self.job(job).map_err(|error| error.to_string())?;
            if job["state"] == state { Ok(job) } else { Err(job.to_string()) }
        })
        .await
    }

    /// Waits until a job has left a note that begins so.
    ///
    /// # Panics
    /// When that does not come true in time.
    pub async fn wait_for_note(&self, job: &str, begins: &str, patience: Duration) {
        wait_for(&format!("job {job} to note {begins:?}"), patience, async || {
            let journal = self.journal(job).map_err(|error| error.to_string())?;
            let noted = |record: &&Value| record["kind"] == "note";
            let notes: Vec<&str> =
                journal.iter().filter(noted).filter_map(|record| record["value"].as_str()).collect();
            if notes.iter().any(|note| note.starts_with(begins)) { Ok(()) } else { Err(format!("{notes:?}")) }
        })
        .await;
    }
}
