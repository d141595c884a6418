//! The program of a run that undoes: the worker starts it where it would have started the agent. It asks for one step after
//! the other, the last that landed first, and performs the undoing of each as an effect; what is in doubt is looked up before any. The first that fails ends it. It keeps
//! nothing: a run that comes after it asks for the same steps, but those that were undone.

use tenure_client::{
    run::RunClient,
    run_effect::{EffectRequest, StepToUndo},
};
use tenure_core::effect::Compensation;

use super::{Conversation, Errors, StopSignals, command::fail, lose_patience, refuse};
use crate::{context::Context, failure::Failure, in_run::open_run};

/// What a program exits with that was ended by SIGTERM.
const EXIT_STOPPED: u8 = 143;

/// Undoes what is left to undo.
pub(crate) async fn undo_steps(context: &Context) -> Result<(), Failure> {
    let run = open_run()?;
    let mut signals =
        StopSignals::listen().map_err(|error| fail("listening to the signals that end a program", &error))?;
    let errors = Errors::open().map_err(|error| fail("opening the stderr of this program", &error))?;
    let outcome = undo_all(context, &run, &errors, &mut signals).await;
    tokio::select! {
        () = errors.wait_until_written() => outcome,
        () = lose_patience(&mut signals) => outcome.map_err(|failure| failure.already_printed()),
    }
}

async fn undo_all(
    context: &Context,
    run: &RunClient,
    errors: &Errors,
    signals: &mut StopSignals,
) -> Result<(), Failure> {
    while let Some(step) = run.get_step_to_undo().await.map_err(refuse)? {
        if signals.has_come() {
            return Err(Failure::Printed { exit: EXIT_STOPPED });
        }
        undo_step(context, run, errors, signals, &step).await?;
    }
    Ok(())
}

async fn undo_step(
    context: &Context,
    run: &RunClient,
    errors: &Errors,
    signals: &mut StopSignals,
    step: &StepToUndo,
) -> Result<(), Failure> {
    let request = compose_request(step);
    let call = match step.in_doubt {
        true => run.settle_effect(&request).await,
        false => run.perform_effect(&request).await,
    };
    let call = call.map_err(refuse)?;
    let conversation = Conversation {
        context,
        request: &request,
        call,
        errors,
        last: None,
        has_spoken: false,
        undoes: Some(step),
    };
    let what = if step.in_doubt { "looking up" } else { "undoing" };
    conversation.remark(&format!("{what} the effect {}", step.key));
    conversation.go_on(signals).await
}

/// The undoing as an effect: a shell carries it out, and in doubt happens what was declared for the effect.
fn compose_request(step: &StepToUndo) -> EffectRequest {
    EffectRequest {
        key: if step.in_doubt { step.key.clone() } else { step.undo_key.clone() },
        command: ["/bin/sh", "-c", &step.undo].map(str::to_owned).to_vec(),
        recovery: Some(step.recovery),
        read_only: false,
        on_failure: None,
        compensation: Compensation::Unnecessary,
        undo: None,
        probe: step.probe.clone(),
        tool: Some(step.tool.clone()),
        min_lease: None,
        bind: false,
    }
}
