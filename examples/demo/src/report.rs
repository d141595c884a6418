//! What the demo prints: a table for people, and one line of JSON for programs.

use std::time::Duration;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};
use tenure_testkit::{Concern, Spread};

use crate::{evidence::Evidence, fleet::TTL};

/// The bounds on a handover where somebody saw the worker's end, from the fault to the next child's first line.
const SEEN_P50_MS: u64 = 1_500;
const SEEN_MAX_MS: u64 = 3_000;
/// The bound where only a lapsed term showed it: the lease and 2 s.
const UNSEEN_MAX_MS: u64 = TTL.as_millis() as u64 + 2_000;

/// One row for each job, and what the checkers found.
pub(crate) fn print_table(evidence: &Evidence) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "job",
        "commit",
        "state",
        "branch",
        "announced",
        "held by",
    ]);
    for job in &evidence.jobs {
        let hex = job.id.as_simple().to_string();
        let holders: Vec<&str> = job.runs.iter().map(|run| run.worker.as_str()).collect();
        table.add_row([
            format!("…{}", &hex[hex.len() - 6..]),
            job.commit[..12].to_owned(),
            job.state.clone(),
            if job.branch { "pushed".to_owned() } else { "missing".to_owned() },
            match job.entries {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            },
            holders.join(" → "),
        ]);
    }
    println!("{table}");
    for finding in &evidence.findings {
        println!("found: {finding}");
    }
}

/// The last line; true where everything holds that the demo shows.
pub(crate) fn print_summary(evidence: &Evidence, took: Duration) -> bool {
    let jobs = evidence.jobs.len();
    let succeeded = evidence.jobs.iter().filter(|job| job.state == "succeeded").count();
    let branches = evidence.jobs.iter().filter(|job| job.branch).count();
    let (duplicated, lost) = (evidence.duplicated(), evidence.lost());
    let overlapping = evidence.count_findings(Concern::OverlappingChildren);
    let summary = json!({
        "jobs": jobs,
        "succeeded": succeeded,
        "branches": branches,
        "ledger_entries": evidence.ledger_entries,
        "duplicated": duplicated,
        "lost": lost,
        "handovers": evidence.handovers(),
        "fenced_writes": evidence.fenced_writes,
        "overlapping_children": overlapping,
        "recovery_seen_ms": spread(&evidence.recoveries.seen_ms),
        "recovery_unseen_ms": spread(&evidence.recoveries.unseen_ms),
        "seconds": took.as_secs(),
    });
    let everything_happened = succeeded == jobs && branches == jobs && evidence.ledger_entries == jobs;
    let nothing_else_did = duplicated == 0 && lost == 0 && overlapping == 0 && evidence.findings.is_empty();
    let in_time = is_in_time(evidence);
    for (holds, words) in [
        (everything_happened, "not every job succeeded, pushed once and announced once"),
        (nothing_else_did, "something was lost or duplicated, or a checker found something"),
        (evidence.fenced_writes > 0, "no late report of the frozen worker was fenced"),
        (in_time, "a recovery took longer than its bound"),
    ] {
        if !holds {
            println!("failed: {words}");
        }
    }
    println!("{summary}");
    everything_happened && nothing_else_did && evidence.fenced_writes > 0 && in_time
}

/// True where both ways of recovering were there, within their bounds.
fn is_in_time(evidence: &Evidence) -> bool {
    let seen = Spread::of(&evidence.recoveries.seen_ms);
    let unseen = Spread::of(&evidence.recoveries.unseen_ms);
    seen.is_some_and(|seen| seen.p50 <= SEEN_P50_MS && seen.max <= SEEN_MAX_MS)
        && unseen.is_some_and(|unseen| unseen.max <= UNSEEN_MAX_MS)
}

/// The median and the maximum; null where there are none.
fn spread(figures: &[u64]) -> Value {
    Spread::of(figures).map_or(Value::Null, |spread| json!({ "p50": spread.p50, "max": spread.max }))
}
