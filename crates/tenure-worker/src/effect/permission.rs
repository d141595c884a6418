//! Permission to act: the acknowledgement of an announcement, while enough is left of the lease, and while no cancel stands.
//! There is no other. What is announced and then not performed is recorded as not having happened, at once.

use std::time::Duration;

use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_proto::v1::new_record::Kind;
use tracing::info;

use super::{caller::Stop, performance::Performance};
use crate::{
    guardian::BootInstant,
    held_runs::{FencedBy, StandingNotice},
    journal::{Report, ReportAnswer},
    local_deadline::reach,
    run_socket::RunStanding,
};

/// Whether an announced attempt may be performed.
pub(super) enum Permission {
    /// Now.
    Given,
    /// No, and nothing was written.
    Refused(Refusal),
    /// Not any more; the announcement stands, and that it did not happen stands beside it.
    Lapsed(Refusal),
}

impl Performance<'_> {
    /// Announces an attempt, together with the verdict that lets it be performed, where there is one.
    pub(super) async fn announce(&mut self, attempt: u32, verdict: Option<Kind>) -> Result<Permission, Stop> {
        match self.ensure_permitted().await {
            Ok(()) => {}
            Err(Stop::Refused(refusal)) => return Ok(Permission::Refused(refusal)),
            Err(Stop::CallerLeft) => return Err(Stop::CallerLeft),
        }
        let standing = &self.effects.standing;
        let seen = standing.notice().map_or(0, |notice| notice.seq.0);
        let announcement = Kind::EffectStarted(self.plan.compose_announcement(attempt, seen));
        let records = verdict.into_iter().chain([announcement]).collect();
        let mut answer = standing.context.outbox.add_report(&standing.grant.run, Report::Effect(records));
        match self.caller.wait_for(&mut answer).await {
            Ok(answer) => self.read_permission(attempt, answer.ok()).await,
            Err(stop) => {
                // Nobody performs it, whatever the answer will be; said before the end of the run can be.
                let unperformed = self.record_unperformed(attempt, "its caller left before it was permitted");
                let _ = unperformed.await;
                Err(stop)
            }
        }
    }

    /// Waits until the lease outlives the start of an act by enough; refuses where it cannot, or where a cancel stands.
    pub(super) async fn ensure_permitted(&mut self) -> Result<(), Stop> {
        let (standing, min_lease) = (&self.effects.standing, self.plan.min_lease);
        self.caller.wait_for(wait_for_lease(standing, min_lease)).await??;
        Ok(ensure_beginning(standing)?)
    }

    async fn read_permission(
        &mut self,
        attempt: u32,
        answer: Option<ReportAnswer>,
    ) -> Result<Permission, Stop> {
        let standing = &self.effects.standing;
        match answer {
            Some(ReportAnswer::Applied(_)) => self.use_permission(attempt).await,
            Some(ReportAnswer::Notice { seq, kind }) => {
                let notice = StandingNotice { seq, kind };
                let refusal = cancel_refusal(standing, &notice);
                standing.context.held.give_notice(&standing.grant.run, notice);
                Ok(Permission::Refused(refusal))
            }
            // One that was durable before the fence is no permission: another may have acted since. That nobody here did
            // is worth knowing to whoever decides.
            Some(ReportAnswer::Fenced { held_by, epoch, applied }) => {
                if applied.is_some() {
                    self.note_unperformed(attempt, "it was fenced before it was permitted");
                }
                let by = FencedBy { held_by, epoch: Some(epoch) };
                Ok(Permission::Refused(standing.fenced_refusal(&by)))
            }
            other => match standing.read_durable(other) {
                Ok(_) => self.use_permission(attempt).await,
                Err(refusal) => Ok(Permission::Refused(refusal)),
            },
        }
    }

    /// The answer may have been long on its way.
    async fn use_permission(&mut self, attempt: u32) -> Result<Permission, Stop> {
        let standing = &self.effects.standing;
        let refusal = if BootInstant::now() >= standing.term.latest_start() {
            Some(lease_refusal(self.plan.min_lease, Duration::ZERO))
        } else {
            ensure_beginning(standing).err()
        };
        let Some(refusal) = refusal else { return Ok(Permission::Given) };
        info!(key = %self.plan.key, attempt, why = %refusal, "permission to act came too late");
        self.record_unperformed(attempt, &refusal.message).await?;
        Ok(Permission::Lapsed(refusal))
    }
}

/// Waits for one renewal where too little is left. Refuses where the lease runs out first, is always too short, or is too
/// short even then: renewals of a slow fleet may leave too little every time.
async fn wait_for_lease(standing: &RunStanding, min_lease: Duration) -> Result<(), Refusal> {
    let term = &standing.term;
    // What is left when a renewal has just been sent.
    let most = term.ttl().saturating_sub(term.margin() * 2);
    let mut deadline = term.watch_deadline();
    let mut was_renewed = false;
    loop {
        let latest_start = deadline.borrow_and_update().minus(term.margin());
        let left = latest_start.since(BootInstant::now());
        if left >= min_lease && !left.is_zero() {
            return Ok(());
        }
        if min_lease > most || left.is_zero() || was_renewed {
            return Err(lease_refusal(min_lease, left));
        }
        tokio::select! {
            Ok(()) = deadline.changed() => was_renewed = true,
            () = reach(latest_start) => {}
        }
    }
}

/// Refuses where nothing more may be begun: the run is over or fenced, a cancel stands, or its end was asked for otherwise.
pub(crate) fn ensure_beginning(standing: &RunStanding) -> Result<(), Refusal> {
    standing.ensure_speaking()?;
    match standing.notice() {
        Some(notice) => Err(cancel_refusal(standing, &notice)),
        None => standing.ensure_beginning(),
    }
}

fn cancel_refusal(standing: &RunStanding, notice: &StandingNotice) -> Refusal {
    let job = standing.grant.run.job;
    let said = format!(
        "a `{}` stands at record {} of job {}: nothing more is begun",
        notice.kind,
        notice.seq,
        job.short()
    );
    Refusal::new(Reason::CancelRequested, said)
        .with_detail("job", job)
        .with_detail("seq", notice.seq)
        .with_next(format!("tenure job {}", job.short()))
}

fn lease_refusal(wanted: Duration, left: Duration) -> Refusal {
    let said = format!(
        "{} ms are left of the worker's lease, and the effect needs {} ms: it could not be renewed in time",
        left.as_millis(),
        wanted.as_millis()
    );
    Refusal::new(Reason::LeaseTooShort, said)
        .with_detail("left_ms", left.as_millis())
        .with_detail("wanted_ms", wanted.as_millis())
}
