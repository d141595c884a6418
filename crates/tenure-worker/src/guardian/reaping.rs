//! Reaping, and what the kernel says of an end.
//!
//! Owns the reading of a wait status. Signals stay numbers: a process may die of a real-time signal, which no list of
//! named signals has, and an error after the kernel has already given the process away would lose its end. Only
//! `ECHILD` says that nobody is left; an interrupted call is made again.

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};

use super::protocol::ChildEnd;

/// What a look at this process's children found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// This one ended, and its number is free.
    Ended {
        /// Which.
        pid: i32,
        /// How.
        end: ChildEnd,
    },
    /// None ended since the last look.
    None,
    /// There is no child to wait for.
    NobodyLeft,
}

/// Reaps any one child that ended.
pub(super) fn reap_any() -> Reaped {
    reap_with(|| wait(WaitOptions::NOHANG))
}

/// Reaps that child, if it ended.
pub(super) fn reap_child(pid: i32) -> Reaped {
    match Pid::from_raw(pid) {
        Some(pid) => reap_with(|| waitpid(Some(pid), WaitOptions::NOHANG)),
        None => Reaped::NobodyLeft,
    }
}

fn reap_with(mut look: impl FnMut() -> Result<Option<(Pid, WaitStatus)>, Errno>) -> Reaped {
    loop {
        match look() {
            Ok(Some((pid, status))) => {
                if let Some(end) = read_status(status) {
                    return Reaped::Ended { pid: pid.as_raw_nonzero().get(), end };
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Reaped::NobodyLeft,
            // Whatever else it is, it does not say that somebody is gone.
            Ok(None) | Err(_) => return Reaped::None,
        }
    }
}

/// `None`: it was only stopped or continued.
fn read_status(status: WaitStatus) -> Option<ChildEnd> {
    let exited = status.exit_status().map(|code| ChildEnd::Exited { code });
    exited.or_else(|| status.terminating_signal().map(|signal| ChildEnd::Signalled { signal }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_no_child_to_wait_for_means_that_nobody_is_left() {
        let mut answers = vec![Err(Errno::CHILD), Err(Errno::INTR)];
        assert_eq!(reap_with(|| answers.pop().unwrap()), Reaped::NobodyLeft);
        assert_eq!(reap_with(|| Err(Errno::INVAL)), Reaped::None);
        assert_eq!(reap_with(|| Ok(None)), Reaped::None);
    }
}
