//! Delayed jobs become claimable when they are due: at the next known instant, and at least every second, because another
//! coordinator may have delayed one meanwhile.

use std::{error::Error, time::Duration};

use tenure_core::deadline::between;
use tenure_store::DueReport;

use super::pause;
use crate::{coordinator::Parts, patience::within, refusals::chain};

const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// The shortest pause, so that an instant that is due by the database's clock and not yet by its next reading does not
/// make the loop spin.
const AT_MOST_EVERY: Duration = Duration::from_millis(10);

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
    AT_LEAST_EVERY
}

fn take_report(parts: &Parts, report: &DueReport) -> Duration {
    if report.released > 0 {
        tracing::debug!(?report, "delayed jobs became ready");
        parts.wakes.note_ready();
    }
    let until_next = report.next_at.map_or(AT_LEAST_EVERY, |next| between(report.now, next));
    until_next.clamp(AT_MOST_EVERY, AT_LEAST_EVERY)
}
