//! Sessions, as callers ask for them, and raising their limits. A session is named by its whole id, or by a job of it. Neighbours:
//! `job_service` takes the calls, `find_job` finds a job, the core decides about a raise, which stands in the journal of a job.

use tenure_core::{
    admission::Limit,
    id::{JobId, SessionId},
    plan::JobFacts,
    reason::Reason,
    refusal::Refusal,
    verb::{Raise, plan_raise},
};
use tenure_proto::{
    convert::{id::read_session_id, state::write_state, time::write_timestamp},
    v1,
};
use tenure_store::{SessionJob, SessionRow, WaitingJoin};

use super::{caller::Caller, find_job::find_job};
use crate::{
    coordinator::Parts,
    lane::work::Decided,
    refusals::{refuse_decision, refuse_missing},
};

/// Jobs that are listed of a session.
const JOBS_LISTED: u32 = 100;

/// What a caller means: a session, and the job by which it was named.
struct Target {
    row: SessionRow,
    job: Option<JobId>,
}

/// A session as it stands.
pub(super) async fn read_session(
    parts: &Parts,
    caller: &Caller,
    request: &v1::GetSessionRequest,
) -> Result<v1::GetSessionResponse, Refusal> {
    let target = find_session(parts, caller, &request.session).await?;
    let session = show_session(parts, caller, target.row).await?;
    Ok(v1::GetSessionResponse { session: Some(session) })
}

/// Raises a limit at the head of the journal of the job that was named, or of one of the session's that is not over.
pub(super) async fn raise_limit(
    parts: &Parts,
    caller: &Caller,
    request: v1::RaiseLimitRequest,
) -> Result<v1::RaiseLimitResponse, Refusal> {
    let v1::RaiseLimitRequest { target: named, limit, value, why } = request;
    let raise = Raise::read(&limit, &value)?;
    let target = find_session(parts, caller, &named).await?;
    let job = choose_job(&target, raise.limit)?;
    let by = caller.principal.clone();
    let planner = move |facts: &JobFacts| plan_raise(facts, raise, by.clone(), &why);
    let decided = parts.lanes.decide((caller.tenant.clone(), job), Box::new(planner)).await;
    let Decided { written, .. } = decided.map_err(|error| refuse_decision(error, &named))?;
    if let Some(seq) = written {
        tracing::info!(%job, %seq, limit = %raise.limit, to = raise.to, by = %caller.principal.actor, "a limit was raised");
    }
    let row = read_row(parts, caller, target.row.session).await?.ok_or_else(|| refuse_missing(&named))?;
    let (session, job_id) = (Some(show_session(parts, caller, row).await?), job.to_string());
    Ok(v1::RaiseLimitResponse { session, job_id, unchanged: written.is_none() })
}

fn choose_job(target: &Target, limit: Limit) -> Result<JobId, Refusal> {
    match target.job {
        Some(job) => Ok(job),
        None if limit == Limit::Hops => {
            let words = "hops are of a branch of the session: name the job that is to have them";
            Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "target"))
        }
        None => {
            let open = target.row.jobs.iter().find(|job| !job.state.is_sealed());
            open.map(|job| job.job).ok_or_else(|| {
                let words = format!("every job of session {} is over, and none goes on", target.row.session);
                Refusal::new(Reason::VerbNotAllowed, words).with_detail("verb", "raise")
            })
        }
    }
}

async fn find_session(parts: &Parts, caller: &Caller, named: &str) -> Result<Target, Refusal> {
    if let Ok(session) = read_session_id("session", named.trim())
        && let Some(row) = read_row(parts, caller, session).await?
    {
        return Ok(Target { row, job: None });
    }
    let job = find_job(parts, &caller.tenant, named).await?;
    let row = read_row(parts, caller, job.session).await?.ok_or_else(|| refuse_missing(named))?;
    Ok(Target { row, job: Some(job.job) })
}

async fn read_row(parts: &Parts, caller: &Caller, session: SessionId) -> Result<Option<SessionRow>, Refusal> {
    parts.bulk.ask(parts.store.read_session(&caller.tenant, session, JOBS_LISTED)).await
}

async fn show_session(parts: &Parts, caller: &Caller, row: SessionRow) -> Result<v1::Session, Refusal> {
    let joins = parts.bulk.ask(parts.store.list_waiting_joins(&caller.tenant, row.session)).await?;
    Ok(write_session(row, joins))
}

fn write_session(row: SessionRow, joins: Vec<WaitingJoin>) -> v1::Session {
    let amount = |amount: tenure_core::admission::Amount| {
        Some(v1::UsedAmount { used: amount.used, allowed: amount.limit })
    };
    v1::Session {
        id: row.session.to_string(),
        started_at: Some(write_timestamp(row.started_at)),
        deadline_at: row.deadline_at.map(write_timestamp),
        hops: row.hops,
        runs: amount(row.runs),
        budget_micros: amount(row.budget_micros),
        tokens: row.tokens,
        turns: row.turns,
        jobs: row.jobs.into_iter().map(write_session_job).collect(),
        job_count: row.job_count,
        joins: joins.into_iter().map(write_join).collect(),
    }
}

fn write_join(join: WaitingJoin) -> v1::WaitingJoin {
    let names = |names: Vec<tenure_core::id::AgentName>| names.iter().map(ToString::to_string).collect();
    v1::WaitingJoin {
        agent: join.agent.to_string(),
        wave: join.wave,
        job_id: join.child.to_string(),
        delivered: names(join.delivered),
        missing: names(join.missing),
        since: Some(write_timestamp(join.since)),
        stalled: join.stalled,
    }
}

fn write_session_job(job: SessionJob) -> v1::SessionJob {
    v1::SessionJob {
        id: job.job.to_string(),
        agent: job.agent.to_string(),
        state: write_state(job.state).into(),
        reason: job.reason.unwrap_or_default(),
        run: job.run.0,
        hops_left: job.hops_left,
    }
}
