//! What is known of a giver beside its facts, and of what it gave. The gift itself is written by `append`.

use tenure_core::{
    halt::StandingHalt,
    id::{Digest, JobId, Seq, SessionId, Tenant},
    sending::{GiftKey, Standing},
};

use crate::{
    NewJob, Store, StoreError,
    stored::{Reader, from_bigint, from_integer},
    submission::ERASED_DIGEST,
};

/// A giver, and what it gave under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Giver {
    /// Where it stands.
    pub standing: Standing,
    /// Its priority, which what it gives takes over.
    pub priority: u8,
    /// Who submitted what set it in motion, and so what it gives.
    pub submitted_by: Option<String>,
    /// The canonical JSON of the policy bundle that it is held to, where there is one.
    pub bundle_document: Option<Vec<u8>>,
    /// The job that came of the gift under the key.
    pub earlier: Option<EarlierGift>,
}

/// A job that came of a gift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierGift {
    /// The job.
    pub child: JobId,
    /// Its session.
    pub session: SessionId,
    /// True where the same was given.
    pub is_same: bool,
}

/// What a job gave to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GiftRow {
    /// The record with which it stands.
    pub seq: Seq,
    /// The job that came of it.
    pub child: JobId,
    /// What it is known by.
    pub key: GiftKey,
    /// Where its session is its own, how deep that is.
    pub depth: Option<u32>,
}

impl Store {
    /// The broadest halt that stands against a job that is to be given work.
    ///
    /// # Errors
    /// The database does not answer, or a halt cannot be read.
    pub async fn find_halt(&self, new: &NewJob) -> Result<Option<StandingHalt>, StoreError> {
        Ok(self.find_halts("giving work", &[new]).await?.pop().flatten())
    }

    /// Lists what a job gave to agents, in the order of its records: all of it, for tests that write the job anew.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_gifts(&self, tenant: &Tenant, job: JobId) -> Result<Vec<GiftRow>, StoreError> {
        let attempted = "listing what a job gave";
        let rows = sqlx::query_file!("queries/sends/list_gifts.sql", tenant.as_str(), job.0)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let reader = Reader(attempted);
        let mut gifts = Vec::with_capacity(rows.len());
        for row in rows {
            let (hash, payload) = (reader.digest(&row.key_hash)?, reader.digest(&row.payload_digest)?);
            gifts.push(GiftRow {
                seq: Seq(from_bigint(row.seq)),
                child: JobId(row.child),
                key: GiftKey { hash, payload },
                depth: row.depth.map(from_integer),
            });
        }
        Ok(gifts)
    }

    /// Reads where a giver stands, and what it gave under this key; nothing where there is no such job.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_giver(
        &self,
        tenant: &Tenant,
        job: JobId,
        key: &GiftKey,
    ) -> Result<Option<Giver>, StoreError> {
        let attempted = "reading what a run gave";
        let row = sqlx::query_file!("queries/sends/read_giver.sql", tenant.as_str(), job.0, &key.hash.0[..])
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let Some(row) = row else { return Ok(None) };
        let stored = row.payload_digest.map(|digest| Reader(attempted).digest(&digest)).transpose()?;
        let is_same = |stored: Digest| stored == ERASED_DIGEST || stored == key.payload;
        let child = row.child.zip(Some(row.child_session)).zip(stored);
        Ok(Some(Giver {
            standing: Standing { depth: from_integer(row.depth) },
            priority: u8::try_from(row.priority).unwrap_or_default(),
            submitted_by: row.submitted_by,
            bundle_document: row.bundle_document,
            earlier: child.map(|((child, session), stored)| EarlierGift {
                child: JobId(child),
                session: SessionId(session),
                is_same: is_same(stored),
            }),
        }))
    }
}
