//! One effect of the program inside a run: announced with the first message, performed by whoever holds the call when it is
//! told to, and over with the first final step. Dropping the call breaks it off: the worker then ends what is left of the
//! command. Nothing is ever sent again from here, because performing twice is not performing once.

use std::time::Duration;

use bytes::Bytes;
use tenure_core::{
    effect::{Compensation, Disposition, EffectRecovery},
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        InvalidField,
        effect::{read_disposition, read_recovery, write_compensation, write_disposition, write_recovery},
        require,
        time::{read_duration, write_duration},
    },
    v1::{
        self, perform_effect_request::Message as Said, perform_effect_response::Message as Told,
        run_service_client::RunServiceClient,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{ClientError, client::Repeat, run::RunClient};

/// Words to the worker that it has not heard yet.
const UNHEARD_MAX: usize = 2;

/// What is to be performed, and how it is to be treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRequest {
    /// 1 to 512 bytes without control characters, unique in the job.
    pub key: String,
    /// The command; at least one word.
    pub command: Vec<String>,
    /// What happens to it in doubt. None: retry where nothing is mutated, otherwise ask.
    pub recovery: Option<EffectRecovery>,
    /// True where nothing in the world is changed.
    pub read_only: bool,
    /// What a failure means for the world. None: in doubt; where nothing is mutated, that it did not happen.
    pub on_failure: Option<Disposition>,
    /// How it is undone.
    pub compensation: Compensation,
    /// The command that undoes it, for a shell; only where it is undone by one.
    pub undo: Option<String>,
    /// The command that looks it up, for a shell; only where the recovery is a probe.
    pub probe: Option<String>,
    /// What it uses. None: the key up to its first `/`.
    pub tool: Option<String>,
    /// Least that must be left of the lease. None: 2 s, at most a quarter of the ttl.
    pub min_lease: Option<Duration>,
    /// True where another command under the same key is refused instead of answered from the record.
    pub bind: bool,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnd {
    /// Its exit code; none: a signal ended it, or it could not be started.
    pub exit_code: Option<i32>,
    /// What it wrote to stdout; at most 64 KiB.
    pub output: Bytes,
    /// True where it was cut off.
    pub truncated: bool,
    /// The end of what it wrote to stderr; at most 4 KiB.
    pub error: Bytes,
    /// True where it could not be started: nothing happened.
    pub not_started: bool,
}

/// What the caller is to do, or what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectStep {
    /// Run the command, and say when it has started and how it ended.
    Perform {
        /// From 1.
        attempt: u32,
        /// For its environment.
        idempotency_key: String,
        /// How long its output is waited for once it is gone and others hold the pipe. None: nothing was said.
        stop_grace: Option<Duration>,
        /// For its environment. Empty: none.
        traceparent: String,
    },
    /// Run the probe, and say what it found.
    Probe {
        /// For its environment.
        idempotency_key: String,
        /// For its environment. Empty: none.
        traceparent: String,
    },
    /// It was done. Final.
    Done {
        /// The attempt that did it.
        attempt: u32,
        /// What it returned.
        output: Bytes,
        /// True where the output was cut off.
        truncated: bool,
        /// True where nothing was run now.
        read_back: bool,
    },
    /// It failed. Final.
    Failed {
        /// The attempt.
        attempt: u32,
        /// What became of the world.
        disposition: Disposition,
        /// The code that its command exited with; none: a signal ended it, or it could not be started.
        exit_code: Option<i32>,
        /// The end of what it wrote to stderr.
        error: Bytes,
        /// True where nothing was run now.
        read_back: bool,
    },
}

/// A step that is to be undone: the last that landed of those that are left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepToUndo {
    /// The key of the effect that is undone.
    pub key: String,
    /// The key under which it is undone.
    pub undo_key: String,
    /// The command that undoes it, for a shell.
    pub undo: String,
    /// What happens to the undoing in doubt.
    pub recovery: EffectRecovery,
    /// The command that looks up whether the effect stands, for a shell.
    pub probe: Option<String>,
    /// What the effect used.
    pub tool: String,
    /// What the effect returned; empty where nothing can be used.
    pub output: Bytes,
    /// The key that a provider knows the effect by.
    pub idempotency_key: String,
    /// True where nobody knows whether it took effect: it is looked up first, and nothing says how it is undone.
    pub in_doubt: bool,
}

/// A call under way.
#[derive(Debug)]
pub struct EffectCall {
    run: RunClient,
    place: usize,
    words: mpsc::Sender<v1::PerformEffectRequest>,
    answers: Streaming<v1::PerformEffectResponse>,
}

impl RunClient {
    /// Announces an effect. The steps say what to do.
    ///
    /// # Errors
    /// The run is over, or its worker does not answer.
    pub async fn perform_effect(&self, request: &EffectRequest) -> Result<EffectCall, ClientError> {
        self.open_call(request.write()).await
    }

    /// Has an effect looked up that an earlier run left in doubt, in a run that undoes: the steps say when, and what came of it. Nothing is performed,
    /// so the command of the request is not looked at.
    ///
    /// # Errors
    /// The run is over, or its worker does not answer.
    pub async fn settle_effect(&self, request: &EffectRequest) -> Result<EffectCall, ClientError> {
        let announced = v1::AnnounceEffect { command: Vec::new(), settle_only: true, ..request.write() };
        self.open_call(announced).await
    }

    async fn open_call(&self, announced: v1::AnnounceEffect) -> Result<EffectCall, ClientError> {
        let (words, said) = mpsc::channel(UNHEARD_MAX);
        let announced = Said::Announce(announced);
        // There is room for it, and the receiver is at hand.
        let _ = words.send(v1::PerformEffectRequest { message: Some(announced) }).await;
        let said = std::sync::Mutex::new(Some(said));
        let open = |channel| {
            let said = said.lock().ok().and_then(|mut said| said.take());
            async move {
                let Some(said) = said else { return Err(Status::internal("an effect is announced once")) };
                RunServiceClient::new(channel).perform_effect(ReceiverStream::new(said)).await
            }
        };
        let opened = self.client.open(&open).await;
        let (place, answers) = opened.map_err(|failure| self.client.explain(Repeat::OnlyUnsent, failure))?;
        Ok(EffectCall { run: self.clone(), place, words, answers })
    }
}

impl RunClient {
    /// Asks a run that was granted to undo for the step that is undone next; nothing where nothing is left.
    ///
    /// # Errors
    /// The run does not undo, nothing can undo the step, the run is over, or its worker does not answer.
    pub async fn get_step_to_undo(&self) -> Result<Option<StepToUndo>, ClientError> {
        let ask = |channel| async move {
            RunServiceClient::new(channel).get_step_to_undo(v1::GetStepToUndoRequest {}).await
        };
        let step = self.client.call(Repeat::Reads, ask).await?.step;
        Ok(step.map(read_step_to_undo).transpose()?)
    }
}

fn read_step_to_undo(given: v1::StepToUndo) -> Result<StepToUndo, InvalidField> {
    Ok(StepToUndo {
        recovery: require("recovery", read_recovery("recovery", given.recovery)?)?,
        key: given.key,
        undo_key: given.undo_key,
        undo: given.undo,
        probe: Some(given.probe).filter(|probe| !probe.is_empty()),
        tool: given.tool,
        output: given.output.unwrap_or_default(),
        idempotency_key: given.idempotency_key,
        in_doubt: given.in_doubt,
    })
}

impl EffectCall {
    /// The next step, and a remark for a person. Waiting may be given up and taken up again.
    ///
    /// # Errors
    /// The effect is refused, or the worker is gone.
    pub async fn next(&mut self) -> Result<(EffectStep, Option<String>), ClientError> {
        let told = match self.answers.message().await {
            Ok(Some(told)) => told,
            Ok(None) => return Err(self.broken(Status::unavailable("the worker closed the call"))),
            Err(status) => return Err(self.broken(status)),
        };
        let warning = Some(told.warning).filter(|warning| !warning.is_empty());
        let step = require("message", told.message)?;
        if let Told::Done(v1::EffectIsDone { erased: true, attempt, .. }) = step {
            return Err(ClientError::Refused(refuse_erased(attempt)));
        }
        Ok((read_step(step)?, warning))
    }

    /// The command was started, in this process group.
    pub async fn report_started(&self, process_group: i32) {
        self.say(Said::Started(v1::EffectCommandStarted { process_group })).await;
    }

    /// The command ended.
    pub async fn report_ended(&self, end: CommandEnd) {
        self.say(Said::Ended(v1::EffectCommandEnded {
            exit_code: end.exit_code,
            output: end.output,
            truncated: end.truncated,
            error: end.error,
            not_started: end.not_started,
            ..Default::default()
        }))
        .await;
    }

    /// The probe found this.
    pub async fn report_probed(&self, verdict: Disposition, value: Bytes, error: Bytes) {
        let verdict = write_disposition(verdict).into();
        self.say(Said::Probed(v1::EffectProbeEnded { verdict, value, error })).await;
    }

    async fn say(&self, message: Said) {
        // A worker that hears nothing any more says so with its next step.
        let _ = self.words.send(v1::PerformEffectRequest { message: Some(message) }).await;
    }

    fn broken(&self, status: Status) -> ClientError {
        let client = &self.run.client;
        client.explain(Repeat::OnlyUnsent, client.broken(self.place, status))
    }
}

impl EffectRequest {
    fn write(&self) -> v1::AnnounceEffect {
        v1::AnnounceEffect {
            key: self.key.clone(),
            command: self.command.clone(),
            recovery: self.recovery.map_or(0, |recovery| write_recovery(recovery).into()),
            read_only: self.read_only,
            on_failure: self.on_failure.map_or(0, |on_failure| write_disposition(on_failure).into()),
            compensation: write_compensation(self.compensation).into(),
            undo: self.undo.clone().unwrap_or_default(),
            probe: self.probe.clone().unwrap_or_default(),
            tool: self.tool.clone().unwrap_or_default(),
            min_lease: self.min_lease.map(write_duration),
            bind: self.bind,
            undo_by: None,
            settle_only: false,
        }
    }
}

/// It is done, and what it returned was erased: an empty output would be a lie.
fn refuse_erased(attempt: u32) -> Refusal {
    let words = format!(
        "what attempt {attempt} at the effect returned was erased, and it is not performed a second time"
    );
    Refusal::new(Reason::ValueErased, words).with_detail("attempt", attempt)
}

fn read_step(told: Told) -> Result<EffectStep, InvalidField> {
    Ok(match told {
        Told::Perform(now) => EffectStep::Perform {
            attempt: now.attempt,
            idempotency_key: now.idempotency_key,
            stop_grace: now.stop_grace.map(|given| read_duration("stop_grace", &given)).transpose()?,
            traceparent: now.traceparent,
        },
        Told::Probe(now) => {
            EffectStep::Probe { idempotency_key: now.idempotency_key, traceparent: now.traceparent }
        }
        Told::Done(done) => EffectStep::Done {
            attempt: done.attempt,
            output: done.output,
            truncated: done.truncated,
            read_back: done.read_back,
        },
        Told::Failed(failed) => EffectStep::Failed {
            attempt: failed.attempt,
            disposition: require("disposition", read_disposition("disposition", failed.disposition)?)?,
            exit_code: failed.exit_code,
            error: failed.error,
            read_back: failed.read_back,
        },
    })
}
