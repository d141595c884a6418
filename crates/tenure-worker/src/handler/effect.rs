//! An effect of a handler: what is declared about it, and the function that performs it. Everything is decided where the
//! effects of programs are, by the same rules; here is the other end of that call, which performs, looks up, and says what
//! came of it.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_core::{
    effect::{Disposition, EffectKey},
    limits::{EFFECT_ERROR_MAX_BYTES, EFFECT_OUTPUT_MAX_BYTES, EFFECT_PROBE_TIMEOUT},
    reason::Reason,
    record::Phase,
    refusal::Refusal,
    replay::{Asked, Told as Recorded},
};
use tenure_proto::{
    convert::{
        effect::{read_disposition, write_disposition},
        time::write_duration,
    },
    status::status_to_refusal,
    v1::{
        AnnounceEffect, CompensationCall, EffectCommandEnded, EffectCompensation, EffectHasFailed,
        EffectProbeEnded, EffectRecovery, perform_effect_request::Message as Said,
        perform_effect_response::Message as Told,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use super::{HandlerError, Replay, RunContext, context::World};
use crate::effect::{Answers, RunEffects};

/// What stands in an announcement for a command: a function has none.
const COMMAND_WORD: &str = "handler";

/// One execution of an effect, as whoever performs it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectCall {
    /// Which attempt it is, from 1. It stays the same where an attempt is repeated of which nobody knows whether it happened.
    pub attempt: u32,
    /// For a provider that performs the same key once: contains the job's id, and is the same in every attempt and run.
    pub idempotency_key: String,
}

/// What was found out about an attempt of which nobody knew whether it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe<T> {
    /// It happened, and returned this.
    Landed(T),
    /// It did not happen: it is performed, as the next attempt.
    DidNotHappen,
    /// It could not be found out: a person decides.
    Inconclusive,
}

/// An effect that failed, or whose value cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EffectError {
    /// It failed, and what became of the world is recorded.
    #[error("the effect {key:?} failed in attempt {attempt}, and {}: {error}", describe_world(*disposition))]
    Failed {
        /// Its key.
        key: String,
        /// Its attempt.
        attempt: u32,
        /// What became of the world.
        disposition: Disposition,
        /// The end of what was said about it.
        error: String,
        /// True where an earlier call failed, and nothing was performed now.
        read_back: bool,
    },
    /// What is recorded of it is not of the type that is asked for now.
    #[error("what is recorded of the effect {key:?} cannot be read as what it returns now")]
    ValueUnreadable {
        /// Its key.
        key: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// What was recorded of it is gone.
    #[error("what was recorded of the effect {key:?} was erased, and it is not performed a second time")]
    ValueErased {
        /// Its key.
        key: String,
    },
    /// Its handler has no such compensation.
    #[error(
        "the effect {key:?} is to be undone by the compensation {name:?}, which its handler does not have"
    )]
    CompensationUnknown {
        /// Its key.
        key: String,
        /// The name.
        name: String,
    },
    /// The payload.
    #[error("the payload of the effect {key:?} cannot be written as JSON")]
    PayloadUnwritable {
        /// Its key.
        key: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
}

fn describe_world(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::DidNotHappen => "nothing happened",
        Disposition::InDoubt => "nobody knows whether it happened",
        Disposition::Landed => "it took effect",
    }
}

type Looking<'a, T> = Pin<Box<dyn Future<Output = Result<Probe<T>, HandlerError>> + Send + 'a>>;

/// An effect that is being declared; begun with [`RunContext::effect`], and performed with [`Effect::perform`].
#[must_use = "nothing is announced before it is performed"]
pub struct Effect<'a, T> {
    run: &'a RunContext,
    announce: AnnounceEffect,
    payload: Option<Result<String, serde_json::Error>>,
    probe: Option<Box<dyn FnMut(EffectCall) -> Looking<'a, T> + Send + 'a>>,
    undo: Option<(String, Result<String, serde_json::Error>)>,
    phase: Phase,
}

impl<T> fmt::Debug for Effect<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Effect({:?})", self.announce.key)
    }
}

impl<'a, T: Serialize + DeserializeOwned> Effect<'a, T> {
    pub(super) fn new(run: &'a RunContext, key: &str) -> Self {
        let command = vec![COMMAND_WORD.to_owned(), run.agent().to_owned()];
        let announce = AnnounceEffect { key: key.to_owned(), command, ..AnnounceEffect::default() };
        let phase = run.phase();
        Self { run, announce, payload: None, probe: None, undo: None, phase }
    }

    /// In doubt, a person decides, and the job is set aside until then. This is the default where something is mutated.
    pub fn ask(self) -> Self {
        self.recover_by(EffectRecovery::Ask)
    }

    /// In doubt, it is performed again: doing it twice does no harm. This is the default of a [`Effect::read_only`] one.
    pub fn retry(self) -> Self {
        self.recover_by(EffectRecovery::Retry)
    }

    /// In doubt, it is performed again with the same [`EffectCall::idempotency_key`], which its provider performs once.
    pub fn idempotent(self) -> Self {
        self.recover_by(EffectRecovery::Idempotent)
    }

    /// In doubt, `look` finds out whether it happened. An error, or 30 s without an answer, are [`Probe::Inconclusive`].
    pub fn probe<E, Fut>(mut self, mut look: impl FnMut(EffectCall) -> Fut + Send + 'a) -> Self
    where
        E: Into<HandlerError>,
        Fut: Future<Output = Result<Probe<T>, E>> + Send + 'a,
    {
        self.probe = Some(Box::new(move |call| {
            let looking = look(call);
            Box::pin(async move { looking.await.map_err(Into::into) })
        }));
        COMMAND_WORD.clone_into(&mut self.announce.probe);
        Self { announce: AnnounceEffect { recovery: EffectRecovery::Probe.into(), ..self.announce }, ..self }
    }

    /// Nothing in the world is changed: it is performed again in doubt, and a failure did not happen.
    pub fn read_only(mut self) -> Self {
        self.announce.read_only = true;
        self
    }

    /// What an error means for the world, where it does not say so itself ([`HandlerError::with_disposition`]). By default
    /// nobody knows; of a [`Effect::read_only`] one, that nothing happened.
    pub fn on_failure(mut self, disposition: Disposition) -> Self {
        self.announce.on_failure = write_disposition(disposition).into();
        self
    }

    /// What it uses, for limits of rates; by default its key up to the first `/`.
    pub fn tool(mut self, tool: impl Into<String>) -> Self {
        self.announce.tool = tool.into();
        self
    }

    /// The least that must be left of the worker's lease when it begins; by default 2 s, or a quarter of the term's life where
    /// that is less. Where less is left, the next renewal is waited for.
    pub fn min_lease(mut self, least: Duration) -> Self {
        self.announce.min_lease = Some(write_duration(least));
        self
    }

    /// What it is performed with, for whoever has to decide about it; at most 64 KiB as JSON. Where the key was announced with
    /// another payload, what is recorded answers all the same, with a warning in the log; see [`Effect::bind`].
    pub fn payload(mut self, payload: &impl Serialize) -> Self {
        self.payload = Some(serde_json::to_string(payload));
        self
    }

    /// Another payload under the same key is refused (`EFFECT_MISMATCH`) in place of being answered from the record.
    pub fn bind(mut self) -> Self {
        self.announce.bind = true;
        self
    }

    /// Where the job is cancelled, or fails and its agent says so, it is undone by the compensation of this name
    /// ([`HandlerWorker::compensation`](super::HandlerWorker::compensation)) with these arguments, which are recorded with the
    /// announcement. In doubt, its undoing is performed again where the effect is ([`Effect::retry`], [`Effect::idempotent`]), and
    /// otherwise a person's to decide.
    pub fn undo(mut self, name: &str, arguments: &impl Serialize) -> Self {
        self.announce.compensation = EffectCompensation::Undo.into();
        self.undo = Some((name.to_owned(), serde_json::to_string(arguments)));
        self
    }

    /// It cannot be undone, and unwinding stops here.
    pub fn pivot(mut self) -> Self {
        self.announce.compensation = EffectCompensation::Pivot.into();
        self
    }

    /// It need not be undone.
    pub fn no_undo(mut self) -> Self {
        self.announce.compensation = EffectCompensation::Unnecessary.into();
        self
    }

    /// It undoes another one, whatever its run does otherwise.
    pub(super) fn compensating(self) -> Self {
        Self { phase: Phase::Compensating, ..self }
    }

    pub(super) fn key(&self) -> &str {
        &self.announce.key
    }

    /// True where it is declared how it is undone, or that nothing has to be.
    pub(super) fn is_reversible(&self) -> bool {
        match self.announce.compensation() {
            EffectCompensation::Undo | EffectCompensation::Unnecessary => true,
            EffectCompensation::Unspecified | EffectCompensation::Pivot => self.announce.read_only,
        }
    }

    pub(super) fn recover_by(mut self, recovery: EffectRecovery) -> Self {
        self.announce.recovery = recovery.into();
        self
    }

    /// Announces the effect, has `work` perform it, and records what came of it; returns once that is durable. What an earlier
    /// run did is read back, and `work` is not called. Where it fails and did not happen, or its recovery says that doing it
    /// again does no harm, `work` is called up to three times in all, with pauses.
    ///
    /// Where the future that this returns is dropped while `work` is under way, because the run ends or a timeout around it
    /// elapsed, the effect is in doubt, and its recovery says what becomes of it in the next run. This run is refused the key
    /// from then on (`EFFECT_IN_DOUBT`), unless nothing is changed: what `work` began may still be under way.
    ///
    /// # Errors
    /// An [`EffectError`]: it failed, which is final where it took effect. A refusal ([`HandlerError::refusal`]): it is in
    /// doubt and a person decides, the run was asked to end, the deadline is reached, too little is left of the lease, or
    /// another worker holds the job.
    pub async fn perform<E, Fut>(self, mut work: impl FnMut(EffectCall) -> Fut) -> Result<T, HandlerError>
    where
        E: Into<HandlerError>,
        Fut: Future<Output = Result<T, E>>,
    {
        let key = self.announce.key.clone();
        let undo_by = compose_undo(self.run, &key, self.undo)?;
        let announce = AnnounceEffect { undo_by, ..compose_announcement(self.announce, self.payload)? };
        let (standing, effects) = match self.run.world() {
            World::Live { standing, effects, .. } => (Arc::clone(standing), effects),
            World::Replayed(replay) => return read_replayed(replay, announce).await,
        };
        let mut call = FunctionCall::open(effects, self.phase);
        let mut probe = self.probe;
        call.say(Said::Announce(announce)).await?;
        loop {
            match call.hear().await? {
                Told::Perform(now) => {
                    let performed = EffectCall { attempt: now.attempt, idempotency_key: now.idempotency_key };
                    let ended = match standing.ensure_acting() {
                        Ok(()) => tell_end(work(performed).await.map_err(Into::into)),
                        Err(refusal) => tell_unstarted(&refusal),
                    };
                    call.say(Said::Ended(ended)).await?;
                }
                Told::Probe(now) => {
                    let looked = EffectCall { attempt: now.attempt, idempotency_key: now.idempotency_key };
                    let looking = probe.as_mut().map(|probe| probe(looked));
                    call.say(Said::Probed(tell_found(looking).await)).await?;
                }
                Told::Done(done) if done.erased => {
                    return Err(HandlerError::from(EffectError::ValueErased { key }).into_final());
                }
                Told::Done(done) => return read_value(&key, &done.output),
                Told::Failed(failed) => return Err(explain_failure(key, failed)),
            }
        }
    }
}

/// The performing end of a call. Dropping it breaks the call off.
struct FunctionCall {
    say: mpsc::Sender<Said>,
    answers: Answers,
}

impl FunctionCall {
    fn open(effects: &Arc<RunEffects>, phase: Phase) -> Self {
        let (say, answers) = effects.take_function_call(phase);
        Self { say, answers }
    }

    async fn say(&self, word: Said) -> Result<(), HandlerError> {
        // An error says that the call is over: what is heard next says why.
        let _ = self.say.send(word).await;
        Ok(())
    }

    async fn hear(&mut self) -> Result<Told, HandlerError> {
        let over = || Refusal::new(Reason::RunOver, "the run is over");
        match self.answers.recv().await {
            Some(Ok(told)) => {
                if !told.warning.is_empty() {
                    warn!("{}", told.warning);
                }
                told.message.ok_or_else(|| over().into())
            }
            Some(Err(status)) => Err(match status_to_refusal(&status) {
                Some(refusal) => refusal.into(),
                None => HandlerError::new(status.message()),
            }),
            None => Err(over().into()),
        }
    }
}

fn compose_announcement(
    mut announce: AnnounceEffect,
    payload: Option<Result<String, serde_json::Error>>,
) -> Result<AnnounceEffect, HandlerError> {
    if let Some(payload) = payload {
        let json = payload.map_err(|source| {
            let key = announce.key.clone();
            HandlerError::from(EffectError::PayloadUnwritable { key, source }).into_final()
        })?;
        announce.command.push(json);
    }
    Ok(announce)
}

/// What cannot be called later is not promised now.
fn compose_undo(
    run: &RunContext,
    key: &str,
    undo: Option<(String, Result<String, serde_json::Error>)>,
) -> Result<Option<CompensationCall>, HandlerError> {
    let Some((name, arguments)) = undo else { return Ok(None) };
    let key = key.to_owned();
    if !run.compensations().has(&name) {
        return Err(HandlerError::from(EffectError::CompensationUnknown { key, name }).into_final());
    }
    let arguments = arguments
        .map_err(|source| HandlerError::from(EffectError::PayloadUnwritable { key, source }).into_final())?;
    Ok(Some(CompensationCall { name, arguments }))
}

/// A value that cannot be recorded whole is no value: the effect took effect, and its answer is unusable.
fn tell_end<T: Serialize>(performed: Result<T, HandlerError>) -> EffectCommandEnded {
    let value = match performed {
        Ok(value) => value,
        Err(error) => return tell_error(error.disposition(), &error.to_string()),
    };
    match serde_json::to_vec(&value) {
        Ok(json) if json.len() <= EFFECT_OUTPUT_MAX_BYTES => {
            EffectCommandEnded { exit_code: Some(0), output: json.into(), ..EffectCommandEnded::default() }
        }
        Ok(json) => {
            let words = format!(
                "what it returned has {} bytes as JSON, and {EFFECT_OUTPUT_MAX_BYTES} are taken",
                json.len()
            );
            tell_error(Some(Disposition::Landed), &words)
        }
        Err(error) => {
            let words = format!("what it returned cannot be written as JSON: {error}");
            tell_error(Some(Disposition::Landed), &words)
        }
    }
}

fn tell_error(disposition: Option<Disposition>, words: &str) -> EffectCommandEnded {
    let disposition = disposition.map_or(0, |known| write_disposition(known).into());
    EffectCommandEnded { error: end_of(words), disposition, ..EffectCommandEnded::default() }
}

fn tell_unstarted(refusal: &Refusal) -> EffectCommandEnded {
    EffectCommandEnded { error: end_of(&refusal.message), not_started: true, ..EffectCommandEnded::default() }
}

/// As much of an error as is recorded, from its end.
fn end_of(words: &str) -> Bytes {
    let mut from = words.len().saturating_sub(EFFECT_ERROR_MAX_BYTES);
    while !words.is_char_boundary(from) {
        from += 1;
    }
    Bytes::copy_from_slice(&words.as_bytes()[from..])
}

async fn tell_found<T: Serialize>(looking: Option<Looking<'_, T>>) -> EffectProbeEnded {
    let found = match looking {
        Some(looking) => timeout(EFFECT_PROBE_TIMEOUT, looking).await,
        None => return tell_verdict(Disposition::InDoubt, Bytes::new()),
    };
    match found {
        Ok(Ok(Probe::Landed(value))) => match serde_json::to_vec(&value) {
            Ok(json) if json.len() <= EFFECT_OUTPUT_MAX_BYTES => {
                tell_verdict(Disposition::Landed, json.into())
            }
            Ok(_) | Err(_) => tell_verdict(Disposition::InDoubt, Bytes::new()),
        },
        Ok(Ok(Probe::DidNotHappen)) => tell_verdict(Disposition::DidNotHappen, Bytes::new()),
        Ok(Ok(Probe::Inconclusive)) => tell_verdict(Disposition::InDoubt, Bytes::new()),
        Ok(Err(error)) => {
            warn!(%error, "a probe failed, and says nothing");
            tell_verdict(Disposition::InDoubt, Bytes::new())
        }
        Err(_) => {
            warn!(limit_s = EFFECT_PROBE_TIMEOUT.as_secs(), "a probe takes too long, and says nothing");
            tell_verdict(Disposition::InDoubt, Bytes::new())
        }
    }
}

fn tell_verdict(verdict: Disposition, value: Bytes) -> EffectProbeEnded {
    EffectProbeEnded { verdict: write_disposition(verdict).into(), value, ..EffectProbeEnded::default() }
}

/// An empty value is `null`: a person who says that it took effect need not say what it returned.
fn read_value<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, HandlerError> {
    let json = if value.is_empty() { b"null" } else { value };
    serde_json::from_slice(json).map_err(|source| {
        HandlerError::from(EffectError::ValueUnreadable { key: key.to_owned(), source }).into_final()
    })
}

/// What the journal has of the effect, in the words in which a living run would be told.
async fn read_replayed<T: DeserializeOwned>(
    replay: &Replay,
    announce: AnnounceEffect,
) -> Result<T, HandlerError> {
    let AnnounceEffect { key: given, command, .. } = announce;
    let key: EffectKey = given.parse().map_err(|invalid| HandlerError::from(invalid).into_final())?;
    match replay.ask(Asked::Effect(key, command)).await {
        Recorded::Returned(json) => read_value(&given, &json),
        Recorded::Erased => Err(HandlerError::from(EffectError::ValueErased { key: given }).into_final()),
        Recorded::Failed { attempt, disposition, error } => {
            let (disposition, error) = (write_disposition(disposition).into(), error.into_bytes().into());
            let failed =
                EffectHasFailed { attempt, disposition, error, read_back: true, ..Default::default() };
            Err(explain_failure(given, failed))
        }
        // An effect is not what is reversed; what reverses it is another.
        Recorded::Reversed | Recorded::Over => std::future::pending().await,
    }
}

/// One that took effect is never performed again, so no other run would do better.
fn explain_failure(key: String, failed: EffectHasFailed) -> HandlerError {
    let known = read_disposition("disposition", failed.disposition).ok().flatten();
    let disposition = known.unwrap_or(Disposition::InDoubt);
    let error = HandlerError::from(EffectError::Failed {
        key,
        attempt: failed.attempt,
        disposition,
        error: String::from_utf8_lossy(&failed.error).into_owned(),
        read_back: failed.read_back,
    });
    let error = error.with_disposition(disposition);
    if disposition == Disposition::Landed { error.into_final() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_recorded_whole_took_effect_and_is_no_success() {
        let large = tell_end(Ok("x".repeat(EFFECT_OUTPUT_MAX_BYTES)));
        assert_eq!(large.disposition(), tenure_proto::v1::EffectDisposition::Landed);
        assert_eq!((large.exit_code, large.output.len()), (None, 0));
        let small = tell_end(Ok(7));
        assert_eq!((small.exit_code, &*small.output), (Some(0), &b"7"[..]));
    }

    #[test]
    fn of_a_long_error_the_end_is_told_from_a_letter_on() {
        let words = "ü".repeat(EFFECT_ERROR_MAX_BYTES);
        let told = end_of(&format!("{words}x"));
        assert_eq!(told.len(), EFFECT_ERROR_MAX_BYTES - 1);
        assert!(std::str::from_utf8(&told).is_ok());
    }

    #[tokio::test]
    async fn an_effect_without_a_probe_finds_nothing_out() {
        let told = tell_found::<u32>(None).await;
        assert_eq!(told.verdict(), tenure_proto::v1::EffectDisposition::InDoubt);
    }
}
