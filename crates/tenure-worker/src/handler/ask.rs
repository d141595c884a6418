//! Asking a handler to end: a token that is cancelled once, and why. The first reason stands. Nobody is made to obey here;
//! `executor` drops the future of a handler that does not.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why a run is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The job was cancelled: nothing more is announced, and what the handler returns is no verdict.
    Cancelled,
    /// The worker leaves; another one carries the job on, and no attempt is used.
    Draining,
    /// The worker could not renew its lease in time: what it begins now, another may have begun as well.
    LeaseLost,
    /// The job is another worker's by now.
    Fenced,
    /// The handler ran past the agent's `timeout`.
    TimedOut,
}

/// The token of one run, and why it was cancelled.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndingAsk {
    pub(crate) token: CancellationToken,
    because: Arc<OnceLock<Ending>>,
}

impl EndingAsk {
    /// Asks. Asked again, the first reason stands.
    pub(crate) fn ask(&self, because: Ending) {
        // An error says that a reason stands already.
        let _ = self.because.set(because);
        self.token.cancel();
    }

    /// Why it was asked for; none: it was not.
    pub(crate) fn because(&self) -> Option<Ending> {
        self.because.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands() {
        let ask = EndingAsk::default();
        assert_eq!((ask.because(), ask.token.is_cancelled()), (None, false));
        ask.ask(Ending::Cancelled);
        ask.ask(Ending::Draining);
        assert_eq!((ask.because(), ask.token.is_cancelled()), (Some(Ending::Cancelled), true));
    }
}
