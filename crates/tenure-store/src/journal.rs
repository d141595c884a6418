//! Reading a job's journal.

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    id::{Digest, Epoch, JobId, Run, Seq, Tenant},
    record::Record,
};

use crate::{Store, StoreError};

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The position.
    pub seq: Seq,
    /// The epoch, as in the bytes.
    pub epoch: Epoch,
    /// The run, as in the bytes.
    pub run: Run,
    /// The kind, as in the bytes.
    pub kind: String,
    /// What was hashed.
    pub bytes: Vec<u8>,
    /// SHA-256(prev_hash ‖ bytes).
    pub hash: Digest,
    /// What lies beside it; none: nothing, or it was erased.
    pub value: Option<Vec<u8>>,
    /// The salt of the value's digest.
    pub salt: Option<Vec<u8>>,
    /// The database's own stamp.
    pub stored_at: Timestamp,
}

impl StoredRecord {
    /// Reads the bytes.
    ///
    /// # Errors
    /// They are not a record that this release knows.
    pub fn parse(&self) -> Result<Record, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }
}

/// The end of a job's journal, for looking up appends that are sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The last position.
    pub head: Head,
    /// The epoch of the last record.
    pub head_epoch: Epoch,
    /// The run of the last record.
    pub head_run: Run,
    /// The time of the last record, as in its bytes.
    pub head_at: Timestamp,
    /// The rows from the seq that was asked for, in order.
    pub rows: Vec<TailRow>,
    /// True where `rows` ends before the head: read on from the last row.
    pub more: bool,
}

/// One row of a tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRow {
    /// The position.
    pub seq: Seq,
    /// The epoch.
    pub epoch: Epoch,
    /// The run.
    pub run: Run,
    /// The number of the worker's append.
    pub n: Option<u64>,
    /// The digest of what the worker sent.
    pub request: Option<Digest>,
    /// The kind.
    pub kind: String,
}

impl Store {
    /// Reads the tail of a job's journal from `from` on, by the primary key; nothing where there is no such job.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_tail(
        &self,
        _tenant: &Tenant,
        _job: JobId,
        _from: Seq,
    ) -> Result<Option<Tail>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads records from `from` on, in order; only of these kinds, where any are named.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_records(
        &self,
        _tenant: &Tenant,
        _job: JobId,
        _from: Seq,
        _kinds: &[String],
        _limit: u32,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads what a job returned; nothing where it did not succeed, or returned nothing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_result(&self, _tenant: &Tenant, _job: JobId) -> Result<Option<Vec<u8>>, StoreError> {
        Err(StoreError::unwritten())
    }
}
