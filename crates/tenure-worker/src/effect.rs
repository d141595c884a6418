//! The effects of one run: what a program inside it wants performed, each under a key that is unique in its job. It
//! promises that a command is run only while the last record of its key is its announcement, that its outcome is kept until
//! it is durable, and that what was done is read back instead. The caller performs; this says when, and records.
//!
//! ```text
//!   program or handler ──announce──▶ plan ──▶ registry ──▶ performance: look up, decide, announce ──▶ perform, record
//!        ▲                                  │ a second caller waits           │
//!        └──────── perform, probe, done, failed, refused ◀─────────────┘ caller gone: remains are ended, then in doubt
//! ```
//!
//! It decides no doubt that its declaration leaves to a person. Undoing an effect is an effect under a key of its own, in a run
//! that does nothing else; it is settled as the effect that it undoes is, and its probe is the same, read the other way round.
//! Neighbours: `run_socket` hands the calls in, `outbox` carries the records, `executor` waits for what was said before it
//! reports the end of the run.

mod answer;
mod backoff;
mod caller;
mod lookup;
mod performance;
mod permission;
mod plan;
mod probing;
mod recording;
mod registry;
mod remains;
mod span;
mod undoing;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use serde::Deserialize;
use tenure_core::{id::Run, limits, reason::Reason, record::Phase, refusal::Refusal};
use tenure_proto::v1::{
    PerformEffectRequest, PerformEffectResponse, perform_effect_request::Message as Said,
};
use tokio::{
    net::unix::UCred,
    sync::{Semaphore, mpsc, watch},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tonic::{Status, Streaming};
use tracing::{Instrument as _, Span, warn};

use self::{
    answer::Answer,
    caller::{Caller, Stop, Words, out_of_turn},
    performance::Performance,
    plan::EffectPlan,
    registry::{CallEnd, Performer, Registry, Role},
    undoing::UndoFailures,
};
use crate::{
    journal::UnaskedKeys,
    metrics::{EffectOutcome, metrics},
    run_calls::RunCalls,
    run_socket::RunStanding,
};

pub(crate) use permission::ensure_beginning;
pub(crate) use undoing::FailedUndo;

/// Words to a caller that it has not heard yet; it is told one at a time.
const UNHEARD_MAX: usize = 2;

/// What a caller is answered, one word at a time.
pub(crate) type Answers = mpsc::Receiver<Result<PerformEffectResponse, Status>>;

/// The effects of one run.
#[derive(Debug)]
pub(crate) struct RunEffects {
    standing: Arc<RunStanding>,
    registry: Arc<Registry>,
    calls: RunCalls,
    /// The run's own, which its commands bear in their environment.
    socket: PathBuf,
    /// How long a command's output is waited for once the command is gone.
    stop_grace: Duration,
    /// One for each call that may still add to the outbox.
    saying: TaskTracker,
    in_flight: Arc<Semaphore>,
    undo_failures: UndoFailures,
}

impl RunEffects {
    /// None is performed yet.
    pub(crate) fn new(standing: Arc<RunStanding>, socket: PathBuf, stop_grace: Duration) -> Arc<Self> {
        let earlier = read_earlier_keys(&standing.grant.handover);
        let registry = Arc::new(Registry::new(standing.grant.run.run == Run(1), earlier));
        Arc::new(Self {
            standing,
            registry,
            calls: RunCalls::default(),
            socket,
            stop_grace,
            saying: TaskTracker::new(),
            in_flight: Arc::new(Semaphore::new(limits::EFFECTS_IN_FLIGHT_MAX)),
            undo_failures: UndoFailures::default(),
        })
    }

    /// Attends to one call of a program until it is answered, also after its caller has left: what was said is recorded.
    pub(crate) fn take_call(
        self: &Arc<Self>,
        requests: Streaming<PerformEffectRequest>,
        peer: Option<UCred>,
    ) -> Answers {
        self.take_words(Words::Program(Box::new(requests)), peer, self.standing.grant.phase)
    }

    /// The same for a function of this program, which says what it has to say over the sender, and is gone once that is
    /// dropped.
    /// It works in the run's direction, or undoes what it did itself.
    pub(crate) fn take_function_call(self: &Arc<Self>, phase: Phase) -> (mpsc::Sender<Said>, Answers) {
        let (say, words) = mpsc::channel(UNHEARD_MAX);
        (say, self.take_words(Words::Function(words), None, phase))
    }

    fn take_words(self: &Arc<Self>, words: Words, peer: Option<UCred>, phase: Phase) -> Answers {
        let (answers, answered) = mpsc::channel(UNHEARD_MAX);
        let caller = Caller::new(words, answers, self.standing.over.clone());
        let saying = self.saying.token();
        tokio::spawn(Arc::clone(self).attend(caller, peer, saying, phase).instrument(Span::current()));
        answered
    }

    /// Once the run is over: waits until everything that its callers had said stands in the outbox. Who keeps a connection
    /// open from outside the run is not waited for.
    pub(crate) async fn wait_until_said(&self) {
        self.saying.close();
        if timeout(limits::OUTPUT_SETTLE_TIMEOUT, self.saying.wait()).await.is_err() {
            warn!("a call about an effect outlives its run");
        }
    }

    /// The keys of earlier runs that this one never asked for.
    pub(crate) fn list_unasked(&self) -> UnaskedKeys {
        self.registry.list_unasked()
    }

    async fn attend(
        self: Arc<Self>,
        mut caller: Caller,
        peer: Option<UCred>,
        saying: TaskTrackerToken,
        phase: Phase,
    ) {
        let outcome = self.answer_call(&mut caller, peer, saying, phase).await;
        metrics().note_effect_call(match &outcome {
            Ok(answer) => answer.outcome(),
            Err(Stop::Refused(_)) => EffectOutcome::Refused,
            Err(Stop::CallerLeft) => EffectOutcome::CallerLeft,
        });
        match outcome {
            Ok(answer) => {
                // Whoever left asks again, and reads it back.
                let _ = caller.tell(answer.write()).await;
            }
            Err(Stop::Refused(refusal)) => caller.refuse(&refusal).await,
            Err(Stop::CallerLeft) => {}
        }
    }

    async fn answer_call(
        &self,
        caller: &mut Caller,
        peer: Option<UCred>,
        saying: TaskTrackerToken,
        phase: Phase,
    ) -> Result<Answer, Stop> {
        let Said::Announce(announced) = caller.hear_first().await? else { return Err(out_of_turn().into()) };
        let standing = &self.standing;
        let plan = EffectPlan::read(&announced, &standing.redactor, standing.term.ttl(), phase)?;
        loop {
            self.standing.ensure_speaking()?;
            self.standing.touch();
            match self.registry.enter(&plan.key) {
                Role::Performer(performer) => {
                    return self.perform(&plan, caller, performer, peer, saying).await;
                }
                Role::Waiter(told) => {
                    if let Some(answer) = wait_for_other(&plan, caller, told).await? {
                        return Ok(answer);
                    }
                }
                Role::Left(attempt) => return Err(self.left_refusal(&plan, attempt).into()),
            }
        }
    }

    async fn perform(
        &self,
        plan: &EffectPlan,
        caller: &mut Caller,
        performer: Performer,
        peer: Option<UCred>,
        saying: TaskTrackerToken,
    ) -> Result<Answer, Stop> {
        // Whoever waits for the fleet is not silent, and the output of a command does not pass the worker.
        let _active = self.standing.hold_activity();
        // Never closed: an error would mean that there is nothing to bound.
        let _turn = caller.wait_for(Arc::clone(&self.in_flight).acquire_owned()).await?.ok();
        let mut performance = Performance::new(self, plan, caller, peer, saying);
        let outcome = performance.perform(performer.may_be_recorded).await;
        performance.record_span(&outcome);
        let unheard = performance.unheard();
        if let Some(remains) = performance.leave() {
            // An error is the end of the runtime, and of everything that it guards.
            let _ = spawn_blocking(move || remains.end()).await;
        }
        if plan.settles {
            self.undo_failures.note_unsettled(&plan.key, &outcome);
        } else if plan.key.is_undo() {
            self.undo_failures.note(&plan.key, &outcome);
        }
        match (&outcome, unheard) {
            (Ok(answer), _) => performer.answer(answer.clone(), plan.digest),
            (Err(_), Some(attempt)) => performer.leave(attempt),
            (Err(_), None) => {}
        }
        outcome
    }

    /// A function cannot be ended as a process can: what it began may still be under way, beside a probe or a repetition.
    fn left_refusal(&self, plan: &EffectPlan, attempt: u32) -> Refusal {
        let (key, run) = (&plan.key, &self.standing.grant.run);
        let said = format!(
            "the effect {key} is in doubt: a call of this run left while attempt {attempt} was performed, which may still be \
             under way; it is settled once the run is over"
        );
        Refusal::new(Reason::EffectInDoubt, said)
            .with_detail("key", key)
            .with_detail("attempt", attempt)
            .with_detail("run", run.run)
            .with_next(format!("tenure job {}", run.job.short()))
    }
}

/// What came of the call that performs. None: nothing, and this one may try.
async fn wait_for_other(
    plan: &EffectPlan,
    caller: &mut Caller,
    mut told: watch::Receiver<Option<CallEnd>>,
) -> Result<Option<Answer>, Stop> {
    let end =
        caller.wait_for(async { told.wait_for(Option::is_some).await.ok().and_then(|end| end.clone()) });
    match end.await? {
        Some(CallEnd::Answered(answer, digest)) => {
            if digest != plan.digest {
                warn_of_other_command(plan, caller)?;
            }
            Ok(Some(answer.as_read_back()))
        }
        Some(CallEnd::Unanswered) | None => Ok(None),
    }
}

/// Agents vary their arguments; whoever bound the key to its command does not want that.
fn warn_of_other_command(plan: &EffectPlan, caller: &mut Caller) -> Result<(), Refusal> {
    let said = format!("the effect {} was announced with another command", plan.key);
    if plan.bind {
        return Err(Refusal::new(Reason::EffectMismatch, said).with_detail("key", &plan.key));
    }
    caller.warn(format!("{said}; the record decides"));
    Ok(())
}

/// The keys in a handover. One that cannot be read names none: it is for the child, and the child has it as it is.
fn read_earlier_keys(handover: &[u8]) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Handover {
        #[serde(default)]
        effects: Vec<EarlierEffect>,
    }
    #[derive(Deserialize)]
    struct EarlierEffect {
        key: String,
    }
    let read: Result<Handover, _> = serde_json::from_slice(handover);
    read.map(|handover| handover.effects.into_iter().map(|effect| effect.key).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_earlier_runs_are_read_from_the_handover() {
        let handover = br#"{"effects":[{"key":"b","run":1},{"key":"a","attempt":2}],"notes":[]}"#;
        assert_eq!(read_earlier_keys(handover), ["a".to_owned(), "b".to_owned()].into());
        assert!(read_earlier_keys(b"{}").is_empty());
    }
}
