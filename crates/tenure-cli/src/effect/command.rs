//! A command while it is performed: in a process group of its own, which gets the signals that this program gets, and which
//! dies with this program. Its end is told once it has exited and nobody holds its output, or has held it for the agent's
//! stop-grace: then whoever does is ended.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use tenure_client::run_effect::{CommandEnd, EffectCall, StepToUndo};
use tenure_core::{effect::Disposition, limits::EFFECT_PROBE_TIMEOUT, reason::Reason, refusal::Refusal};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::{Instant, sleep_until},
};

use super::{EXIT_REFUSED, capture::Capture, errors::Errors, refuse, signals::StopSignals};
use crate::{failure::Failure, parent_death::bind_to_parent};

/// What a probe exits with where it did not happen.
const PROBE_DID_NOT_HAPPEN: i32 = 10;
/// How long a pipe of a group that was killed is waited for: whoever holds it then left the group.
const KILLED_PATIENCE: Duration = Duration::from_secs(1);
/// As a shell says that a command could not be run, and that there is none.
const EXIT_CANNOT_RUN: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// The variable that tells a command which effect it performs, and whoever receives it that it came before.
pub(super) const KEY_VARIABLE: &str = "TENURE_IDEMPOTENCY_KEY";

/// How a command is to be run.
pub(super) struct Execution<'a> {
    pub(super) idempotency_key: &'a str,
    /// The effect's place in the trace of its job; empty: the run's.
    pub(super) traceparent: &'a str,
    /// Where its stderr is passed on to.
    pub(super) errors: &'a Errors,
    /// How long its output is waited for once it is gone.
    pub(super) stop_grace: Duration,
    /// The step that it undoes, of which the command is told.
    undoes: Option<&'a StepToUndo>,
}

impl<'a> Execution<'a> {
    pub(super) fn new(
        idempotency_key: &'a str,
        traceparent: &'a str,
        errors: &'a Errors,
        stop_grace: Duration,
    ) -> Self {
        Self { idempotency_key, traceparent, errors, stop_grace, undoes: None }
    }

    /// The same of a command that undoes a step.
    pub(super) fn undoing(self, undoes: Option<&'a StepToUndo>) -> Self {
        Self { undoes, ..self }
    }
}

/// The variables that tell a command which effect it undoes, and how a provider knows that.
const UNDONE_VARIABLE: &str = "TENURE_UNDONE_EFFECT";
const UNDONE_KEY_VARIABLE: &str = "TENURE_UNDONE_IDEMPOTENCY_KEY";

/// A command that was run, or could not be.
#[derive(Debug)]
pub(super) struct EndedCommand {
    /// What this program exits with, where nothing better is known.
    pub(super) exit: u8,
    pub(super) output: Bytes,
    truncated: bool,
    error: Bytes,
    exit_code: Option<i32>,
    not_started: bool,
}

/// What a probe found.
pub(super) struct Found {
    pub(super) verdict: Disposition,
    pub(super) value: Bytes,
    pub(super) error: Bytes,
}

impl EndedCommand {
    fn not_started(words: &[String], error: &io::Error, errors: &Errors) -> Self {
        let name = words.first().map_or("", String::as_str);
        let said = format!("tenure: the command {name} could not be started: {error}\n");
        errors.pass(said.as_bytes());
        let exit = if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_CANNOT_RUN };
        let (output, truncated) = (Bytes::new(), false);
        Self { exit, output, truncated, error: said.into(), exit_code: None, not_started: true }
    }

    /// A command that is not run because this program was asked to stop.
    pub(super) fn stopped() -> Self {
        let error = Bytes::from_static(b"tenure: it was asked to stop before it ran the command\n");
        let (exit, output) = (EXIT_CANNOT_RUN, Bytes::new());
        Self { exit, output, truncated: false, error, exit_code: None, not_started: true }
    }

    /// One that ran and wrote nothing.
    #[cfg(test)]
    pub(super) fn ended(exit: u8) -> Self {
        let exit_code = Some(i32::from(exit));
        Self { exit, exit_code, not_started: false, error: Bytes::new(), ..Self::stopped() }
    }

    /// How it ended, as a sentence goes on with it.
    pub(super) fn words(&self) -> String {
        if self.not_started {
            return "was not started".to_owned();
        }
        match self.exit_code {
            Some(code) => format!("ran and exited {code}"),
            None => format!("ran and was ended by signal {}", i32::from(self.exit) - 128),
        }
    }

    pub(super) fn to_report(&self) -> CommandEnd {
        CommandEnd {
            exit_code: self.exit_code,
            output: self.output.clone(),
            truncated: self.truncated,
            error: self.error.clone(),
            not_started: self.not_started,
        }
    }
}

/// Runs a command to its end, and tells the worker that it has started.
pub(super) async fn run_command(
    words: &[String],
    execution: &Execution<'_>,
    call: &mut EffectCall,
    signals: &mut StopSignals,
) -> Result<EndedCommand, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::usage("an effect without a command"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(if execution.undoes.is_some() { Stdio::piped() } else { Stdio::inherit() });
    let mut running = match Running::start(command, execution) {
        Ok(running) => running,
        Err(error) => return Ok(EndedCommand::not_started(words, &error, execution.errors)),
    };
    if let Some(step) = execution.undoes {
        running.feed(step.output.clone());
    }
    call.report_started(running.group.as_raw_nonzero().get()).await;
    let status = running.wait(call, signals, None).await?;
    let until = Instant::now() + execution.stop_grace;
    let ((output, truncated), (error, _)) = running.collect(call, signals, until).await?;
    let exit_code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal()).and_then(Signal::from_named_raw);
    let exit = end_code(exit_code, signal);
    Ok(EndedCommand { exit, output, truncated, error, exit_code, not_started: false })
}

/// Runs a probe; where it does not end in time it found nothing out. None: it was ended by a signal, or may have been by the
/// one that this program was sent, whatever a shell made of that; it has no verdict.
pub(super) async fn run_probe(
    text: &str,
    execution: &Execution<'_>,
    call: &mut EffectCall,
    signals: &mut StopSignals,
) -> Result<Option<Found>, Failure> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).stdin(Stdio::null());
    let mut running = match Running::start(command, execution) {
        Ok(running) => running,
        Err(error) => {
            let error = format!("the probe could not be started: {error}");
            return Ok(Some(Found {
                verdict: Disposition::InDoubt,
                value: Bytes::new(),
                error: error.into(),
            }));
        }
    };
    let until = Instant::now() + EFFECT_PROBE_TIMEOUT;
    let status = running.wait(call, signals, Some(until)).await?;
    if status.is_none() {
        running.kill_group();
    }
    let ((value, _), (error, _)) = running.collect(call, signals, until).await?;
    let is_signalled = status.is_some_and(|status| status.signal().is_some());
    Ok(match status.and_then(|status| status.code()) {
        Some(0) => Some(Found { verdict: Disposition::Landed, value, error }),
        Some(PROBE_DID_NOT_HAPPEN) => {
            Some(Found { verdict: Disposition::DidNotHappen, value: Bytes::new(), error })
        }
        _ if is_signalled || signals.has_come() => None,
        _ => Some(Found { verdict: Disposition::InDoubt, value: Bytes::new(), error }),
    })
}

/// The exit code of a shell for how a command ended.
pub(super) fn end_code(exit_code: Option<i32>, signal: Option<Signal>) -> u8 {
    let code = match (exit_code, signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal.as_raw(),
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

/// A command that runs. Dropping it ends its group: its call is over.
struct Running {
    child: Child,
    group: Pid,
    stdout: Capture,
    stderr: Capture,
    /// The group is nobody's any more: its number may be another's.
    released: bool,
}

type Collected = ((Bytes, bool), (Bytes, bool));

impl Running {
    fn start(mut command: Command, execution: &Execution<'_>) -> io::Result<Self> {
        command
            .env(KEY_VARIABLE, execution.idempotency_key)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(step) = execution.undoes {
            command.env(UNDONE_VARIABLE, &step.key).env(UNDONE_KEY_VARIABLE, &step.idempotency_key);
        }
        if !execution.traceparent.is_empty() {
            command.env("TRACEPARENT", execution.traceparent);
        }
        // A command that nobody speaks for would go on unrecorded.
        bind_to_parent(&mut command);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        match (pid, child.stdout.take(), child.stderr.take()) {
            (Some(group), Some(stdout), Some(stderr)) => Ok(Self {
                child,
                group,
                stdout: Capture::keep_beginning(stdout),
                stderr: Capture::pass_on(stderr, execution.errors.clone()),
                released: false,
            }),
            _ => Err(io::Error::other("the command has no pipes")),
        }
    }

    /// Lets the command read this; whether it does is its own affair.
    fn feed(&mut self, input: Bytes) {
        if let Some(mut stdin) = self.child.stdin.take() {
            tokio::spawn(async move {
                // Who does not read is not fed.
                let _ = stdin.write_all(&input).await;
            });
        }
    }

    /// Waits for the command to exit. None: not until then. A worker that breaks the call off has the command ended.
    async fn wait(
        &mut self,
        call: &mut EffectCall,
        signals: &mut StopSignals,
        until: Option<Instant>,
    ) -> Result<Option<ExitStatus>, Failure> {
        loop {
            tokio::select! {
                biased;
                status = self.child.wait() => return status.map(Some).map_err(|error| fail("waiting for the command", &error)),
                signal = signals.next() => self.signal_group(signal),
                broken = call.next() => return Err(explain_break(broken.err())),
                () = reach(until) => return Ok(None),
            }
        }
    }

    /// Waits until nobody holds the pipes; until then at most, and then whoever is left of the group is ended.
    async fn collect(
        mut self,
        call: &mut EffectCall,
        signals: &mut StopSignals,
        until: Instant,
    ) -> Result<Collected, Failure> {
        self.stderr.hurry();
        if !self.read_pipes(call, signals, until).await? {
            self.kill_group();
            self.read_pipes(call, signals, Instant::now() + KILLED_PATIENCE).await?;
        }
        // What is left of the group holds no pipe and is let go: the worker ends it where the command failed, and else it
        // ends with the run.
        self.released = true;
        Ok((self.stdout.take(), self.stderr.take()))
    }

    async fn read_pipes(
        &mut self,
        call: &mut EffectCall,
        signals: &mut StopSignals,
        until: Instant,
    ) -> Result<bool, Failure> {
        loop {
            let group = self.group;
            tokio::select! {
                biased;
                () = async { self.stdout.wait().await; self.stderr.wait().await } => return Ok(true),
                signal = signals.next() => send_signal(group, signal),
                broken = call.next() => return Err(explain_break(broken.err())),
                () = sleep_until(until) => return Ok(false),
            }
        }
    }

    fn signal_group(&self, signal: Signal) {
        send_signal(self.group, signal);
    }

    fn kill_group(&self) {
        send_signal(self.group, Signal::KILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.released {
            self.kill_group();
        }
    }
}

fn send_signal(group: Pid, signal: Signal) {
    // A group that is gone is fine.
    let _ = kill_process_group(group, signal);
}

async fn reach(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// While a command runs the worker has nothing to say but that the call is over.
fn explain_break(error: Option<tenure_client::ClientError>) -> Failure {
    error.map_or_else(interrupted, refuse)
}

/// What this host refused.
pub(super) fn fail(doing: &str, error: &io::Error) -> Failure {
    Failure::caused(Refusal::new(Reason::Internal, doing), error).with_exit(EXIT_REFUSED)
}

fn interrupted() -> Failure {
    let said = "the worker said something while the command ran";
    Failure::from(Refusal::new(Reason::Internal, said)).with_exit(EXIT_REFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_commands_own_or_that_of_its_signal() {
        assert_eq!(end_code(Some(7), None), 7);
        assert_eq!(end_code(None, Some(Signal::TERM)), 143);
        assert_eq!(end_code(None, Some(Signal::KILL)), 137);
    }
}
