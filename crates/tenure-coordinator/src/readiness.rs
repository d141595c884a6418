//! Whether this coordinator can do its work: the database answered last time. It is looked at in the background, so that a
//! probe costs nothing. Neighbours: the clock's background task says so, health and probes ask.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether the database answers. Clones share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    ready: Arc<watch::Sender<bool>>,
}

impl Readiness {
    pub(crate) fn ready() -> Self {
        Self { ready: Arc::new(watch::Sender::new(true)) }
    }

    /// True where the database answered last time.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Says so; returns true where that is a change.
    pub(crate) fn set(&self, ready: bool) -> bool {
        self.ready.send_replace(ready) != ready
    }

    /// Hears of changes.
    pub(crate) fn hear_changes(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }
}
