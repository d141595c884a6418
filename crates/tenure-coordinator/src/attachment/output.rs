//! Captured output of one worker's runs: grouped, written in batches, acknowledged cumulatively for each run. It lies
//! outside the chain and is not fenced. Bounded: a worker that sends more than the window without an acknowledgement is cut
//! off. Neighbours: `attachment`, the store's output.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tenure_core::{
    limits::{OUTPUT_BATCH_MAX_CHUNKS, OUTPUT_CHUNK_MAX_BYTES, OUTPUT_WINDOW_BYTES},
    reason::Reason,
    refusal::Refusal,
    run_ref::RunRef,
};
use tenure_proto::{
    convert::{InvalidField, run::write_run_ref},
    v1::{self, attach_response::Message},
};
use tenure_store::{OutputChunk, OutputStream};
use tokio::sync::mpsc;

use crate::{
    attachments::Attached,
    coordinator::Parts,
    metrics::{Limit, metrics},
};

/// The output that is not durable yet.
pub(crate) struct OutputQueue {
    chunks: mpsc::UnboundedSender<(RunRef, OutputChunk)>,
    waiting_bytes: Arc<AtomicU64>,
}

/// What a chunk counts for beside its bytes, so that empty ones are bounded too.
const CHUNK_OVERHEAD_BYTES: u64 = 64;

impl OutputQueue {
    /// Writes a worker's output until its stream ends.
    pub(crate) fn start(parts: &Parts, attached: &Arc<Attached>) -> Self {
        // Bounded by the window, which is counted in bytes.
        let (chunks, queue) = mpsc::unbounded_channel();
        let waiting_bytes = Arc::new(AtomicU64::new(0));
        let writer = OutputWriter {
            parts: parts.clone(),
            attached: attached.clone(),
            waiting_bytes: waiting_bytes.clone(),
        };
        parts.tasks.spawn(writer.run(queue));
        Self { chunks, waiting_bytes }
    }

    /// Queues a piece.
    pub(crate) fn push(&self, run: RunRef, output: v1::WriteOutput) -> Result<(), Refusal> {
        let chunk = read_chunk(&run, output)?;
        let size = chunk.bytes.len() as u64 + CHUNK_OVERHEAD_BYTES;
        let waiting = self.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        if waiting > OUTPUT_WINDOW_BYTES + OUTPUT_CHUNK_MAX_BYTES as u64 {
            metrics().note_limit(Limit::OutputWindow);
            let words = format!(
                "more than {OUTPUT_WINDOW_BYTES} bytes of output were sent without an acknowledgement"
            );
            return Err(Refusal::new(Reason::Overloaded, words));
        }
        // The writer ended with the stream.
        let _ = self.chunks.send((run, chunk));
        Ok(())
    }
}

struct OutputWriter {
    parts: Parts,
    attached: Arc<Attached>,
    waiting_bytes: Arc<AtomicU64>,
}

impl OutputWriter {
    async fn run(self, mut queue: mpsc::UnboundedReceiver<(RunRef, OutputChunk)>) {
        let mut batch = Vec::new();
        while queue.recv_many(&mut batch, OUTPUT_BATCH_MAX_CHUNKS).await > 0 {
            let (runs, chunks): (Vec<RunRef>, Vec<OutputChunk>) = batch.drain(..).unzip();
            if let Err(refusal) = self.parts.bulk.ask(self.parts.store.write_output(&chunks)).await {
                return self.attached.close(refusal);
            }
            self.acknowledge(runs, &chunks);
        }
    }

    fn acknowledge(&self, runs: Vec<RunRef>, chunks: &[OutputChunk]) {
        let written = chunks.iter().map(|chunk| chunk.bytes.len() as u64 + CHUNK_OVERHEAD_BYTES).sum();
        self.waiting_bytes.fetch_sub(written, Ordering::Relaxed);
        let mut last: BTreeMap<RunRef, u64> = BTreeMap::new();
        for (run, chunk) in runs.into_iter().zip(chunks) {
            let seen = last.entry(run).or_default();
            *seen = chunk.chunk.max(*seen);
        }
        for (run, chunk) in last {
            self.parts.wakes.wake_watchers(run.job);
            let run = Some(write_run_ref(&run));
            self.attached.send(Message::OutputWritten(v1::OutputWritten { run, chunk }));
        }
    }
}

fn read_chunk(run: &RunRef, output: v1::WriteOutput) -> Result<OutputChunk, Refusal> {
    let stream = match v1::OutputStream::try_from(output.stream) {
        Ok(v1::OutputStream::Stdout) => OutputStream::Stdout,
        Ok(v1::OutputStream::Stderr) => OutputStream::Stderr,
        Ok(v1::OutputStream::Unspecified) | Err(_) => {
            return Err(InvalidField::Unknown { field: "write_output.stream", value: output.stream }.into());
        }
    };
    if output.bytes.len() > OUTPUT_CHUNK_MAX_BYTES {
        let words = format!(
            "a piece of output has {} bytes, and at most {OUTPUT_CHUNK_MAX_BYTES} are taken",
            output.bytes.len()
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "write_output.bytes"));
    }
    Ok(OutputChunk {
        tenant: run.tenant.clone(),
        job: run.job,
        run: run.run,
        chunk: output.chunk,
        stream,
        bytes: output.bytes,
    })
}
