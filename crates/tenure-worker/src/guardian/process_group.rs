//! A run's group as the guardian's descendants: `guardian` fencing.
//!
//! The guardian is a subreaper: whoever of the group loses its parent becomes the guardian's child, also after
//! `setsid` or a double fork. So the group is empty exactly when the guardian has no child left to wait for.
//! It is ended by `cgroup.kill` where the run has a cgroup, and otherwise by a signal to each descendant, again
//! and again until none is left.

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use rustix::process::Signal as PidfdSignal;

use super::child::{ChildStreams, become_program};
use super::descendants::{find_descendants, signal_process};
use super::group::Collected;
use super::namespace::end_process;
use super::protocol::{ChildEnd, GuardSpec};
use super::reaping::{Reaped, reap_any};

/// The group.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    main: Pid,
    main_end: Option<ChildEnd>,
}

impl ProcessGroup {
    /// Forks the child, which waits at its gate.
    pub(super) fn create(spec: &GuardSpec, streams: ChildStreams) -> Result<Self, String> {
        prctl::set_child_subreaper(true)
            .map_err(|error| format!("cannot become a subreaper: {}", error.desc()))?;
        let guardian = getpid().as_raw();
        // SAFETY: the guardian has one thread.
        #[expect(unsafe_code, reason = "fork is unsafe for processes with threads")]
        match unsafe { fork() } {
            Ok(ForkResult::Child) => become_program(spec, streams, guardian),
            Ok(ForkResult::Parent { child }) => Ok(Self { main: child, main_end: None }),
            Err(error) => Err(format!("cannot fork the child: {}", error.desc())),
        }
    }

    /// The child.
    pub(super) fn main(&self) -> Pid {
        self.main
    }

    /// Ends a child that waits at its gate, and reaps it.
    pub(super) fn end(&self) {
        end_process(self.main);
    }

    /// SIGTERM to the child's process group at once, and to whoever left it.
    pub(super) fn terminate(&self) {
        let group = self.signal_main_group(Signal::SIGTERM);
        for process in find_descendants(getpid().as_raw()) {
            if !group || process.group != self.main.as_raw() {
                signal_process(process, PidfdSignal::TERM);
            }
        }
    }

    /// SIGKILL to everybody who can be seen now.
    pub(super) fn kill(&self) {
        self.signal_main_group(Signal::SIGKILL);
        for process in find_descendants(getpid().as_raw()) {
            signal_process(process, PidfdSignal::KILL);
        }
    }

    /// False where the child was reaped: its number may be a stranger's by now.
    fn signal_main_group(&self, signal: Signal) -> bool {
        self.main_end.is_none() && killpg(self.main, signal).is_ok()
    }

    /// What happened since the last call.
    pub(super) fn collect(&mut self) -> Collected {
        let empty = loop {
            match reap_any() {
                Reaped::Ended { pid, end } => {
                    if pid == self.main.as_raw() {
                        self.main_end = Some(end);
                    }
                }
                Reaped::None => break false,
                Reaped::NobodyLeft => break true,
            }
        };
        Collected { main_end: self.main_end.clone(), empty }
    }
}
