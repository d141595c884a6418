//! Undoing the effects of a handler: which functions do, and one run's undoing of everything that its job has done, the last
//! first. Each undoing is performed as an effect under a key of its own, so that one which was recorded is not repeated. It
//! undoes nothing that a command undoes. Neighbours: `definition` collects the functions, `effect` performs.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tenure_proto::{convert::effect::read_recovery, v1};

use super::{Effect, EffectCall, EffectRecovery, Handler, HandlerError, RunContext};

/// One undoing of an effect, as whoever performs it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndoCall {
    /// The key of the effect that is undone.
    pub effect: String,
    /// The idempotency key that the effect was performed with.
    pub effect_idempotency_key: String,
    /// Which attempt at the undoing it is, from 1.
    pub attempt: u32,
    /// For a provider that performs the same key once: another than the effect's, and the same in every attempt and run.
    pub idempotency_key: String,
    output: Bytes,
}

impl UndoCall {
    /// What the effect returned.
    ///
    /// # Errors
    /// It returned something else, or what it returned cannot be used or was erased.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let json = if self.output.is_empty() { b"null" } else { &self.output[..] };
        let read = serde_json::from_slice(json);
        read.map_err(|source| UnreadableOutput { key: self.effect.clone(), source }.into())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("what the effect {key:?} returned cannot be read as what undoes it takes")]
struct UnreadableOutput {
    key: String,
    source: serde_json::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("the arguments of the compensation {name:?} cannot be read as what it takes")]
struct UnreadableArguments {
    name: String,
    source: serde_json::Error,
}

type Undoing = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;
type Undo = Box<dyn Fn(UndoCall, &str) -> Undoing + Send + Sync>;

/// The functions that undo the effects of one handler.
#[derive(Default)]
pub(crate) struct Compensations(BTreeMap<String, Undo>);

impl fmt::Debug for Compensations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Compensations {
    /// Adds one; false where there is one of this name.
    pub(super) fn add<Arguments, E, F, Fut>(&mut self, name: &str, undo: F) -> bool
    where
        Arguments: DeserializeOwned,
        E: Into<HandlerError>,
        F: Fn(UndoCall, Arguments) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let called = name.to_owned();
        let undo = move |call: UndoCall, arguments: &str| -> Undoing {
            match serde_json::from_str(arguments) {
                Ok(arguments) => {
                    let undoing = undo(call, arguments);
                    Box::pin(async move { undoing.await.map_err(Into::into) })
                }
                Err(source) => {
                    let error = HandlerError::from(UnreadableArguments { name: called.clone(), source });
                    Box::pin(std::future::ready(Err(error)))
                }
            }
        };
        self.0.insert(name.to_owned(), Box::new(undo)).is_none()
    }

    /// True where there is one of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn call(&self, name: &str, call: UndoCall, arguments: &str) -> Option<Undoing> {
        self.0.get(name).map(|undo| undo(call, arguments))
    }
}

/// Undoes everything that is left to undo of the job, the last step first. The first that fails ends it.
pub(crate) async fn undo_all(context: RunContext, handler: Arc<Handler>) -> Result<Bytes, HandlerError> {
    while let Some(step) = context.effects()?.read_step_to_undo(Vec::new()).await? {
        undo_step(&context, &handler, step).await?;
    }
    Ok(Bytes::from_static(b"null"))
}

/// Undoes what took effect under these keys, the last first, and leaves the rest of the job alone.
pub(super) async fn undo_keys(context: &RunContext, keys: Vec<String>) -> Result<(), HandlerError> {
    if keys.is_empty() {
        return Ok(());
    }
    while let Some(step) = context.effects()?.read_step_to_undo(keys.clone()).await? {
        undo_step(context, context.handler(), step).await?;
    }
    Ok(())
}

async fn undo_step(
    context: &RunContext,
    handler: &Handler,
    step: v1::StepToUndo,
) -> Result<(), HandlerError> {
    if step.in_doubt {
        let why = "what looks it up is in its handler, and is not there where its effects are undone";
        return Err(context.effects()?.refuse_step(&step, why).into());
    }
    let Some(by) = &step.undo_by else {
        return Err(context.effects()?.refuse_step(&step, "there is no function that undoes it").into());
    };
    if !handler.compensations().has(&by.name) {
        let why = format!("its handler has no compensation {:?}", by.name);
        return Err(context.effects()?.refuse_step(&step, &why).into());
    }
    let effect: Effect<'_, ()> = context.effect(&step.undo_key).compensating();
    let effect = effect.recover_by(undo_recovery(&step)).tool(&step.tool).no_undo().payload(&by.name);
    effect
        .perform(|now: EffectCall| {
            let call = UndoCall {
                effect: step.key.clone(),
                effect_idempotency_key: step.idempotency_key.clone(),
                attempt: now.attempt,
                idempotency_key: now.idempotency_key,
                output: step.output.clone().unwrap_or_default(),
            };
            let undoing = handler.compensations().call(&by.name, call, &by.arguments);
            async move {
                match undoing {
                    Some(undoing) => undoing.await,
                    None => Err(HandlerError::new("the compensation is not there any more")),
                }
            }
        })
        .await
}

/// A function's probe is not there where the effect is undone: a person decides then.
fn undo_recovery(step: &v1::StepToUndo) -> v1::EffectRecovery {
    match read_recovery("recovery", step.recovery).ok().flatten() {
        Some(EffectRecovery::Retry) => v1::EffectRecovery::Retry,
        Some(EffectRecovery::Idempotent) => v1::EffectRecovery::Idempotent,
        Some(EffectRecovery::Probe | EffectRecovery::Ask) | None => v1::EffectRecovery::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(output: &'static [u8]) -> UndoCall {
        UndoCall {
            effect: "charge".to_owned(),
            effect_idempotency_key: "job/charge".to_owned(),
            attempt: 1,
            idempotency_key: "job/undo:charge".to_owned(),
            output: Bytes::from_static(output),
        }
    }

    #[tokio::test]
    async fn a_compensation_is_called_with_its_arguments_and_told_what_the_effect_returned() {
        let mut held = Compensations::default();
        let refund = |call: UndoCall, amount: u32| async move {
            let charged: u32 = call.output()?;
            if charged == amount { Ok(()) } else { Err(HandlerError::new("another amount")) }
        };
        assert!(held.add("refund", refund));
        assert!(!held.add("refund", refund), "a name is given once");
        held.call("refund", call(b"7"), "7").unwrap().await.unwrap();
        for (output, arguments) in [(&b"7"[..], "8"), (b"7", "{}"), (b"\"seven\"", "7")] {
            assert!(held.call("refund", call(output), arguments).unwrap().await.is_err(), "{arguments}");
        }
        assert!(held.call("void", call(b"7"), "7").is_none());
    }

    #[test]
    fn the_undoing_of_what_was_looked_up_is_left_to_a_person() {
        let of = |recovery: v1::EffectRecovery| {
            undo_recovery(&v1::StepToUndo { recovery: recovery.into(), ..v1::StepToUndo::default() })
        };
        assert_eq!(of(v1::EffectRecovery::Idempotent), v1::EffectRecovery::Idempotent);
        assert_eq!(of(v1::EffectRecovery::Retry), v1::EffectRecovery::Retry);
        for recovery in [v1::EffectRecovery::Probe, v1::EffectRecovery::Ask] {
            assert_eq!(of(recovery), v1::EffectRecovery::Ask);
        }
    }
}
