//! Erasing a part of what a job holds, in one statement with the record that says so. It is not an append: it comes to jobs
//! that are sealed too, and nothing else follows from it. Neighbours: `append` (every other record), `blob` (whose pieces
//! are deleted afterwards).

use sqlx::query_file;
use tenure_core::{
    chain::Head,
    id::{Digest, JobId, Tenant},
    record::{ErasedPart, SealedRecord},
};

use crate::{
    Store, StoreError,
    stored::{from_bigint, to_bigint, to_integer},
    timestamp::Stamp,
};

/// What is to be erased, and the record of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Erasure {
    /// Whose.
    pub tenant: Tenant,
    /// Of which job.
    pub job: JobId,
    /// Which part.
    pub part: ErasedPart,
    /// The digest of the input, as its record names it.
    pub input: Digest,
    /// SHA-256 of the key that the job was submitted under.
    pub key: Option<Digest>,
    /// The head that the record was sealed at.
    pub head: Head,
    /// The record.
    pub record: SealedRecord,
}

impl Store {
    /// Erases, and tells how many values and pieces of output there were. None: the head moved, a lease or a run has come, or
    /// the generation is old; nothing was erased.
    ///
    /// # Errors
    /// `PositionTaken`: nothing was erased. `TimelineChanged`; the database does not answer.
    pub async fn erase_values(&self, erasure: &Erasure) -> Result<Option<u64>, StoreError> {
        let Erasure { tenant, job, part, input, key, head, record } = erasure;
        let row = query_file!(
            "queries/journal/erase_values.sql",
            tenant.as_str(),
            job.0,
            to_bigint(record.generation.0),
            to_bigint(record.seq.0),
            &head.hash.0[..],
            to_bigint(record.epoch.0),
            to_integer(record.run.0),
            record.kind,
            Stamp(record.at) as _,
            &record.bytes,
            &record.hash.0[..],
            *part == ErasedPart::Input,
            &input.0[..],
            key.as_ref().map(|key| &key.0[..])
        )
        .fetch_one(&self.pool)
        .await
        .map_err(StoreError::while_doing("erasing values"))?;
        if row.written == 0 {
            self.check_timeline().await?;
            return Ok(None);
        }
        Ok(Some(from_bigint(row.erased)))
    }
}
