//! Starting a guarded process, and the handles on it.
//!
//! Owns the spawn of the guardian and what the executor holds: [`RunningProcess`], which reads and waits, and
//! [`ProcessHandle`], which may be cloned and gives orders from anywhere. When the last handle is dropped before
//! [`ProcessHandle::forget`], the guardian sees its worker gone: it ends the group and reports by itself.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::limits::OUTPUT_QUEUE_CHUNKS;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::capture::{Activity, ActivityHold, CapturePlan, OutputChunk, capture_output};
use super::run_directory::write_script;
use super::spec::{
    GuardCommand, GuardLink, ProcessCommand, ProcessEnd, ProcessOutcome, ProcessSpec, ProcessStdin, StopCause,
};
use super::supervisor::{AskedToEnd, Orders, Supervisor, Timing};
use crate::guardian::protocol::GuardSpec;
use crate::guardian::{BootInstant, Fencing};

/// Orders to a running process. What comes after its end changes nothing.
#[derive(Debug, Clone)]
pub struct ProcessHandle {
    orders: watch::Sender<Orders>,
    activity: Arc<Activity>,
    asked_to_end: AskedToEnd,
}

impl ProcessHandle {
    /// SIGTERM to the group, `grace`, SIGKILL. Asked again, the shorter grace holds.
    pub fn stop(&self, grace: Duration, cause: StopCause) {
        self.asked_to_end.note();
        self.orders.send_modify(|orders| orders.stop(grace, cause));
    }

    /// SIGKILL to the group.
    pub fn kill(&self) {
        self.asked_to_end.note();
        self.orders.send_modify(|orders| orders.kill = true);
    }

    /// True once anything has asked for its end: an order, or a limit of its own. Nothing takes that back.
    pub fn is_asked_to_end(&self) -> bool {
        self.asked_to_end.is_noted()
    }

    /// After each renewal of the term.
    pub fn move_deadline(&self, at: BootInstant) {
        self.orders.send_modify(|orders| orders.deadline = at);
    }

    /// A note is a sign of life, as output is.
    pub fn touch(&self) {
        self.activity.touch();
    }

    /// A sign of life until what is returned is dropped: an effect is under way, whose output does not pass here.
    pub fn hold_activity(&self) -> ActivityHold {
        self.activity.hold()
    }

    /// The coordinator acknowledged the end: the guardian has nothing left to report and goes. Called before the end,
    /// it takes effect once the group is empty. A worker that is about to exit calls [`RunningProcess::release`].
    pub fn forget(&self) {
        self.orders.send_modify(|orders| orders.forget = true);
    }
}

/// A process that was started, or whose start failed: then it has already ended.
#[derive(Debug)]
pub struct RunningProcess {
    handle: ProcessHandle,
    output: mpsc::Receiver<OutputChunk>,
    outcome: watch::Receiver<Option<ProcessOutcome>>,
    pid: watch::Receiver<Option<i32>>,
    attendant: JoinHandle<()>,
}

impl RunningProcess {
    /// For whoever gives orders.
    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    /// The next piece of output. `None`: there is no more. Output must be taken while [`Self::wait`] is awaited, or
    /// dropped: the end is told after everything was taken.
    pub async fn next_output(&mut self) -> Option<OutputChunk> {
        self.output.recv().await
    }

    /// The output, to be read by another task. Afterwards [`Self::next_output`] gives nothing.
    pub fn take_output(&mut self) -> mpsc::Receiver<OutputChunk> {
        let (_, nothing) = mpsc::channel(1);
        std::mem::replace(&mut self.output, nothing)
    }

    /// The child's pid once its program runs; `None` where it never did.
    pub async fn wait_started(&mut self) -> Option<i32> {
        match self.pid.wait_for(Option::is_some).await {
            Ok(pid) => *pid,
            Err(_) => None,
        }
    }

    /// The end: the whole group is empty and the output was read. May be called again.
    pub async fn wait(&mut self) -> ProcessOutcome {
        match self.outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            // Its task is gone, which only the end of the runtime does; then the guardian ends the group.
            Ok(None) | Err(_) => ProcessOutcome { end: ProcessEnd::ContactLost, output_truncated: false },
        }
    }

    /// [`ProcessHandle::forget`], and waits until the guardian is gone and reaped.
    pub async fn release(self) {
        self.handle.forget();
        // It fails only where the runtime is going down, and then the guardian notices by itself.
        let _ = self.attendant.await;
    }
}

/// Starts the task that looks after one process.
pub(super) fn start_process(
    guard: &GuardCommand,
    fencing: Fencing,
    spec: ProcessSpec,
    link: GuardLink,
) -> RunningProcess {
    let (orders, ordered) = watch::channel(Orders::new(link.deadline));
    let (queue, output) = mpsc::channel(OUTPUT_QUEUE_CHUNKS);
    let (tell_outcome, outcome) = watch::channel(None);
    let (tell_pid, pid) = watch::channel(None);
    let activity = Arc::new(Activity::new());
    let asked_to_end = AskedToEnd::default();
    let handle = ProcessHandle { orders, activity: activity.clone(), asked_to_end: asked_to_end.clone() };
    let attendant = Attendant { spec, activity, asked_to_end, ordered, tell_pid, tell_outcome };
    let attendant = tokio::spawn(attendant.attend(guard.clone(), fencing, link, queue));
    RunningProcess { handle, output, outcome, pid, attendant }
}

/// What the task of one process holds.
struct Attendant {
    spec: ProcessSpec,
    activity: Arc<Activity>,
    asked_to_end: AskedToEnd,
    ordered: watch::Receiver<Orders>,
    tell_pid: watch::Sender<Option<i32>>,
    tell_outcome: watch::Sender<Option<ProcessOutcome>>,
}

impl Attendant {
    /// The queue goes to the capture alone, so that it closes when there is no more output.
    async fn attend(
        self,
        guard: GuardCommand,
        fencing: Fencing,
        link: GuardLink,
        queue: mpsc::Sender<OutputChunk>,
    ) {
        let started = compose_guard_spec(&self.spec, fencing, link).and_then(|guard_spec| {
            spawn_guardian(guard).map(|(guardian, socket)| (guard_spec, guardian, socket))
        });
        let (guard_spec, mut guardian, socket) = match started {
            Ok(started) => started,
            Err(reason) => return self.tell(ProcessEnd::NotStarted { reason }, false),
        };
        let group_empty = CancellationToken::new();
        let (stdout, stderr) = (guardian.stdout.take(), guardian.stderr.take());
        let capture =
            tokio::spawn(capture_pipes(stdout, stderr, self.plan_capture(queue, group_empty.clone())));
        let timing = Timing { timeout: self.spec.timeout, idle_timeout: self.spec.idle_timeout };
        let mut supervisor = Supervisor::new(
            guardian,
            socket,
            guard_spec,
            timing,
            self.activity.clone(),
            self.asked_to_end.clone(),
            self.ordered.clone(),
        );
        let end = supervisor.await_end(&self.tell_pid).await;
        group_empty.cancel();
        let drained = async { self.tell(end, capture.await.unwrap_or(false)) };
        tokio::join!(drained, supervisor.await_release());
    }

    fn plan_capture(&self, queue: mpsc::Sender<OutputChunk>, group_empty: CancellationToken) -> CapturePlan {
        CapturePlan {
            redactor: self.spec.redactor.clone(),
            limit_bytes: self.spec.output_limit_bytes,
            queue,
            activity: self.activity.clone(),
            group_empty,
        }
    }

    fn tell(&self, end: ProcessEnd, output_truncated: bool) {
        self.tell_outcome.send_replace(Some(ProcessOutcome { end, output_truncated }));
    }
}

async fn capture_pipes(stdout: Option<ChildStdout>, stderr: Option<ChildStderr>, plan: CapturePlan) -> bool {
    match (stdout, stderr) {
        (Some(stdout), Some(stderr)) => capture_output(stdout, stderr, plan).await,
        // Both were asked for, so both are there.
        _ => false,
    }
}

/// The guardian with its end of the socket as standard input, and nothing of the worker's environment.
fn spawn_guardian(guard: GuardCommand) -> Result<(Child, UnixStream), String> {
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| format!("cannot make a control socket: {error}"))?;
    let theirs = theirs
        .into_std()
        .and_then(|socket| socket.set_nonblocking(false).map(|()| socket))
        .map_err(|error| format!("cannot hand over a control socket: {error}"))?;
    Command::new(&guard.program)
        .args(guard.arguments)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map(|guardian| (guardian, ours))
        .map_err(|error| format!("cannot start the guardian {:?}: {error}", guard.program))
}

fn compose_guard_spec(spec: &ProcessSpec, fencing: Fencing, link: GuardLink) -> Result<GuardSpec, String> {
    Ok(GuardSpec {
        run_name: spec.run_name.clone(),
        argv: compose_argv(spec)?,
        env: spec.environment.clone().into_iter().collect(),
        cwd: spec.cwd.clone(),
        stdin: match &spec.stdin {
            ProcessStdin::None => None,
            ProcessStdin::File(path) => Some(path.clone()),
        },
        user: spec.user.clone(),
        limits: spec.limits,
        stop_grace_ms: as_milliseconds(spec.stop_grace),
        fencing,
        deadline: link.deadline,
        margin_ms: as_milliseconds(link.margin),
        run_directory: spec.run_directory.clone(),
        report: link.report,
    })
}

fn compose_argv(spec: &ProcessSpec) -> Result<Vec<String>, String> {
    match &spec.command {
        ProcessCommand::Argv(argv) => Ok(argv.clone()),
        ProcessCommand::Script(text) => {
            let path = write_script(&spec.run_directory, text, spec.user.as_ref())
                .map_err(|error| describe_chain(&error))?;
            Ok(["/bin/sh", "-eu"].map(str::to_owned).into_iter().chain([path]).collect())
        }
    }
}

pub(super) fn as_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An error with its causes, for a person.
fn describe_chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
