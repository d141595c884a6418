//! Layovers: work that a run sets down on purpose, to be picked up later by a session of its own. A booking is a record of the
//! run and nothing else, until the run concludes with success: then its last booking takes effect, in the same statement. Any
//! other end voids it, and the next run of the job is told so. It picks nothing up. Neighbours: `settlement` concludes,
//! `admission` admits what is picked up, `handover` tells.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    id::{Epoch, JobId, Run, Seq, SessionId},
    limits::WAITING_FOR_MAX_BYTES,
    plan::{Changes, JobFacts, Plan},
    reason::Reason,
    record::{Draft, RecordKind},
    refusal::Refusal,
    wait::{Until, check_instant},
};

/// Where a job comes from that picks up what was set down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedUp {
    /// The session that set it down.
    pub session: SessionId,
    /// Its job.
    pub job: JobId,
    /// The record that booked it.
    pub seq: Seq,
    /// When it was booked.
    pub booked_at: Timestamp,
    /// What it waits for.
    pub waiting_for: String,
    /// How often it was looked for before.
    pub checks: u32,
}

/// A booking that came to nothing, because its run did not end with success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VoidedBooking {
    /// The run that booked.
    pub run: Run,
    /// Until when.
    pub until: Timestamp,
    /// What it waits for.
    pub waiting_for: String,
}

/// What a run is waiting for when it sets its work down: trimmed, not blank, bounded.
///
/// # Errors
/// It is blank or too long.
pub fn check_waiting_for(text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::new(Reason::ReasonMissing, "what is waited for is needed, and it is blank"));
    }
    if text.len() > WAITING_FOR_MAX_BYTES {
        let words = format!(
            "what is waited for has {} bytes, and at most {WAITING_FOR_MAX_BYTES} are taken",
            text.len()
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "waiting_for"));
    }
    Ok(text.to_owned())
}

/// Plans a booking of the run that holds the job under this epoch. `latest` is the session's deadline, where that was given as
/// an instant: the session that picks up has the same one.
///
/// # Errors
/// The text is blank or too long, the instant is none to which work can be set down, or the run does not hold the job, undoes,
/// or was asked to end.
pub fn plan_booking(
    facts: &JobFacts,
    epoch: Epoch,
    until: Until,
    latest: Option<Timestamp>,
    waiting_for: &str,
) -> Result<Plan, Refusal> {
    let waiting_for = check_waiting_for(waiting_for)?;
    let short = facts.job.short();
    if !facts.lease.as_ref().is_some_and(|lease| lease.live && lease.epoch == epoch) {
        let words = format!("job {short} is not held under epoch {epoch} any more");
        return Err(Refusal::new(Reason::Fenced, words).with_next(format!("tenure job {short}")));
    }
    if facts.standing_notice().is_some() || facts.unwinding.is_some() {
        let words = format!("the run of job {short} was asked to end: nothing more is begun");
        return Err(Refusal::new(Reason::RunOver, words).with_next(format!("tenure job {short}")));
    }
    let until = until.settle(facts.now);
    check_instant("work that is set down", until, latest, facts.now)?;
    let booked = Draft::bare(RecordKind::LayoverBooked { until, waiting_for });
    Ok(Plan { epoch: facts.head_epoch, drafts: vec![booked], changes: Changes::default() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        factory::{facts, running, second},
        job::State,
    };

    fn book(facts: &JobFacts, until: Timestamp, latest: Option<Timestamp>) -> Result<Plan, Refusal> {
        plan_booking(facts, Epoch(1), Until::At(until), latest, " the review ")
    }

    #[test]
    fn a_booking_is_a_record_of_the_run_that_changes_nothing_yet() {
        let plan = book(&running(), second(9_000), None).unwrap();
        let waiting_for = "the review".to_owned();
        let booked = RecordKind::LayoverBooked { until: second(9_000), waiting_for };
        assert_eq!((plan.epoch, plan.drafts), (Epoch(1), vec![Draft::bare(booked)]));
        assert_eq!(plan.changes, Changes::default());
    }

    #[test]
    fn what_is_over_beyond_a_deadline_that_is_an_instant_or_too_far_away_is_refused() {
        assert_eq!(book(&running(), second(60), None).unwrap_err().reason, Reason::WaitOutOfBounds);
        let latest = Some(second(3_600));
        assert_eq!(book(&running(), second(3_600), latest).unwrap_err().reason, Reason::WaitOutOfBounds);
        let late = Until::After(crate::limits::WAIT_MAX + Duration::from_secs(1));
        let refused = plan_booking(&running(), Epoch(1), late, None, "x").unwrap_err();
        assert_eq!(refused.reason, Reason::WaitOutOfBounds);
    }

    #[test]
    fn only_the_run_that_holds_the_job_books_and_says_for_what() {
        let until = Until::At(second(90));
        assert_eq!(plan_booking(&running(), Epoch(2), until, None, "x").unwrap_err().reason, Reason::Fenced);
        assert_eq!(book(&facts(State::Ready), second(90), None).unwrap_err().reason, Reason::Fenced);
        let cancelled = JobFacts { cancel_requested: Some(Seq(4)), ..running() };
        assert_eq!(book(&cancelled, second(90), None).unwrap_err().reason, Reason::RunOver);
        let blank = plan_booking(&running(), Epoch(1), until, None, " \n").unwrap_err();
        assert_eq!(blank.reason, Reason::ReasonMissing);
        let long = plan_booking(&running(), Epoch(1), until, None, &"x".repeat(2_000)).unwrap_err();
        assert_eq!(long.reason, Reason::InvalidArgument);
    }
}
