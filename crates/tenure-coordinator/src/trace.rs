//! The trace of a job as a coordinator sees it: its context is settled at admission, grants carry it on, and the span of a
//! run whose worker was lost is written here, because nobody else will. Where no spans are exported this costs nothing but
//! the context. Neighbours: the core's `trace` names spans, `tenure-telemetry` says how they look.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tenure_core::{
    handover::Cause,
    id::{JobId, Seq},
    plan::JobFacts,
    record::RecordKind,
    refusal::Refusal,
    trace::{SpanId, TraceContext},
};
use tenure_store::{NewJob, Submitted};
use tenure_telemetry::{AdmissionSpan, RunSpan, spans};

use crate::{clock::DatabaseClock, coordinator::Parts};

/// The records that tell of a run what its span says.
const KINDS_TOLD: [&str; 2] = ["job_admitted", "run_started"];
/// Records that are read at once.
const PAGE: u32 = 1_000;

/// The context of a new job: its submitter's where it gave one that can be read, otherwise its own.
pub(crate) fn settle_trace(job: JobId, given: Option<&str>) -> TraceContext {
    given.and_then(|given| given.parse().ok()).unwrap_or_else(|| {
        let own = TraceContext::of_job(job, true);
        TraceContext { sampled: spans().samples(own.trace), ..own }
    })
}

/// What a grant carries: runs are parts of the job's admission. A job of an earlier release may have no context.
pub(crate) fn grant_trace(job: JobId, stored: Option<&str>) -> TraceContext {
    let stored = stored.and_then(|stored| stored.parse().ok());
    stored.unwrap_or_else(|| TraceContext::of_job(job, true)).at(SpanId::of_admission(job))
}

/// The span of a submission that became a job.
pub(crate) fn record_admission(new: &NewJob, outcome: Option<&Submitted>, clock: &DatabaseClock) {
    let Some(Submitted::Admitted { .. }) = outcome.filter(|_| spans().are_exported()) else { return };
    let (Some(context), Some(first)) = (read_context(new.traceparent.as_deref()), new.records.first()) else {
        return;
    };
    spans().record(context.sampled, || {
        let (tenant, agent) = (&new.tenant, new.agent.as_str());
        let (began, ended) = (time_of(first.at), time_of(clock.now()));
        AdmissionSpan { context, tenant, job: new.job, agent, began, ended }.finish()
    });
}

/// The span of a run that was settled without its worker, from the facts that were settled. Written in a task of its own.
pub(crate) fn record_lost_run(parts: &Parts, settled: &JobFacts, end: &'static str) {
    // One that was settled before has its span.
    let is_first = settled.lease.as_ref().is_some_and(|lease| lease.live);
    if !is_first || !spans().are_exported() {
        return;
    }
    let (task_parts, facts) = (parts.clone(), settled.clone());
    parts.tasks.spawn(async move {
        if let Err(refusal) = write_lost_run(&task_parts, &facts, end).await {
            tracing::debug!(job = %facts.job, run = %facts.run, %refusal, "the span of a lost run is not written");
        }
    });
}

async fn write_lost_run(parts: &Parts, facts: &JobFacts, end: &'static str) -> Result<(), Refusal> {
    let Some(lease) = &facts.lease else { return Ok(()) };
    let kinds = KINDS_TOLD.map(str::to_owned);
    let read = parts.store.read_history(&facts.tenant, facts.job, Seq(1), &kinds, PAGE);
    let (mut context, mut cause) = (None, None::<Cause>);
    for stored in parts.bulk.ask(read).await?.records {
        match stored.parse().map(|record| (record.run, record.kind)) {
            Ok((_, RecordKind::JobAdmitted { traceparent, .. })) => {
                context = read_context(traceparent.as_deref())
            }
            Ok((run, RecordKind::RunStarted { cause: why, .. })) if run == facts.run => cause = Some(why),
            Ok(_) | Err(_) => {}
        }
    }
    let (Some(context), Some(cause)) = (context, cause) else { return Ok(()) };
    let run = facts.leased_run(lease);
    spans().record(context.sampled, || {
        RunSpan {
            context,
            run: &run,
            agent: facts.agent.as_str(),
            worker: lease.worker.as_str(),
            cause: &cause,
            began: time_of(lease.granted_at),
            ended: time_of(facts.now),
            end,
            failure: Some("its worker was lost".to_owned()),
        }
        .finish()
    });
    Ok(())
}

/// The database's time, as spans have it; nothing of ours was before 1970.
fn time_of(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(at.as_nanosecond()).unwrap_or_default())
}

fn read_context(stored: Option<&str>) -> Option<TraceContext> {
    stored?.parse().ok()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    #[test]
    fn the_submitters_context_stands_with_its_flag_and_what_is_none_is_replaced() {
        let job = JobId(Uuid::from_u128(7));
        assert_eq!(settle_trace(job, Some(GIVEN)).to_string(), GIVEN);
        let own = TraceContext::of_job(job, true);
        assert_eq!(settle_trace(job, None), own);
        assert_eq!(settle_trace(job, Some("00-nonsense")), own);
    }

    #[test]
    fn a_grant_carries_the_trace_at_the_admission() {
        let job = JobId(Uuid::from_u128(7));
        let granted = grant_trace(job, Some(GIVEN));
        assert!(!granted.sampled);
        assert_eq!(granted.span, SpanId::of_admission(job));
        assert!(granted.to_string().starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
        assert_eq!(grant_trace(job, None), TraceContext::of_job(job, true));
    }
}
