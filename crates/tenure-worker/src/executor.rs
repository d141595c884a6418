//! What a worker does with a run, from the grant to the acknowledged end, as a list of steps. It promises that a child
//! starts only after everything that it was promised is there, that its end is reported until it is acknowledged or
//! another holds the job, and that nothing of the run stays on this host afterwards but what it was told to keep.
//! Whatever keeps a child from starting is an end of the run that says so; there is no other way to fail.
//! It judges no end: restart or conclusion is the coordinator's decision.
//! Neighbours: `runner` starts and ends the process, `run_socket` hears the child, `outbox` carries the reports.

mod conclusion;
mod gone_report;
mod handler_run;
mod handler_supervision;
mod preparation;
mod span;
mod supervision;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tenure_core::{limits, record::Phase};
use tenure_proto::v1;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, spawn_blocking},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{Instrument as _, Span, info, info_span, warn};

use self::{
    conclusion::{Conclusion, EndFate, conclude_run, report_end},
    gone_report::{UntoldEnd, report_gone, report_unsettled},
    handler_run::carry_out_handler,
    preparation::{PreparedRun, prepare_run},
    span::note_end,
    supervision::{Asked, find_obstacle, supervise_process},
};
use crate::{
    blobs::{Staged, fetch_input},
    context::{Work, WorkerContext},
    effect::RunEffects,
    grant::{GrantInput, RunGrant},
    held_runs::Orders,
    run_socket::{RunStanding, RunVoice, serve_run_socket},
    runner::{OutputChunk, OutputStream, ProcessRunner, RunningProcess},
    term::HeldTerm,
};

/// How often it is looked whether something stands against a run whose input is on its way.
const OBSTACLE_LOOK: Duration = Duration::from_millis(200);

/// A run that this worker carries out.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) term: Arc<HeldTerm>,
    pub(crate) grant: Arc<RunGrant>,
    pub(crate) orders: watch::Receiver<Orders>,
    /// When the grant came.
    pub(crate) began: SystemTime,
}

/// Starts to carry out a run that is held, in the background.
pub(crate) fn start_run(
    context: &Arc<WorkerContext>,
    term: &Arc<HeldTerm>,
    grant: RunGrant,
    orders: watch::Receiver<Orders>,
) {
    context.outbox.open_run(&grant.run, grant.seq);
    let run = &grant.run;
    let span = info_span!("run", job = %run.job, run = run.run.0, epoch = run.epoch.0, agent = %grant.agent);
    let execution = Execution {
        context: Arc::clone(context),
        term: Arc::clone(term),
        grant: Arc::new(grant),
        orders,
        began: SystemTime::now(),
    };
    let abandoned = context.abandoned.clone();
    context.runs.spawn(
        async move {
            // Abandoned: the worker leaves without an answer. Its guardians see it gone, and report.
            abandoned.run_until_cancelled(carry_out_run(execution)).await;
        }
        .instrument(span),
    );
}

async fn carry_out_run(execution: Execution) {
    info!("the run starts");
    match &execution.context.work {
        Work::Processes(runner) => carry_out_process(&execution, runner).await,
        Work::Handlers { handlers, guard } => carry_out_handler(&execution, handlers, guard).await,
    }
}

async fn carry_out_process(execution: &Execution, runner: &ProcessRunner) {
    let prepared = match stage_input(execution).await {
        Ok(staged) => {
            let preparing = execution.clone();
            let prepared = run_blocking(move || prepare_run(&preparing, staged.as_ref())).await;
            prepared.unwrap_or_else(|error| Err(error.to_string()))
        }
        Err(InputMissing::Asked(asked)) => {
            info!(?asked, "the run ends before its input was there");
            // There is no directory to leave it in, and no child that anybody waits for.
            let _ = finish_run(execution, Conclusion::given_up(asked), Some(asked)).await;
            return;
        }
        Err(InputMissing::Because(reason)) => Err(reason),
    };
    match prepared {
        Ok(prepared) => match run_child(execution, runner, &prepared).await {
            Ok(()) => prepared.clean_up(execution.context.options.keep_runs).await,
            Err(untold) => prepared.leave_outcome(&execution.grant.run, untold).await,
        },
        Err(reason) => {
            warn!(%reason, "the run cannot start");
            // Where nobody takes it there is no directory to leave it in, and no child that anybody waits for.
            let _ = finish_run(execution, Conclusion::not_started(reason), None).await;
        }
    }
}

/// Why there is no input.
enum InputMissing {
    /// Somebody asked for the run to end before it came.
    Asked(Asked),
    /// For a person.
    Because(String),
}

/// An input that no grant takes is fetched first, as long as nothing stands against the run.
async fn stage_input(execution: &Execution) -> Result<Option<Staged>, InputMissing> {
    let named = match &execution.grant.input {
        GrantInput::Bytes(_) => return Ok(None),
        // What undoes has no use for it, and goes on without one that is gone.
        GrantInput::Blob(_) | GrantInput::Erased if execution.grant.phase == Phase::Compensating => {
            return Ok(None);
        }
        GrantInput::Erased => {
            let reason = "the job's input was erased, and no run can start without it";
            return Err(InputMissing::Because(reason.to_owned()));
        }
        GrantInput::Blob(named) => *named,
    };
    let mut fetching = Box::pin(fetch_input(&execution.context, &execution.grant, named));
    loop {
        if let Some(asked) = find_obstacle(execution) {
            return Err(InputMissing::Asked(asked));
        }
        if let Ok(fetched) = timeout(OBSTACLE_LOOK, &mut fetching).await {
            return fetched.map(Some).map_err(InputMissing::Because);
        }
    }
}

/// From the socket to the end of the guardian.
async fn run_child(
    execution: &Execution,
    runner: &ProcessRunner,
    prepared: &PreparedRun,
) -> Result<(), UntoldEnd> {
    let standing = Arc::new(RunStanding::new(
        Arc::clone(&execution.context),
        Arc::clone(&execution.term),
        Arc::clone(&execution.grant),
        execution.orders.clone(),
        prepared.redactor.clone(),
    ));
    let effects = RunEffects::new(Arc::clone(&standing), prepared.socket.clone(), prepared.stop_grace);
    let voice = Arc::new(RunVoice::new(standing, Arc::clone(&effects)));
    let socket = match serve_run_socket(prepared.socket.clone(), prepared.user.as_ref(), Arc::clone(&voice)) {
        Ok(socket) => socket,
        Err(error) => {
            let reason = format!("the socket {} cannot be opened: {error}", prepared.socket.display());
            return finish_run(execution, Conclusion::not_started(reason), None).await;
        }
    };
    if let Some(asked) = find_obstacle(execution) {
        info!(?asked, "the run ends before its child was started");
        voice.end().await;
        drop(socket);
        return finish_run(execution, Conclusion::given_up(asked), Some(asked)).await;
    }
    let mut process = runner.start_process(prepared.spec.clone(), prepared.link.clone());
    voice.speak_for(process.handle());
    let forwarding = Forwarding::start(execution, &mut process);
    let waits = voice.watch_waits();
    let supervised =
        supervise_process(execution, &mut process, &forwarding, prepared.stop_grace, waits).await;
    // Before the socket goes: what the child said with its last breath stands in it.
    voice.end().await;
    drop(socket);
    forwarding.finish().await;
    let conclusion = conclude_run(execution, &supervised, prepared, effects.list_unasked()).await;
    let conclusion = Conclusion { booking: voice.last_booking(), ..conclusion };
    let conclusion = conclusion.in_phase(execution.grant.phase, effects.failed_undo());
    let told = finish_run(execution, conclusion, supervised.asked).await;
    process.release().await;
    told
}

/// Has the end of a run that has no child any more taken by whoever takes it.
async fn finish_run(
    execution: &Execution,
    conclusion: Conclusion,
    asked: Option<Asked>,
) -> Result<(), UntoldEnd> {
    execution.context.held.note_childless(&execution.grant.run);
    let end = conclusion.end.clone();
    let fate = if asked == Some(Asked::Fenced) {
        release_run(execution);
        EndFate::Fenced(conclusion.end)
    } else {
        settle_run(execution, conclusion).await
    };
    note_end(execution, &end, &fate);
    match fate {
        // Another settled the run without knowing whether its child is gone: say that it is.
        EndFate::Fenced(how) => report_gone(execution, how).await,
        // One that was refused was answered since.
        EndFate::Acknowledged | EndFate::Refused(_) | EndFate::Void => Ok(()),
    }
}

/// Runs what may wait for the host's files or its user database where that holds up nobody. On a thread of the runtime
/// it would hold up the renewals of every run of this worker.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let span = Span::current();
    spawn_blocking(move || span.in_scope(work)).await
}

/// Output on its way from the process to the outbox.
#[derive(Debug)]
pub(crate) struct Forwarding {
    task: AbortOnDropHandle<()>,
    /// Cancelled once the process has ended: then all there is was read, and stands in the queue.
    read_whole: CancellationToken,
}

impl Forwarding {
    /// Hands output on as fast as the window allows.
    fn start(execution: &Execution, process: &mut RunningProcess) -> Self {
        let (context, grant) = (Arc::clone(&execution.context), Arc::clone(&execution.grant));
        let output = process.take_output();
        let read_whole = CancellationToken::new();
        let forwarded = forward_output(context, grant, output, read_whole.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(forwarded));
        Self { task, read_whole }
    }

    /// Hands nothing more on.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    /// Waits until everything was handed on.
    async fn finish(self) {
        self.read_whole.cancel();
        // An error is a stop: the run is fenced, and nobody waits for its output.
        let _ = self.task.await;
    }
}

async fn forward_output(
    context: Arc<WorkerContext>,
    grant: Arc<RunGrant>,
    mut output: mpsc::Receiver<OutputChunk>,
    read_whole: CancellationToken,
) {
    let mut closed = false;
    loop {
        let chunk = tokio::select! {
            chunk = output.recv() => chunk,
            () = read_whole.cancelled(), if !closed => {
                closed = true;
                output.close();
                continue;
            }
        };
        let Some(chunk) = chunk else { return };
        let stream = match chunk.stream {
            OutputStream::Stdout => v1::OutputStream::Stdout,
            OutputStream::Stderr => v1::OutputStream::Stderr,
        };
        context.outbox.add_output(&grant.run, stream, chunk.bytes).await;
    }
}

/// Reports the end until it is answered, and holds the run no longer. Whoever waits for a job and then reads its output
/// finds all of it, where it can be durable soon: so the end waits for that a moment.
async fn settle_run(execution: &Execution, conclusion: Conclusion) -> EndFate {
    let flushed = execution.context.outbox.flush_output(&execution.grant.run);
    let _ = timeout(limits::OUTPUT_SETTLE_TIMEOUT, flushed).await;
    let mut fate = report_end(execution, conclusion).await;
    info!(?fate, "the run is over");
    if let EndFate::Refused(how) = &fate {
        // It is held until somebody knows: a run that is not held counts as one that never started.
        let answered = report_unsettled(execution, how.clone()).await;
        fate = if answered { EndFate::Void } else { EndFate::Fenced(how.clone()) };
    }
    release_run(execution);
    fate
}

fn release_run(execution: &Execution) {
    execution.context.outbox.close_run(&execution.grant.run);
    execution.context.held.release(&execution.grant.run);
}
