//! A living process and everything that may end it from outside: a wait that it announced itself, a cancel, a lost run, the local deadline, a drain. Its
//! own limits are the runner's business. The first thing that asks for its end is remembered; later ones may only hurry.

use std::time::Duration;

use tenure_core::wait::Wait;
use tokio::sync::watch;
use tracing::info;

use super::{Execution, Forwarding};
use crate::{
    drain::DrainPhase,
    guardian::BootInstant,
    held_runs::Orders,
    local_deadline::reach,
    runner::{ProcessHandle, ProcessOutcome, RunningProcess, StopCause},
};

/// What asked for the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A notice in the job's journal.
    Notice,
    /// A wait that the run announced.
    Wait,
    /// The worker leaves.
    Drain,
    /// The worker has not been heard for too long.
    LocalDeadline,
    /// The run is no longer this worker's.
    Fenced,
}

/// A process that was watched to its end.
#[derive(Debug)]
pub(super) struct Supervised {
    pub(super) outcome: ProcessOutcome,
    pub(super) asked: Option<Asked>,
    /// The wait that was announced.
    pub(super) wait: Option<Wait>,
}

/// What keeps a child from being started now. Between the grant and this the run may have waited for the host's files,
/// and nobody takes back what a child did before it was ended.
pub(super) fn find_obstacle(execution: &Execution) -> Option<Asked> {
    let orders = execution.orders.borrow();
    if orders.fenced.is_some() {
        Some(Asked::Fenced)
    } else if orders.notice.is_some() {
        Some(Asked::Notice)
    } else if !execution.context.drain.is_serving() {
        Some(Asked::Drain)
    } else if BootInstant::now() >= execution.term.latest_start() {
        Some(Asked::LocalDeadline)
    } else {
        None
    }
}

/// Watches a process until its whole group is empty.
pub(super) async fn supervise_process(
    execution: &Execution,
    process: &mut RunningProcess,
    forwarding: &Forwarding,
    stop_grace: Duration,
    mut waits: watch::Receiver<Option<Wait>>,
) -> Supervised {
    let mut supervisor = Supervisor {
        handle: process.handle(),
        margin: execution.term.margin(),
        stop_grace,
        asked: None,
        hastened: false,
    };
    let mut orders = execution.orders.clone();
    let mut deadline = execution.term.watch_deadline();
    let mut drain = execution.context.drain.watch_phase();
    // What stood before this began is looked at first.
    orders.mark_changed();
    deadline.mark_changed();
    loop {
        let ask_at = deadline.borrow().minus(supervisor.margin);
        let phase = *drain.borrow();
        tokio::select! {
            outcome = process.wait() => {
                return Supervised { outcome, asked: supervisor.asked, wait: waits.borrow().clone() };
            }
            Ok(()) = waits.changed() => supervisor.suspend(),
            Ok(()) = orders.changed() => {
                let standing = orders.borrow_and_update().clone();
                supervisor.obey(&standing, forwarding);
            }
            Ok(()) = deadline.changed() => supervisor.handle.move_deadline(*deadline.borrow_and_update()),
            () = reach(ask_at), if supervisor.asked != Some(Asked::LocalDeadline) => supervisor.ask_at_deadline(),
            () = drain_due(phase, stop_grace), if supervisor.may_drain(phase) => supervisor.drain(phase),
            Ok(()) = drain.changed() => {}
        }
    }
}

struct Supervisor {
    handle: ProcessHandle,
    margin: Duration,
    stop_grace: Duration,
    asked: Option<Asked>,
    /// The drain's patience is over, and the group was killed.
    hastened: bool,
}

impl Supervisor {
    fn obey(&mut self, standing: &Orders, forwarding: &Forwarding) {
        if standing.fenced.is_some() {
            info!("the run is no longer this worker's: its child is ended at once");
            self.asked = Some(Asked::Fenced);
            self.handle.kill();
            // Output that waits for room would hold up the end of a run that nobody waits for.
            forwarding.stop();
        } else if let Some(notice) = &standing.notice {
            info!(seq = notice.seq.0, kind = %notice.kind, "a notice stands: the child is asked to end");
            self.asked = self.asked.or(Some(Asked::Notice));
            self.handle.stop(self.stop_grace, StopCause::Asked);
        }
    }

    fn suspend(&mut self) {
        if self.asked.is_none() {
            info!("the run announced a wait: its child is asked to end");
            self.asked = Some(Asked::Wait);
            self.handle.stop(self.stop_grace, StopCause::Asked);
        }
    }

    /// SIGTERM one margin before the local deadline, SIGKILL at it. Once asked, a child is not worth waiting for, so a
    /// renewal that still succeeds does not take it back.
    fn ask_at_deadline(&mut self) {
        info!("the term was not renewed in time: the child is ended");
        self.asked = Some(Asked::LocalDeadline);
        self.handle.stop(self.margin, StopCause::ContactLost);
    }

    fn may_drain(&self, phase: DrainPhase) -> bool {
        match phase {
            DrainPhase::Serving => false,
            DrainPhase::Draining { .. } => self.asked.is_none(),
            DrainPhase::Hastened => !self.hastened,
        }
    }

    fn drain(&mut self, phase: DrainPhase) {
        self.asked = self.asked.or(Some(Asked::Drain));
        match phase {
            DrainPhase::Hastened => {
                self.hastened = true;
                self.handle.kill();
            }
            DrainPhase::Serving | DrainPhase::Draining { .. } => {
                info!("the worker leaves: the child is asked to end");
                self.handle.stop(self.stop_grace, StopCause::Asked);
            }
        }
    }
}

/// Waits until a draining worker asks its children: so long before the grace is over that each has its stop-grace.
pub(super) async fn drain_due(phase: DrainPhase, stop_grace: Duration) {
    if let DrainPhase::Draining { until } = phase {
        let now = tokio::time::Instant::now();
        tokio::time::sleep_until(until.checked_sub(stop_grace).unwrap_or(now)).await;
    }
}
