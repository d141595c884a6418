//! The poll behind wake-ups: whatever one of them would have said is found by it. Each pause is up to a fifth shorter or
//! longer, so that coordinators do not look at the same moment. Neighbours: `dispatch` and the followers pause, `wake` spares
//! them the wait.

use std::time::Duration;

/// How often is looked without a wake-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Poll {
    interval: Duration,
}

impl Poll {
    /// A poll about so often.
    pub(crate) fn every(interval: Duration) -> Self {
        Self { interval }
    }

    /// Returns at the next poll.
    pub(crate) async fn pause(self) {
        tokio::time::sleep(self.interval.mul_f64(rand::random_range(0.8..1.2))).await;
    }
}
