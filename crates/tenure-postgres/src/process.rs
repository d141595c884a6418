//! One running postmaster: spawned, waited for, signalled, reaped.
//!
//! Owns the child process. Promises that after [`Postmaster::kill`] neither it nor any process that
//! it had forked is alive. Does not decide when to start again; `server` does. Neighbours: `spawner`,
//! `directory`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;
use crate::spawner::spawn_bound;

/// How often a condition is looked at again.
const POLL: Duration = Duration::from_millis(5);

/// How long killed processes may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A postmaster that we are the parent of.
#[derive(Debug)]
pub(crate) struct Postmaster {
    child: Child,
}

/// What the postmaster is doing.
pub(crate) enum Readiness {
    Starting,
    Ready,
    Ended(ExitStatus),
}

impl Postmaster {
    pub(crate) fn spawn(command: Command) -> Result<Self, Error> {
        let program = command.get_program().to_owned();
        let child = spawn_bound(command).map_err(Error::io("run", program))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads what the postmaster itself writes about its state, as `pg_ctl` does: the first line of
    /// `postmaster.pid` is its pid, the eighth its state.
    pub(crate) fn check_readiness(&mut self, data: &Path) -> Result<Readiness, Error> {
        if let Some(status) = self.child.try_wait().map_err(Error::io("wait for", data))? {
            return Ok(Readiness::Ended(status));
        }
        let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let ours = lines.next() == Some(self.pid().to_string().as_str());
        Ok(if ours && lines.nth(6) == Some("ready") { Readiness::Ready } else { Readiness::Starting })
    }

    /// Sends `signal`, and waits; `false` if the process is still there after `timeout`.
    pub(crate) fn signal_and_wait(&mut self, signal: Signal, timeout: Duration) -> bool {
        // A process that has ended cannot be signalled, which the wait below finds out.
        let _ = kill(as_pid(self.pid()), signal);
        wait_until(timeout, || !matches!(self.child.try_wait(), Ok(None)))
    }

    /// SIGKILL for the postmaster and all that it forked, and waits until they are gone.
    pub(crate) fn kill(&mut self) {
        let postmaster = as_pid(self.pid());
        // Stopped first, so that it forks nothing between the listing and the killing.
        let _ = kill(postmaster, Signal::SIGSTOP);
        let family = list_children(self.pid());
        let _ = kill(postmaster, Signal::SIGKILL);
        for child in &family {
            let _ = kill(as_pid(*child), Signal::SIGKILL);
        }
        let _ = self.child.wait();
        wait_until(KILL_TIMEOUT, || !family.iter().any(|pid| is_alive(*pid)));
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        // Whoever gives it up while it runs, for example after a failed start, leaves nothing behind.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// Looks at `condition` until it holds; `false` if it did not in time.
pub(crate) fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(POLL);
    }
}

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

/// Whether a process runs. A zombie does not: orphans may be reaped late, and hold nothing.
#[cfg(target_os = "linux")]
fn is_alive(pid: u32) -> bool {
    read_stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

#[cfg(target_os = "linux")]
fn list_children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| read_stat(*pid).is_some_and(|(_, its_parent)| its_parent == parent))
        .collect()
}

/// State and parent of a process. The command's name, in brackets, may hold blanks and brackets.
#[cfg(target_os = "linux")]
fn read_stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn is_alive(pid: u32) -> bool {
    kill(as_pid(pid), None).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn list_children(parent: u32) -> Vec<u32> {
    let output = Command::new("ps").args(["-axo", "pid=,ppid="]).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let (pid, its_parent) = line.trim().split_once(char::is_whitespace)?;
            (its_parent.trim().parse() == Ok(parent)).then(|| pid.parse().ok())?
        })
        .collect()
}
