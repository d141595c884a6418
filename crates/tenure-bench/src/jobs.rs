//! Jobs a second, from the first submission to the last acknowledged conclusion: submitted in batches, run by workers
//! whose runner does nothing.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tenure_client::submission::Submission;
use tokio::task::JoinSet;

use crate::{
    fleet::{AGENT, Fleet},
    meter::{Counters, Meter},
    row::Work,
    worker::{Runner, Worker},
};

/// Workers, each with a stream of its own.
const WORKERS: u64 = 2;
/// Runs that each may have at the same time.
const SLOTS: u32 = 256;
/// Jobs of one call.
const BATCH_JOBS: u64 = 250;
/// Calls that are under way at the same time.
const SUBMITTERS: u64 = 4;

/// Has so many jobs done.
pub(crate) async fn measure_jobs(fleet: &Fleet, meter: &mut Meter<'_>, jobs: u64) -> Result<Work> {
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let name = format!("jobs-{number}");
        workers.push(Worker::attach(fleet.connect_worker().await?, &name, SLOTS, Runner::EndAtOnce).await?);
    }
    let warmed_up = have_jobs_done(fleet, &mut workers, jobs / 10, 0).await?;
    let before = meter.read().await?;
    let begun = Instant::now();
    let done = have_jobs_done(fleet, &mut workers, jobs, warmed_up).await? - warmed_up;
    let seconds = begun.elapsed().as_secs_f64();
    let counted: Counters = meter.read().await? - before;
    Ok(Work { items: done, seconds, counted })
}

/// Submits so many, and returns how many have ended in all once these have too.
async fn have_jobs_done(fleet: &Fleet, workers: &mut [Worker], jobs: u64, earlier: u64) -> Result<u64> {
    submit_jobs(fleet, jobs).await?;
    loop {
        let ended: u64 = workers.iter().map(|worker| worker.progress().ended).sum();
        if ended >= earlier + jobs {
            return Ok(ended);
        }
        let [first, second] = workers else { anyhow::bail!("{WORKERS} workers were attached") };
        let (one, other) = (first.progress().ended, second.progress().ended);
        tokio::select! {
            seen = first.wait_until(|seen| seen.ended > one) => seen?,
            seen = second.wait_until(|seen| seen.ended > other) => seen?,
        };
    }
}

/// Submits so many jobs in batches, several at a time; returns when all are durable.
pub(crate) async fn submit_jobs(fleet: &Fleet, jobs: u64) -> Result<()> {
    let client = fleet.client()?;
    let mut sizes = (0..jobs.div_ceil(BATCH_JOBS)).map(|batch| BATCH_JOBS.min(jobs - batch * BATCH_JOBS));
    let mut calls = JoinSet::new();
    loop {
        while calls.len() < usize::try_from(SUBMITTERS)?
            && let Some(size) = sizes.next()
        {
            let client = client.clone();
            calls.spawn(async move { client.submit_jobs((0..size).map(|_| submission()).collect()).await });
        }
        let Some(answered) = calls.join_next().await else { return Ok(()) };
        for item in answered?? {
            let admitted = item.map_err(|refusal| anyhow::anyhow!("{}", refusal.message));
            ensure!(!admitted.context("submitting")?.already_submitted, "a key was used twice");
        }
    }
}

/// A job with a small input.
pub(crate) fn submission() -> Submission {
    Submission { agent: AGENT.to_owned(), input: b"release 1.4.2".as_slice().into(), ..Submission::default() }
}
