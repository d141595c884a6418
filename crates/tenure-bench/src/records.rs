//! Durable records a second over streams: several workers, several runs each, one note in each message as an agent leaves
//! it, a bounded number of them in flight. A record counts when it was acknowledged, which is when it is durable.

use std::time::Instant;

use anyhow::Result;

use crate::{
    fleet::Fleet,
    jobs::submit_jobs,
    meter::{Counters, Meter},
    row::Work,
    worker::{Runner, Worker},
};

/// Workers, each with a stream of its own.
const WORKERS: u32 = 4;
/// Runs of each.
const RUNS: u32 = 8;
/// Unacknowledged notes of each run.
const IN_FLIGHT: u64 = 64;

/// Writes so many notes in all.
pub(crate) async fn measure_records(fleet: &Fleet, meter: &mut Meter<'_>, records: u64) -> Result<Work> {
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let name = format!("records-{number}");
        workers.push(Worker::attach(fleet.connect_worker().await?, &name, RUNS, Runner::Hold).await?);
    }
    submit_jobs(fleet, (WORKERS * RUNS).into()).await?;
    for worker in &mut workers {
        worker.wait_until(|seen| seen.granted == u64::from(RUNS)).await?;
    }
    let each = records / u64::from(WORKERS * RUNS);
    write_notes(&mut workers, each / 10).await?;
    let before = meter.read().await?;
    let begun = Instant::now();
    let written = write_notes(&mut workers, each).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let counted: Counters = meter.read().await? - before;
    for worker in &mut workers {
        worker.end_runs();
        worker.wait_until(|seen| seen.ended == u64::from(RUNS)).await?;
    }
    Ok(Work { items: written, seconds, counted })
}

/// Has each run write so many notes; returns how many that were in all, once all are acknowledged.
async fn write_notes(workers: &mut [Worker], each: u64) -> Result<u64> {
    let before: Vec<u64> = workers.iter().map(|worker| worker.progress().noted).collect();
    for worker in workers.iter() {
        worker.write_notes(each, IN_FLIGHT);
    }
    let of_worker = each * u64::from(RUNS);
    for (worker, before) in workers.iter_mut().zip(before) {
        worker.wait_until(|seen| seen.noted >= before + of_worker).await?;
    }
    Ok(of_worker * u64::from(WORKERS))
}
