//! A person's answer to one effect in doubt. What stands under the key is read together with the head that it stands at,
//! and the answer is written at that head; where the journal moved meanwhile both are read again. Neighbours: `job_service`
//! takes the call, the core decides, a lane writes.

use tenure_core::{
    effect::{EffectKey, LastAttempt},
    id::{JobId, Seq, Tenant},
    limits::EFFECT_OUTPUT_MAX_BYTES,
    plan::{Decision, JobFacts},
    reason::Reason,
    refusal::Refusal,
    verb::{Answer, plan_reconcile},
};
use tenure_proto::{
    convert::{effect::read_effect_key, require},
    v1::{self, reconcile_effect_request::Answer as Given},
};

use super::{caller::Caller, find_job::find_job};
use crate::{coordinator::Parts, lane::work::DecideError, mint::salt_value, refusals::refuse_decision};

/// How often a journal that moves meanwhile is looked at again.
const LOOKS_MAX: u32 = 8;

/// Answers the effect; returns the job.
pub(super) async fn reconcile_effect(
    parts: &Parts,
    caller: &Caller,
    request: v1::ReconcileEffectRequest,
) -> Result<JobId, Refusal> {
    let v1::ReconcileEffectRequest { job: named, key, answer, why } = request;
    let key = read_effect_key("key", &key)?;
    let answer = read_answer(require("answer", answer)?)?;
    let job = find_job(parts, &caller.tenant, &named).await?.job;
    for _ in 0..LOOKS_MAX {
        let (head, last) = read_standing(parts, &caller.tenant, job, &key).await?;
        let (key, answer, why, by) = (key.clone(), answer.clone(), why.clone(), caller.principal.clone());
        let planner = move |facts: &JobFacts| {
            if facts.head.seq != head {
                return Err(moved());
            }
            let plan = plan_reconcile(facts, &key, last.as_ref(), answer.clone(), by.clone(), &why);
            plan.map(Decision::Write)
        };
        match parts.lanes.decide((caller.tenant.clone(), job), Box::new(planner)).await {
            Err(DecideError::Refused(refusal)) if refusal == moved() => {}
            decided => return decided.map(|_| job).map_err(|error| refuse_decision(error, &named)),
        }
    }
    Err(moved())
}

/// The head is read first: where it still is the head when the answer is written, nothing was said of the effect since.
async fn read_standing(
    parts: &Parts,
    tenant: &Tenant,
    job: JobId,
    key: &EffectKey,
) -> Result<(Seq, Option<LastAttempt>), Refusal> {
    let row = parts.bulk.ask(parts.store.read_job(tenant, job)).await?;
    let last = parts.bulk.ask(parts.store.read_last_attempt(tenant, job, key)).await?;
    Ok((row.map_or(Seq(0), |row| row.head.seq), last.map(|row| row.last)))
}

fn read_answer(given: Given) -> Result<Answer, Refusal> {
    let value = match given {
        Given::NotDone(v1::EffectNotDone {}) => return Ok(Answer::NotDone),
        Given::Done(value) => value,
    };
    let bytes = value.len();
    if bytes > EFFECT_OUTPUT_MAX_BYTES {
        let words = format!(
            "what the effect returned has {bytes} bytes, and at most {EFFECT_OUTPUT_MAX_BYTES} are taken"
        );
        return Err(Refusal::new(Reason::EffectTooLarge, words)
            .with_detail("field", "done")
            .with_detail("bytes", bytes)
            .with_detail("limit", EFFECT_OUTPUT_MAX_BYTES));
    }
    Ok(Answer::Done(salt_value(value.into())))
}

fn moved() -> Refusal {
    Refusal::new(Reason::Overloaded, "the journal of the job moved while it was looked at")
}
