//! A run whose work is a handler, from the grant to the acknowledged end: found by its version, told what came before,
//! called, watched, and concluded. It has no socket and no directory: what it says comes through its context.
//! Neighbours: `handler_supervision` watches, `conclusion` reports, `handler` is what people write.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_core::{
    declaration::Declaration,
    id::AgentName,
    limits::{BLOB_MAX_BYTES, VALUE_MAX_BYTES, WHY_MAX_BYTES},
    reason::Reason,
    settlement::RunEnd,
};
use tenure_proto::v1;
use tracing::{info, warn};

use super::{
    Execution, InputMissing,
    conclusion::{Conclusion, hand_unless_void},
    finish_run,
    gone_report::{UntoldEnd, leave_outcome},
    handler_supervision::{
        HandlerLimits, HandlerOutcome, RunningHandler, SupervisedHandler, supervise_handler,
    },
    preparation::{compose_identity, describe, run_path},
    run_blocking, stage_input,
    supervision::{Asked, find_obstacle},
};
use crate::{
    blobs::Staged,
    effect::RunEffects,
    grant::GrantInput,
    guardian::protocol::HeldRun,
    handler::{EarlierRuns, EndingAsk, Handler, HandlerGuard, Handlers, RunContext, ToldError},
    journal::{RunResult, UnaskedKeys},
    run_socket::{RunStanding, RunVoice},
    runner::Redactor,
};

/// What a handler's run is held to.
#[derive(Debug)]
struct HandlerPlan<'a> {
    handler: &'a Arc<Handler>,
    earlier: EarlierRuns,
    timeout: Duration,
    stop_grace: Duration,
}

/// Carries out a run.
pub(super) async fn carry_out_handler(execution: &Execution, handlers: &Handlers, guard: &HandlerGuard) {
    let planned = match plan_run(execution, handlers) {
        Ok(plan) => read_input(execution).await.map(|input| (plan, input)),
        Err(reason) => Err(InputMissing::Because(reason)),
    };
    let told = match planned {
        Ok((plan, input)) => run_handler(execution, plan, input, guard).await,
        Err(InputMissing::Asked(asked)) => {
            finish_run(execution, Conclusion::given_up(asked), Some(asked)).await
        }
        Err(InputMissing::Because(reason)) => {
            warn!(%reason, "the run cannot start");
            finish_run(execution, Conclusion::not_started(reason), None).await
        }
    };
    if let Err(untold) = told {
        leave_untold(execution, untold).await;
    }
}

/// The whole input: a handler takes it as one value.
async fn read_input(execution: &Execution) -> Result<Bytes, InputMissing> {
    let staged = stage_input(execution).await?;
    match (&execution.grant.input, staged) {
        (GrantInput::Bytes(input), _) => Ok(input.clone()),
        (_, Some(staged)) => {
            let read = tokio::fs::read(staged.path()).await;
            read.map(Bytes::from).map_err(|error| InputMissing::Because(describe(&error)))
        }
        (GrantInput::Blob(_) | GrantInput::Erased, None) => Ok(Bytes::new()),
    }
}

fn plan_run<'a>(execution: &Execution, handlers: &'a Handlers) -> Result<HandlerPlan<'a>, String> {
    let grant = &*execution.grant;
    let declaration = Declaration::parse(&grant.declaration).map_err(|error| describe(&error))?;
    let version =
        declaration.handler().ok_or("the agent is no handler, and this worker runs nothing else")?;
    let agent: AgentName = grant.agent.parse().map_err(|error| describe(&error))?;
    let handler = handlers
        .find(&agent, &version)
        .ok_or_else(|| format!("this worker does not hold the handler {agent} in version {version}"))?;
    let earlier = EarlierRuns::read(&grant.handover).map_err(|error| describe(&error))?;
    // Not shortened by the deadline: that is asked before each step and effect, and what is under way is finished.
    let timeout = declaration.timeout();
    Ok(HandlerPlan { handler, earlier, timeout, stop_grace: declaration.stop_grace() })
}

async fn run_handler(
    execution: &Execution,
    plan: HandlerPlan<'_>,
    input: Bytes,
    guard: &HandlerGuard,
) -> Result<(), UntoldEnd> {
    let ending = EndingAsk::default();
    let standing = RunStanding::new(
        Arc::clone(&execution.context),
        Arc::clone(&execution.term),
        Arc::clone(&execution.grant),
        execution.orders.clone(),
        Redactor::default(),
    );
    let standing = Arc::new(standing.for_handler(ending.token.clone()));
    let effects = RunEffects::new(Arc::clone(&standing), std::path::PathBuf::new(), plan.stop_grace);
    let voice = Arc::new(RunVoice::new(Arc::clone(&standing), Arc::clone(&effects)));
    let held = HeldRun {
        report: compose_identity(execution),
        deadline: execution.term.deadline(),
        run_directory: run_path(execution),
    };
    let name = held.report.name();
    let is_guarded = guard.begin(held).await;
    if let Some(asked) = find_obstacle(execution).or((!is_guarded).then_some(Asked::LocalDeadline)) {
        info!(?asked, "the run ends before its handler was called");
        guard.release(&name);
        voice.end().await;
        return finish_run(execution, Conclusion::given_up(asked), Some(asked)).await;
    }
    let context = RunContext::new(
        standing,
        Arc::clone(&voice),
        Arc::clone(&effects),
        plan.earlier,
        ending.clone(),
        Arc::clone(plan.handler),
    );
    let running = RunningHandler::start(plan.handler, context, input, execution.grant.phase);
    let limits = HandlerLimits { timeout: plan.timeout, stop_grace: plan.stop_grace };
    let moved = |deadline| guard.move_deadline(&name, deadline);
    let supervised = supervise_handler(execution, running, &ending, limits, moved).await;
    guard.note_stopped(&name);
    voice.end().await;
    let asked = supervised.asked;
    let conclusion = conclude_handler(execution, supervised, effects.list_unasked()).await;
    let conclusion = Conclusion { booking: voice.last_booking(), ..conclusion };
    let conclusion = conclusion.in_phase(execution.grant.phase, effects.failed_undo());
    let told = finish_run(execution, conclusion, asked).await;
    guard.release(&name);
    told
}

/// What nobody took is left where the directories of runs are, as a guardian leaves it.
async fn leave_untold(execution: &Execution, untold: UntoldEnd) {
    let (run, path) = (execution.grant.run.clone(), run_path(execution));
    let left = run_blocking(move || {
        std::fs::create_dir_all(&path)?;
        leave_outcome(&run, &path, untold)
    });
    if let Err(error) = left.await.unwrap_or_else(|error| Err(error.into())) {
        warn!(%error, "the outcome of the run could not be left");
    }
}

async fn conclude_handler(
    execution: &Execution,
    supervised: SupervisedHandler,
    unasked: UnaskedKeys,
) -> Conclusion {
    let (end, result) = judge_handler(supervised);
    if let RunEnd::HandlerFailed { error, .. } = &end {
        // Whoever looks into the run's output finds more of it than a record takes.
        let line = Bytes::from(format!("error: {error}\n"));
        execution.context.outbox.add_output(&execution.grant.run, v1::OutputStream::Stderr, line).await;
    }
    let (end, result) = hand_output(execution, end, result).await;
    Conclusion { end: bound_error(end), result, output_truncated: false, unasked, booking: None }
}

/// What ended the run goes before what the handler returned: after an ask, no output is a verdict. A cancel is not looked at
/// here: it is named where the end is reported.
fn judge_handler(supervised: SupervisedHandler) -> (RunEnd, Option<Bytes>) {
    let SupervisedHandler { outcome, asked, timed_out } = supervised;
    let end = match (asked, timed_out, outcome) {
        (Some(Asked::Drain), ..) => RunEnd::Drained,
        (Some(Asked::LocalDeadline | Asked::Fenced), ..) => RunEnd::ContactLost,
        (_, Some(limit), _) => RunEnd::OwnTimeout { limit_ms: tenure_core::deadline::duration_ms(limit) },
        (_, _, HandlerOutcome::Returned(Ok(output))) => return judge_output(output),
        (_, _, HandlerOutcome::Returned(Err(error))) => judge_error(error),
        (_, _, HandlerOutcome::Panicked(words)) => {
            RunEnd::HandlerFailed { error: format!("it panicked: {words}"), is_final: false }
        }
        (_, _, HandlerOutcome::Dropped) => RunEnd::ContactLost,
    };
    (end, None)
}

fn judge_output(output: Bytes) -> (RunEnd, Option<Bytes>) {
    if output.len() as u64 <= BLOB_MAX_BYTES {
        return (RunEnd::ExitCode(0), Some(output));
    }
    let error = format!("the output has {} bytes as JSON, and {BLOB_MAX_BYTES} are allowed", output.len());
    (RunEnd::HandlerFailed { error, is_final: true }, None)
}

/// What no report takes is handed on before it; what nobody takes is no success.
async fn hand_output(
    execution: &Execution,
    end: RunEnd,
    output: Option<Bytes>,
) -> (RunEnd, Option<RunResult>) {
    let large = match output {
        Some(output) if output.len() as u64 > VALUE_MAX_BYTES => output,
        small => return (end, small.map(RunResult::Bytes)),
    };
    let bytes = large.len() as u64;
    let failed = |error: String| (RunEnd::HandlerFailed { error, is_final: true }, None);
    let staged = match Staged::make(execution.context.places.runs()) {
        Ok(staged) => staged,
        Err(error) => return failed(format!("the output cannot be stored on this host: {error}")),
    };
    if let Err(error) = tokio::fs::write(staged.path(), &large).await {
        return failed(format!("the output cannot be stored on this host: {error}"));
    }
    match hand_unless_void(execution, &staged.path(), bytes).await {
        None => (end, None),
        Some(Ok(named)) => (end, Some(RunResult::Blob(named))),
        Some(Err(error)) => failed(error),
    }
}

/// A handler that hands on that the deadline is reached did not fail.
fn judge_error(told: ToldError) -> RunEnd {
    match told.refused {
        Some(Reason::DeadlineReached) => RunEnd::DeadlineReached,
        Some(_) | None => RunEnd::HandlerFailed { error: told.words, is_final: told.is_final },
    }
}

fn bound_error(end: RunEnd) -> RunEnd {
    match end {
        RunEnd::HandlerFailed { error, is_final } => {
            RunEnd::HandlerFailed { error: error.chars().take(WHY_MAX_BYTES / 4).collect(), is_final }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::refusal::Refusal;

    use super::*;
    use crate::handler::HandlerError;

    fn judge(outcome: HandlerOutcome, asked: Option<Asked>, timed_out: Option<Duration>) -> RunEnd {
        judge_handler(SupervisedHandler { outcome, asked, timed_out }).0
    }

    fn returned() -> HandlerOutcome {
        HandlerOutcome::Returned(Ok(Bytes::from_static(b"1")))
    }

    #[test]
    fn after_an_ask_no_output_is_a_verdict() {
        assert_eq!(judge(returned(), None, None), RunEnd::ExitCode(0));
        for asked in [Asked::LocalDeadline, Asked::Fenced] {
            assert_eq!(judge(returned(), Some(asked), None), RunEnd::ContactLost, "{asked:?}");
        }
        assert_eq!(judge(returned(), Some(Asked::Drain), None), RunEnd::Drained);
        let limit = Some(Duration::from_millis(1_500));
        assert_eq!(judge(returned(), None, limit), RunEnd::OwnTimeout { limit_ms: 1_500 });
    }

    #[test]
    fn an_error_says_whether_another_run_may_do_better_and_a_panic_never_does() {
        let failed = |error: HandlerError| judge(HandlerOutcome::Returned(Err(error.tell())), None, None);
        let (error, is_final) = ("no route".to_owned(), true);
        assert_eq!(
            failed(HandlerError::new("no route").into_final()),
            RunEnd::HandlerFailed { error, is_final }
        );
        let refused = Refusal::new(Reason::DeadlineReached, "it is reached");
        assert_eq!(failed(refused.into()), RunEnd::DeadlineReached);
        let panicked = judge(HandlerOutcome::Panicked("index 3".to_owned()), None, None);
        let error = "it panicked: index 3".to_owned();
        assert_eq!(panicked, RunEnd::HandlerFailed { error, is_final: false });
    }

    #[test]
    fn an_output_beyond_the_limit_is_a_failure_for_good() {
        let large = Bytes::from(vec![b'1'; 64 * 1024 * 1024 + 1]);
        let end = judge(HandlerOutcome::Returned(Ok(large)), None, None);
        assert!(matches!(end, RunEnd::HandlerFailed { is_final: true, .. }), "{end:?}");
    }
}
