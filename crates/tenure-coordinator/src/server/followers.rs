//! How many streams follow something on this coordinator: each costs a task and a poll of the database, so there is a
//! bound. Neighbours: `record_stream`, `output_stream`.

use std::sync::Arc;

use tenure_core::{limits::FOLLOWERS_MAX, reason::Reason, refusal::Refusal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    metrics::{Limit, metrics},
    refusals::OVERLOAD_RETRY,
};

/// The places of followers. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Followers {
    places: Arc<Semaphore>,
}

impl Followers {
    /// All places are free.
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(FOLLOWERS_MAX)) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        FOLLOWERS_MAX.saturating_sub(self.places.available_permits())
    }

    /// A place, as long as it is kept.
    pub(crate) fn take_place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            metrics().note_limit(Limit::Followers);
            let words =
                format!("{FOLLOWERS_MAX} streams follow jobs on this coordinator, and no more are taken");
            Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY)
        })
    }
}
