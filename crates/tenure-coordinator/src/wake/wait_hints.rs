//! Hints for whoever notes what came of awaited jobs. They stay in this coordinator: whoever writes a conclusion, or a wait, looks
//! itself. They are bounded, and one that is lost costs the time until all waits are looked through again.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tenure_core::{
    id::{JobId, Tenant},
    limits::AWAITED_PAGE,
};
use tokio::sync::Notify;

/// Hints that wait at the same time.
const HINTS_MAX: usize = 100_000;

/// Something that may settle a wait for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitHint {
    /// This job concluded: somebody may wait for it.
    Concluded((Tenant, JobId)),
    /// This job began to wait for others, and one of them may have concluded before, unseen.
    Suspended((Tenant, JobId)),
}

/// What was hinted at.
#[derive(Debug, Default)]
pub(super) struct WaitHints {
    waiting: Mutex<VecDeque<WaitHint>>,
    some: Notify,
}

impl WaitHints {
    pub(super) fn add(&self, hint: WaitHint) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < HINTS_MAX {
            waiting.push_back(hint);
        }
        drop(waiting);
        self.some.notify_one();
    }

    /// At most as many as one statement takes.
    pub(super) async fn take(&self) -> Vec<WaitHint> {
        loop {
            let taken = self.take_waiting();
            if !taken.is_empty() {
                return taken;
            }
            self.some.notified().await;
        }
    }

    fn take_waiting(&self) -> Vec<WaitHint> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(AWAITED_PAGE as usize);
        let taken = waiting.drain(..count).collect();
        if !waiting.is_empty() {
            self.some.notify_one();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hints_are_taken_in_their_order_and_no_more_at_once_than_a_statement_takes() {
        let hints = WaitHints::default();
        let hint = |number: u128| {
            WaitHint::Concluded((Tenant::default_tenant(), JobId(uuid::Uuid::from_u128(number))))
        };
        let all: Vec<_> = (0..u128::from(AWAITED_PAGE) + 5).map(hint).collect();
        all.iter().cloned().for_each(|hint| hints.add(hint));
        let (first, second) = (hints.take().await, hints.take().await);
        assert_eq!((first.len(), second.len()), (AWAITED_PAGE as usize, 5));
        assert_eq!([first, second].concat(), all);
    }
}
