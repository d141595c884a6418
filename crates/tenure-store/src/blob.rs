//! Where the values are that no row takes, and whose they are: a row for each, from before its first piece is stored until
//! its last is deleted. The values themselves are in a blob store, which is not asked here. Promises: a blob belongs to one
//! job for ever once it is bound; what is gone has neither salt nor digest left. Neighbours: `erasure` (values in rows).

use std::time::Duration;

use sqlx::query_file;
use tenure_core::{
    id::{Digest, JobId, Tenant},
    record::ValueRef,
};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint},
};

/// A blob by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPlace {
    /// Whose.
    pub tenant: Tenant,
    /// Its id.
    pub blob: Uuid,
}

/// A blob of which every piece was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// How records name it.
    pub reference: ValueRef,
    /// The salt of that name.
    pub salt: [u8; 16],
    /// SHA-256 of the value alone.
    pub content: Digest,
}

/// A blob as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlob {
    /// Where its pieces are.
    pub blob: Uuid,
    /// Its length.
    pub bytes: u64,
    /// The job that it belongs to; none: nobody's yet.
    pub job: Option<JobId>,
    /// What reading it needs; none: it is gone.
    pub live: Option<LiveBlob>,
}

/// What is known of a blob until it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBlob {
    /// The salt of its name.
    pub salt: [u8; 16],
    /// SHA-256 of the value alone.
    pub content: Digest,
}

/// What a look for blobs that nothing names has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JudgedBlobs {
    /// So many are to be deleted.
    pub gone: u64,
    /// So many were found to be named by a record.
    pub kept: u64,
}

impl Store {
    /// Notes a blob before its first piece is stored.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_blob(&self, place: &BlobPlace) -> Result<(), StoreError> {
        query_file!("queries/blobs/begin_blob.sql", place.tenant.as_str(), place.blob)
            .execute(&self.pool)
            .await
            .map_err(StoreError::while_doing("noting a blob"))?;
        Ok(())
    }

    /// Notes that a blob was stored, bound to a job where it is a result. False where a sweep took it for a broken upload.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn finish_blob(
        &self,
        place: &BlobPlace,
        stored: &StoredBlob,
        job: Option<JobId>,
    ) -> Result<bool, StoreError> {
        let finished = query_file!(
            "queries/blobs/finish_blob.sql",
            place.tenant.as_str(),
            place.blob,
            &stored.reference.sha256.0[..],
            to_bigint(stored.reference.bytes),
            &stored.salt[..],
            &stored.content.0[..],
            job.map(|job| job.0)
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing("noting that a blob is stored"))?;
        Ok(finished.is_some())
    }

    /// Binds a blob to a job; false where there is none of this name, or it is bound already, or gone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn bind_blob(&self, tenant: &Tenant, name: Digest, job: JobId) -> Result<bool, StoreError> {
        let bound = query_file!("queries/blobs/bind_blob.sql", tenant.as_str(), &name.0[..], job.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing("binding a blob to a job"))?;
        Ok(bound.is_some())
    }

    /// Finds a blob by its name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_blob(&self, tenant: &Tenant, name: Digest) -> Result<Option<FoundBlob>, StoreError> {
        let attempted = "finding a blob";
        let row = query_file!("queries/blobs/find_blob.sql", tenant.as_str(), &name.0[..])
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        row.map(|row| {
            let salt = row.salt.and_then(|salt| salt.try_into().ok());
            let content = row.content.map(|content| Reader(attempted).digest(&content)).transpose()?;
            let live = salt.zip(content).filter(|_| !row.gone);
            Ok(FoundBlob {
                blob: row.blob,
                bytes: from_bigint(row.bytes),
                job: row.job.map(JobId),
                live: live.map(|(salt, content)| LiveBlob { salt, content }),
            })
        })
        .transpose()
    }

    /// Judges at most `limit` blobs that were not touched for so long and that no record was known to name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn judge_blobs(&self, untouched: Duration, limit: u32) -> Result<JudgedBlobs, StoreError> {
        let row = query_file!("queries/blobs/judge_blobs.sql", untouched.as_secs_f64(), i64::from(limit))
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing("judging blobs that nothing may name"))?;
        Ok(JudgedBlobs { gone: from_bigint(row.gone), kept: from_bigint(row.kept) })
    }

    /// Lists blobs whose pieces are to be deleted; of one job, where that is given.
    ///
    /// # Errors
    /// The database does not answer; a row cannot be read.
    pub async fn list_gone_blobs(
        &self,
        of: Option<(&Tenant, JobId)>,
        limit: u32,
    ) -> Result<Vec<BlobPlace>, StoreError> {
        let attempted = "listing blobs that are to be deleted";
        let rows = query_file!(
            "queries/blobs/list_gone.sql",
            of.map(|(tenant, _)| tenant.as_str()),
            of.map(|(_, job)| job.0),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let place = |tenant, blob| Ok(BlobPlace { tenant: Reader(attempted).tenant(tenant)?, blob });
        rows.into_iter().map(|row| place(row.tenant, row.blob)).collect()
    }

    /// Forgets a blob whose pieces are deleted.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_blob(&self, place: &BlobPlace) -> Result<(), StoreError> {
        query_file!("queries/blobs/delete_blob.sql", place.tenant.as_str(), place.blob)
            .execute(&self.pool)
            .await
            .map_err(StoreError::while_doing("forgetting a blob"))?;
        Ok(())
    }
}
