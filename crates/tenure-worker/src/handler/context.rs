//! What a handler holds of its run: who it is, what came before, how long it may go on, and what it can say. Cloning it is
//! cheap, and every clone speaks for the same run. Once the run is over, everything is refused.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use tenure_core::{
    admission::Spend,
    handover::{Cause, EarlierEffect, EarlierGift, EarlierNote},
    id::{Epoch, JobId, Run},
    reason::Reason,
    record::Phase,
    refusal::Refusal,
    replay::{Asked, Told},
};
use tokio_util::sync::CancellationToken;

use super::{
    Compensations, EarlierRuns, Effect, Ending, EndingAsk, Gift, GivenJob, Group, Handler, HandlerError,
    Replay, Steps,
    step::{final_error, read_output, write_output},
};
use crate::{
    effect::RunEffects,
    grant::RunGrant,
    guardian::BootInstant,
    run_socket::{RunStanding, RunVoice},
};

/// One run of a job, as its handler sees it.
#[derive(Clone)]
pub struct RunContext {
    inner: Arc<Inner>,
}

struct Inner {
    grant: Arc<RunGrant>,
    world: World,
    earlier: EarlierRuns,
    ending: EndingAsk,
    handler: Arc<Handler>,
}

/// What answers a handler.
pub(super) enum World {
    /// The run that it carries out.
    Live { standing: Arc<RunStanding>, voice: Arc<RunVoice>, effects: Arc<RunEffects>, steps: Box<Steps> },
    /// A journal.
    Replayed(Arc<Replay>),
}

impl RunContext {
    pub(crate) fn new(
        standing: Arc<RunStanding>,
        voice: Arc<RunVoice>,
        effects: Arc<RunEffects>,
        earlier: EarlierRuns,
        ending: EndingAsk,
        handler: Arc<Handler>,
    ) -> Self {
        let steps = Box::new(Steps::new(Arc::clone(&standing)));
        let grant = Arc::clone(&standing.grant);
        let world = World::Live { standing, voice, effects, steps };
        Self { inner: Arc::new(Inner { grant, world, earlier, ending, handler }) }
    }

    /// One that is answered from a journal.
    pub(super) fn replayed(
        grant: Arc<RunGrant>,
        replay: Arc<Replay>,
        earlier: EarlierRuns,
        ending: EndingAsk,
        handler: Arc<Handler>,
    ) -> Self {
        let world = World::Replayed(replay);
        Self { inner: Arc::new(Inner { grant, world, earlier, ending, handler }) }
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.inner.grant.run.job
    }

    /// The number of this run, from 1. A job has as many runs as it needed.
    #[must_use]
    pub fn run(&self) -> Run {
        self.inner.grant.run.run
    }

    /// The number of the right to work on the job. It rises with every run and never falls, so that an outside system can
    /// refuse whoever comes with a lower one than it has seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.inner.grant.run.epoch
    }

    /// Which attempt this is, from 1: a run that follows on a failed one is the next, and one that was moved by the fleet is
    /// the same.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.inner.grant.attempt
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.inner.grant.agent
    }

    /// W3C trace context of this run, to be passed on to whatever it calls. None: its job is in no trace.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        self.inner.grant.run_trace().map(|trace| trace.to_string())
    }

    /// Why this run is starting.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.inner.earlier.cause
    }

    /// What earlier runs noted, oldest first. Never a promise of completeness: a run that was interrupted stops in
    /// mid-sentence.
    #[must_use]
    pub fn earlier_notes(&self) -> &[EarlierNote] {
        &self.inner.earlier.notes
    }

    /// How many older notes were left out of [`RunContext::earlier_notes`], because there were too many bytes of them.
    #[must_use]
    pub fn earlier_notes_left_out(&self) -> usize {
        self.inner.earlier.notes_left_out
    }

    /// The effects that earlier runs announced, with their outputs shortened. Asking for one under its key reads the whole
    /// back.
    #[must_use]
    pub fn earlier_effects(&self) -> &[EarlierEffect] {
        &self.inner.earlier.effects
    }

    /// How many were left out of [`RunContext::earlier_effects`], because there were too many bytes of them.
    #[must_use]
    pub fn earlier_effects_left_out(&self) -> usize {
        self.inner.earlier.effects_left_out
    }

    /// Work that earlier runs gave to agents, oldest first.
    #[must_use]
    pub fn earlier_gifts(&self) -> &[EarlierGift] {
        &self.inner.earlier.gifts
    }

    /// How many older ones were left out of [`RunContext::earlier_gifts`], because there were too many.
    #[must_use]
    pub fn earlier_gifts_left_out(&self) -> usize {
        self.inner.earlier.gifts_left_out
    }

    /// The handover in words, for a prompt; empty at a first run.
    #[must_use]
    pub fn brief(&self) -> &str {
        &self.inner.grant.brief
    }

    /// The session's deadline by the database's clock; none: there is no ceiling. Past it, as far as this worker knows what time
    /// it is there, the next step or effect is refused.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.inner.grant.deadline_at
    }

    /// What is left of the deadline, whatever this host's clock says; zero once it is reached; none: there is no ceiling.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let now = self.inner.grant.database_time(BootInstant::now());
        self.deadline().map(|deadline| tenure_core::deadline::between(now, deadline))
    }

    /// Cancelled once the run is asked to end, for whatever reason: [`RunContext::ending`] says which. A handler that waits for
    /// something should wait for this beside it. One that does not return within the agent's `stop-grace` is dropped at its
    /// next suspension; where the lease is lost it has half of the worker's margin, and one that does not suspend then is
    /// ended with the whole process. From here on nothing more is announced; notes and the outcomes of effects are still taken.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.ending.token.clone()
    }

    /// Why the run was asked to end; none: it was not.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.inner.ending.because()
    }

    /// Leaves a line of progress for whoever comes after this run. When it returns, the note is durable.
    ///
    /// # Errors
    /// The note is blank or has more than 16 KiB, or the run may say nothing any more: [`HandlerError::refusal`] says which.
    pub async fn note(&self, text: impl AsRef<str>) -> Result<(), HandlerError> {
        if let World::Live { voice, .. } = &self.inner.world {
            voice.write_note(text.as_ref()).await?;
        }
        Ok(())
    }

    /// Says what was spent. When it returns, that is durable, and counts against the session's budget: once that is spent, the next effect
    /// and the next run are refused.
    ///
    /// ```
    /// # use tenure_worker::handler::{HandlerError, Micros, RunContext, Spend};
    /// # async fn ask(run: &RunContext) -> Result<(), HandlerError> {
    /// run.spend(Spend { tokens: 1_200, cost: Micros(35_000), turns: 1 }).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// It is nothing, or more than one spend may be, or the run may say nothing any more: [`HandlerError::refusal`] says which.
    pub async fn spend(&self, spend: Spend) -> Result<(), HandlerError> {
        if let World::Live { voice, .. } = &self.inner.world {
            voice.record_spend(spend).await?;
        }
        Ok(())
    }

    /// Leaves a line that the agent is to remember, beyond its session: later runs of all its jobs are shown the latest. When it
    /// returns, it is durable; what a job remembers twice is kept once.
    ///
    /// # Errors
    /// The line is blank or has more than 4 KiB, or the run may say nothing any more.
    pub async fn remember(&self, text: impl AsRef<str>) -> Result<(), HandlerError> {
        if let World::Live { voice, .. } = &self.inner.world {
            voice.remember(text.as_ref()).await?;
        }
        Ok(())
    }

    /// Gives work to an agent. When this returns, the job exists, exactly once over all runs of this job: a later run that gives
    /// the same again is answered with the job of the earlier one.
    ///
    /// ```
    /// # use tenure_worker::handler::{Gift, HandlerError, RunContext};
    /// async fn plan(run: RunContext, request: String) -> Result<String, HandlerError> {
    ///     let job = run.give(Gift::send("developer", request)).await?;
    ///     Ok(job.job.to_string())
    /// }
    /// ```
    ///
    /// # Errors
    /// A refusal ([`HandlerError::refusal`]): no such agent is declared, what is given is blank or too large, no hop is left, the
    /// session is as deep as one may be, the deadline is reached, or the run may begin nothing any more.
    pub async fn give(&self, gift: Gift) -> Result<GivenJob, HandlerError> {
        match &self.inner.world {
            World::Live { voice, .. } => {
                let Gift { agent, body, way, key } = gift;
                Ok(voice.give(crate::gifts::Gift { agent, body, way, key }).await?)
            }
            World::Replayed(replay) => replay.read_gift(gift).await,
        }
    }

    /// Sends work to an agent, as [`RunContext::give`] with [`Gift::send`].
    ///
    /// # Errors
    /// As [`RunContext::give`].
    pub async fn send(
        &self,
        agent: impl Into<String>,
        body: impl Into<Bytes>,
    ) -> Result<GivenJob, HandlerError> {
        self.give(Gift::send(agent, body)).await
    }

    /// Spawns a session for an agent, as [`RunContext::give`] with [`Gift::spawn`].
    ///
    /// # Errors
    /// As [`RunContext::give`].
    pub async fn spawn(
        &self,
        agent: impl Into<String>,
        body: impl Into<Bytes>,
    ) -> Result<GivenJob, HandlerError> {
        self.give(Gift::spawn(agent, body)).await
    }

    /// Executes a step, unless an earlier run of the job has finished it: then what that returned is read back, and `work` is
    /// not called. When this returns, what the step returned is durable.
    ///
    /// The name is unique in the job: choose it so that it means the same in every run. A step that was begun and not
    /// finished, because its run ended, is executed again by the next run; what must not be done twice belongs into an effect.
    ///
    /// ```
    /// # use tenure_worker::handler::{HandlerError, RunContext};
    /// # async fn load_order(_: &str) -> Result<Vec<String>, std::io::Error> { Ok(Vec::new()) }
    /// async fn pack(run: RunContext, order: String) -> Result<usize, HandlerError> {
    ///     let lines: Vec<String> = run.step("load the order", || load_order(&order)).await?;
    ///     Ok(lines.len())
    /// }
    /// ```
    ///
    /// # Errors
    /// What `work` returns as its error: the step is not finished then, and may be asked for again. A
    /// [`StepError`](super::StepError), which is final: the name is none, or that of a step of this run which is finished or
    /// under way, what it returned is too large, or what is recorded is not of the type that is asked for.
    /// A refusal ([`HandlerError::refusal`]): the run was asked to end, the deadline is reached, or another worker holds the
    /// job.
    pub async fn step<T, E, Fut>(&self, name: &str, work: impl FnOnce() -> Fut) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        Fut: Future<Output = Result<T, E>>,
    {
        let steps = match &self.inner.world {
            World::Live { steps, .. } => steps,
            World::Replayed(replay) => return replay.read_step(name).await,
        };
        let mut taken = steps.take_name(name).map_err(final_error)?;
        if let Some(recorded) = steps.find_finished(&mut taken).await? {
            return read_output(taken.name(), &recorded);
        }
        steps.begin(taken.name()).await?;
        let output = write_output(taken.name(), &work().await.map_err(Into::into)?)?;
        steps.finish(&mut taken, output.clone()).await?;
        // As a later run will read it, so that no run sees what others do not.
        read_output(taken.name(), &output)
    }

    /// Begins to declare an effect: a change to the world under a key that is unique in the job. It is announced before it is
    /// performed and recorded after, so that a later run reads it back and does not do it twice.
    ///
    /// Choose the key so that it means the same in every run: no dates, no random numbers. What is left undeclared is the
    /// careful thing: something is changed, a failure leaves nobody knowing, and then a person decides.
    ///
    /// ```
    /// # use tenure_worker::handler::{HandlerError, RunContext};
    /// # async fn post(_: &str, _: &str) -> Result<u64, std::io::Error> { Ok(1) }
    /// async fn bill(run: RunContext, order: String) -> Result<u64, HandlerError> {
    ///     let charge = run
    ///         .effect(&format!("charge/{order}"))
    ///         .idempotent()
    ///         .payload(&order)
    ///         .perform(async |call| post("/charges", &call.idempotency_key).await)
    ///         .await?;
    ///     Ok(charge)
    /// }
    /// ```
    ///
    /// One whose provider knows no idempotency key, and that can be looked up:
    ///
    /// ```
    /// # use tenure_worker::handler::{HandlerError, Probe, RunContext};
    /// # async fn send(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn find_sent(_: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    /// async fn invite(run: RunContext, to: String) -> Result<String, HandlerError> {
    ///     let (run, to) = (&run, &to);
    ///     run.effect("mail/invitation")
    ///         .probe(move |_| async move {
    ///             let found = find_sent(to).await?;
    ///             Ok::<_, std::io::Error>(found.map_or(Probe::DidNotHappen, Probe::Landed))
    ///         })
    ///         .perform(|_| send(to))
    ///         .await
    /// }
    /// ```
    pub fn effect<T: Serialize + DeserializeOwned>(&self, key: &str) -> Effect<'_, T> {
        Effect::new(self, key)
    }

    /// Opens a group of effects that belong together: members that can be reversed are performed at once, members that cannot are
    /// put off until it is committed, and the first invariant that does not hold reverses the former and never sends the
    /// latter. A later run goes on with what was decided. The name is unique in the job.
    ///
    /// ```
    /// # use tenure_worker::handler::{HandlerError, RunContext};
    /// # async fn post(_: &str, _: &str) -> Result<u64, std::io::Error> { Ok(1) }
    /// async fn order(run: RunContext, item: String) -> Result<(), HandlerError> {
    ///     let mut group = run.group("order").await?;
    ///     let reserve = run.effect("reserve").idempotent().undo("release", &item);
    ///     let left: u64 = group.perform(reserve, async |call| post("/reserve", &call.idempotency_key).await).await?;
    ///     group.check("something is left on the shelf", left > 0).await?;
    ///     group.defer(run.effect("mail"), |call| async move { post("/mail", &call.idempotency_key).await })?;
    ///     group.commit().await
    /// }
    /// ```
    ///
    /// # Errors
    /// A [`GroupError`](super::GroupError), which is final: an earlier run reversed it, or the name is none, or that of a group which
    /// this run has opened. A refusal, as of a step.
    pub async fn group(&self, name: &str) -> Result<Group<'_>, HandlerError> {
        Group::open(self, name).await
    }

    pub(super) fn handler(&self) -> &Handler {
        &self.inner.handler
    }

    pub(super) fn compensations(&self) -> &Compensations {
        self.inner.handler.compensations()
    }

    /// The direction in which it works.
    pub(super) fn phase(&self) -> Phase {
        self.inner.grant.phase
    }

    /// What the journal that it is replayed against says; none: it is a run.
    pub(super) async fn ask_replay(&self, asked: Asked) -> Option<Told> {
        match self.world() {
            World::Live { .. } => None,
            World::Replayed(replay) => Some(replay.ask(asked).await),
        }
    }

    /// Where its effects are performed: not in a replay, which performs and undoes nothing.
    pub(super) fn effects(&self) -> Result<&Arc<RunEffects>, HandlerError> {
        match &self.inner.world {
            World::Live { effects, .. } => Ok(effects),
            World::Replayed(_) => Err(Refusal::new(Reason::RunOver, "a replay undoes nothing").into()),
        }
    }

    pub(super) fn world(&self) -> &World {
        &self.inner.world
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunContext({})", self.inner.grant.run)
    }
}
