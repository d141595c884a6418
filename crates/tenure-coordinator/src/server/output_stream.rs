//! Captured output: what is there, and with follow what is added, run after run, until the output of the last run is
//! complete and the job has no live run. Neighbours: `job_service`, `wake`.

use std::time::Duration;

use tenure_core::{
    id::{JobId, Run, Seq, Tenant},
    job::State,
    record::{Record, RecordKind},
    refusal::Refusal,
};
use tenure_proto::v1;
use tenure_store::{JobRow, OutputChunk, OutputStream};

use super::followers::{Handed, Reader};
use crate::coordinator::{Parts, stopping};

/// The pause between two looks at a job that is over.
const PAUSE_AFTER_END: Duration = Duration::from_secs(1);
/// Chunks that are read at once; with the largest chunks 1 MiB.
const PAGE: u32 = 16;
/// Output that was sent before the end of its run is durable before that end; only what a broken stream left behind comes
/// later. After so many looks at a job that is over nothing more is waited for.
const LOOKS_AFTER_END: u32 = 3;

/// What a reader wants.
#[derive(Debug, Clone)]
pub(crate) struct OutputWish {
    /// Whose job.
    pub(crate) tenant: Tenant,
    /// Which job.
    pub(crate) job: JobId,
    /// The first run; with follow and no run named, also those after it.
    pub(crate) run: Run,
    /// True where the runs after it are wanted too.
    pub(crate) later_runs: bool,
    /// Go on with what is added.
    pub(crate) follow: bool,
    /// Only this stream.
    pub(crate) stream: Option<OutputStream>,
    /// Chunks of the first run to leave out.
    pub(crate) skip_chunks: u64,
}

/// Sends output until there is no more, or the caller leaves.
pub(crate) async fn send_output(parts: Parts, wish: OutputWish, reader: Reader<v1::ReadOutputResponse>) {
    let mut output =
        OutputReader { next_chunk: wish.skip_chunks, run: wish.run, looks_after_end: 0, parts, wish, reader };
    if let Err(refusal) = output.run_to_end().await {
        output.reader.end_with(&refusal);
    }
}

struct OutputReader {
    parts: Parts,
    wish: OutputWish,
    reader: Reader<v1::ReadOutputResponse>,
    run: Run,
    next_chunk: u64,
    looks_after_end: u32,
}

impl OutputReader {
    async fn run_to_end(&mut self) -> Result<(), Refusal> {
        let mut watch = self.parts.wakes.watch_job(self.wish.job);
        loop {
            // The job is read before its output: what it says about its end holds for what is read after it.
            let row = self.parts.store.read_job(&self.wish.tenant, self.wish.job);
            let Some(row) = self.parts.bulk.ask(row).await? else { return Ok(()) };
            if !self.send_present().await? || !self.wish.follow {
                return Ok(());
            }
            if self.go_to_next_run(&row) {
                continue;
            }
            if self.is_over(&row).await? {
                // What became durable between the two looks.
                self.send_present().await?;
                return Ok(());
            }
            tokio::select! {
                () = self.reader.closed() => return Ok(()),
                () = self.parts.stopping.cancelled() => return Err(stopping()),
                () = watch.changed() => {}
                () = self.parts.poll.pause() => {}
                () = tokio::time::sleep(PAUSE_AFTER_END), if self.looks_after_end > 0 => {}
            }
        }
    }

    /// Sends what is there of the present run; false where the caller left.
    async fn send_present(&mut self) -> Result<bool, Refusal> {
        loop {
            if !self.reader.await_room().await? {
                return Ok(false);
            }
            let wish = &self.wish;
            let (tenant, stream) = (&wish.tenant, wish.stream);
            let chunks =
                self.parts.store.read_output(tenant, wish.job, self.run, self.next_chunk, stream, PAGE);
            let chunks = self.parts.bulk.ask(chunks).await?;
            let mut more = chunks.len() == PAGE as usize;
            for chunk in chunks {
                let after = chunk.chunk + 1;
                match self.reader.hand(write_chunk(chunk)).await {
                    Handed::Over => self.next_chunk = after,
                    Handed::Dropped => {
                        more = true;
                        break;
                    }
                    Handed::Left => return Ok(false),
                }
            }
            if !more {
                return Ok(true);
            }
        }
    }

    fn go_to_next_run(&mut self, row: &JobRow) -> bool {
        if !self.wish.later_runs || row.run <= self.run {
            return false;
        }
        self.run = self.run.next();
        self.next_chunk = 0;
        true
    }

    /// No run is live or to come, and the output is complete as far as that can be known.
    async fn is_over(&mut self, row: &JobRow) -> Result<bool, Refusal> {
        let later = row.run > self.run;
        let live = !later && row.lease.as_ref().is_some_and(|lease| lease.live);
        let to_come = self.wish.later_runs && matches!(row.state, State::Ready | State::Suspended);
        if live || to_come {
            return Ok(false);
        }
        self.looks_after_end += 1;
        if self.looks_after_end >= LOOKS_AFTER_END {
            return Ok(true);
        }
        match self.read_announced(row).await? {
            Some(0) => Ok(true),
            Some(chunks) => self.is_stored(chunks - 1).await,
            None => Ok(false),
        }
    }

    /// A run's output is stored in its order, so with its last chunk all of it is there.
    async fn is_stored(&self, chunk: u64) -> Result<bool, Refusal> {
        let (tenant, job): (&Tenant, JobId) = (&self.wish.tenant, self.wish.job);
        let stored = self.parts.store.read_output(tenant, job, self.run, chunk, None, 1);
        Ok(!self.parts.bulk.ask(stored).await?.is_empty())
    }

    /// How many chunks the concluding run announced.
    async fn read_announced(&self, row: &JobRow) -> Result<Option<u64>, Refusal> {
        let Some(head) = row.concluded_head.filter(|_| row.run == self.run) else { return Ok(None) };
        let (tenant, job): (&Tenant, JobId) = (&self.wish.tenant, self.wish.job);
        let from: Seq = head.seq;
        let page = self.parts.bulk.ask(self.parts.store.read_records(tenant, job, from, &[], 1)).await?;
        let record = page.records.first().and_then(|stored| stored.parse().ok());
        Ok(match record {
            Some(Record { kind: RecordKind::JobConcluded { output_chunks, .. }, .. }) => output_chunks,
            Some(_) | None => None,
        })
    }
}

fn write_chunk(chunk: OutputChunk) -> v1::ReadOutputResponse {
    let stream = match chunk.stream {
        OutputStream::Stdout => v1::OutputStream::Stdout,
        OutputStream::Stderr => v1::OutputStream::Stderr,
    };
    v1::ReadOutputResponse { run: chunk.run.0, chunk: chunk.chunk, stream: stream.into(), bytes: chunk.bytes }
}
