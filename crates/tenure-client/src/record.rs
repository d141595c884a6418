//! Records as they travel: the hashed bytes, the hash, and what lies beside them. Reading a record's meaning out of its
//! bytes is a step of its own, because a later release may have written a kind that this one does not know, and the bytes
//! verify all the same.

use bytes::Bytes;
use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    id::{Digest, JobId, Seq, Tenant},
};
use tenure_proto::{
    convert::{
        InvalidField,
        id::{read_digest, read_job_id, read_tenant},
        require,
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
    job::read_instant,
};

/// One entry of a job's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// Its position.
    pub seq: Seq,
    /// What was hashed.
    pub bytes: Bytes,
    /// The hash.
    pub hash: Digest,
    /// What lies beside it; none: nothing, or it was erased.
    pub value: Option<Bytes>,
    /// The salt of the value's digest.
    pub salt: Option<Bytes>,
    /// The database's own stamp.
    pub stored_at: Timestamp,
    /// The kind, as inside the bytes.
    pub kind: String,
}

/// A page of a job's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    /// The whole id of the job.
    pub job: JobId,
    /// Whose it is.
    pub tenant: Tenant,
    /// In order.
    pub records: Vec<JournalRecord>,
    /// Where the next page begins; none: there is none.
    pub next_seq: Option<Seq>,
    /// The head as it was noted outside the chain at the last conclusion; none before the first.
    pub concluded_head: Option<Head>,
}

impl Client {
    /// Reads a page of a job's journal; a limit of 0 leaves the size to the fleet, no kinds: all of them.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_records(
        &self,
        job: &str,
        from: Seq,
        kinds: &[String],
        limit: u32,
    ) -> Result<RecordPage, ClientError> {
        let request =
            v1::ListRecordsRequest { job: job.to_owned(), from_seq: from.0, kinds: kinds.to_vec(), limit };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).list_records(request).await }
        };
        Ok(RecordPage::read(self.call(Repeat::Reads, ask).await?)?)
    }
}

impl JournalRecord {
    /// The record's own JSON.
    ///
    /// # Errors
    /// The bytes are no JSON.
    pub fn json(&self) -> Result<serde_json::Value, ClientError> {
        serde_json::from_slice(&self.bytes)
            .map_err(|source| ClientError::RecordUnreadable { seq: self.seq.0, source })
    }

    pub(crate) fn read(given: v1::Record) -> Result<Self, InvalidField> {
        Ok(Self {
            seq: Seq(given.seq),
            hash: read_digest("record.hash", &given.hash)?,
            stored_at: read_instant("record.stored_at", given.stored_at.as_ref())?,
            bytes: given.bytes,
            value: given.value,
            salt: given.salt,
            kind: given.kind,
        })
    }
}

impl RecordPage {
    fn read(given: v1::ListRecordsResponse) -> Result<Self, InvalidField> {
        let read_head = |head: v1::ConcludedHead| {
            Ok(Head { seq: Seq(head.seq), hash: read_digest("concluded_head.hash", &head.hash)? })
        };
        Ok(Self {
            job: read_job_id("job_id", &given.job_id)?,
            tenant: read_tenant("tenant", &given.tenant)?,
            records: given.records.into_iter().map(JournalRecord::read).collect::<Result<_, _>>()?,
            next_seq: Some(Seq(given.next_seq)).filter(|seq| seq.0 != 0),
            concluded_head: given.concluded_head.map(read_head).transpose()?,
        })
    }
}

/// The record of an answer that must hold one.
pub(crate) fn read_required(given: Option<v1::Record>) -> Result<JournalRecord, InvalidField> {
    JournalRecord::read(require("record", given)?)
}
