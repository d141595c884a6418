//! When a run's group must end, as a pure state machine.
//!
//! ```text
//!   Running ──stop, main ended, one margin before the deadline──> Stopping ──grace over──> Killing
//!      └────────── kill, contact lost, deadline reached ─────────────┴────────────────────────^
//! ```
//!
//! Owns the order of SIGTERM and SIGKILL and the cause that is remembered: the first one stands, and once the
//! child itself ended nothing that comes later changes how it ended. Sends no signal and reads no clock; the
//! neighbour [`super::watch`] does both.

use std::time::Duration;

use super::BootInstant;
use super::protocol::EndCause;

/// What is to be done to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping { kill_at: BootInstant },
    Killing,
}

/// The end of one run.
#[derive(Debug)]
pub(super) struct Lifecycle {
    deadline: BootInstant,
    margin: Duration,
    stop_grace: Duration,
    phase: Phase,
    cause: Option<EndCause>,
}

impl Lifecycle {
    /// A running group under a deadline.
    pub(super) fn new(deadline: BootInstant, margin: Duration, stop_grace: Duration) -> Self {
        Self { deadline, margin, stop_grace, phase: Phase::Running, cause: None }
    }

    /// The first cause; the child's own where there was none from outside.
    pub(super) fn cause(&self) -> EndCause {
        self.cause.clone().unwrap_or(EndCause::Itself)
    }

    /// The deadline as it stands.
    pub(super) fn deadline(&self) -> BootInstant {
        self.deadline
    }

    /// Whether nothing has asked for the end yet.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether SIGKILL is to be repeated until the group is empty.
    pub(super) fn is_killing(&self) -> bool {
        self.phase == Phase::Killing
    }

    /// When [`Self::advance`] has something to say next.
    pub(super) fn next_wake(&self) -> BootInstant {
        match self.phase {
            Phase::Running => self.deadline.minus(self.margin),
            Phase::Stopping { kill_at } => kill_at.min(self.deadline),
            Phase::Killing => BootInstant::NEVER,
        }
    }

    /// The term was renewed, or shortened. A group that is being ended for the old deadline is not spared.
    pub(super) fn move_deadline(&mut self, at: BootInstant) {
        self.deadline = at;
    }

    /// The worker asks for the end. A second, shorter grace shortens the first.
    pub(super) fn stop(&mut self, now: BootInstant, grace: Duration, cause: EndCause) -> Option<Order> {
        self.remember(cause);
        let asked = now.plus(grace);
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Stopping { kill_at: asked };
                Some(Order::Terminate)
            }
            Phase::Stopping { kill_at } => {
                self.phase = Phase::Stopping { kill_at: kill_at.min(asked) };
                None
            }
            Phase::Killing => None,
        }
    }

    /// The worker asks for the end now.
    pub(super) fn kill(&mut self) -> Option<Order> {
        self.force(EndCause::Asked)
    }

    /// The child is not to be started: nobody is responsible but the guardian itself.
    pub(super) fn abort(&mut self) -> Option<Order> {
        self.force(EndCause::Itself)
    }

    /// The control socket closed.
    pub(super) fn lose_contact(&mut self) -> Option<Order> {
        self.force(EndCause::ContactLost)
    }

    /// The child itself ended; what it left behind follows.
    pub(super) fn end_main(&mut self, now: BootInstant) -> Option<Order> {
        self.remember(EndCause::Itself);
        match self.phase {
            Phase::Running => {
                self.phase = Phase::Stopping { kill_at: now.plus(self.stop_grace) };
                Some(Order::Terminate)
            }
            Phase::Stopping { .. } | Phase::Killing => None,
        }
    }

    /// What the clock demands.
    pub(super) fn advance(&mut self, now: BootInstant) -> Option<Order> {
        if now >= self.deadline {
            return self.force(EndCause::ContactLost);
        }
        match self.phase {
            Phase::Running if now >= self.deadline.minus(self.margin) => {
                self.remember(EndCause::ContactLost);
                self.phase = Phase::Stopping { kill_at: self.deadline };
                Some(Order::Terminate)
            }
            Phase::Stopping { kill_at } if now >= kill_at => {
                self.phase = Phase::Killing;
                Some(Order::Kill)
            }
            Phase::Running | Phase::Stopping { .. } | Phase::Killing => None,
        }
    }

    fn force(&mut self, cause: EndCause) -> Option<Order> {
        self.remember(cause);
        if self.phase == Phase::Killing {
            return None;
        }
        self.phase = Phase::Killing;
        Some(Order::Kill)
    }

    fn remember(&mut self, cause: EndCause) {
        self.cause.get_or_insert(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_nanoseconds(seconds * 1_000_000_000)
    }

    /// Deadline 100 s, margin 5 s, grace 10 s.
    fn running() -> Lifecycle {
        Lifecycle::new(at(100), Duration::from_secs(5), Duration::from_secs(10))
    }

    #[test]
    fn one_margin_before_the_deadline_it_asks_and_at_the_deadline_it_forces() {
        let mut run = running();
        assert_eq!(run.next_wake(), at(95));
        assert_eq!(run.advance(at(94)), None);
        assert_eq!(run.advance(at(95)), Some(Order::Terminate));
        assert_eq!(run.next_wake(), at(100));
        assert_eq!(run.advance(at(99)), None);
        assert_eq!(run.advance(at(100)), Some(Order::Kill));
        assert_eq!(run.cause(), EndCause::ContactLost);
        assert!(run.is_killing());
    }

    #[test]
    fn a_renewal_moves_the_deadline_but_spares_nothing_that_is_ending() {
        let mut run = running();
        run.move_deadline(at(200));
        assert_eq!(run.advance(at(150)), None);
        assert_eq!(run.advance(at(195)), Some(Order::Terminate));
        run.move_deadline(at(300));
        assert_eq!(run.advance(at(200)), Some(Order::Kill));
    }

    #[test]
    fn a_guardian_that_slept_past_the_deadline_forces_at_once() {
        let mut run = running();
        assert_eq!(run.advance(at(500)), Some(Order::Kill));
    }

    #[test]
    fn a_stop_gives_the_grace_and_a_second_one_may_shorten_it() {
        let mut run = running();
        assert_eq!(run.stop(at(10), Duration::from_secs(30), EndCause::Asked), Some(Order::Terminate));
        assert_eq!(run.stop(at(11), Duration::from_secs(60), EndCause::Asked), None);
        assert_eq!(run.next_wake(), at(40));
        assert_eq!(run.stop(at(12), Duration::ZERO, EndCause::Asked), None);
        assert_eq!(run.advance(at(12)), Some(Order::Kill));
        assert_eq!(run.cause(), EndCause::Asked);
    }

    #[test]
    fn the_deadline_cuts_a_grace_short() {
        let mut run = running();
        run.stop(at(90), Duration::from_secs(60), EndCause::Asked);
        assert_eq!(run.next_wake(), at(100));
        assert_eq!(run.advance(at(100)), Some(Order::Kill));
        assert_eq!(run.cause(), EndCause::Asked);
    }

    #[test]
    fn what_the_child_left_behind_gets_the_grace_and_the_cause_stays_its_own() {
        let mut run = running();
        assert_eq!(run.end_main(at(20)), Some(Order::Terminate));
        assert_eq!(run.next_wake(), at(30));
        assert_eq!(run.lose_contact(), Some(Order::Kill));
        assert_eq!(run.cause(), EndCause::Itself);
    }

    #[test]
    fn the_first_cause_stands() {
        let mut run = running();
        run.stop(at(10), Duration::from_secs(1), EndCause::OwnTimeout { limit_ms: 900 });
        run.end_main(at(10));
        run.lose_contact();
        assert_eq!(run.cause(), EndCause::OwnTimeout { limit_ms: 900 });
    }

    #[test]
    fn a_kill_is_ordered_once() {
        let mut run = running();
        assert_eq!(run.kill(), Some(Order::Kill));
        assert_eq!(run.kill(), None);
        assert_eq!(run.lose_contact(), None);
        assert_eq!(run.advance(at(1000)), None);
        assert_eq!(run.next_wake(), BootInstant::NEVER);
    }
}
