//! Setting the work of a run down: the booking is written by a coordinator, and the last one goes with the end of the run, where
//! that is a success. Neighbours: `run_socket` and handlers ask, `executor` reports the end.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tenure_core::{id::Seq, refusal::Refusal, wait::Until};
use tenure_proto::{
    convert::{run::write_run_ref, wait::write_until},
    v1::{self, worker_service_client::WorkerServiceClient},
};

use crate::{endpoints::Way, run_calls::RunCalls, run_socket::RunStanding};

/// The bookings of one run.
#[derive(Debug, Default)]
pub(crate) struct RunBookings {
    calls: RunCalls,
    /// The position of the last; 0: none.
    last: AtomicU64,
}

impl RunBookings {
    /// The last booking.
    pub(crate) fn last(&self) -> Option<Seq> {
        Some(Seq(self.last.load(Ordering::Acquire))).filter(|seq| seq.0 > 0)
    }

    /// Books; returns once that is durable.
    pub(crate) async fn book(
        &self,
        standing: &RunStanding,
        until: Until,
        waiting_for: &str,
    ) -> Result<v1::BookLayoverResponse, Refusal> {
        standing.ensure_beginning()?;
        let request = v1::BookLayoverRequest {
            run: Some(write_run_ref(&standing.grant.run)),
            secret: Bytes::copy_from_slice(standing.grant.secret.as_bytes()),
            until: Some(write_until(until)),
            waiting_for: standing.redactor.redact_text(waiting_for),
        };
        standing.touch();
        let call = |mut client: WorkerServiceClient<Way>| {
            let request = request.clone();
            async move { client.book_layover(request).await }
        };
        let over = standing.over.clone();
        let asking = over.run_until_cancelled(self.calls.ask(standing, "layovers", call));
        let booked = asking.await.unwrap_or_else(|| Err(standing.over_refusal()))?.into_inner();
        self.last.fetch_max(booked.seq, Ordering::AcqRel);
        Ok(booked)
    }
}
