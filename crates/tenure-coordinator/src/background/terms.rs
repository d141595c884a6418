//! The sweep of lapsed terms: a pass at least every second closes the terms that lapsed, as far as this coordinator has
//! watched long enough to be sure that the database was not away meanwhile, and settles what they held. After an outage, a
//! freeze or a jump of a clock it starts watching anew, so that nobody is declared dead before everybody could come back.
//! Neighbours: `leases` settles, the core's `PassWatch` says what may be closed, the store closes on the row that renewals
//! update.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use tenure_core::{limits::SWEEP_MAX_TERMS, term::PassWatch};
use tenure_store::{ClosableTerm, LapsedTerm, StoreError};

use super::{
    leases::{LeasesReport, settle_lapsed_leases},
    pause,
};
use crate::{coordinator::Parts, metrics::metrics, patience::within, refusals::chain};

const EVERY: Duration = Duration::from_secs(1);
/// Closed terms are deleted once in so many passes.
const DELETE_EVERY_PASSES: u64 = 10;

/// What one pass found and did.
#[derive(Debug, Default)]
struct PassReport {
    lapsed: usize,
    closed: usize,
    deleted: u64,
    leases: LeasesReport,
}

/// Sweeps until the coordinator stops.
pub(super) async fn sweep_terms(parts: Parts) {
    let mut sweep = Sweep { parts, watch: PassWatch::new(), begun: Instant::now(), passes: 0 };
    let mut wait = Duration::ZERO;
    while pause(&sweep.parts, wait).await {
        let begun = Instant::now();
        wait = match within(sweep.run_pass()).await {
            Ok(Ok(report)) if report.leases.saturated => Duration::ZERO,
            Ok(Ok(_)) => EVERY.saturating_sub(begun.elapsed()),
            Ok(Err(error)) => sweep.begin_anew(&error),
            Err(unanswered) => sweep.begin_anew(&unanswered),
        };
    }
}

struct Sweep {
    parts: Parts,
    watch: PassWatch,
    begun: Instant,
    passes: u64,
}

impl Sweep {
    /// The database was away, or may have been: nobody is closed before it was watched long enough again.
    fn begin_anew(&mut self, error: &dyn Error) -> Duration {
        self.watch.begin_anew();
        tracing::debug!(error = chain(error), "a sweep pass failed; the watch begins anew");
        EVERY
    }

    async fn run_pass(&mut self) -> Result<PassReport, StoreError> {
        let database = self.parts.store.read_clock().await?;
        self.watch.note_pass(self.begun.elapsed(), database);
        self.passes += 1;
        let lapsed = self.parts.store.list_lapsed_terms(SWEEP_MAX_TERMS).await?;
        let mut report = PassReport { lapsed: lapsed.len(), ..PassReport::default() };
        report.closed = self.close_terms(&lapsed).await?;
        report.leases = settle_lapsed_leases(&self.parts).await?;
        if self.passes.is_multiple_of(DELETE_EVERY_PASSES) {
            report.deleted = self.parts.store.delete_closed_terms().await?;
        }
        if report.lapsed > 0 || report.leases.found > 0 || report.deleted > 0 {
            tracing::debug!(?report, "sweep pass");
        }
        Ok(report)
    }

    async fn close_terms(&self, lapsed: &[LapsedTerm]) -> Result<usize, StoreError> {
        let which: Vec<ClosableTerm> =
            lapsed.iter().filter(|term| self.watch.may_close(term.ttl)).map(closable).collect();
        let Some(expected_now) = self.watch.expected_now(self.begun.elapsed()).filter(|_| !which.is_empty())
        else {
            return Ok(0);
        };
        let closed = self.parts.store.close_lapsed_terms(expected_now, &which).await?;
        for term in &closed {
            tracing::warn!(
                worker = %term.worker, term = %term.term, expired_at = %term.expires_at,
                "a worker's term lapsed and was closed"
            );
        }
        metrics().note_closed_terms(closed.len());
        Ok(closed.len())
    }
}

fn closable(term: &LapsedTerm) -> ClosableTerm {
    ClosableTerm { worker: term.worker.clone(), term: term.term, tolerance: PassWatch::tolerance(term.ttl) }
}
