//! Captured output: outside the chain, so it may arrive late, twice, and
//! from a run that is over.

use bytes::Bytes;
use sqlx::query_file;
use tenure_core::id::{JobId, Run, Tenant};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint, to_integer},
};

/// Which of a run's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of captured output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// Which run.
    pub run: Run,
    /// From 0, over both streams of the run.
    pub chunk: u64,
    /// Which stream.
    pub stream: OutputStream,
    /// At most `limits::OUTPUT_CHUNK_MAX_BYTES`.
    pub bytes: Bytes,
}

impl OutputStream {
    const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    fn parse(reader: Reader, found: String) -> Result<Self, StoreError> {
        match found.as_str() {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            _ => Err(reader.unknown("stream", found)),
        }
    }
}

impl Store {
    /// Writes chunks; one that is already there is left as it is, and one of a run that never was is left out.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn write_output(&self, chunks: &[OutputChunk]) -> Result<(), StoreError> {
        if chunks.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = chunks.iter().map(|chunk| chunk.tenant.as_str().to_owned()).collect();
        let jobs: Vec<_> = chunks.iter().map(|chunk| chunk.job.0).collect();
        let runs: Vec<_> = chunks.iter().map(|chunk| to_integer(chunk.run.0)).collect();
        let numbers: Vec<_> = chunks.iter().map(|chunk| to_bigint(chunk.chunk)).collect();
        let streams: Vec<_> = chunks.iter().map(|chunk| chunk.stream.name().to_owned()).collect();
        let bytes: Vec<_> = chunks.iter().map(|chunk| &chunk.bytes[..]).collect();
        let written = query_file!(
            "queries/output/write_output.sql",
            &tenants,
            &jobs,
            &runs,
            &numbers,
            &streams,
            &bytes as _
        )
        .execute(&self.pool)
        .await
        .map_err(StoreError::while_doing("writing output"))?;
        if written.rows_affected() == 0 { self.check_timeline().await } else { Ok(()) }
    }

    /// Reads a run's chunks from `from_chunk` on, in the order of capture; both streams where none is named.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_output(
        &self,
        tenant: &Tenant,
        job: JobId,
        run: Run,
        from_chunk: u64,
        stream: Option<OutputStream>,
        limit: u32,
    ) -> Result<Vec<OutputChunk>, StoreError> {
        let attempted = "reading output";
        let rows = query_file!(
            "queries/output/read_output.sql",
            tenant.as_str(),
            job.0,
            to_integer(run.0),
            to_bigint(from_chunk),
            stream.map(OutputStream::name),
            i64::from(limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter()
            .map(|row| {
                Ok(OutputChunk {
                    tenant: tenant.clone(),
                    job,
                    run,
                    chunk: from_bigint(row.chunk),
                    stream: OutputStream::parse(Reader(attempted), row.stream)?,
                    bytes: Bytes::from(row.bytes),
                })
            })
            .collect()
    }
}
