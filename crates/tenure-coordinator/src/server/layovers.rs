//! Setting work down: the booking is written into the journal of the run that holds its job, as a record of that run. Nothing
//! else comes of it before the run's success. Neighbours: `worker_service` takes the call, the core decides, the sweep picks up.

use jiff::Timestamp;
use tenure_core::{
    id::{JobId, Seq, Tenant},
    layover::plan_booking,
    plan::{Decision, JobFacts},
    reason::Reason,
    record::{DeadlineSetting, RecordKind},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{require, run::read_run_ref, time::write_timestamp, wait::read_until},
    v1,
};

use super::{
    caller::FleetCaller,
    effects::{check_holder, read_secret},
};
use crate::{coordinator::Parts, lane::work::DecideError, refusals::refuse_lane};

/// Books, for the run that holds the job.
pub(super) async fn book_layover(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::BookLayoverRequest,
) -> Result<v1::BookLayoverResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    let until = require("until", read_until("until", request.until.as_ref())?)?;
    check_holder(parts, &run, &secret).await?;
    let latest = read_latest(parts, &run.tenant, run.job).await?;
    let waiting_for = request.waiting_for;
    let planner = move |facts: &JobFacts| {
        plan_booking(facts, run.epoch, until, latest, &waiting_for).map(Decision::Write)
    };
    let named = (run.tenant.clone(), run.job);
    let decided = parts.lanes.decide(named, Box::new(planner)).await.map_err(|error| match error {
        DecideError::Refused(refusal) => refusal,
        DecideError::Missing => Refusal::new(Reason::Fenced, "the run does not hold its job"),
        DecideError::Lane(error) => refuse_lane(&error),
    })?;
    let until = until.settle(decided.facts.now);
    let seq = decided.written.unwrap_or(Seq(0));
    Ok(v1::BookLayoverResponse { seq: seq.0, until: Some(write_timestamp(until)) })
}

/// The session's deadline, where it was given as an instant: whoever picks up has the same.
async fn read_latest(parts: &Parts, tenant: &Tenant, job: JobId) -> Result<Option<Timestamp>, Refusal> {
    let kinds = ["job_admitted".to_owned()];
    let page = parts.bulk.ask(parts.store.read_records(tenant, job, Seq(1), &kinds, 1)).await?;
    // Nothing is read back from a record that this release does not know.
    let admitted = page.records.first().and_then(|stored| stored.parse().ok());
    Ok(match admitted.map(|record| record.kind) {
        // A job that was sent has the instant of its sender's session, which nobody gave.
        Some(RecordKind::JobAdmitted { deadline: DeadlineSetting::At(at), sender: None, .. }) => Some(at),
        Some(_) | None => None,
    })
}
