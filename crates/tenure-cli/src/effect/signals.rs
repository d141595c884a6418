//! The signals that ask this program to stop. They are not obeyed while a command runs: it is in a process group of its own
//! and would not hear them, so they are passed on to it, and its end is what counts. That one came is remembered: nothing
//! more is begun then.

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// Listens to what asks this program to stop.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Listener,
    interrupt: Listener,
    hang_up: Listener,
    seen: bool,
}

impl StopSignals {
    /// From now on none of them ends this program.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            seen: false,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hang_up.recv() => Signal::HUP,
        };
        self.seen = true;
        signal
    }

    /// True once one came.
    pub(super) const fn has_come(&self) -> bool {
        self.seen
    }
}
