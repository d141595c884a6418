//! How long it takes from sending a submission until its run is granted, when nothing else is under way. Each start is
//! taken in turn with one commit of the bare database: whatever slows the disk down slows both.

use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::{
    fleet::Fleet,
    floor::Committer,
    jobs::submission,
    worker::{Runner, Worker},
};

/// What was taken in turn.
pub(crate) struct Starts {
    /// From the submission to the grant, in ms.
    pub(crate) starts_ms: Vec<f64>,
    /// One commit alone, in ms.
    pub(crate) commits_ms: Vec<f64>,
}

/// The times of so many starts. Each job is over before the next is submitted.
pub(crate) async fn measure_starts(fleet: &Fleet, starts: u64) -> Result<Starts> {
    let mut worker = Worker::attach(fleet.connect_worker().await?, "idle", 4, Runner::EndAtOnce).await?;
    let (client, mut committer) = (fleet.client()?, Committer::connect(fleet).await?);
    let mut taken = Starts { starts_ms: Vec::new(), commits_ms: Vec::new() };
    // The first finds connections and plans that are new.
    for number in 0..=starts {
        let commit_ms = committer.commit_ms().await?;
        let begun = Instant::now();
        client.submit_job(submission()).await?;
        let seen = worker.wait_until(|seen| seen.granted > number).await?;
        let granted_at = seen.granted_at.context("a grant without its time")?;
        worker.wait_until(|seen| seen.ended > number).await?;
        if number > 0 {
            taken.commits_ms.push(commit_ms);
            taken.starts_ms.push(granted_at.saturating_duration_since(begun).as_secs_f64() * 1e3);
        }
    }
    Ok(taken)
}
