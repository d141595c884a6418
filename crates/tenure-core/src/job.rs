//! The states of a job and what may become of them.

use serde::{Deserialize, Serialize};

/// Where a job stands. An unknown stored state is refused, never guessed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker.
    Ready,
    /// A run holds its lease.
    Running,
    /// Waits for an instant, an event or a decision.
    Suspended,
    /// Its run ended without a verdict, and it may not be restarted on the fleet's own authority.
    Interrupted,
    /// Sealed with success.
    Succeeded,
    /// Failed, and may be resumed.
    Failed,
    /// A limit refused.
    Exhausted,
    /// A principal's halt paused it.
    Withheld,
    /// Something is in doubt.
    Quarantined,
    /// Sealed by a cancel.
    Cancelled,
    /// Sealed by a person.
    Abandoned,
    /// Sealed by retention.
    Expired,
}
