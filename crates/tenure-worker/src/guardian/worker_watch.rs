//! The guardian of a worker whose runs are functions in it. There is no group to end, but the worker's own process: it is
//! ended through a pidfd at the local deadline of a run whose function has not stopped, so also where the process is frozen
//! or one of its threads never comes back. What the process held is reported gone once it is seen to be gone.
//!
//! A control socket that closes while the process lives says only that nobody speaks for its runs any more: it has until the
//! local deadline to be gone. It decides nothing about a run, and starts no process.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::getppid;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;

use super::BootInstant;
use super::control::Control;
use super::identity::{OUTCOME_FILE, write_private};
use super::protocol::{FromGuardian, HeldName, HeldRun, HeldWord, ToGuardian, WorkerSpec};
use super::report::report_lost_runs;
use super::watch::KILL_INTERVAL;

/// The clock is looked at so often at least: the clock of a poll stands still while the host is suspended.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A run of the worker.
#[derive(Debug)]
struct Guarded {
    run: HeldRun,
    /// Its function may still act.
    is_acting: bool,
}

/// The worker, and everything that it holds.
#[derive(Debug)]
struct WorkerWatch {
    control: Control,
    process: OwnedFd,
    held: BTreeMap<HeldName, Guarded>,
}

/// Watches until the worker is gone and what it held is reported, or until it has nothing left and lets its guardian go.
pub(super) fn guard_worker(control: Control, spec: WorkerSpec) -> io::Result<()> {
    let Some(process) = open_parent(spec.pid)? else { return Ok(()) };
    let mut watch = WorkerWatch { control, process, held: BTreeMap::new() };
    watch.control.send(&FromGuardian::Watching);
    watch.run_until_gone()?;
    leave_unreported(watch.held.into_values().map(|guarded| guarded.run).collect())
}

/// A pidfd of the parent. None: it is gone already. A number may be another process's by now, so the parent is asked for once
/// more after the descriptor was opened.
fn open_parent(pid: i32) -> io::Result<Option<OwnedFd>> {
    let Some(named) = Pid::from_raw(pid) else { return Ok(None) };
    let opened = match pidfd_open(named, PidfdFlags::empty()) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok((getppid().as_raw() == pid).then_some(opened))
}

impl WorkerWatch {
    fn run_until_gone(&mut self) -> io::Result<()> {
        loop {
            self.heed_worker();
            if self.is_gone()? || (self.control.is_closed() && !self.is_acting()) {
                // What it said with its last breath stands in the socket.
                self.heed_worker();
                return Ok(());
            }
            let is_due = self.is_due(BootInstant::now());
            if is_due {
                // An error says that it is gone, which the next look sees.
                let _ = pidfd_send_signal(&self.process, Signal::KILL);
            }
            self.wait(is_due);
        }
    }

    fn heed_worker(&mut self) {
        for message in self.control.receive() {
            match message {
                ToGuardian::Ping { number } => self.control.send(&FromGuardian::Pong { number }),
                ToGuardian::Held(word) => self.take_word(word),
                // Neither belongs here: there is no child.
                ToGuardian::Spec(_)
                | ToGuardian::Worker(_)
                | ToGuardian::Deadline { .. }
                | ToGuardian::Stop { .. }
                | ToGuardian::Kill
                | ToGuardian::Forget => {}
            }
        }
        self.control.flush();
    }

    fn take_word(&mut self, word: HeldWord) {
        match word {
            HeldWord::Begin(run) => {
                self.held.insert(run.report.name(), Guarded { run: *run, is_acting: true });
            }
            HeldWord::Deadline { run, at } => {
                if let Some(guarded) = self.held.get_mut(&run) {
                    guarded.run.deadline = at;
                }
            }
            HeldWord::Stopped { run } => {
                if let Some(guarded) = self.held.get_mut(&run) {
                    guarded.is_acting = false;
                }
            }
            HeldWord::Released { run } => drop(self.held.remove(&run)),
        }
    }

    fn is_acting(&self) -> bool {
        self.held.values().any(|guarded| guarded.is_acting)
    }

    /// Whether the local deadline of a run is reached whose function may still act.
    fn is_due(&self, now: BootInstant) -> bool {
        self.held.values().any(|guarded| guarded.is_acting && now >= guarded.run.deadline)
    }

    /// A pidfd is readable once its process has ended.
    fn is_gone(&self) -> io::Result<bool> {
        let mut ended = [PollFd::new(self.process.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut ended, PollTimeout::ZERO)? > 0)
    }

    fn wait(&self, is_due: bool) {
        let now = BootInstant::now();
        let acting = self.held.values().filter(|guarded| guarded.is_acting);
        let next = acting.map(|guarded| guarded.run.deadline.since(now)).min();
        let pause = if is_due { KILL_INTERVAL } else { next.unwrap_or(LOOK_INTERVAL).min(LOOK_INTERVAL) };
        let mut ready = vec![PollFd::new(self.process.as_fd(), PollFlags::POLLIN)];
        if !self.control.is_closed() {
            let writable = if self.control.has_unsent() { PollFlags::POLLOUT } else { PollFlags::empty() };
            ready.push(PollFd::new(self.control.as_fd(), PollFlags::POLLIN | writable));
        }
        let timeout = PollTimeout::try_from(pause.max(Duration::from_millis(1))).unwrap_or(PollTimeout::NONE);
        // Whatever woke us, everything is looked at.
        let _ = poll(&mut ready, timeout);
    }
}

/// How the outcome of a run is left of which nobody took the report.
#[derive(Debug, Serialize)]
struct LeftOutcome<'a> {
    job: &'a str,
    epoch: u64,
    generation: u64,
    end: &'static str,
    not_reported: &'a str,
}

/// One that cannot be left keeps no other from being left; the first failure is returned.
fn leave_unreported(gone: Vec<HeldRun>) -> io::Result<()> {
    let identities = gone.iter().map(|run| run.report.clone()).collect();
    let reported = gone.iter().zip(report_lost_runs(identities));
    let left = reported.filter_map(|(run, not_reported)| Some(leave_outcome(run, &not_reported?)));
    // To the end before the first is looked for: each has to be tried.
    let left: Vec<_> = left.collect();
    left.into_iter().collect()
}

fn leave_outcome(run: &HeldRun, not_reported: &str) -> io::Result<()> {
    let outcome = LeftOutcome {
        job: &run.report.job,
        epoch: run.report.epoch,
        generation: run.report.generation,
        end: "the worker went away while its handler was running",
        not_reported,
    };
    std::fs::create_dir_all(&run.run_directory)?;
    write_private(&run.run_directory, OUTCOME_FILE, &serde_json::to_vec_pretty(&outcome)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::protocol::{ReportIdentity, RunSecret};
    use super::*;

    #[test]
    fn an_outcome_that_cannot_be_left_keeps_no_other_from_being_left() {
        let directory = tempfile::tempdir().unwrap();
        let held = |job: &str, run_directory: PathBuf| HeldRun {
            report: ReportIdentity {
                tenant: "default".to_owned(),
                job: job.to_owned(),
                epoch: 1,
                generation: 1,
                secret: RunSecret::from_bytes([9; 32]),
                endpoints: Vec::new(),
                tls_authority_pem: None,
                ttl_ms: 50,
            },
            deadline: BootInstant::NEVER,
            run_directory,
        };
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let second = directory.path().join("second");
        let left = leave_unreported(vec![held("first", file.join("run")), held("second", second.clone())]);
        assert!(left.is_err(), "the first has no directory");
        let outcome = fs::read(second.join(OUTCOME_FILE)).unwrap();
        let outcome: serde_json::Value = serde_json::from_slice(&outcome).unwrap();
        assert_eq!((&outcome["job"], &outcome["epoch"]), (&"second".into(), &1.into()));
    }
}
