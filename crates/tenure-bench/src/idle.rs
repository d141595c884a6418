//! How long it takes from sending a submission until its run is granted, when nothing else is under way.

use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::{
    fleet::Fleet,
    jobs::submission,
    worker::{Runner, Worker},
};

/// The times of so many starts, in ms. Each job is over before the next is submitted.
pub(crate) async fn measure_starts_ms(fleet: &Fleet, starts: u64) -> Result<Vec<f64>> {
    let mut worker = Worker::attach(fleet.connect_worker().await?, "idle", 4, Runner::EndAtOnce).await?;
    let client = fleet.client()?;
    let mut samples = Vec::new();
    // The first finds connections and plans that are new.
    for number in 0..=starts {
        let begun = Instant::now();
        client.submit_job(submission()).await?;
        let seen = worker.wait_until(|seen| seen.granted > number).await?;
        let granted_at = seen.granted_at.context("a grant without its time")?;
        worker.wait_until(|seen| seen.ended > number).await?;
        if number > 0 {
            samples.push(granted_at.saturating_duration_since(begun).as_secs_f64() * 1e3);
        }
    }
    Ok(samples)
}
