//! What everything that a run says is measured by: whose run it is, what was ordered about it, whether it is over. It also
//! words the two refusals that every verb inside a run can meet. It takes nothing and reports nothing.
//! Neighbours: `run_socket` answers notes with it, `effect` announces with it.

use std::sync::{Arc, OnceLock};

use tenure_core::{
    deadline::{Deadline, DeadlineReached},
    id::Seq,
    reason::Reason,
    record::Phase,
    refusal::Refusal,
    wait::Wait,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    context::WorkerContext,
    grant::RunGrant,
    guardian::BootInstant,
    held_runs::{FencedBy, Orders, StandingNotice},
    journal::ReportAnswer,
    runner::{ActivityHold, ProcessHandle, Redactor},
    term::HeldTerm,
};

/// How a run stands.
#[derive(Debug)]
pub(crate) struct RunStanding {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) term: Arc<HeldTerm>,
    pub(crate) grant: Arc<RunGrant>,
    pub(crate) orders: watch::Receiver<Orders>,
    pub(crate) redactor: Redactor,
    /// Cancelled once the run is over.
    pub(crate) over: CancellationToken,
    /// The wait that ends the run.
    announced: watch::Sender<Option<Wait>>,
    /// Known a moment after the socket.
    process: OnceLock<ProcessHandle>,
    /// Of a handler alone.
    handler: Option<HandlerStanding>,
}

/// What a handler is asked before it begins something more.
#[derive(Debug)]
struct HandlerStanding {
    /// Cancelled once the handler is asked to end.
    ending: CancellationToken,
    deadline: Deadline,
}

impl RunStanding {
    /// That of a run whose child is not started yet.
    pub(crate) fn new(
        context: Arc<WorkerContext>,
        term: Arc<HeldTerm>,
        grant: Arc<RunGrant>,
        orders: watch::Receiver<Orders>,
        redactor: Redactor,
    ) -> Self {
        let (over, process) = (CancellationToken::new(), OnceLock::new());
        let announced = watch::Sender::new(None);
        Self { context, term, grant, orders, redactor, over, announced, process, handler: None }
    }

    /// The same of a run whose work is a handler, which begins nothing more once `ending` is cancelled or the session's
    /// deadline is reached. Undoing meets no deadline.
    pub(crate) fn for_handler(self, ending: CancellationToken) -> Self {
        let grant = &self.grant;
        let deadline_at = grant.deadline_at.filter(|_| grant.phase == Phase::Forward);
        let deadline = Deadline::new(grant.session_started_at.unwrap_or(grant.now), deadline_at);
        Self { handler: Some(HandlerStanding { ending, deadline }), ..self }
    }

    /// From now on what is said is a sign of life of this process.
    pub(super) fn speak_for(&self, process: ProcessHandle) {
        // Set once, by the executor that made this.
        let _ = self.process.set(process);
    }

    /// A sign of life.
    pub(crate) fn touch(&self) {
        if let Some(process) = self.process.get() {
            process.touch();
        }
    }

    /// A sign of life that lasts until it is dropped.
    pub(crate) fn hold_activity(&self) -> Option<ActivityHold> {
        self.process.get().map(ProcessHandle::hold_activity)
    }

    /// The notice that stands.
    pub(crate) fn notice(&self) -> Option<StandingNotice> {
        self.orders.borrow().notice.clone()
    }

    /// Refuses where the run may say nothing more.
    pub(crate) fn ensure_speaking(&self) -> Result<(), Refusal> {
        if let Some(by) = &self.orders.borrow().fenced {
            return Err(self.fenced_refusal(by));
        }
        if self.over.is_cancelled() {
            return Err(self.over_refusal());
        }
        Ok(())
    }

    /// Hears of the wait that ends the run.
    pub(crate) fn watch_announced(&self) -> watch::Receiver<Option<Wait>> {
        self.announced.subscribe()
    }

    /// Announces a wait: the run ends for it, and begins nothing more. The first stands.
    pub(crate) fn announce_wait(&self, wait: Wait) {
        self.announced.send_if_modified(|announced| {
            let is_first = announced.is_none();
            announced.get_or_insert(wait);
            is_first
        });
    }

    /// Refuses where nothing more may be begun: the run was asked to end, by whatever it was. What was begun may still say
    /// how it ended.
    pub(crate) fn ensure_beginning(&self) -> Result<(), Refusal> {
        self.ensure_speaking()?;
        if self.announced.borrow().is_some() {
            return Err(self.ending_refusal());
        }
        if self.process.get().is_some_and(ProcessHandle::is_asked_to_end) {
            return Err(self.ending_refusal());
        }
        match &self.handler {
            Some(handler) if handler.ending.is_cancelled() => Err(self.ending_refusal()),
            Some(handler) => {
                let admitted = handler.deadline.admit(self.grant.database_time(BootInstant::now()));
                admitted.map_err(|reached| self.deadline_refusal(reached))
            }
            None => Ok(()),
        }
    }

    /// Refuses where an act that was permitted may not begin any more: its permission may have been long on its way to whoever
    /// acts.
    pub(crate) fn ensure_acting(&self) -> Result<(), Refusal> {
        self.ensure_speaking()?;
        if BootInstant::now() < self.term.latest_start() {
            return Ok(());
        }
        let said = "the worker's lease ran out before the act began";
        Err(Refusal::new(Reason::LeaseTooShort, said).with_detail("left_ms", 0))
    }

    fn deadline_refusal(&self, reached: DeadlineReached) -> Refusal {
        Refusal::new(Reason::DeadlineReached, format!("{reached}: nothing more is begun"))
            .with_detail("elapsed_s", reached.elapsed_s)
            .with_detail("ceiling_s", reached.ceiling_s)
            .with_next(format!("tenure job {}", self.grant.run.job.short()))
    }

    /// What an answer means for a report that only has to be durable; one that was so before the fence is.
    pub(crate) fn read_durable(&self, answer: Option<ReportAnswer>) -> Result<Seq, Refusal> {
        match answer {
            Some(ReportAnswer::Applied(seq) | ReportAnswer::Fenced { applied: Some(seq), .. }) => Ok(seq),
            Some(ReportAnswer::Fenced { held_by, epoch, applied: None }) => {
                Err(self.fenced_refusal(&FencedBy { held_by, epoch: Some(epoch) }))
            }
            Some(ReportAnswer::Refused { code, message }) => {
                Err(Refusal::new(Reason::from_code(&code).unwrap_or(Reason::Internal), message))
            }
            Some(ReportAnswer::Sealed | ReportAnswer::Missing | ReportAnswer::Notice { .. }) | None => {
                Err(self.over_refusal())
            }
        }
    }

    /// Another holds the job, or nobody.
    pub(crate) fn fenced_refusal(&self, by: &FencedBy) -> Refusal {
        let run = &self.grant.run;
        let holder = match (&by.held_by, by.epoch) {
            (Some(worker), Some(epoch)) => format!("is held by worker {worker} under epoch {epoch}"),
            (None, Some(epoch)) => format!("is held by nobody under epoch {epoch}"),
            (_, None) => "is no longer held by this worker".to_owned(),
        };
        let said = format!("job {} {holder}, yours was {}", run.job.short(), run.epoch);
        let mut refusal = Refusal::new(Reason::Fenced, said)
            .with_detail("job", run.job)
            .with_detail("your_epoch", run.epoch)
            .with_next(format!("tenure job {}", run.job.short()));
        if let Some(worker) = &by.held_by {
            refusal = refusal.with_detail("held_by", worker);
        }
        if let Some(epoch) = by.epoch {
            refusal = refusal.with_detail("epoch", epoch);
        }
        refusal
    }

    /// The run was asked to end.
    fn ending_refusal(&self) -> Refusal {
        let run = &self.grant.run;
        let said =
            format!("run {} of job {} was asked to end: nothing more is begun", run.run, run.job.short());
        Refusal::new(Reason::RunOver, said)
            .with_detail("job", run.job)
            .with_next(format!("tenure job {}", run.job.short()))
    }

    /// The run is over.
    pub(crate) fn over_refusal(&self) -> Refusal {
        let run = &self.grant.run;
        let said = format!(
            "run {} of job {} is over; worker {} held it under epoch {}",
            run.run,
            run.job.short(),
            self.context.name,
            run.epoch
        );
        Refusal::new(Reason::RunOver, said)
            .with_detail("job", run.job)
            .with_detail("held_by", &self.context.name)
            .with_next(format!("tenure job {}", run.job.short()))
    }
}
