//! What a run that undoes asks: the step that is to be undone next, or looked up first, from the job's rows and journal of that moment. Nothing is
//! written here. Neighbours: `worker_service` takes the call, lanes write the undoing as effects.

use tenure_core::{
    effect::EffectRequest, limits::GROUP_MEMBERS_MAX, reason::Reason, refusal::Refusal, run_ref::RunRef,
};
use tenure_proto::{
    convert::{
        effect::{read_effect_key, write_recovery},
        run::read_run_ref,
    },
    v1,
};
use tenure_store::StepToUndo;

use super::{
    caller::FleetCaller,
    effects::{check_holder, read_secret},
};
use crate::{coordinator::Parts, refusals::refuse_store};

/// The step, for the run that holds the job. The lease is looked at after the step: where it still stands then, it stood when
/// the step was read.
pub(super) async fn read_step_to_undo(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::ReadStepToUndoRequest,
) -> Result<v1::ReadStepToUndoResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    if request.keys.len() > GROUP_MEMBERS_MAX {
        let said =
            format!("{} keys were named, and at most {GROUP_MEMBERS_MAX} are taken", request.keys.len());
        return Err(Refusal::new(Reason::InvalidArgument, said).with_detail("field", "keys"));
    }
    let keys = request.keys.iter().map(|key| read_effect_key("keys", key)).collect::<Result<Vec<_>, _>>()?;
    let step = parts.store.read_step_to_undo(&run.tenant, run.job, &keys).await;
    let step = step.map_err(|error| refuse_store(&error))?;
    check_holder(parts, &run, &secret).await?;
    Ok(v1::ReadStepToUndoResponse { step: step.map(|step| write_step(&run, step)).transpose()? })
}

fn write_step(run: &RunRef, step: StepToUndo) -> Result<v1::StepToUndo, Refusal> {
    // What was erased, or cannot be read, undoes nothing; whoever asks says so.
    let request = step.request.and_then(|json| EffectRequest::parse(&json).ok());
    let (undo, undo_by, probe) =
        request.map_or((None, None, None), |request| (request.undo, request.compensation, request.probe));
    if step.in_doubt {
        return Ok(v1::StepToUndo {
            idempotency_key: step.key.idempotency_key(run.job),
            key: step.key.to_string(),
            recovery: write_recovery(step.recovery).into(),
            probe: probe.unwrap_or_default(),
            tool: step.tool,
            in_doubt: true,
            ..v1::StepToUndo::default()
        });
    }
    let undo_key = step
        .key
        .undo_key()
        .map_err(|error| Refusal::new(Reason::Internal, error.to_string()).with_detail("key", &step.key))?;
    Ok(v1::StepToUndo {
        idempotency_key: step.key.idempotency_key(run.job),
        key: step.key.to_string(),
        undo_key: undo_key.to_string(),
        undo: undo.unwrap_or_default(),
        undo_by: undo_by.map(|call| v1::CompensationCall { name: call.name, arguments: call.arguments }),
        recovery: write_recovery(step.recovery).into(),
        probe: probe.unwrap_or_default(),
        tool: step.tool,
        output: step.output.map(Into::into),
        in_doubt: false,
    })
}
