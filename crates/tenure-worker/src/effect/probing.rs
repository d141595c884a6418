//! Looking up in the world what became of an attempt. The verdict is recorded before it is used, and one that lets the
//! effect be performed again is recorded together with the next announcement: a probe's word is worth nothing once another
//! run may have acted.

use bytes::Bytes;
use tenure_core::{
    effect::{Announcement, Disposition, EffectRecovery, Outcome, decide_announcement},
    limits::EFFECT_OUTPUT_MAX_BYTES,
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        effect::{read_disposition, write_disposition},
        require,
    },
    v1::{
        NewEffectReconciled, ProbeNow, new_record::Kind, perform_effect_request::Message as Said,
        perform_effect_response::Message as Told,
    },
};

use super::{
    answer::Answer,
    caller::{Stop, out_of_turn},
    lookup::RecordedAttempt,
    performance::{Next, Performance},
    permission::{Permission, ensure_beginning},
    recording::{EndedCommand, cut_output},
};

/// What a probe found.
struct Verdict {
    disposition: Disposition,
    value: Bytes,
}

impl Verdict {
    /// What it says about the undoing of the effect that was looked up: an effect that stands was not undone.
    fn of_undoing(self) -> Self {
        let disposition = match self.disposition {
            Disposition::Landed => Disposition::DidNotHappen,
            Disposition::DidNotHappen => Disposition::Landed,
            Disposition::InDoubt => Disposition::InDoubt,
        };
        Self { disposition, value: Bytes::new() }
    }
}

impl Performance<'_> {
    /// Settles an attempt that this call did not perform.
    pub(super) async fn probe_recorded(&mut self, recorded: &RecordedAttempt) -> Result<Answer, Stop> {
        if self.plan.declared.recovery != EffectRecovery::Probe {
            let why = "it was announced with a probe, and this call brings none";
            return Err(self.doubt_refusal(recorded, why).into());
        }
        let attempt = recorded.last.attempt;
        let verdict = self.run_probe(attempt).await?;
        match verdict.disposition {
            Disposition::Landed => self.record_landed(attempt, verdict).await,
            Disposition::InDoubt => {
                // A probe that was asked to end with its run has found out nothing, not even that.
                ensure_beginning(&self.effects.standing)?;
                self.record(vec![reconcile(self, attempt, Disposition::InDoubt, None)]).await?;
                Err(self.doubt_refusal(recorded, "its probe could not find out; a person decides").into())
            }
            Disposition::DidNotHappen => {
                let verdict = reconcile(self, attempt, Disposition::DidNotHappen, None);
                match self.announce(attempt + 1, Some(verdict)).await? {
                    Permission::Given => self.execute(attempt + 1, self.plan.declared.recovery).await,
                    Permission::Refused(refusal) => {
                        if recorded.last.outcome == Outcome::Open {
                            self.record_unperformed(attempt, &refusal.message).await?;
                        }
                        Err(refusal.into())
                    }
                    Permission::Lapsed(refusal) => Err(refusal.into()),
                }
            }
        }
    }

    /// Settles what an earlier run left in doubt, for a run that undoes: whatever is found, nothing is performed.
    pub(super) async fn settle(&mut self) -> Result<Answer, Stop> {
        let Some(recorded) = self.read_recorded().await? else {
            let said = format!("the effect {} was never announced", self.plan.key);
            return Err(Refusal::new(Reason::EffectNotFound, said).with_detail("key", &self.plan.key).into());
        };
        let attempt = recorded.last.attempt;
        match decide_announcement(Some(&recorded.last)) {
            Announcement::Probe { .. } => self.probe_to_settle(&recorded).await,
            Announcement::Done => Ok(Answer::done_before(recorded)),
            Announcement::FailedForGood => Ok(Answer::failed_for_good(recorded)),
            Announcement::Announce { .. } => Ok(did_not_happen(attempt).as_read_back()),
            Announcement::PerformAgain { .. } | Announcement::Undecided => {
                Err(self.doubt_refusal(&recorded, "a person decides").into())
            }
        }
    }

    async fn probe_to_settle(&mut self, recorded: &RecordedAttempt) -> Result<Answer, Stop> {
        let attempt = recorded.last.attempt;
        let verdict = self.run_probe(attempt).await?;
        match verdict.disposition {
            Disposition::Landed => self.record_landed(attempt, verdict).await,
            Disposition::InDoubt => {
                // A probe that was asked to end with its run has found out nothing, not even that.
                ensure_beginning(&self.effects.standing)?;
                self.record(vec![reconcile(self, attempt, Disposition::InDoubt, None)]).await?;
                Err(self.doubt_refusal(recorded, "its probe could not find out; a person decides").into())
            }
            // A verdict that lets it be performed again is taken only together with the next announcement, and there is none: that
            // nothing happened is its outcome, where it has none yet.
            Disposition::DidNotHappen if recorded.last.outcome == Outcome::Open => {
                self.record_unperformed(attempt, "its probe found that it did not happen").await?;
                Ok(did_not_happen(attempt))
            }
            Disposition::DidNotHappen => {
                let why =
                    "its probe says that it did not happen, after its failure was recorded; a person decides";
                Err(self.doubt_refusal(recorded, why).into())
            }
        }
    }

    /// Settles an attempt whose command failed in this call.
    pub(super) async fn probe_failed(&mut self, attempt: u32, ended: &EndedCommand) -> Result<Next, Stop> {
        let verdict = self.run_probe(attempt).await?;
        match verdict.disposition {
            Disposition::Landed => Ok(Next::Answer(self.record_landed(attempt, verdict).await?)),
            Disposition::InDoubt => {
                if let Err(refusal) = ensure_beginning(&self.effects.standing) {
                    self.caller.warn(format!("what its probe said is not recorded: {}", refusal.message));
                    return Ok(Next::Answer(ended.to_answer(attempt, Disposition::InDoubt)));
                }
                self.record(vec![reconcile(self, attempt, Disposition::InDoubt, None)]).await?;
                Ok(Next::Answer(ended.to_answer(attempt, Disposition::InDoubt)))
            }
            Disposition::DidNotHappen => self.announce_after_probe(attempt, ended).await,
        }
    }

    async fn announce_after_probe(&mut self, attempt: u32, ended: &EndedCommand) -> Result<Next, Stop> {
        if !self.may_execute() {
            let answer = self.record_failed(attempt, Disposition::DidNotHappen, ended).await?;
            return Ok(Next::Answer(answer));
        }
        self.pause(attempt).await?;
        let verdict = reconcile(self, attempt, Disposition::DidNotHappen, None);
        let (refusal, answer) = match self.announce(attempt + 1, Some(verdict)).await? {
            Permission::Given => return Ok(Next::Execute(attempt + 1)),
            Permission::Lapsed(refusal) => (refusal, ended.to_answer(attempt, Disposition::DidNotHappen)),
            Permission::Refused(refusal) => {
                (refusal, self.record_failed(attempt, Disposition::DidNotHappen, ended).await?)
            }
        };
        self.caller.warn(format!("it is not tried again: {}", refusal.message));
        Ok(Next::Answer(answer))
    }

    async fn run_probe(&mut self, attempt: u32) -> Result<Verdict, Stop> {
        // The probe of an undoing is that of the effect, and asks for what its provider knows.
        let probed_key = self.plan.key.undone_key().unwrap_or_else(|| self.plan.key.clone());
        let job = self.effects.standing.grant.run.job;
        let idempotency_key = self.expect_command(probed_key.idempotency_key(job));
        let traceparent = self.traceparent(attempt);
        self.caller.tell(Told::Probe(ProbeNow { attempt, idempotency_key, traceparent })).await?;
        let Said::Probed(probed) = self.caller.hear().await? else { return Err(out_of_turn().into()) };
        let disposition = require("verdict", read_disposition("verdict", probed.verdict).map_err(refuse)?);
        let disposition = disposition.map_err(refuse)?;
        if disposition == Disposition::Landed {
            self.forget_command();
        } else {
            self.end_remains().await;
        }
        // The caller does not say whether it cut it.
        let was_cut = probed.value.len() >= EFFECT_OUTPUT_MAX_BYTES;
        let redactor = &self.effects.standing.redactor;
        let (value, _) = cut_output(redactor, &probed.value, was_cut, EFFECT_OUTPUT_MAX_BYTES);
        let found = Verdict { disposition, value };
        Ok(if self.plan.key.is_undo() { found.of_undoing() } else { found })
    }

    async fn record_landed(&mut self, attempt: u32, verdict: Verdict) -> Result<Answer, Stop> {
        let value = verdict.value;
        self.record(vec![reconcile(self, attempt, Disposition::Landed, Some(value.clone()))]).await?;
        Ok(Answer::done(attempt, value, false))
    }
}

/// Nothing is left of it that could be undone.
fn did_not_happen(attempt: u32) -> Answer {
    Answer::failed(attempt, Disposition::DidNotHappen, None, Bytes::new())
}

fn refuse(error: tenure_proto::convert::InvalidField) -> Stop {
    Stop::Refused(error.into())
}

/// The record of a verdict.
pub(super) fn reconcile(
    of: &Performance<'_>,
    attempt: u32,
    verdict: Disposition,
    value: Option<Bytes>,
) -> Kind {
    Kind::EffectReconciled(NewEffectReconciled {
        key: of.plan.key.to_string(),
        attempt,
        verdict: write_disposition(verdict).into(),
        value,
    })
}
