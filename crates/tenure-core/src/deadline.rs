//! The arithmetic of a session's one absolute deadline. Elapsed below the ceiling admits, at or above it denies; what
//! remains saturates at zero and never wraps; whole seconds that remain are rounded up, so that an admitted round never
//! starts with zero. It reads no clock: whether something is admitted is decided by the database's time, and a worker only
//! clamps. It never interrupts anything. Neighbours: `admission` asks it before each run.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::record::DeadlineSetting;

/// A session's deadline, as its row has it. Nobody who works under it can move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    started_at: Timestamp,
    deadline_at: Option<Timestamp>,
}

/// The session's deadline is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session's deadline is reached: {elapsed_s} s have passed, and its ceiling is {ceiling_s} s")]
pub struct DeadlineReached {
    /// Whole seconds since the session's start.
    pub elapsed_s: u64,
    /// The ceiling in whole seconds.
    pub ceiling_s: u64,
}

impl Deadline {
    /// The deadline of a session that started then; none: no ceiling.
    #[must_use]
    pub const fn new(started_at: Timestamp, deadline_at: Option<Timestamp>) -> Self {
        Self { started_at, deadline_at }
    }

    /// The deadline that a submission asked for, for a session that starts then. A ceiling beyond the end of time is the
    /// end of time.
    #[must_use]
    pub fn from_setting(started_at: Timestamp, setting: DeadlineSetting) -> Self {
        let deadline_at = match setting {
            DeadlineSetting::CeilingS(ceiling_s) => Some(add(started_at, Duration::from_secs(ceiling_s))),
            DeadlineSetting::At(instant) => Some(instant),
            DeadlineSetting::None => None,
        };
        Self { started_at, deadline_at }
    }

    /// The instant; none: no ceiling.
    #[must_use]
    pub const fn deadline_at(&self) -> Option<Timestamp> {
        self.deadline_at
    }

    /// The time between start and deadline; zero where the deadline lies before the start.
    #[must_use]
    pub fn ceiling(&self) -> Option<Duration> {
        self.deadline_at.map(|deadline_at| between(self.started_at, deadline_at))
    }

    /// The time since the start; zero before it.
    #[must_use]
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        between(self.started_at, now)
    }

    /// Whether something may begin now.
    ///
    /// # Errors
    /// Elapsed has reached the ceiling.
    pub fn admit(&self, now: Timestamp) -> Result<(), DeadlineReached> {
        match self.ceiling() {
            Some(ceiling) if self.elapsed(now) >= ceiling => {
                Err(DeadlineReached { elapsed_s: self.elapsed(now).as_secs(), ceiling_s: ceiling.as_secs() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What is left; none where there is no ceiling.
    #[must_use]
    pub fn remaining(&self, now: Timestamp) -> Option<Duration> {
        self.ceiling().map(|ceiling| ceiling.saturating_sub(self.elapsed(now)))
    }

    /// What is left in whole seconds, rounded up.
    #[must_use]
    pub fn remaining_s(&self, now: Timestamp) -> Option<u64> {
        self.remaining(now).map(ceil_seconds)
    }
}

/// Whole seconds, rounded up.
#[must_use]
pub const fn ceil_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add((span.subsec_nanos() > 0) as u64)
}

/// A round's own timeout under what remains of the deadline: the smaller of the two; where one is none, the other.
#[must_use]
pub fn clamp(own: Option<Duration>, remaining: Option<Duration>) -> Option<Duration> {
    match (own, remaining) {
        (Some(own), Some(remaining)) => Some(own.min(remaining)),
        (own, remaining) => own.or(remaining),
    }
}

/// The duration of a check in milliseconds, saturating.
#[must_use]
pub fn duration_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The time from one instant to a later one; zero where it is not later.
#[must_use]
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or(Duration::ZERO)
}

/// An instant and a span after it; at most the end of time.
#[must_use]
pub fn add(at: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| at.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
