//! No two children of one job are alive at the same time: every beat of a run comes before the first beat of every later run.

use anyhow::Result;
use sqlx::PgPool;

use super::{Concern, Finding};
use crate::{heartbeat::Heartbeats, history::read_histories};

/// Looks at the runs of every job.
///
/// # Errors
/// The database or a heartbeat file cannot be read.
pub async fn check_children(database: &PgPool, heartbeats: &Heartbeats) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (job, runs) in read_histories(database, heartbeats).await? {
        let beating: Vec<_> = runs.iter().filter_map(|run| Some((run.run, run.beats?))).collect();
        for (index, (earlier, before)) in beating.iter().enumerate() {
            for (later, after) in &beating[index + 1..] {
                if before.last_ns >= after.first_ns {
                    let overlap_ms = (before.last_ns - after.first_ns) / 1_000_000;
                    let words = format!(
                        "the child of run {earlier} was alive {overlap_ms} ms after that of run {later} began"
                    );
                    findings.push(Finding::new(Concern::OverlappingChildren, job, words));
                }
            }
        }
    }
    Ok(findings)
}
