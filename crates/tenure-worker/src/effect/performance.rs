//! One effect, from what is recorded about it to an outcome that is: looked up, decided, announced, performed, and again
//! where its declaration says so. The order of things is what makes it safe, and stands here; each thing has a file.

use tenure_core::{
    effect::{Announcement, Disposition, EffectRecovery, decide_announcement},
    limits::EFFECT_EXECUTIONS_MAX,
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::time::write_duration,
    v1::{
        PerformNow, new_record::Kind, perform_effect_request::Message as Said,
        perform_effect_response::Message as Told,
    },
};
use tokio::{net::unix::UCred, task::spawn_blocking, time::sleep};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{
    RunEffects,
    answer::Answer,
    backoff::pause_after,
    caller::{Caller, Stop, out_of_turn},
    lookup::{RecordedAttempt, read_last},
    permission::Permission,
    plan::EffectPlan,
    probing::reconcile,
    recording::EndedCommand,
    remains::CommandRemains,
    span::EffectSpan,
    warn_of_other_command,
};

/// One call that performs.
pub(super) struct Performance<'a> {
    pub(super) effects: &'a RunEffects,
    pub(super) plan: &'a EffectPlan,
    pub(super) caller: &'a mut Caller,
    /// Until it is dropped, the end of the run waits for what this says.
    pub(super) saying: Option<TaskTrackerToken>,
    peer: Option<UCred>,
    /// How often the command was run by this call.
    pub(super) executions: u32,
    /// True where the attempt was performed before, and nobody knows what came of that.
    is_doubtful: bool,
    /// Of a command or probe that may be alive.
    remains: Option<CommandRemains>,
    /// The attempt that a function was told to perform and has not said the end of.
    unheard: Option<u32>,
    /// Set once a command or probe was to be run.
    pub(super) span: Option<EffectSpan>,
}

/// What follows a failure.
pub(super) enum Next {
    /// The command is run, as this attempt.
    Execute(u32),
    /// Nothing.
    Answer(Answer),
}

impl<'a> Performance<'a> {
    pub(super) fn new(
        effects: &'a RunEffects,
        plan: &'a EffectPlan,
        caller: &'a mut Caller,
        peer: Option<UCred>,
        saying: TaskTrackerToken,
    ) -> Self {
        Self {
            effects,
            plan,
            caller,
            saying: Some(saying),
            peer,
            executions: 0,
            is_doubtful: false,
            remains: None,
            unheard: None,
            span: None,
        }
    }

    /// Performs, or says why not.
    pub(super) async fn perform(&mut self, may_be_recorded: bool) -> Result<Answer, Stop> {
        if self.plan.settles {
            return self.settle().await;
        }
        let recorded = if may_be_recorded { self.look_up().await? } else { None };
        let announcement = decide_announcement(recorded.as_ref().map(|recorded| &recorded.last));
        if let (Announcement::PerformAgain { .. } | Announcement::Probe { .. }, Some(other)) =
            (announcement, &recorded)
            && other.last.request != self.plan.digest
        {
            return self.replace_other(other).await;
        }
        match (announcement, recorded) {
            (Announcement::Announce { attempt }, _) => self.perform_first(attempt, None).await,
            (Announcement::PerformAgain { attempt }, Some(recorded)) => {
                self.ensure_permitted().await?;
                self.is_doubtful = true;
                self.execute(attempt, recorded.last.recovery).await
            }
            (Announcement::Probe { .. }, Some(recorded)) => self.probe_recorded(&recorded).await,
            (Announcement::Done, Some(recorded)) => Ok(Answer::done_before(recorded)),
            (Announcement::FailedForGood, Some(recorded)) => Ok(Answer::failed_for_good(recorded)),
            (Announcement::Undecided, Some(recorded)) => {
                Err(self.doubt_refusal(&recorded, "a person decides").into())
            }
            // Each of these is about something that is recorded.
            (_, None) => Err(Refusal::new(Reason::Internal, "an effect without a record was decided").into()),
        }
    }

    /// The attempt that may still be under way in this process, with nobody left to say how it ends. What changes nothing does
    /// no harm beside its repetition.
    pub(super) fn unheard(&self) -> Option<u32> {
        self.unheard.filter(|_| self.plan.declared.mutates)
    }

    /// Nothing more is said. Returns what may be left of a command whose end was not heard.
    pub(super) fn leave(self) -> Option<CommandRemains> {
        self.remains
    }

    pub(super) async fn read_recorded(&mut self) -> Result<Option<RecordedAttempt>, Stop> {
        let looked_up = read_last(&self.effects.calls, &self.effects.standing, &self.plan.key);
        Ok(self.caller.wait_for(looked_up).await??)
    }

    async fn look_up(&mut self) -> Result<Option<RecordedAttempt>, Stop> {
        let recorded = self.read_recorded().await?;
        if recorded.as_ref().is_some_and(|recorded| recorded.last.request != self.plan.digest) {
            warn_of_other_command(self.plan, self.caller)?;
        }
        Ok(recorded)
    }

    /// Another command was announced, and there is no record that could answer for it. This one under that announcement would
    /// make its record a lie, and its probe would look for the wrong thing: it is refused. Where nothing is mutated it is safe to say that what was announced did not happen.
    async fn replace_other(&mut self, other: &RecordedAttempt) -> Result<Answer, Stop> {
        let (key, attempt) = (&self.plan.key, other.last.attempt);
        if other.last.mutates {
            let said = format!(
                "the effect {key} was announced with another command in attempt {attempt}, which has no outcome: there is no \
                 record to answer from, and this command cannot settle it"
            );
            let job = self.effects.standing.grant.run.job.short();
            return Err(Refusal::new(Reason::EffectMismatch, said)
                .with_detail("key", key)
                .with_detail("attempt", attempt)
                .with_next(format!("tenure undecided {job}"))
                .into());
        }
        let verdict = reconcile(self, attempt, Disposition::DidNotHappen, None);
        self.perform_first(attempt + 1, Some(verdict)).await
    }

    async fn perform_first(&mut self, attempt: u32, verdict: Option<Kind>) -> Result<Answer, Stop> {
        match self.announce(attempt, verdict).await? {
            Permission::Given => self.execute(attempt, self.plan.declared.recovery).await,
            Permission::Refused(refusal) | Permission::Lapsed(refusal) => Err(refusal.into()),
        }
    }

    /// Runs the command as an attempt that is announced, and does about a failure what its recovery says.
    pub(super) async fn execute(
        &mut self,
        mut attempt: u32,
        mut recovery: EffectRecovery,
    ) -> Result<Answer, Stop> {
        loop {
            let ended = self.run_command(attempt).await?;
            let next = match (self.judge(&ended), recovery) {
                (None, _) => return self.record_done(attempt, ended).await,
                (Some(Disposition::DidNotHappen), _) => self.announce_again(attempt, &ended).await?,
                (Some(Disposition::InDoubt), EffectRecovery::Retry | EffectRecovery::Idempotent) => {
                    self.perform_again(attempt, &ended).await?
                }
                (Some(Disposition::InDoubt), EffectRecovery::Probe) => {
                    self.probe_failed(attempt, &ended).await?
                }
                (Some(known @ Disposition::Landed), _)
                | (Some(known @ Disposition::InDoubt), EffectRecovery::Ask) => {
                    return self.record_failed(attempt, known, &ended).await;
                }
            };
            match next {
                Next::Answer(answer) => return Ok(answer),
                Next::Execute(next) => {
                    self.is_doubtful = next == attempt;
                    if next != attempt {
                        recovery = self.plan.declared.recovery;
                    }
                    attempt = next;
                }
            }
        }
    }

    /// What became of the world, where it failed. That a command changed nothing now says nothing of what it did before,
    /// under the same announcement.
    fn judge(&self, ended: &EndedCommand) -> Option<Disposition> {
        match ended.judge(self.plan.on_failure) {
            Some(Disposition::DidNotHappen) if self.is_doubtful => Some(Disposition::InDoubt),
            judged => judged,
        }
    }

    async fn run_command(&mut self, attempt: u32) -> Result<EndedCommand, Stop> {
        let job = self.effects.standing.grant.run.job;
        let idempotency_key = self.expect_command(self.plan.key.idempotency_key(job));
        let stop_grace = Some(write_duration(self.effects.stop_grace));
        let traceparent = self.traceparent(attempt);
        let now = PerformNow { attempt, idempotency_key, stop_grace, traceparent };
        self.caller.tell(Told::Perform(now)).await?;
        self.unheard = Some(attempt).filter(|_| !self.caller.performs_processes());
        loop {
            match self.caller.hear().await? {
                Said::Started(started) => {
                    if let Some(remains) = &mut self.remains {
                        remains.set_group(started.process_group);
                    }
                }
                Said::Ended(ended) => {
                    self.executions += 1;
                    self.unheard = None;
                    let ended = EndedCommand::read(ended, &self.effects.standing.redactor);
                    if ended.succeeded() {
                        self.remains = None;
                    } else {
                        self.end_remains().await;
                    }
                    return Ok(ended);
                }
                Said::Announce(_) | Said::Probed(_) => return Err(out_of_turn().into()),
            }
        }
    }

    /// From now on a command may be alive that bears this key.
    pub(super) fn expect_command(&mut self, idempotency_key: String) -> String {
        if self.caller.performs_processes() {
            self.remains = Some(CommandRemains::new(self.peer, &self.effects.socket, &idempotency_key));
        }
        idempotency_key
    }

    /// It did what it was to do, and what it left behind is meant to be there.
    pub(super) fn forget_command(&mut self) {
        self.remains = None;
    }

    /// It failed: what it left behind is ended before anything is looked up, performed again, or said about the world. This
    /// is waited for also where the run is over, because how it ended is known and has to be recorded.
    pub(super) async fn end_remains(&mut self) {
        if let Some(remains) = self.remains.take() {
            // An error is the end of the runtime, and of everything that it guards.
            let _ = spawn_blocking(move || remains.end()).await;
        }
    }

    /// It did not happen, and may be announced as the next attempt.
    async fn announce_again(&mut self, attempt: u32, ended: &EndedCommand) -> Result<Next, Stop> {
        let answer = self.record_failed(attempt, Disposition::DidNotHappen, ended).await?;
        if !self.may_execute() {
            return Ok(Next::Answer(answer));
        }
        self.pause(attempt).await?;
        match self.announce(attempt + 1, None).await? {
            Permission::Given => Ok(Next::Execute(attempt + 1)),
            Permission::Refused(refusal) | Permission::Lapsed(refusal) => {
                self.caller.warn(format!("it is not tried again: {}", refusal.message));
                Ok(Next::Answer(answer))
            }
        }
    }

    /// Nobody knows whether it happened, and it does no harm to perform it twice: its announcement stays open.
    async fn perform_again(&mut self, attempt: u32, ended: &EndedCommand) -> Result<Next, Stop> {
        let answer = ended.to_answer(attempt, Disposition::InDoubt);
        if !self.may_execute() {
            return Ok(Next::Answer(answer));
        }
        self.pause(attempt).await?;
        match self.ensure_permitted().await {
            Ok(()) => Ok(Next::Execute(attempt)),
            Err(Stop::Refused(refusal)) => {
                self.caller.warn(format!("it is not tried again: {}", refusal.message));
                Ok(Next::Answer(answer))
            }
            Err(Stop::CallerLeft) => Err(Stop::CallerLeft),
        }
    }

    /// Whether this call may run the command once more.
    pub(super) fn may_execute(&self) -> bool {
        self.executions < EFFECT_EXECUTIONS_MAX
    }

    /// Waits before the command is run once more.
    pub(super) async fn pause(&mut self, attempt: u32) -> Result<(), Stop> {
        let job = self.effects.standing.grant.run.job;
        let pause = pause_after(self.executions, job, &self.plan.key, attempt);
        self.caller.wait_for(sleep(pause)).await
    }

    /// It is in doubt, and nothing here can settle it.
    pub(super) fn doubt_refusal(&self, recorded: &RecordedAttempt, why: &str) -> Refusal {
        let (key, last) = (&self.plan.key, &recorded.last);
        let job = self.effects.standing.grant.run.job.short();
        let said = format!(
            "the effect {key} is in doubt: run {} announced attempt {} at {}, and nobody knows whether it happened; {why}",
            last.run, last.attempt, last.since
        );
        Refusal::new(Reason::EffectInDoubt, said)
            .with_detail("key", key)
            .with_detail("attempt", last.attempt)
            .with_detail("run", last.run)
            .with_detail("since", last.since)
            .with_next(format!("tenure undecided {job}"))
    }
}
