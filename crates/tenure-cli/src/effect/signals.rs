//! The signals that ask this program to stop. They are not obeyed while a command runs: it is in a process group of its own
//! and would not hear them, so they are passed on to it, and its end is what counts. That one came is remembered: nothing
//! more is begun then. A signal that was ignored when this program began stays ignored, by it and by what it performs: whoever
//! shields a step from a signal (`trap '' TERM`, `nohup`) means the step, and not this program alone.

use std::{fs, io};

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// The mask of the signals that a process ignores, as Linux shows it in hexadecimal.
const IGNORED_FIELD: &str = "SigIgn:";

/// Listens to what asks this program to stop.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Option<Listener>,
    interrupt: Option<Listener>,
    hang_up: Option<Listener>,
    seen: bool,
}

impl StopSignals {
    /// From now on none of them ends this program.
    pub(super) fn listen() -> io::Result<Self> {
        // A listener would take the place of "ignored", so this is read before there is one.
        let ignored = read_ignored()?;
        let listen = |kind: SignalKind| (!is_ignored(ignored, kind)).then(|| signal(kind)).transpose();
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            seen: false,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            () = receive(&mut self.terminate) => Signal::TERM,
            () = receive(&mut self.interrupt) => Signal::INT,
            () = receive(&mut self.hang_up) => Signal::HUP,
        };
        self.seen = true;
        signal
    }

    /// True once one came.
    pub(super) const fn has_come(&self) -> bool {
        self.seen
    }
}

/// Never, where nobody listens.
async fn receive(listener: &mut Option<Listener>) {
    let heard = match listener {
        Some(listener) => listener.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}

fn read_ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    parse_ignored(&status)
        .ok_or_else(|| io::Error::other("/proc/self/status does not say which signals are ignored"))
}

fn parse_ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix(IGNORED_FIELD))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Signal N is bit N - 1 of the mask.
const fn is_ignored(mask: u64, kind: SignalKind) -> bool {
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read_from_the_status_of_a_process() {
        // `trap '' HUP TERM` and a process of Rust, which ignores SIGPIPE.
        let mask = parse_ignored(
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000005001\nSigCgt:\t0000000000000000\n",
        )
        .unwrap();
        assert!(is_ignored(mask, SignalKind::terminate()));
        assert!(is_ignored(mask, SignalKind::hangup()));
        assert!(!is_ignored(mask, SignalKind::interrupt()));
        assert_eq!(parse_ignored("State:\tR (running)\n"), None);
    }
}
