//! The signals that ask a serving program to stop: SIGTERM, and SIGINT from a terminal.

use tenure_core::{reason::Reason, refusal::Refusal};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Waits for signals that ask to stop.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Begins to listen; from now on a signal does not end the program by itself.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let open = |kind| {
            signal(kind).map_err(|error| {
                Failure::caused(
                    Refusal::new(Reason::Internal, "listening for the signals that stop this program"),
                    &error,
                )
            })
        };
        Ok(Self { terminate: open(SignalKind::terminate())?, interrupt: open(SignalKind::interrupt())? })
    }

    /// Returns at the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
