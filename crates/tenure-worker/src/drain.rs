//! How far a worker is on its way out: serving, draining, or out of patience. It only ever goes forward. Runs that end by
//! themselves within the grace keep their verdict; what each run does with its phase is the executor's business.

use tenure_core::limits;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainPhase {
    /// Runs are taken.
    Serving,
    /// No new run; those that are under way may end by themselves until this.
    Draining {
        /// When the last of them is ended.
        until: Instant,
    },
    /// What still runs is ended now.
    Hastened,
}

/// How far a worker that leaves is with its coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parting {
    /// Grants may be on their way to it.
    GrantsMayCome,
    /// None is, and none follows.
    NoGrantComes,
    /// Everything that it said was heard.
    Left,
}

/// The phase of one worker.
#[derive(Debug)]
pub(crate) struct Drain {
    phase: watch::Sender<DrainPhase>,
    parting: watch::Sender<Parting>,
}

impl Drain {
    /// Serving.
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::Sender::new(DrainPhase::Serving),
            parting: watch::Sender::new(Parting::GrantsMayCome),
        }
    }

    /// Begins to drain; where that was begun before, shortens the grace to nothing.
    pub(crate) fn advance(&self) {
        self.phase.send_modify(|phase| {
            *phase = match phase {
                DrainPhase::Serving => DrainPhase::Draining { until: Instant::now() + limits::DRAIN_GRACE },
                DrainPhase::Draining { .. } | DrainPhase::Hastened => DrainPhase::Hastened,
            };
        });
    }

    /// Whether runs are taken.
    pub(crate) fn is_serving(&self) -> bool {
        *self.phase.borrow() == DrainPhase::Serving
    }

    /// The phase as it changes.
    pub(crate) fn watch_phase(&self) -> watch::Receiver<DrainPhase> {
        self.phase.subscribe()
    }

    /// A stream was opened.
    pub(crate) fn note_grants_may_come(&self) {
        self.parting.send_replace(Parting::GrantsMayCome);
    }

    /// The coordinator answered that no grant follows.
    pub(crate) fn note_no_grant_comes(&self) {
        self.parting.send_replace(Parting::NoGrantComes);
    }

    /// Waits until no grant is on its way to the worker any more.
    pub(crate) async fn no_grant_comes(&self) {
        self.reach(|parting| parting != Parting::GrantsMayCome).await;
    }

    /// Everything that the worker said was heard.
    pub(crate) fn note_left(&self) {
        self.parting.send_replace(Parting::Left);
    }

    /// Waits until that is so.
    pub(crate) async fn left(&self) {
        self.reach(|parting| parting == Parting::Left).await;
    }

    async fn reach(&self, is_reached: impl Fn(Parting) -> bool) {
        // The sender lives as long as this.
        let _ = self.parting.subscribe().wait_for(|parting| is_reached(*parting)).await;
    }

    /// Waits for something, but not longer than the grace.
    pub(crate) async fn grace_over_or(&self, done: impl Future<Output = ()>) {
        tokio::select! {
            () = done => {}
            () = self.grace_over() => {}
        }
    }

    /// Waits until the grace is over: never, as long as the worker serves.
    pub(crate) async fn grace_over(&self) {
        let mut changes = self.phase.subscribe();
        loop {
            let phase = *changes.borrow_and_update();
            match phase {
                DrainPhase::Hastened => return,
                DrainPhase::Draining { until } => tokio::select! {
                    () = sleep_until(until) => return,
                    _ = changes.changed() => {}
                },
                DrainPhase::Serving => {
                    let _ = changes.changed().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_call_shortens_the_grace_to_nothing() {
        let drain = Drain::new();
        assert!(drain.is_serving());
        drain.advance();
        assert!(!drain.is_serving());
        let begun = Instant::now();
        drain.advance();
        drain.grace_over().await;
        assert_eq!(Instant::now(), begun);
    }

    #[tokio::test(start_paused = true)]
    async fn the_grace_ends_by_itself() {
        let drain = Drain::new();
        drain.advance();
        let begun = Instant::now();
        drain.grace_over().await;
        assert!(Instant::now() - begun >= limits::DRAIN_GRACE);
    }
}
