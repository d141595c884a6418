//! What the loops of the background share: why a pass ends early, taking many things at once without filling the way for others,
//! and loops over what is due at instants that the database knows. It decides nothing. Neighbours: each loop says what it lists
//! and what it does with one of it.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use tenure_core::{deadline::between, limits::OVERDUE_CONCLUDED_AT_ONCE};
use tenure_store::{Due, StoreError};

use super::pause;
use crate::{coordinator::Parts, patience::Unanswered, refusals::chain};

/// Another coordinator may have made something due meanwhile.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// The shortest pause, so that an instant that is due by the database's clock and not yet by its next reading does not
/// make a loop spin.
const AT_MOST_EVERY: Duration = Duration::from_millis(10);

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// The pause of a loop until the next known instant.
pub(super) fn until_next(next_at: Option<Timestamp>, now: Timestamp) -> Duration {
    let until_next = next_at.map_or(AT_LEAST_EVERY, |next| between(now, next));
    until_next.clamp(AT_MOST_EVERY, AT_LEAST_EVERY)
}

/// The pause of a loop whose pass ended early.
pub(super) const fn after_failure() -> Duration {
    AT_LEAST_EVERY
}

/// Takes a bounded number at the same time, so that they go together and do not fill the lanes. How many of them `take` says
/// true of.
pub(super) async fn take_at_once<T, Taking>(items: Vec<T>, take: impl Fn(T) -> Taking) -> usize
where
    Taking: Future<Output = bool>,
{
    let taken = stream::iter(items).map(take).buffer_unordered(OVERDUE_CONCLUDED_AT_ONCE);
    taken.filter(|taken| std::future::ready(*taken)).count().await
}

/// Follows what is due until the coordinator stops: `list` names the first of it, and `take` says whether one of it is due no
/// longer. Where a list was full, the next pass comes at once, unless nothing came of all of it.
pub(super) async fn follow_due<T, Listing, Taking>(
    parts: &Parts,
    what: &'static str,
    list: impl Fn() -> Listing,
    take: impl Fn(T) -> Taking,
) where
    Listing: Future<Output = Result<Due<T>, PassError>>,
    Taking: Future<Output = bool>,
{
    let mut wait = Duration::ZERO;
    while pause(parts, wait).await {
        wait = match list().await {
            Ok(Due { due, full, next_at, now }) => {
                let found = due.len();
                let taken = take_at_once(due, &take).await;
                if found > 0 {
                    tracing::debug!(what, found, taken, full, "pass over what is due");
                }
                if full && taken > 0 { AT_MOST_EVERY } else { until_next(next_at, now) }
            }
            Err(error) => {
                tracing::debug!(what, error = chain(&error), "what is due could not be looked for");
                after_failure()
            }
        };
    }
}
