//! The guardian after its group is empty: who takes the outcome.
//!
//! A worker that answers takes it, and says when the coordinator has it. Only where the worker is gone or does not
//! answer does the guardian open a connection of its own; where nobody takes it, the outcome is left in the run
//! directory. A worker that was only frozen finds the end in its socket as usual.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use tenure_core::limits::WORKER_SILENCE;

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
) -> io::Result<()> {
    if await_worker(&mut control, spec.report.is_some()) {
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

/// True: the worker has it acknowledged. False: it is gone or does not answer.
fn await_worker(control: &mut Control, may_report: bool) -> bool {
    loop {
        if heed_worker(control) {
            return true;
        }
        let silence = control.silence();
        if control.is_closed() || (may_report && silence >= WORKER_SILENCE) {
            return false;
        }
        let writable = if control.has_unsent() { PollFlags::POLLOUT } else { PollFlags::empty() };
        let mut ready = [PollFd::new(control.as_fd(), PollFlags::POLLIN | writable)];
        let left = WORKER_SILENCE.saturating_sub(silence).max(Duration::from_millis(10));
        let timeout = PollTimeout::try_from(left).ok().filter(|_| may_report).unwrap_or(PollTimeout::NONE);
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
            | ToGuardian::Spec(_) => {}
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
