//! Ready and suspended jobs whose session's deadline is reached are concluded, also where no worker wants them and they would
//! lie in the queue for ever, and where what they wait for is not there. Each pass goes through the whole queue and all waits,
//! a page at a time, and begins a second after the one before; where
//! the queue is so long that a pass takes longer, most of the time is still left to others. Each coordinator does the same,
//! and a job is concluded once. Neighbours: `denial` concludes, the store pages, `dispatch` meets what a worker wants.

use std::time::{Duration, Instant};

use tenure_core::{
    id::{JobId, Tenant},
    plan::JobFacts,
};

use super::{
    pass::{PassError, take_at_once},
    pause,
};
use crate::{coordinator::Parts, denial::conclude_denied, patience::within, refusals::chain};

const EVERY: Duration = Duration::from_secs(1);
/// A pause is at least so many times as long as the pass before it.
const PAUSE_FACTOR: u32 = 3;

/// What one pass found and did.
#[derive(Debug, Default)]
struct PassReport {
    pages: u64,
    overdue: usize,
    concluded: usize,
}

/// Concludes overdue jobs until the coordinator stops.
pub(super) async fn conclude_overdue(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        let begun = Instant::now();
        match run_pass(&parts).await {
            Ok(report) if report.overdue > 0 => tracing::debug!(?report, "pass over overdue jobs"),
            Ok(_) => {}
            Err(error) => tracing::debug!(error = chain(&error), "overdue jobs could not be looked for"),
        }
        let took = begun.elapsed();
        wait = EVERY.saturating_sub(took).max(took * PAUSE_FACTOR);
    }
}

async fn run_pass(parts: &Parts) -> Result<PassReport, PassError> {
    let mut report = PassReport::default();
    for among in [Among::Ready, Among::Suspended] {
        run_through(parts, among, &mut report).await?;
    }
    Ok(report)
}

/// Which jobs are looked through.
#[derive(Debug, Clone, Copy)]
enum Among {
    Ready,
    Suspended,
}

async fn run_through(parts: &Parts, among: Among, report: &mut PassReport) -> Result<(), PassError> {
    let mut after: Option<(Tenant, JobId)> = None;
    while !parts.stopping.is_cancelled() {
        let page = match among {
            Among::Ready => within(parts.store.list_overdue_jobs(after.as_ref())).await??,
            Among::Suspended => within(parts.store.list_overdue_waits(after.as_ref())).await??,
        };
        report.pages += 1;
        report.overdue += page.overdue.len();
        let conclude = async |facts: JobFacts| conclude_denied(parts, &facts).await;
        report.concluded += take_at_once(page.overdue, conclude).await;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(())
}
