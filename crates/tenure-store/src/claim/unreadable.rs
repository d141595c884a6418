//! Rows of the queue that this release cannot read, a cause of a newer one for example. They stay in the queue, for whoever
//! can, and claims of this process pass them over for a while, so that they do not stand before what comes after them. A job
//! that becomes ready again has another number, and is looked at. Nothing is stored: another process finds its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tenure_core::limits::{UNREADABLE_ROWS_MAX, UNREADABLE_SKIP};

/// Their numbers in the queue, and since when they are passed over, oldest first. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadableRows(Arc<Mutex<VecDeque<(Instant, i64)>>>);

impl UnreadableRows {
    /// What is passed over now.
    pub(super) fn list(&self, now: Instant) -> Vec<i64> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while rows.front().is_some_and(|(since, _)| now.duration_since(*since) >= UNREADABLE_SKIP) {
            rows.pop_front();
        }
        rows.iter().map(|(_, queue_no)| *queue_no).collect()
    }

    /// Passes them over from now on. False where there are too many, and not all of these are.
    pub(super) fn note(&self, queue_nos: &[i64], now: Instant) -> bool {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = UNREADABLE_ROWS_MAX.saturating_sub(rows.len());
        rows.extend(queue_nos.iter().take(room).map(|queue_no| (now, *queue_no)));
        queue_nos.len() <= room
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_row_is_passed_over_for_a_while_and_then_looked_at_again() {
        let (rows, begun) = (UnreadableRows::default(), Instant::now());
        assert!(rows.note(&[7], begun));
        assert!(rows.note(&[9], begun + Duration::from_secs(1)));
        assert_eq!(rows.list(begun + UNREADABLE_SKIP - Duration::from_millis(1)), [7, 9]);
        assert_eq!(rows.list(begun + UNREADABLE_SKIP), [9]);
    }

    #[test]
    fn no_more_rows_are_passed_over_than_the_limit_and_that_is_said() {
        let (rows, begun) = (UnreadableRows::default(), Instant::now());
        let many: Vec<i64> = (0..).take(UNREADABLE_ROWS_MAX).collect();
        assert!(rows.note(&many, begun));
        assert!(!rows.note(&[-1], begun));
        assert_eq!(rows.list(begun), many);
    }
}
