//! What a run that undoes asks and remembers: which step is undone next, as its coordinator reads it from the job's journal,
//! and which undoing failed, so that the end of the run can name it. Undoing itself is an effect like any other.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tenure_core::{
    effect::EffectKey, limits::WHY_MAX_BYTES, reason::Reason, record::Phase, refusal::Refusal,
};
use tenure_proto::{
    convert::run::write_run_ref,
    v1::{self, worker_service_client::WorkerServiceClient},
};

use super::{RunEffects, answer::Answer, caller::Stop};
use crate::{endpoints::Way, runner::REDACTION_MARK};

/// An undoing that failed, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedUndo {
    pub(crate) key: EffectKey,
    pub(crate) error: String,
}

/// The last undoing that failed in a run.
#[derive(Debug, Default)]
pub(super) struct UndoFailures(Mutex<Option<FailedUndo>>);

impl UndoFailures {
    /// What came of an undoing. A refusal that another run may be spared says nothing about it.
    pub(super) fn note(&self, key: &EffectKey, outcome: &Result<Answer, Stop>) {
        let error = match outcome {
            Ok(answer) => answer.failure_words(),
            Err(Stop::Refused(refusal)) if refusal.reason == Reason::EffectInDoubt => {
                Some(refusal.message.clone())
            }
            Err(Stop::Refused(_) | Stop::CallerLeft) => None,
        };
        if let Some(error) = error {
            self.set(key.clone(), &error);
        }
    }

    /// What came of looking an effect up: that it did not happen is no failure.
    pub(super) fn note_unsettled(&self, key: &EffectKey, outcome: &Result<Answer, Stop>) {
        if outcome.is_err() {
            self.note(key, outcome);
        }
    }

    fn set(&self, key: EffectKey, error: &str) {
        let error = error.chars().take(WHY_MAX_BYTES / 4).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(FailedUndo { key, error });
    }

    fn get(&self) -> Option<FailedUndo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RunEffects {
    /// The step that is to be undone next, of these keys, or of all where there are none; none: nothing is left. Only a run that was
    /// granted to undo undoes whatever there is.
    pub(crate) async fn read_step_to_undo(
        &self,
        keys: Vec<String>,
    ) -> Result<Option<v1::StepToUndo>, Refusal> {
        let standing = &self.standing;
        standing.ensure_speaking()?;
        if standing.grant.phase == Phase::Forward && keys.is_empty() {
            let said = "this run was not granted to undo anything";
            return Err(Refusal::new(Reason::NotSupported, said));
        }
        let request = v1::ReadStepToUndoRequest {
            run: Some(write_run_ref(&standing.grant.run)),
            secret: Bytes::copy_from_slice(standing.grant.secret.as_bytes()),
            keys,
        };
        let call = |mut client: WorkerServiceClient<Way>| {
            let request = request.clone();
            async move { client.read_step_to_undo(request).await }
        };
        Ok(self.calls.ask(standing, "undoing", call).await?.into_inner().step)
    }

    /// Refuses a step that nothing can undo, or look up, and remembers it for the end of the run.
    pub(crate) fn refuse_step(&self, step: &v1::StepToUndo, why: &str) -> Refusal {
        let (key, what) = match step.in_doubt {
            true => (&step.key, "looked up"),
            false => (&step.undo_key, "undone"),
        };
        if let Ok(key) = key.parse() {
            self.undo_failures.set(key, why);
        }
        Refusal::new(Reason::EffectMismatch, format!("the effect {} cannot be {what}: {why}", step.key))
            .with_detail("key", &step.key)
    }

    /// A step whose probe can be run as it was recorded: whole, and without the mark of a secret that was taken out of it.
    pub(crate) fn check_probe(&self, step: v1::StepToUndo) -> Result<Option<v1::StepToUndo>, Refusal> {
        if step.probe.is_empty() {
            return Err(self.refuse_step(&step, "there is no command that looks it up"));
        }
        if step.probe.contains(REDACTION_MARK) {
            return Err(self.refuse_step(&step, "its probe was recorded without the secret in it"));
        }
        Ok(Some(step))
    }

    /// The undoing that failed in this run.
    pub(crate) fn failed_undo(&self) -> Option<FailedUndo> {
        self.undo_failures.get()
    }
}
