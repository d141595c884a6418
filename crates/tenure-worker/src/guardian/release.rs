//! The guardian after its group is empty: who takes the outcome.
//!
//! A worker that answers takes it, and says when the coordinator has it. Only where the worker is gone or does not
//! answer does the guardian open a connection of its own; where nobody takes it, the outcome is left in the run
//! directory. A worker that was only frozen finds the end in its socket as usual.
//!
//! A success is the worker's alone: it has the result, and a guardian's word that a child exited with 0 is no success. So
//! a worker that is there but silent has until the local deadline, up to which the lease is its own, to come back with it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tenure_core::limits::WORKER_SILENCE;

use super::BootInstant;
use super::control::Control;
use super::identity::{OUTCOME_FILE, write_private};
use super::protocol::{ChildEnd, EndCause, FromGuardian, GuardSpec, ReportIdentity, ToGuardian};
use super::report::{Reported, report_gone};

/// How the outcome is left where nobody took it.
#[derive(Debug, Serialize)]
struct LeftOutcome<'a> {
    job: Option<&'a str>,
    epoch: Option<u64>,
    generation: Option<u64>,
    end: &'a ChildEnd,
    cause: &'a EndCause,
    not_reported: &'a str,
}

/// Returns when the outcome is acknowledged, or left.
pub(super) fn await_release(
    mut control: Control,
    spec: &GuardSpec,
    end: &ChildEnd,
    cause: &EndCause,
    deadline: BootInstant,
) -> io::Result<()> {
    let patience = Patience {
        may_report: spec.report.is_some(),
        reserved_until: is_success(end, cause).then_some(deadline),
    };
    if await_worker(&mut control, patience) {
        return Ok(());
    }
    let not_reported = match &spec.report {
        None => "there is no coordinator to report to".to_owned(),
        Some(identity) => match report_gone(control, identity, end, cause) {
            Reported::Acknowledged | Reported::Forgotten => return Ok(()),
            Reported::Refused(reason) | Reported::Unreachable(reason) => reason,
        },
    };
    leave_outcome(spec, end, cause, &not_reported)
}

fn is_success(end: &ChildEnd, cause: &EndCause) -> bool {
    matches!((end, cause), (ChildEnd::Exited { code: 0 }, EndCause::Itself))
}

/// How long a worker that is there may be silent.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// There is somebody to report to.
    may_report: bool,
    /// The end is the worker's alone until then.
    reserved_until: Option<BootInstant>,
}

impl Patience {
    /// What is left of it; zero: it is over. None: it has no end.
    fn left(self, now: BootInstant, silence: Duration) -> Option<Duration> {
        let reserved = self.reserved_until.unwrap_or(now);
        let limited = self.may_report && reserved != BootInstant::NEVER;
        limited.then(|| WORKER_SILENCE.saturating_sub(silence).max(reserved.since(now)))
    }
}

/// True: the worker has it acknowledged. False: it is gone or does not answer.
fn await_worker(control: &mut Control, patience: Patience) -> bool {
    loop {
        if heed_worker(control) {
            return true;
        }
        let left = patience.left(BootInstant::now(), control.silence());
        if control.is_closed() || left == Some(Duration::ZERO) {
            return false;
        }
        let writable = if control.has_unsent() { PollFlags::POLLOUT } else { PollFlags::empty() };
        let mut ready = [PollFd::new(control.as_fd(), PollFlags::POLLIN | writable)];
        // Not longer than this at once: the clock of a poll stands still while the host is suspended.
        let pause = left.map(|left| left.clamp(Duration::from_millis(10), WORKER_SILENCE));
        let timeout = pause.and_then(|pause| PollTimeout::try_from(pause).ok()).unwrap_or(PollTimeout::NONE);
        let _ = poll(&mut ready, timeout);
    }
}

/// Answers pings. True: the end is acknowledged.
pub(super) fn heed_worker(control: &mut Control) -> bool {
    let mut forget = false;
    for message in control.receive() {
        match message {
            ToGuardian::Ping { number } => control.send(&FromGuardian::Pong { number }),
            ToGuardian::Forget => forget = true,
            // There is nobody left to stop.
            ToGuardian::Deadline { .. }
            | ToGuardian::Stop { .. }
            | ToGuardian::Kill
            | ToGuardian::Spec(_)
            | ToGuardian::Worker(_)
            | ToGuardian::Held(_) => {}
        }
    }
    control.flush();
    forget
}

fn leave_outcome(spec: &GuardSpec, end: &ChildEnd, cause: &EndCause, not_reported: &str) -> io::Result<()> {
    let report = spec.report.as_ref();
    let outcome = LeftOutcome {
        job: report.map(|identity: &ReportIdentity| identity.job.as_str()),
        epoch: report.map(|identity| identity.epoch),
        generation: report.map(|identity| identity.generation),
        end,
        cause,
        not_reported,
    };
    write_private(&spec.run_directory, OUTCOME_FILE, &serde_json::to_vec_pretty(&outcome)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootInstant = BootInstant::from_nanoseconds(100_000_000_000);

    #[test]
    fn a_silent_worker_keeps_a_success_until_the_deadline_and_nothing_else() {
        let any = Patience { may_report: true, reserved_until: None };
        assert_eq!(any.left(NOW, Duration::ZERO), Some(WORKER_SILENCE));
        assert_eq!(any.left(NOW, WORKER_SILENCE), Some(Duration::ZERO));
        let later = NOW.plus(Duration::from_secs(60));
        let success = Patience { may_report: true, reserved_until: Some(later) };
        assert_eq!(success.left(NOW, WORKER_SILENCE), Some(Duration::from_secs(60)));
        assert_eq!(success.left(later, WORKER_SILENCE), Some(Duration::ZERO));
        assert_eq!(success.left(later, Duration::ZERO), Some(WORKER_SILENCE), "it answers");
    }

    #[test]
    fn where_nobody_takes_a_report_the_worker_is_waited_for() {
        let nobody = Patience { may_report: false, reserved_until: None };
        assert_eq!(nobody.left(NOW, Duration::MAX), None);
    }

    #[test]
    fn only_an_exit_0_that_nobody_caused_is_a_success() {
        assert!(is_success(&ChildEnd::Exited { code: 0 }, &EndCause::Itself));
        assert!(!is_success(&ChildEnd::Exited { code: 65 }, &EndCause::Itself));
        assert!(!is_success(&ChildEnd::Exited { code: 0 }, &EndCause::ContactLost));
    }
}
