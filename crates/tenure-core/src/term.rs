//! The rules of a worker's term: its margin, when it is renewed, when its worker stops by itself, which renewals count, and
//! when a coordinator may close it. The database's clock alone decides expiry; a worker counts from the moment at which it
//! sent its last successful renewal, on a monotonic clock that also counts suspended time, and stops one margin before the
//! database would say so. It reads no clock: instants of a monotonic clock come in as the time since its start.
//! Neighbours: `tenure-worker` renews and stops, `tenure-store` renews and closes, a coordinator's sweep asks `PassWatch`.

mod pass_watch;

pub use pass_watch::PassWatch;

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    limits::{TERM_MARGIN_MIN, TTL_MAX, TTL_MIN},
    reason::Reason,
    refusal::Refusal,
};

/// The worker's safety distance from the end of its term: a tenth of it, and 500 ms at least.
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    (ttl / 10).max(TERM_MARGIN_MIN)
}

/// How often a term is renewed.
#[must_use]
pub fn renew_interval(ttl: Duration) -> Duration {
    ttl / 3
}

/// When every child of the term has to be ended (SIGKILL), given the monotonic instant at which the last successful
/// renewal was *sent*.
#[must_use]
pub fn local_deadline(sent: Duration, ttl: Duration) -> Duration {
    sent + ttl.saturating_sub(margin(ttl))
}

/// When the children are asked to stop (SIGTERM): one further margin before the local deadline.
#[must_use]
pub fn ask_instant(sent: Duration, ttl: Duration) -> Duration {
    local_deadline(sent, ttl).saturating_sub(margin(ttl))
}

/// The number of an answer to a renewal: the database's time in microseconds, and always above the one before.
#[must_use]
pub fn next_answer(now: Timestamp, previous: u64) -> u64 {
    microseconds(now).max(previous.saturating_add(1))
}

/// True where the worker did not receive an answer for longer than one ttl: such a renewal renews nothing.
#[must_use]
pub fn is_deaf(now: Timestamp, echo: u64, ttl: Duration) -> bool {
    u128::from(microseconds(now).saturating_sub(echo)) > ttl.as_micros()
}

/// The life of a term that a worker asks for.
///
/// # Errors
/// It is out of bounds.
pub fn check_ttl(ttl: Duration) -> Result<Duration, Refusal> {
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    let words = format!(
        "a term of {} s was asked for, and it may last from {} to {} s",
        ttl.as_secs_f64(),
        TTL_MIN.as_secs(),
        TTL_MAX.as_secs()
    );
    Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "ttl"))
}

fn microseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
