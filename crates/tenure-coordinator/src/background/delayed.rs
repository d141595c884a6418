//! Delayed jobs become claimable when they are due: at the next known instant, and at least every second, because another
//! coordinator may have delayed one meanwhile.

use std::{error::Error, time::Duration};

use tenure_store::DueReport;

use super::{
    pass::{after_failure, until_next},
    pause,
};
use crate::{coordinator::Parts, patience::within, refusals::chain};

/// Releases delayed jobs until the coordinator stops.
pub(super) async fn release_delayed(parts: Parts) {
    let mut wait = Duration::ZERO;
    while pause(&parts, wait).await {
        wait = match within(parts.store.release_due_jobs()).await {
            Ok(Ok(report)) => take_report(&parts, &report),
            Ok(Err(error)) => put_off(&error),
            Err(unanswered) => put_off(&unanswered),
        };
    }
}

fn put_off(error: &dyn Error) -> Duration {
    tracing::debug!(error = chain(error), "delayed jobs could not be released");
    after_failure()
}

fn take_report(parts: &Parts, report: &DueReport) -> Duration {
    if report.released > 0 {
        tracing::debug!(?report, "delayed jobs became ready");
        parts.wakes.note_ready();
    }
    until_next(report.next_at, report.now)
}
