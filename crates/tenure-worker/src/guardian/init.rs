//! PID 1 of a run's namespace.
//!
//! It starts the child, forwards the guardian's SIGTERM to everything in the namespace, reaps, tells how the child
//! ended, and leaves when nobody is left. It dies with the guardian twice over: by the parent-death signal, and
//! because it polls the socket that the guardian holds, which closes the race in which the guardian died before
//! the signal was set. When it dies, the kernel ends everything in the namespace.
//!
//! It runs in a copy of the guardian, on a stack of its own, and never returns to it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, fork};

use super::child::{ChildStreams, become_program, close_all_except};
use super::protocol::{ChildEnd, GuardSpec};
use super::reaping::{Reaped, reap_any};

/// The guardian allows the child to be forked: namespace and cgroups are set up.
pub(super) const ORDER_BEGIN: u8 = b'b';
/// The guardian wants SIGTERM sent to everything in the namespace.
pub(super) const ORDER_TERMINATE: u8 = b't';

/// What init tells the guardian: a tag and a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InitReport {
    /// The child was forked, and waits at its gate.
    Forked,
    /// The child ended.
    MainEnded(ChildEnd),
}

impl InitReport {
    /// The length of a report on the socket.
    pub(super) const LENGTH_BYTES: usize = 5;

    fn encode(&self) -> [u8; Self::LENGTH_BYTES] {
        let (tag, number) = match self {
            Self::Forked => (b'f', 0),
            Self::MainEnded(ChildEnd::Exited { code }) => (b'e', *code),
            Self::MainEnded(ChildEnd::Signalled { signal }) => (b's', *signal),
            Self::MainEnded(ChildEnd::NotStarted { .. }) => (b'n', 0),
        };
        let [a, b, c, d] = number.to_be_bytes();
        [tag, a, b, c, d]
    }

    /// Reads a report. `None`: not one of init's.
    pub(super) fn decode([tag, a, b, c, d]: [u8; Self::LENGTH_BYTES]) -> Option<Self> {
        let number = i32::from_be_bytes([a, b, c, d]);
        match tag {
            b'f' => Some(Self::Forked),
            b'e' => Some(Self::MainEnded(ChildEnd::Exited { code: number })),
            b's' => Some(Self::MainEnded(ChildEnd::Signalled { signal: number })),
            b'n' => {
                let reason = "the namespace's init could not fork".to_owned();
                Some(Self::MainEnded(ChildEnd::NotStarted { reason }))
            }
            _ => None,
        }
    }
}

/// The whole life of PID 1. What it returns is its exit code, which nobody reads.
pub(super) fn run_init(spec: &GuardSpec, guardian: UnixStream, streams: ChildStreams) -> isize {
    let mut kept = streams.numbers().to_vec();
    kept.push(guardian.as_raw_fd());
    close_all_except(&kept);
    let mut init = Init { guardian, main: None };
    if prctl::set_pdeathsig(Signal::SIGKILL).is_err() || !init.await_begin() {
        return 1;
    }
    // The guardian's memory, copied here, holds the run's secret; the child may have the same user.
    let _ = prctl::set_dumpable(false);
    let _ = prctl::set_name(c"tenure-init");
    mount_proc();
    init.fork_child(spec, streams);
    init.serve();
    0
}

/// So that the child sees its own namespace; without it the old /proc stays, which shows too much but works.
fn mount_proc() {
    let none: Option<&str> = None;
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none);
    if private.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);
    }
}

struct Init {
    guardian: UnixStream,
    main: Option<Pid>,
}

impl Init {
    fn await_begin(&mut self) -> bool {
        let mut order = [0; 1];
        loop {
            match self.guardian.read(&mut order) {
                Ok(1) => return order == [ORDER_BEGIN],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }

    fn fork_child(&mut self, spec: &GuardSpec, streams: ChildStreams) {
        // SAFETY: this process is a copy of a single-threaded one and has one thread itself.
        #[expect(unsafe_code, reason = "fork is unsafe for processes with threads")]
        let forked = unsafe { fork() };
        match forked {
            Ok(ForkResult::Child) => become_program(spec, streams, 1),
            Ok(ForkResult::Parent { child }) => {
                self.main = Some(child);
                self.report(&InitReport::Forked);
            }
            Err(_) => self.report(&InitReport::MainEnded(ChildEnd::NotStarted { reason: String::new() })),
        }
    }

    /// Until nobody is left, or the guardian is gone.
    fn serve(&mut self) {
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        // SIGCHLD is blocked since before the fork, so none is lost.
        let Ok(signals) = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        else {
            return;
        };
        while self.reap() {
            let mut ready = [
                PollFd::new(self.guardian.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut ready, PollTimeout::NONE);
            let ordered = ready[0].any().unwrap_or(false);
            while let Ok(Some(_)) = signals.read_signal() {}
            if ordered && !self.obey() {
                return;
            }
        }
    }

    /// False: the guardian is gone.
    fn obey(&mut self) -> bool {
        let mut order = [0; 1];
        match self.guardian.read(&mut order) {
            Ok(1) => {
                if order == [ORDER_TERMINATE] {
                    // Everything in the namespace but this process.
                    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Ok(_) | Err(_) => false,
        }
    }

    /// False: nobody is left.
    fn reap(&mut self) -> bool {
        loop {
            match reap_any() {
                Reaped::Ended { pid, end } => {
                    if self.main.is_some_and(|main| main.as_raw() == pid) {
                        self.report(&InitReport::MainEnded(end));
                    }
                }
                Reaped::None => return true,
                Reaped::NobodyLeft => return false,
            }
        }
    }

    fn report(&mut self, report: &InitReport) {
        // Where the guardian is gone, reading will say so.
        let _ = self.guardian.write_all(&report.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_socket() {
        let ends = [ChildEnd::Exited { code: 65 }, ChildEnd::Signalled { signal: 9 }];
        for report in ends.map(InitReport::MainEnded).into_iter().chain([InitReport::Forked]) {
            assert_eq!(InitReport::decode(report.encode()), Some(report));
        }
        assert_eq!(InitReport::decode([0; 5]), None);
    }
}
