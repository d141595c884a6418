//! `tenure effect`: runs a command at most once in a job. The worker beside the run says what to do: run the command, run the
//! probe, print what an earlier call returned. What this owns is the command's life while it is told to perform, and what the
//! shell around it sees: the recorded output on stdout, and an exit code.
//! Neighbours: `in_run` has the other verbs inside a run; `effect::command` runs what is to be run.

mod capture;
mod command;
mod errors;
mod signals;
mod undoing;

pub(crate) use undoing::undo_steps;

use std::{env, time::Duration};

use clap::{Args, ValueEnum};
use tenure_client::{
    ClientError,
    run_effect::{EffectCall, EffectRequest, EffectStep, StepToUndo},
};
use tenure_core::{
    effect::{Compensation, Disposition, EffectRecovery},
    limits,
    reason::Reason,
};

use self::{
    command::{EndedCommand, Execution, KEY_VARIABLE, end_code, fail, run_command, run_probe},
    errors::Errors,
    signals::StopSignals,
};
use crate::{
    context::Context,
    failure::Failure,
    in_run::{explain, open_run},
    relative::parse_span,
};

/// What Tenure's own refusals exit with, where the command was not run.
const EXIT_REFUSED: u8 = 125;
/// How long whoever reads this program's stderr is waited for once it was asked to stop.
const STOPPED_PATIENCE: Duration = Duration::from_secs(1);
/// What a recorded failure without an exit code exits with: a signal ended it, or it never started.
const EXIT_FAILED: u8 = 1;

/// Run a command once in a job, also where the job's run is interrupted and repeated
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EffectArgs {
    /// Names the effect: unique in the job, and the same in every run of it.
    key: String,
    /// In doubt, look it up: exit 0 landed (stdout is the output), 10 did not happen, else unknown.
    #[arg(long, value_name = "CMD", group = "in_doubt", conflicts_with = "read_only")]
    probe: Option<String>,
    /// In doubt, run it again: the provider knows it by TENURE_IDEMPOTENCY_KEY.
    #[arg(long, group = "in_doubt")]
    idempotent: bool,
    /// In doubt, run it again. The default with --read-only.
    #[arg(long, group = "in_doubt")]
    retry: bool,
    /// In doubt, a person decides. The default without --read-only.
    #[arg(long, group = "in_doubt", conflicts_with = "read_only")]
    ask: bool,
    /// It changes nothing in the world.
    #[arg(long)]
    read_only: bool,
    /// What a failure means for the world. Default: in-doubt; with --read-only: did-not-happen.
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<OnFailure>,
    /// The command that undoes it where the job is cancelled, for a shell.
    #[arg(long, value_name = "CMD", group = "compensation")]
    undo: Option<String>,
    /// It cannot be undone, and neither can what came before it.
    #[arg(long, group = "compensation")]
    pivot: bool,
    /// It does not need to be undone.
    #[arg(long, group = "compensation")]
    no_undo: bool,
    /// What it uses. Default: the key up to its first /.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Least that must be left of the worker's lease. Default: 2s, at most a quarter of it.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    min_lease: Option<Duration>,
    /// Refuse another command under the same key, instead of answering from the record.
    #[arg(long)]
    bind: bool,
    /// The command.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done (stdout is the recorded output, at most 64 KiB), 125 Tenure refused or failed and
the command was not run, 126 or 127 the command could not be started, otherwise the command's own;
where it ran and that could not be recorded, stderr says so.";

/// What a failure means for the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    DidNotHappen,
    InDoubt,
    Landed,
}

/// Performs an effect, or reads back what came of it.
pub(crate) async fn perform_effect(context: &Context, args: EffectArgs) -> Result<(), Failure> {
    let run = open_run()?;
    refuse_own_key(&args.key)?;
    let mut signals =
        StopSignals::listen().map_err(|error| fail("listening to the signals that end a program", &error))?;
    let errors = Errors::open().map_err(|error| fail("opening the stderr of this program", &error))?;
    let request = args.to_request();
    let call = run.perform_effect(&request).await.map_err(refuse)?;
    let conversation = Conversation {
        context,
        request: &request,
        call,
        errors: &errors,
        last: None,
        has_spoken: false,
        undoes: None,
    };
    let outcome = conversation.go_on(&mut signals).await;
    // What came of it is recorded by now. Who asks this program to stop does not want to wait for whoever reads no stderr.
    tokio::select! {
        () = errors.wait_until_written() => outcome,
        () = lose_patience(&mut signals) => outcome.map_err(|failure| failure.already_printed()),
    }
}

/// A moment after this program was asked to stop, which may have been before.
async fn lose_patience(signals: &mut StopSignals) {
    if !signals.has_come() {
        signals.next().await;
    }
    tokio::time::sleep(STOPPED_PATIENCE).await;
}

/// The command of an effect cannot wait for its own end.
fn refuse_own_key(key: &str) -> Result<(), Failure> {
    let (own, job) = (env::var(KEY_VARIABLE), env::var("TENURE_JOB"));
    let is_own = own.ok().zip(job.ok()).is_some_and(|(own, job)| own == format!("{job}/{key}"));
    if !is_own {
        return Ok(());
    }
    let said = format!("the effect {key} is being performed by the very command that asks for it");
    Err(Failure::new(Reason::InvalidArgument, said).with_exit(EXIT_REFUSED))
}

impl EffectArgs {
    fn to_request(&self) -> EffectRequest {
        let recovery = [
            (self.probe.is_some(), EffectRecovery::Probe),
            (self.idempotent, EffectRecovery::Idempotent),
            (self.retry, EffectRecovery::Retry),
            (self.ask, EffectRecovery::Ask),
        ];
        let compensation = match (&self.undo, self.pivot, self.no_undo) {
            (Some(_), _, _) => Compensation::Undo,
            (None, true, _) => Compensation::Pivot,
            (None, false, true) => Compensation::Unnecessary,
            (None, false, false) => Compensation::Undeclared,
        };
        EffectRequest {
            key: self.key.clone(),
            command: self.command.clone(),
            recovery: recovery.iter().find(|(given, _)| *given).map(|(_, recovery)| *recovery),
            read_only: self.read_only,
            on_failure: self.on_failure.map(OnFailure::disposition),
            compensation,
            undo: self.undo.clone(),
            probe: self.probe.clone(),
            tool: self.tool.clone(),
            min_lease: self.min_lease,
            bind: self.bind,
        }
    }
}

impl OnFailure {
    const fn disposition(self) -> Disposition {
        match self {
            Self::DidNotHappen => Disposition::DidNotHappen,
            Self::InDoubt => Disposition::InDoubt,
            Self::Landed => Disposition::Landed,
        }
    }
}

/// One call, step by step.
struct Conversation<'a> {
    context: &'a Context,
    request: &'a EffectRequest,
    call: EffectCall,
    /// This program's stderr, which nobody waits for.
    errors: &'a Errors,
    /// The last execution of the command by this call.
    last: Option<EndedCommand>,
    /// The worker was told how something ended, and may not have heard it yet: this program has to stay for it.
    has_spoken: bool,
    /// The step that it undoes; none: it does something.
    undoes: Option<&'a StepToUndo>,
}

impl Conversation<'_> {
    async fn go_on(mut self, signals: &mut StopSignals) -> Result<(), Failure> {
        loop {
            let (step, warning) = self.wait_for_step(signals).await?;
            if let Some(warning) = warning {
                self.remark(&warning);
            }
            match step {
                EffectStep::Perform { attempt: _, idempotency_key, stop_grace, traceparent } => {
                    if signals.has_come() {
                        self.report_not_run().await;
                        continue;
                    }
                    let grace = stop_grace.unwrap_or(limits::STOP_GRACE_DEFAULT);
                    let execution = Execution::new(&idempotency_key, &traceparent, self.errors, grace);
                    self.perform(&execution.undoing(self.undoes), signals).await?;
                }
                EffectStep::Probe { idempotency_key, traceparent } => {
                    let grace = limits::STOP_GRACE_DEFAULT;
                    let execution = Execution::new(&idempotency_key, &traceparent, self.errors, grace);
                    self.probe(&execution, signals).await?;
                }
                // It is settled: nothing of it has to be undone, or the next step says so.
                EffectStep::Done { .. } if self.looks_up() => return Ok(()),
                EffectStep::Failed { .. } if self.looks_up() => return Ok(()),
                EffectStep::Done { output, truncated, .. } => return self.print_done(&output, truncated),
                EffectStep::Failed { attempt, disposition, exit_code, error, read_back } => {
                    return self.print_failed(attempt, disposition, exit_code, &error, read_back);
                }
            }
        }
    }

    /// True where it only finds out what became of an effect.
    fn looks_up(&self) -> bool {
        self.undoes.is_some_and(|step| step.in_doubt)
    }

    /// A signal before anything was run breaks the call off. After that an outcome is on its way, and only its answer ends
    /// this program: an outcome that is not heard is a doubt.
    async fn wait_for_step(
        &mut self,
        signals: &mut StopSignals,
    ) -> Result<(EffectStep, Option<String>), Failure> {
        loop {
            tokio::select! {
                biased;
                step = self.call.next() => return step.map_err(|error| self.explain_break(error)),
                signal = signals.next() => {
                    if !self.has_spoken {
                        return Err(Failure::Printed { exit: end_code(None, Some(signal)) });
                    }
                }
            }
        }
    }

    /// After a signal nothing more is run: it is not begun, which is an outcome.
    async fn report_not_run(&mut self) {
        self.call.report_ended(EndedCommand::stopped().to_report()).await;
        self.has_spoken = true;
    }

    async fn perform(&mut self, execution: &Execution<'_>, signals: &mut StopSignals) -> Result<(), Failure> {
        let ended = run_command(&self.request.command, execution, &mut self.call, signals).await?;
        self.call.report_ended(ended.to_report()).await;
        self.has_spoken = true;
        self.last = Some(ended);
        Ok(())
    }

    async fn probe(&mut self, execution: &Execution<'_>, signals: &mut StopSignals) -> Result<(), Failure> {
        let text = self.request.probe.as_deref().unwrap_or_default();
        let Some(found) = run_probe(text, execution, &mut self.call, signals).await? else {
            return Err(self.break_off());
        };
        self.call.report_probed(found.verdict, found.value, found.error).await;
        self.has_spoken = true;
        Ok(())
    }

    /// Nothing more comes from the worker. What the command did is done, whatever is recorded of it.
    fn explain_break(&self, error: ClientError) -> Failure {
        let Some(last) = &self.last else { return refuse(error) };
        self.remark(&describe_unrecorded(&self.request.key, last, &error));
        self.print_output(last);
        refuse(error).with_exit(last.exit)
    }

    /// What the command wrote, as it was. That nobody reads it does not make its end another.
    fn print_output(&self, ended: &EndedCommand) {
        let _ = self.context.printer.bytes(&ended.output);
    }

    /// A remark for people.
    fn remark(&self, text: &str) {
        if self.context.printer.remarks() {
            self.errors.pass(format!("tenure: {text}\n").as_bytes());
        }
    }

    /// The probe was ended before it could say anything. That is no verdict, and none is recorded: the next call probes
    /// again.
    fn break_off(&self) -> Failure {
        let key = &self.request.key;
        self.remark(&format!(
            "the probe of the effect {key} was ended before it found anything out; nothing is recorded"
        ));
        let exit = self.last.as_ref().map_or(EXIT_REFUSED, |last| last.exit);
        Failure::Printed { exit: if exit == 0 { EXIT_FAILED } else { exit } }
    }

    fn print_done(&self, output: &[u8], truncated: bool) -> Result<(), Failure> {
        if truncated {
            let limit = limits::EFFECT_OUTPUT_MAX_BYTES;
            let key = &self.request.key;
            self.remark(&format!("the output of the effect {key} was cut off after {limit} bytes"));
        }
        self.context.printer.bytes(output)
    }

    fn print_failed(
        &self,
        attempt: u32,
        disposition: Disposition,
        exit_code: Option<i32>,
        error: &[u8],
        read_back: bool,
    ) -> Result<(), Failure> {
        let became = match disposition {
            Disposition::DidNotHappen => "it did not happen",
            Disposition::InDoubt => "whether it happened is in doubt",
            Disposition::Landed => "it took effect, and is not performed again",
        };
        let key = &self.request.key;
        let earlier = if read_back { " in an earlier call" } else { "" };
        let exit = match &self.last {
            Some(last) => {
                self.print_output(last);
                last.exit
            }
            None => {
                self.errors.pass(error);
                exit_code.map_or(EXIT_FAILED, |code| u8::try_from(code).unwrap_or(EXIT_FAILED))
            }
        };
        self.remark(&format!("the effect {key} failed at attempt {attempt}{earlier}: {became}"));
        // A failure is never told as a success, whatever was recorded.
        Err(Failure::Printed { exit: if exit == 0 { EXIT_FAILED } else { exit } })
    }
}

/// Whatever Tenure itself refuses.
fn refuse(error: ClientError) -> Failure {
    explain(error).with_exit(EXIT_REFUSED)
}

/// That a command was run by this call is what the shell has to know, where nobody says that it is recorded.
fn describe_unrecorded(key: &str, last: &EndedCommand, error: &ClientError) -> String {
    let recorded = match error {
        ClientError::Refused(_) => "that is not recorded",
        _ => "nobody has said that it is recorded",
    };
    format!("the command of the effect {key} {}; {recorded}", last.words())
}

#[cfg(test)]
mod tests {
    use tenure_core::refusal::Refusal;

    use super::*;

    #[test]
    fn a_command_that_ran_and_is_not_recorded_is_said_to_have_run() {
        let refused = ClientError::Refused(Refusal::new(Reason::Fenced, "another holds it"));
        let said = describe_unrecorded("mail", &EndedCommand::ended(3), &refused);
        assert_eq!(said, "the command of the effect mail ran and exited 3; that is not recorded");
        let unread = ClientError::NoEndpoint;
        let said = describe_unrecorded("mail", &EndedCommand::stopped(), &unread);
        assert_eq!(
            said,
            "the command of the effect mail was not started; nobody has said that it is recorded"
        );
        assert!(matches!(refuse(refused).with_exit(3), Failure::Refused { exit: 3, .. }));
    }
}
