//! What a run that undoes asks: the step that is to be undone next, from the job's rows and journal of that moment. Nothing is
//! written here. Neighbours: `worker_service` takes the call, lanes write the undoing as effects.

use tenure_core::{effect::EffectRequest, refusal::Refusal, run_ref::RunRef};
use tenure_proto::{
    convert::{effect::write_recovery, run::read_run_ref},
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
    let step = parts.store.read_step_to_undo(&run.tenant, run.job).await;
    let step = step.map_err(|error| refuse_store(&error))?;
    check_holder(parts, &run, &secret).await?;
    Ok(v1::ReadStepToUndoResponse { step: step.map(|step| write_step(&run, step)).transpose()? })
}

fn write_step(run: &RunRef, step: StepToUndo) -> Result<v1::StepToUndo, Refusal> {
    // What was erased, or cannot be read, undoes nothing; whoever asks says so.
    let request = step.request.and_then(|json| EffectRequest::parse(&json).ok());
    let (undo, probe) = request.map_or((None, None), |request| (request.undo, request.probe));
    let undo_key = step.key.undo_key().map_err(|error| {
        Refusal::new(tenure_core::reason::Reason::Internal, error.to_string()).with_detail("key", &step.key)
    })?;
    Ok(v1::StepToUndo {
        idempotency_key: step.key.idempotency_key(run.job),
        key: step.key.to_string(),
        undo_key: undo_key.to_string(),
        undo: undo.unwrap_or_default(),
        recovery: write_recovery(step.recovery).into(),
        probe: probe.unwrap_or_default(),
        tool: step.tool,
        output: step.output.map(Into::into),
    })
}
