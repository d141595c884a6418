//! The installation's one row: which database this is, on which timeline, and the number of its history; and the
//! database's clock. A timeline that changed stops every write; what follows from that is decided elsewhere.

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::id::Generation;

use crate::{Store, StoreError, stored::from_bigint, timestamp::Stamp};

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
        let row = sqlx::query_file_as!(InstallationRow, "queries/installation/read_installation.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing("reading the installation"))?;
        Ok(Installation {
            system_id: row.system_id.cast_unsigned(),
            timeline: row.timeline,
            present_timeline: row.present_timeline,
            generation: Generation(from_bigint(row.generation)),
            installed_at: row.installed_at.0,
        })
    }

    /// Reads the database's clock.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_clock(&self) -> Result<Timestamp, StoreError> {
        let row = sqlx::query_file_as!(ClockRow, "queries/installation/read_clock.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing("reading the database's clock"))?;
        Ok(row.now.0)
    }

    /// Notes the installation, where that was not done before.
    pub(crate) async fn note_installation(&self) -> Result<(), StoreError> {
        query_file!("queries/installation/note_installation.sql")
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(StoreError::while_doing("noting the installation"))
    }

    /// Passes where the timeline is the one that was noted: for methods whose write was not admitted.
    pub(crate) async fn check_timeline(&self) -> Result<(), StoreError> {
        let installation = self.read_installation().await?;
        if installation.timeline == installation.present_timeline {
            return Ok(());
        }
        Err(StoreError::TimelineChanged {
            recorded: installation.timeline,
            present: installation.present_timeline,
        })
    }
}

struct InstallationRow {
    system_id: i64,
    timeline: String,
    present_timeline: String,
    generation: i64,
    installed_at: Stamp,
}

struct ClockRow {
    now: Stamp,
}
