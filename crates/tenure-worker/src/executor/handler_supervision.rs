//! A handler that was called, and everything that may end it from outside: a cancel, a lost run, the local deadline, a drain,
//! its own timeout. Each asks it to end through its token and gives it time; then its future is dropped, which it notices at
//! its next suspension. One that never suspends is waited for all the same: only then is it known to have stopped. The first
//! thing that asks is remembered; later ones may only hurry.

use std::{any::Any, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    task::JoinError,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span, info, warn};

use super::{
    Execution,
    supervision::{Asked, drain_due},
};
use crate::{
    drain::DrainPhase,
    guardian::BootInstant,
    handler::{Ending, EndingAsk, Handler, HandlerError, RunContext},
    held_runs::Orders,
    local_deadline::reach,
};

/// A handler that was called. Dropping it drops the handler's future.
#[derive(Debug)]
pub(super) struct RunningHandler {
    task: AbortOnDropHandle<Result<Bytes, HandlerError>>,
}

impl RunningHandler {
    /// Calls it, in a task of its own: its panic is its own.
    pub(super) fn start(handler: &Arc<Handler>, context: RunContext, input: Bytes) -> Self {
        let handler = Arc::clone(handler);
        let called = async move { handler.call(context, input).await };
        Self { task: AbortOnDropHandle::new(tokio::spawn(called.instrument(Span::current()))) }
    }
}

/// What came of a handler.
#[derive(Debug)]
pub(super) enum HandlerOutcome {
    /// It returned.
    Returned(Result<Bytes, HandlerError>),
    /// It panicked with these words.
    Panicked(String),
    /// Its future was dropped.
    Dropped,
}

/// A handler that was watched to its end.
#[derive(Debug)]
pub(super) struct SupervisedHandler {
    pub(super) outcome: HandlerOutcome,
    pub(super) asked: Option<Asked>,
    /// Its own limit, where that was what ended it.
    pub(super) timed_out: Option<Duration>,
}

/// How long a handler may take, and how long it may take once it is asked to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandlerLimits {
    pub(super) timeout: Duration,
    pub(super) stop_grace: Duration,
}

/// Watches a handler until it has stopped. `deadline_moved` is told every new local deadline.
pub(super) async fn supervise_handler(
    execution: &Execution,
    mut running: RunningHandler,
    ending: &EndingAsk,
    limits: HandlerLimits,
    deadline_moved: impl Fn(BootInstant),
) -> SupervisedHandler {
    let HandlerLimits { timeout, stop_grace } = limits;
    let mut watch = Watch { ending, asked: None, timed_out: None, drop_at: None, is_dropped: false };
    let margin = execution.term.margin();
    let time_out_at = Instant::now() + timeout;
    let mut orders = execution.orders.clone();
    let mut deadline = execution.term.watch_deadline();
    let mut drain = execution.context.drain.watch_phase();
    let mut told = None;
    // What stood before this began is looked at first.
    orders.mark_changed();
    loop {
        let present = *deadline.borrow_and_update();
        if told.replace(present) != Some(present) {
            deadline_moved(present);
        }
        let ask_at = present.minus(margin);
        let phase = *drain.borrow_and_update();
        let drop_at = watch.drop_at.unwrap_or_else(Instant::now);
        tokio::select! {
            ended = &mut running.task => return watch.conclude(ended),
            Ok(()) = orders.changed() => {
                let standing = orders.borrow_and_update().clone();
                watch.obey(&standing, stop_grace);
            }
            Ok(()) = deadline.changed() => {}
            () = reach(ask_at), if watch.asked != Some(Asked::LocalDeadline) => watch.ask_at_deadline(margin),
            () = drain_due(phase, stop_grace), if watch.may_drain(phase) => watch.drain(phase, stop_grace),
            Ok(()) = drain.changed() => {}
            () = sleep_until(time_out_at), if watch.timed_out.is_none() && watch.asked.is_none() => {
                watch.time_out(timeout, stop_grace);
            }
            () = sleep_until(drop_at), if watch.drop_at.is_some() && !watch.is_dropped => {
                warn!("the handler did not return in time: it is dropped");
                watch.is_dropped = true;
                running.task.abort();
            }
        }
    }
}

struct Watch<'a> {
    ending: &'a EndingAsk,
    asked: Option<Asked>,
    timed_out: Option<Duration>,
    /// When its future is dropped.
    drop_at: Option<Instant>,
    is_dropped: bool,
}

impl Watch<'_> {
    fn obey(&mut self, standing: &Orders, stop_grace: Duration) {
        if standing.fenced.is_some() {
            info!("the run is no longer this worker's: its handler is dropped at once");
            self.asked = Some(Asked::Fenced);
            self.ask(Ending::Fenced, Duration::ZERO);
        } else if let Some(notice) = &standing.notice {
            info!(seq = notice.seq.0, kind = %notice.kind, "a notice stands: the handler is asked to end");
            self.asked = self.asked.or(Some(Asked::Notice));
            self.ask(Ending::Cancelled, stop_grace);
        }
    }

    /// One margin before the local deadline, so that the future of a handler that suspends is gone half a margin before it.
    /// Once asked, a handler is not worth waiting for, so a renewal that still succeeds does not take it back.
    fn ask_at_deadline(&mut self, margin: Duration) {
        info!("the term was not renewed in time: the handler is ended");
        self.asked = Some(Asked::LocalDeadline);
        self.ask(Ending::LeaseLost, margin / 2);
    }

    fn may_drain(&self, phase: DrainPhase) -> bool {
        match phase {
            DrainPhase::Serving => false,
            DrainPhase::Draining { .. } => self.asked.is_none(),
            DrainPhase::Hastened => !self.is_dropped,
        }
    }

    fn drain(&mut self, phase: DrainPhase, stop_grace: Duration) {
        self.asked = self.asked.or(Some(Asked::Drain));
        match phase {
            DrainPhase::Hastened => self.ask(Ending::Draining, Duration::ZERO),
            DrainPhase::Serving | DrainPhase::Draining { .. } => {
                info!("the worker leaves: the handler is asked to end");
                self.ask(Ending::Draining, stop_grace);
            }
        }
    }

    fn time_out(&mut self, limit: Duration, stop_grace: Duration) {
        info!(limit_s = limit.as_secs(), "the handler ran past its own limit");
        self.timed_out = Some(limit);
        self.ask(Ending::TimedOut, stop_grace);
    }

    /// Asked again, the shorter grace holds.
    fn ask(&mut self, because: Ending, grace: Duration) {
        self.ending.ask(because);
        let asked = Instant::now() + grace;
        self.drop_at = Some(self.drop_at.map_or(asked, |known| known.min(asked)));
    }

    fn conclude(self, ended: Result<Result<Bytes, HandlerError>, JoinError>) -> SupervisedHandler {
        let outcome = match ended {
            Ok(returned) => HandlerOutcome::Returned(returned),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => HandlerOutcome::Panicked(read_panic(&*panic)),
                Err(_) => HandlerOutcome::Dropped,
            },
        };
        SupervisedHandler { outcome, asked: self.asked, timed_out: self.timed_out }
    }
}

fn read_panic(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned())
}
