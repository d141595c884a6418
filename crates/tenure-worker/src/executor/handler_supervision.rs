//! A handler that was called, and everything that may end it from outside: a cancel, a lost run, the local deadline, a drain,
//! its own timeout. Each asks it to end through its token and gives it time; then its future is dropped, which it notices at
//! its next suspension. One that never suspends is waited for all the same: only then is it known to have stopped. From the
//! drop on no renewal counts for it any more, so that the guardian ends the process at the deadline that it knows. The first
//! thing that asks is remembered; later ones may only hurry.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tenure_core::record::Phase;
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
    handler::{Ending, EndingAsk, Handler, HandlerError, RunContext, ToldError, bound_words, undo_all},
    held_runs::Orders,
    local_deadline::reach,
};

/// A handler that was called. Dropping it drops the handler's future.
#[derive(Debug)]
pub(super) struct RunningHandler {
    task: AbortOnDropHandle<Result<Bytes, ToldError>>,
}

impl RunningHandler {
    /// Calls it, in a task of its own: its panic is its own, and so is that of its error. Where the run is to undo, what undoes
    /// its effects is called in its place.
    pub(super) fn start(handler: &Arc<Handler>, context: RunContext, input: Bytes, phase: Phase) -> Self {
        let handler = Arc::clone(handler);
        let called = async move {
            let returned = match phase {
                Phase::Forward => handler.call(context, input).await,
                Phase::Compensating => undo_all(context, handler).await,
            };
            returned.map_err(HandlerError::tell)
        };
        Self { task: AbortOnDropHandle::new(tokio::spawn(called.instrument(Span::current()))) }
    }
}

/// What came of a handler.
#[derive(Debug)]
pub(super) enum HandlerOutcome {
    /// It returned.
    Returned(Result<Bytes, ToldError>),
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
    let margin = execution.term.margin();
    let mut watch = Watch::new(ending, margin / 2);
    let time_out_at = Instant::now() + timeout;
    let mut orders = execution.orders.clone();
    let mut deadline = execution.term.watch_deadline();
    let mut drain = execution.context.drain.watch_phase();
    let mut told = None;
    // What stood before this began is looked at first.
    orders.mark_changed();
    loop {
        let present = *deadline.borrow_and_update();
        let allowed = watch.bound_deadline(present);
        if told.replace(allowed) != Some(allowed) {
            deadline_moved(allowed);
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
                watch.end_by(present);
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
    /// The drain's patience is over.
    is_hastened: bool,
    /// What a handler has at least between its drop and the end of the process.
    drop_grace: Duration,
    /// Where it has not stopped by then, the process ends, whatever is renewed.
    end_by: Option<BootInstant>,
}

impl<'a> Watch<'a> {
    fn new(ending: &'a EndingAsk, drop_grace: Duration) -> Self {
        Self {
            ending,
            asked: None,
            timed_out: None,
            drop_at: None,
            is_dropped: false,
            is_hastened: false,
            drop_grace,
            end_by: None,
        }
    }

    /// The deadline that the guardian is told.
    fn bound_deadline(&self, present: BootInstant) -> BootInstant {
        self.end_by.map_or(present, |end_by| end_by.min(present))
    }

    /// Set again, the earlier instant holds.
    fn end_by(&mut self, at: BootInstant) {
        self.end_by = Some(self.end_by.map_or(at, |known| known.min(at)));
    }

    fn obey(&mut self, standing: &Orders, stop_grace: Duration) {
        if standing.fenced.is_some() {
            info!("the run is no longer this worker's: its handler is dropped at once");
            self.asked = Some(Asked::Fenced);
            self.ask(Ending::Fenced, Duration::ZERO);
            // Another may be acting by now: the deadline that is known may be far away.
            self.end_by(BootInstant::now().plus(self.drop_grace));
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
            // Once: what is ready again and again leaves no turn to the clock that the drop waits for.
            DrainPhase::Hastened => !self.is_hastened,
        }
    }

    fn drain(&mut self, phase: DrainPhase, stop_grace: Duration) {
        self.asked = self.asked.or(Some(Asked::Drain));
        match phase {
            DrainPhase::Hastened => {
                self.is_hastened = true;
                self.ask(Ending::Draining, Duration::ZERO);
            }
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

    fn conclude(self, ended: Result<Result<Bytes, ToldError>, JoinError>) -> SupervisedHandler {
        let outcome = match ended {
            Ok(returned) => HandlerOutcome::Returned(returned),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => HandlerOutcome::Panicked(take_panic(panic)),
                Err(_) => HandlerOutcome::Dropped,
            },
        };
        SupervisedHandler { outcome, asked: self.asked, timed_out: self.timed_out }
    }
}

fn take_panic(panic: Box<dyn Any + Send>) -> String {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).map(bound_words);
    // What a panic carries is anybody's, and so is what dropping it does.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    words.unwrap_or_else(|| "no words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_runs::FencedBy;

    const GRACE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanoseconds(seconds * 1_000_000_000)
    }

    #[test]
    fn no_renewal_counts_for_a_handler_that_was_dropped() {
        let ending = EndingAsk::default();
        let mut watch = Watch::new(&ending, GRACE);
        assert_eq!(watch.bound_deadline(at(30)), at(30));
        watch.end_by(at(30));
        assert_eq!(watch.bound_deadline(at(40)), at(30));
        watch.end_by(at(50));
        assert_eq!(watch.bound_deadline(at(60)), at(30), "an end that was set is not put off");
    }

    #[test]
    fn a_fenced_handler_has_its_grace_and_not_what_is_left_of_the_lease() {
        let ending = EndingAsk::default();
        let mut watch = Watch::new(&ending, GRACE);
        let fenced = Orders { fenced: Some(FencedBy { held_by: None, epoch: None }), ..Orders::default() };
        watch.obey(&fenced, Duration::from_secs(600));
        assert!(watch.bound_deadline(BootInstant::NEVER) <= BootInstant::now().plus(GRACE));
        assert_eq!((watch.asked, ending.because()), (Some(Asked::Fenced), Some(Ending::Fenced)));
    }

    #[test]
    fn a_panic_whose_payload_panics_when_it_is_dropped_is_heard_all_the_same() {
        struct Trap;
        impl Drop for Trap {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        assert_eq!(take_panic(Box::new(Trap)), "no words");
        assert_eq!(take_panic(Box::new("index 3")), "index 3");
    }
}
