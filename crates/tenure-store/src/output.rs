//! Captured output: outside the chain, so it may arrive late.

use bytes::Bytes;
use tenure_core::id::{JobId, Run, Tenant};

use crate::{Store, StoreError};

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

impl Store {
    /// Writes chunks; one that is already there is left as it is, and one of a run that never was is left out.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn write_output(&self, _chunks: &[OutputChunk]) -> Result<(), StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads a run's chunks from `from_chunk` on, in the order of capture; both streams where none is named.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_output(
        &self,
        _tenant: &Tenant,
        _job: JobId,
        _run: Run,
        _from_chunk: u64,
        _stream: Option<OutputStream>,
        _limit: u32,
    ) -> Result<Vec<OutputChunk>, StoreError> {
        Err(StoreError::unwritten())
    }
}
