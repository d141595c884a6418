//! Reading a job's journal: pages of it, its end, and what lies beside the last verdict. Writing is `append`.

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    chain::Head,
    id::{Digest, Epoch, JobId, Run, Seq, Tenant},
    limits::{HANDOVER_EFFECT_OUTPUT_MAX_BYTES, RECORD_PAGE_MAX_BYTES, TAIL_MAX_ROWS},
    record::{KeptValue, Record, RecordKind},
};

use crate::{
    Store, StoreError,
    facts::read_head,
    stored::{Reader, from_bigint, from_integer, to_bigint},
    timestamp::Stamp,
};

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

/// A page of a job's journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPage {
    /// In order.
    pub records: Vec<StoredRecord>,
    /// Where the next page begins, which may turn out to be empty; none: there was nothing more.
    pub next: Option<Seq>,
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
        tenant: &Tenant,
        job: JobId,
        from: Seq,
    ) -> Result<Option<Tail>, StoreError> {
        let attempted = "reading the tail of a journal";
        let rows = sqlx::query_file_as!(
            TailRows,
            "queries/journal/read_tail.sql",
            tenant.as_str(),
            job.0,
            to_bigint(from.0),
            i64::from(TAIL_MAX_ROWS)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        into_tail(rows, Reader(attempted))
    }

    /// Reads a page of records from `from` on, in order; only of these kinds, where any are named. It ends at `limit`
    /// records or `limits::RECORD_PAGE_MAX_BYTES`, whichever is first, and holds at least one record where there is any.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_records(
        &self,
        tenant: &Tenant,
        job: JobId,
        from: Seq,
        kinds: &[String],
        limit: u32,
    ) -> Result<RecordPage, StoreError> {
        let attempted = "reading records";
        let rows = sqlx::query_file_as!(
            RecordRow,
            "queries/journal/read_records.sql",
            tenant.as_str(),
            job.0,
            to_bigint(from.0),
            kinds,
            i64::from(limit),
            i64::from(RECORD_PAGE_MAX_BYTES)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        into_page(rows, limit, Reader(attempted))
    }

    /// Reads a page of what a handover is composed from, as `read_records` does: records of these kinds, without the values of
    /// announcements, and with those of outcomes cut off after the first byte that a handover does not tell.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_history(
        &self,
        tenant: &Tenant,
        job: JobId,
        from: Seq,
        kinds: &[String],
        limit: u32,
    ) -> Result<RecordPage, StoreError> {
        let attempted = "reading what a handover tells";
        let told = i32::try_from(HANDOVER_EFFECT_OUTPUT_MAX_BYTES + 1).unwrap_or(i32::MAX);
        let rows = sqlx::query_file_as!(
            RecordRow,
            "queries/journal/read_history.sql",
            tenant.as_str(),
            job.0,
            to_bigint(from.0),
            kinds,
            i64::from(limit),
            i64::from(RECORD_PAGE_MAX_BYTES),
            told
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        into_page(rows, limit, Reader(attempted))
    }

    /// Reads what a job returned; nothing where it did not succeed, or returned nothing.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_result(&self, tenant: &Tenant, job: JobId) -> Result<Option<KeptValue>, StoreError> {
        let row = query_file!("queries/journal/read_result.sql", tenant.as_str(), job.0)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing("reading a result"))?;
        let Some(row) = row else { return Ok(None) };
        if let Some(value) = row.value {
            return Ok(Some(KeptValue::Beside(value)));
        }
        // Nothing is read back from a record that this release does not know.
        let concluded = row.concluded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(match concluded {
            Some(Record { kind: RecordKind::JobConcluded { result: Some(result), .. }, .. }) => {
                Some(KeptValue::find(result, None))
            }
            Some(_) | None => None,
        })
    }
}

/// The head, and beside it one row of the tail, where there is any.
struct TailRows {
    head_seq: i64,
    head_hash: Vec<u8>,
    head_epoch: i64,
    head_run: i32,
    head_at: Stamp,
    seq: Option<i64>,
    epoch: Option<i64>,
    run: Option<i32>,
    n: Option<i64>,
    request: Option<Vec<u8>>,
    kind: Option<String>,
}

fn into_tail(found: Vec<TailRows>, reader: Reader) -> Result<Option<Tail>, StoreError> {
    let Some(first) = found.first() else { return Ok(None) };
    let head = read_head(reader, first.head_seq, &first.head_hash)?;
    let (head_epoch, head_run, head_at) = (first.head_epoch, first.head_run, first.head_at);
    let rows = found.into_iter().filter_map(|row| row.into_row(reader).transpose());
    let rows: Vec<TailRow> = rows.collect::<Result<_, _>>()?;
    Ok(Some(Tail {
        more: rows.last().is_some_and(|last| last.seq < head.seq),
        head,
        head_epoch: Epoch(from_bigint(head_epoch)),
        head_run: Run(from_integer(head_run)),
        head_at: head_at.0,
        rows,
    }))
}

impl TailRows {
    fn into_row(self, reader: Reader) -> Result<Option<TailRow>, StoreError> {
        let (Some(seq), Some(epoch), Some(run), Some(kind)) = (self.seq, self.epoch, self.run, self.kind)
        else {
            return Ok(None);
        };
        Ok(Some(TailRow {
            seq: Seq(from_bigint(seq)),
            epoch: Epoch(from_bigint(epoch)),
            run: Run(from_integer(run)),
            n: self.n.map(from_bigint),
            request: self.request.map(|digest| reader.digest(&digest)).transpose()?,
            kind,
        }))
    }
}

struct RecordRow {
    seq: i64,
    epoch: i64,
    run: i32,
    kind: String,
    bytes: Vec<u8>,
    hash: Vec<u8>,
    value: Option<Vec<u8>>,
    salt: Option<Vec<u8>>,
    stored_at: Stamp,
    found: i64,
}

fn into_page(rows: Vec<RecordRow>, limit: u32, reader: Reader) -> Result<RecordPage, StoreError> {
    let came = rows.len() as u64;
    let more = rows.last().is_some_and(|last| from_bigint(last.found) > came || came == u64::from(limit));
    let records: Vec<StoredRecord> =
        rows.into_iter().map(|row| row.into_record(reader)).collect::<Result<_, _>>()?;
    let next = records.last().filter(|_| more).map(|last| last.seq.next());
    Ok(RecordPage { records, next })
}

impl RecordRow {
    fn into_record(self, reader: Reader) -> Result<StoredRecord, StoreError> {
        Ok(StoredRecord {
            seq: Seq(from_bigint(self.seq)),
            epoch: Epoch(from_bigint(self.epoch)),
            run: Run(from_integer(self.run)),
            kind: self.kind,
            bytes: self.bytes,
            hash: reader.digest(&self.hash)?,
            value: self.value,
            salt: self.salt,
            stored_at: self.stored_at.0,
        })
    }
}
