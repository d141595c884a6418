//! Instants on the clock that also counts the time in which the host was suspended.
//!
//! Owns the type in which a worker tells its guardians the local deadline. The clock is shared by all processes
//! of one boot, so an instant may travel between them; it means nothing on another host or after a reboot.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// An instant of `CLOCK_BOOTTIME`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootInstant(u64);

impl BootInstant {
    /// Never reached: 584 years after the boot.
    pub const NEVER: Self = Self(u64::MAX);

    /// The present instant.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
    }

    /// From nanoseconds since the boot.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the boot.
    pub const fn as_nanoseconds(self) -> u64 {
        self.0
    }

    /// The instant so much later; saturates at [`Self::NEVER`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(as_nanoseconds(duration)))
    }

    /// The instant so much earlier; saturates at the boot. [`Self::NEVER`] stays what it is.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(self.0.saturating_sub(as_nanoseconds(duration))) }
    }

    /// How long after `earlier` this is; zero where it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = BootInstant::now();
        assert!(BootInstant::now() >= first);
    }

    #[test]
    fn arithmetic_saturates_and_never_stays_never() {
        let instant = BootInstant::from_nanoseconds(10);
        assert_eq!(instant.minus(Duration::from_secs(1)), BootInstant::from_nanoseconds(0));
        assert_eq!(instant.plus(Duration::MAX), BootInstant::NEVER);
        assert_eq!(BootInstant::NEVER.minus(Duration::from_secs(1)), BootInstant::NEVER);
        assert_eq!(instant.since(BootInstant::from_nanoseconds(4)), Duration::from_nanos(6));
        assert_eq!(BootInstant::from_nanoseconds(4).since(instant), Duration::ZERO);
    }
}
