//! Waiting for an instant of the clock that also counts suspended time. The runtime's own timers stop with the host, so
//! the clock is looked at again every second: after a suspension this worker is late by that much at most. The guardian
//! of each run, which is what must not be late, has a timer of the kernel for it.

use std::time::Duration;

use tokio::time::sleep;

use crate::guardian::BootInstant;

/// The clock is looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the instant is reached.
pub(crate) async fn reach(instant: BootInstant) {
    loop {
        let left = instant.since(BootInstant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_instant_is_reached_and_not_before() {
        let instant = BootInstant::now().plus(Duration::from_millis(20));
        reach(instant).await;
        assert!(BootInstant::now() >= instant);
    }

    #[tokio::test]
    async fn a_past_instant_is_reached_at_once() {
        reach(BootInstant::from_nanoseconds(1)).await;
    }
}
