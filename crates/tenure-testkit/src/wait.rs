//! Waiting for a condition, instead of for time to pass.
//!
//! Owns one function. Promises that a wait that fails says what it waited for and what it last saw.
//! Does not measure anything: how long a wait took is no result of a test.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often a condition is looked at again.
const POLL: Duration = Duration::from_millis(10);

/// Looks at `condition` until it returns `Ok`, and returns what that holds.
///
/// An `Err` means "not yet" and carries what was seen, for the report.
///
/// # Panics
/// When `timeout` has passed without the condition; the message names `what` and what was last seen.
#[expect(clippy::panic, reason = "a test whose condition never came true has failed")]
pub async fn wait_for<T, S: Debug>(
    what: &str,
    timeout: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let end = Instant::now() + timeout;
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(seen) if Instant::now() >= end => {
                panic!("waited {timeout:?} for {what}; last saw {seen:?}")
            }
            Err(_) => sleep(POLL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_ends_with_the_value_that_the_condition_found() {
        let mut looks = 0;
        let found = wait_for("the third look", Duration::from_secs(30), async || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err(looks) }
        });
        assert_eq!(found.await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "for a wonder; last saw \"nothing\"")]
    async fn wait_that_fails_reports_what_it_last_saw() {
        wait_for("a wonder", Duration::ZERO, async || Err::<(), _>("nothing")).await;
    }
}
