//! What is asked about effects: by the run that is about to announce one, and by people. Nothing is written here. Neighbours:
//! `worker_service` and `job_service` take the calls, lanes write announcements and outcomes.

use subtle::ConstantTimeEq as _;
use tenure_core::{
    id::{JobId, Seq, Tenant},
    limits::EFFECT_OUTPUT_MAX_BYTES,
    reason::Reason,
    refusal::Refusal,
    run_ref::RunRef,
};
use tenure_proto::{
    convert::{
        effect::{read_effect_key, write_compensation, write_outcome, write_recovery},
        run::read_run_ref,
        time::write_timestamp,
    },
    v1,
};
use tenure_store::{EffectFilter, EffectPage, EffectRow, TestimonyPage, TestimonyRow};

use super::{
    call::{read_limit, refuse_cursor},
    caller::{Caller, FleetCaller},
    find_job::find_job,
};
use crate::{coordinator::Parts, refusals::refuse_store};

/// Effects on a page, where nothing is said.
const EFFECTS_DEFAULT: u32 = 50;

/// The last attempt under a key, for the run that holds the job. The lease is looked at after the attempt: where it still
/// stands then, it stood when the attempt was read.
pub(super) async fn read_effect(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::ReadEffectRequest,
) -> Result<v1::ReadEffectResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let key = read_effect_key("key", &request.key)?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    let store = &parts.store;
    let last = store.read_last_attempt(&run.tenant, run.job, &key).await;
    let last = last.map_err(|error| refuse_store(&error))?;
    check_holder(parts, &run, &secret).await?;
    Ok(v1::ReadEffectResponse { effect: last.map(write_effect) })
}

/// What the claim stored of the run's secret. Refuses, before anything is read, whoever names a run of a tenant that their
/// credential does not name, or has a secret that was made up, or another run's: as one that they do not hold.
pub(super) fn read_secret(
    parts: &Parts,
    caller: &FleetCaller,
    run: &RunRef,
    presented: &[u8],
) -> Result<[u8; 32], Refusal> {
    let served = caller.tenants.names(&run.tenant);
    let secret = parts.run_secrets.read(presented, &run.tenant, run.job, run.epoch);
    secret.filter(|_| served).ok_or_else(|| refuse_holder(run))
}

/// Refuses whoever does not hold the run that it names, with that run's secret.
pub(super) async fn check_holder(parts: &Parts, run: &RunRef, secret: &[u8; 32]) -> Result<(), Refusal> {
    let stored = parts.store.read_run_secret(&run.tenant, run.job, run.epoch).await;
    let stored = stored.map_err(|error| refuse_store(&error))?;
    let held = stored.is_some_and(|stored| {
        stored.live && stored.generation == run.generation && bool::from(stored.secret_hash.0.ct_eq(secret))
    });
    if held {
        return Ok(());
    }
    Err(refuse_holder(run))
}

fn refuse_holder(run: &RunRef) -> Refusal {
    Refusal::new(Reason::Fenced, format!("{run} does not hold its job, or the secret is not its own"))
        .with_next(format!("tenure job {}", run.job.short()))
}

/// A page of a job's effects.
pub(super) async fn list_effects(
    parts: &Parts,
    caller: &Caller,
    request: v1::ListEffectsRequest,
) -> Result<v1::ListEffectsResponse, Refusal> {
    let (after, limit) = (read_cursor(&request.cursor)?, read_limit(request.limit, EFFECTS_DEFAULT)?);
    let job = find_job(parts, &caller.tenant, &request.job).await?.job;
    let page = read_page(parts, &caller.tenant, job, EffectFilter::All, after, limit).await?;
    Ok(v1::ListEffectsResponse {
        job_id: job.to_string(),
        cursor: write_cursor(&page),
        effects: page.effects.into_iter().map(write_effect).collect(),
    })
}

/// A page of what is in doubt, and with the first what was said too late about that, or against the journal.
pub(super) async fn list_undecided(
    parts: &Parts,
    caller: &Caller,
    request: v1::ListUndecidedRequest,
) -> Result<v1::ListUndecidedResponse, Refusal> {
    let (after, limit) = (read_cursor(&request.cursor)?, read_limit(request.limit, EFFECTS_DEFAULT)?);
    let job = find_job(parts, &caller.tenant, &request.job).await?.job;
    let page = read_page(parts, &caller.tenant, job, EffectFilter::InDoubt, after, limit).await?;
    let testimony = if after == Seq(0) {
        parts.bulk.ask(parts.store.list_testimony(&caller.tenant, job)).await?
    } else {
        TestimonyPage::default()
    };
    Ok(v1::ListUndecidedResponse {
        job_id: job.to_string(),
        cursor: write_cursor(&page),
        effects: page.effects.into_iter().map(write_effect).collect(),
        testimony_count: testimony.count,
        testimonies: testimony.listed.into_iter().map(write_testimony).collect(),
    })
}

async fn read_page(
    parts: &Parts,
    tenant: &Tenant,
    job: JobId,
    filter: EffectFilter,
    after: Seq,
    limit: u32,
) -> Result<EffectPage, Refusal> {
    parts.bulk.ask(parts.store.list_effects(tenant, job, filter, after, limit)).await
}

fn read_cursor(cursor: &str) -> Result<Seq, Refusal> {
    if cursor.is_empty() {
        return Ok(Seq(0));
    }
    cursor.parse().map(Seq).map_err(|_| refuse_cursor(cursor))
}

fn write_cursor(page: &EffectPage) -> String {
    page.next.map(|after| after.to_string()).unwrap_or_default()
}

fn write_value(value: Option<Vec<u8>>) -> Option<prost::bytes::Bytes> {
    value.map(|mut value| {
        value.truncate(EFFECT_OUTPUT_MAX_BYTES);
        value.into()
    })
}

fn write_effect(row: EffectRow) -> v1::Effect {
    let undecided = row.is_undecided();
    let (state, disposition) = write_outcome(row.last.outcome);
    v1::Effect {
        key: row.key.to_string(),
        attempt: row.last.attempt,
        state: state.into(),
        disposition: disposition.into(),
        recovery: write_recovery(row.last.recovery).into(),
        mutates: row.last.mutates,
        tool: row.tool,
        compensation: write_compensation(row.compensation).into(),
        run: row.last.run.0,
        announced_seq: row.last.announced.0,
        announced_at: Some(write_timestamp(row.last.since)),
        outcome_seq: row.outcome_seq.map_or(0, |seq| seq.0),
        request_digest: row.last.request.0.to_vec().into(),
        value: write_value(row.value),
        exit_code: row.exit_code,
        truncated: row.truncated,
        erased: row.erased,
        undecided,
    }
}

fn write_testimony(row: TestimonyRow) -> v1::Testimony {
    let contradicts = row.contradicts();
    let (state, disposition) = write_outcome(row.claimed);
    v1::Testimony {
        key: row.key.to_string(),
        attempt: row.attempt,
        run: row.run.0,
        epoch: row.epoch.0,
        state: state.into(),
        disposition: disposition.into(),
        arrived_at: Some(write_timestamp(row.arrived_at)),
        value: write_value(row.value),
        contradicts,
    }
}
