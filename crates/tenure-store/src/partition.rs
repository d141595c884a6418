//! Partitions by month of the job id's time. They are made ahead, by `migrate` and by a background task; there is no
//! default partition, because it forbids detaching without a lock.

use jiff::Timestamp;

use crate::{Store, StoreError};

/// What `ensure_partitions` found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionReport {
    /// Months (as `2026_11`) that were made.
    pub made: Vec<String>,
    /// Live months after it.
    pub live: u32,
    /// True where there are more than `limits::PARTITIONS_MAX`: every statement pays for each of them.
    pub too_many: bool,
}

impl Store {
    /// Makes the partitions for the month of `now`, the one before it and the ones ahead. Harmless to repeat and to race.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn ensure_partitions(&self, _now: Timestamp) -> Result<PartitionReport, StoreError> {
        Err(StoreError::unwritten())
    }
}
