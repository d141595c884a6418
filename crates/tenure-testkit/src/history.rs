//! The runs of a job as they were: from the bytes of its journal, and beside them the heartbeats of their children.
//!
//! Neighbours: `heartbeat`; `recovery` measures with it, `checker` judges.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::heartbeat::{Beats, Heartbeats};

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHistory {
    /// Its number in the job.
    pub run: u32,
    /// The epoch of its claim.
    pub epoch: u64,
    /// Who held it.
    pub worker: String,
    /// How its child was known to be gone, where somebody had to say so.
    pub proof: Option<String>,
    /// When its child was alive; none where it never said so.
    pub beats: Option<Beats>,
}

/// The runs of every job, in their order.
///
/// # Errors
/// The database or a heartbeat file cannot be read, or a record lacks what every record of its kind has.
pub async fn read_histories(
    database: &PgPool,
    heartbeats: &Heartbeats,
) -> Result<BTreeMap<Uuid, Vec<RunHistory>>> {
    let rows: Vec<(Uuid, Vec<u8>)> = sqlx::query_as(
        "SELECT job, bytes FROM journal WHERE kind IN ('run_started', 'child_gone') ORDER BY tenant, job, seq",
    )
    .fetch_all(database)
    .await
    .context("reading the runs")?;
    let mut histories: BTreeMap<Uuid, Vec<RunHistory>> = BTreeMap::new();
    for (job, bytes) in rows {
        let record: Value =
            serde_json::from_slice(&bytes).with_context(|| format!("a record of job {job}"))?;
        let runs = histories.entry(job).or_default();
        if record["kind"] == "run_started" {
            runs.push(read_start(job, &record, heartbeats)?);
        } else {
            let epoch = read_number(&record, "of_epoch")?;
            if let Some(run) = runs.iter_mut().find(|run| run.epoch == epoch) {
                run.proof = record["proof"].as_str().map(str::to_owned);
            }
        }
    }
    Ok(histories)
}

/// The runs of one job, in their order.
///
/// # Errors
/// As [`read_histories`].
pub async fn read_history(database: &PgPool, heartbeats: &Heartbeats, job: Uuid) -> Result<Vec<RunHistory>> {
    Ok(read_histories(database, heartbeats).await?.remove(&job).unwrap_or_default())
}

fn read_start(job: Uuid, record: &Value, heartbeats: &Heartbeats) -> Result<RunHistory> {
    let run = u32::try_from(read_number(record, "run")?).context("a run's number")?;
    Ok(RunHistory {
        run,
        epoch: read_number(record, "epoch")?,
        worker: record["worker"].as_str().unwrap_or_default().to_owned(),
        proof: None,
        beats: heartbeats.read(job, run)?,
    })
}

fn read_number(record: &Value, field: &str) -> Result<u64> {
    record[field].as_u64().with_context(|| format!("a {} record has no {field}", record["kind"]))
}
