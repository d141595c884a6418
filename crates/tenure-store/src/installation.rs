//! The installation's one row: which database this is, on which timeline, and the number of its history; and the
//! database's clock.

use jiff::Timestamp;
use tenure_core::id::Generation;

use crate::{Store, StoreError};

/// The installation, as noted when it was made, and the present timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// PostgreSQL's own number for the cluster.
    pub system_id: u64,
    /// The timeline that was noted.
    pub timeline: String,
    /// The timeline as it is now. Where it differs, nothing is claimed or written.
    pub present_timeline: String,
    /// The number of the database's history.
    pub generation: Generation,
    /// When it was installed.
    pub installed_at: Timestamp,
}

impl Store {
    /// Reads the installation's row.
    ///
    /// # Errors
    /// The database does not answer, or is not migrated.
    pub async fn read_installation(&self) -> Result<Installation, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads the database's clock.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_clock(&self) -> Result<Timestamp, StoreError> {
        Err(StoreError::unwritten())
    }
}
