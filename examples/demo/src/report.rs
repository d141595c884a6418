//! What the demo prints: a table for people, and one line of JSON for programs.

use std::time::Duration;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use crate::evidence::Evidence;

/// The bound on a handover where somebody saw the worker's end, from the kill to the next child's first line.
const SEEN_BOUND_MS: u64 = 3_000;

/// One row for each job.
pub(crate) fn print_table(evidence: &Evidence) {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(["job", "commit", "state", "branch", "notes", "held by"]);
    for job in &evidence.jobs {
        let hex = job.id.as_simple().to_string();
        let holders: Vec<&str> = job.runs.iter().map(|run| run.worker.as_str()).collect();
        table.add_row([
            format!("…{}", &hex[hex.len() - 6..]),
            job.commit[..12].to_owned(),
            job.state.clone(),
            if job.branch { "pushed".to_owned() } else { "missing".to_owned() },
            job.notes.to_string(),
            holders.join(" → "),
        ]);
    }
    println!("{table}");
}

/// The last line; true where everything holds that the demo shows.
pub(crate) fn print_summary(evidence: &Evidence, took: Duration) -> bool {
    let jobs = evidence.jobs.len();
    let succeeded = evidence.jobs.iter().filter(|job| job.state == "succeeded").count();
    let branches = evidence.jobs.iter().filter(|job| job.branch).count();
    let summary = json!({
        "jobs": jobs,
        "succeeded": succeeded,
        "branches": branches,
        "handovers": evidence.handovers(),
        "overlapping_children": evidence.overlapping_children(),
        "recovery_seen_ms": spread(&evidence.seen_ms),
        "recovery_unseen_ms": spread(&evidence.unseen_ms),
        "seconds": took.as_secs(),
    });
    println!("{summary}");
    succeeded == jobs
        && branches == jobs
        && evidence.handovers() >= 1
        && evidence.overlapping_children() == 0
        && evidence.seen_ms.last().is_some_and(|max| *max <= SEEN_BOUND_MS)
}

/// The median and the maximum of sorted figures; null where there are none.
fn spread(sorted: &[u64]) -> Value {
    match sorted.last() {
        Some(max) => json!({ "p50": sorted[(sorted.len() - 1) / 2], "max": max }),
        None => Value::Null,
    }
}
