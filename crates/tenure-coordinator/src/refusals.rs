//! How the failures of the store and of the lanes are told to callers: one table, so that every service says the same. A
//! database that does not answer is `DATABASE_UNAVAILABLE` with a hint when to try again; internal causes go to the log and
//! not over the wire. Neighbours: every service; the mapping to gRPC status is in `tenure-proto`.

use std::{error::Error, time::Duration};

use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_proto::status::refusal_to_status;
use tenure_store::StoreError;
use tonic::Status;

use crate::{
    lane::work::{DecideError, LaneError},
    metrics::metrics,
};

/// When a caller may try again after the database did not answer.
pub(crate) const DATABASE_RETRY: Duration = Duration::from_secs(1);
/// When a caller may try again after more came than is taken at once.
pub(crate) const OVERLOAD_RETRY: Duration = Duration::from_millis(200);

/// What a failure of the store is to a caller.
pub(crate) fn refuse_store(error: &StoreError) -> Refusal {
    let reason = error.reason();
    match reason {
        Reason::DatabaseUnavailable => {
            tracing::info!(error = chain(error), "the database does not answer");
            Refusal::new(reason, "the database does not answer").with_retry_after(DATABASE_RETRY)
        }
        Reason::TimelineChanged => Refusal::new(reason, error.to_string()).with_retry_after(DATABASE_RETRY),
        Reason::Internal => {
            tracing::error!(error = chain(error), "a store method failed");
            Refusal::new(reason, "a defect of the coordinator; its log says more")
        }
        Reason::EffectRefused => {
            tracing::error!(
                error = chain(error),
                "an effect was announced twice, and only the index stopped it"
            );
            Refusal::new(reason, error.to_string())
        }
        _ => Refusal::new(reason, error.to_string()),
    }
}

/// What a lane that could not do what it was asked is to a caller.
pub(crate) fn refuse_lane(error: &LaneError) -> Refusal {
    match error {
        LaneError::Store(source) => refuse_store(source),
        LaneError::Unanswered(unanswered) => (*unanswered).into(),
        LaneError::Overloaded | LaneError::Contended { .. } | LaneError::Overtaking => {
            Refusal::new(Reason::Overloaded, error.to_string()).with_retry_after(OVERLOAD_RETRY)
        }
        LaneError::Stopping => {
            Refusal::new(Reason::CoordinatorUnavailable, error.to_string()).with_retry_after(OVERLOAD_RETRY)
        }
        LaneError::Read(source) => {
            tracing::error!(error = chain(source.as_ref()), "the end of a journal could not be read");
            Refusal::new(Reason::Internal, "a journal could not be read; the coordinator's log says more")
        }
        LaneError::Seal(source) => {
            tracing::error!(error = chain(source.as_ref()), "a record could not be composed");
            Refusal::new(Reason::Internal, "a record could not be composed; the coordinator's log says more")
        }
    }
}

/// What a decision that was not carried out is to a caller. `job` is what was asked for.
pub(crate) fn refuse_decision(error: DecideError, job: &str) -> Refusal {
    match error {
        DecideError::Missing => refuse_missing(job),
        DecideError::Refused(refusal) => refusal,
        DecideError::Lane(error) => refuse_lane(&error),
    }
}

/// A refusal as it goes onto the wire. Everything that is refused is counted here.
pub(crate) fn write_refusal(refusal: &Refusal) -> Status {
    metrics().note_refusal(refusal);
    refusal_to_status(refusal)
}

/// There is no such job.
pub(crate) fn refuse_missing(job: &str) -> Refusal {
    Refusal::new(Reason::JobNotFound, format!("there is no job {job}")).with_next("tenure jobs")
}

/// An error with its causes, for the log.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
