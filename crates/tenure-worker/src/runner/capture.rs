//! Reading a child's output.
//!
//! Owns both pipes of one run: redaction, the limit, the cutting into chunks, and the bounded queue to the executor.
//! A slow executor slows the child, through the pipe, as long as output is kept; beyond the limit output is read and
//! dropped, so a child that floods blocks nobody and fills no memory. Chunks come in the order of their capture, per
//! run; what two streams write at the same moment has no order that anybody could know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_core::limits::{
    OUTPUT_CHUNK_MAX_BYTES, OUTPUT_DRAIN_MAX_BYTES, OUTPUT_DRAIN_WAIT, OUTPUT_FLUSH_AFTER,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::output_limit::OutputLimit;
use super::{RedactionStream, Redactor};

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output, redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Where it was written.
    pub stream: OutputStream,
    /// At most 64 KiB; whole lines where they are not longer and not slower than that.
    pub bytes: Bytes,
}

/// When a run last gave a sign of life: output, or a note. While this worker takes none of its output, the run cannot give
/// one, and is not silent.
#[derive(Debug)]
pub(super) struct Activity {
    base: Instant,
    last_ms: AtomicU64,
    /// Output waits for room.
    held_up: AtomicBool,
    /// How many things are under way that are signs of life for as long as they last.
    holds: AtomicUsize,
}

/// A sign of life that lasts until it is dropped.
#[derive(Debug)]
pub struct ActivityHold {
    activity: Arc<Activity>,
}

impl Drop for ActivityHold {
    fn drop(&mut self) {
        // Its silence counts from here.
        self.activity.touch();
        self.activity.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            base: Instant::now(),
            last_ms: AtomicU64::new(0),
            held_up: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
        }
    }

    /// Now.
    pub(super) fn touch(&self) {
        let elapsed_ms = u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.fetch_max(elapsed_ms, Ordering::Relaxed);
    }

    /// A sign of life until what is returned is dropped.
    pub(super) fn hold(self: &Arc<Self>) -> ActivityHold {
        self.holds.fetch_add(1, Ordering::AcqRel);
        ActivityHold { activity: Arc::clone(self) }
    }

    /// From now on the run is held up by us.
    fn hold_up(&self) {
        self.held_up.store(true, Ordering::Release);
    }

    /// From now on it is free, and its silence counts from here.
    fn let_go(&self) {
        self.touch();
        self.held_up.store(false, Ordering::Release);
    }

    /// When it was.
    pub(super) fn last(&self) -> Instant {
        if self.held_up.load(Ordering::Acquire) || self.holds.load(Ordering::Acquire) > 0 {
            return Instant::now();
        }
        self.base + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }
}

/// What a capture needs beside the pipes.
#[derive(Debug)]
pub(super) struct CapturePlan {
    pub(super) redactor: Redactor,
    pub(super) limit_bytes: u64,
    pub(super) queue: mpsc::Sender<OutputChunk>,
    pub(super) activity: Arc<Activity>,
    /// Cancelled when the group is empty: from then on nobody writes who should.
    pub(super) group_empty: CancellationToken,
}

/// Reads until both pipes are closed, or are drained after the group was seen empty: who holds a pipe then was handed
/// it from outside the group, and holds up nobody. Returns whether output was dropped.
pub(super) async fn capture_output(
    stdout: impl AsyncRead + Unpin,
    stderr: impl AsyncRead + Unpin,
    plan: CapturePlan,
) -> bool {
    let mut capture = Capture {
        lanes: [
            Lane::new(OutputStream::Stdout, &plan.redactor),
            Lane::new(OutputStream::Stderr, &plan.redactor),
        ],
        limit: OutputLimit::new(plan.limit_bytes),
        queue: plan.queue,
        activity: plan.activity,
        drain: Drain { left: OUTPUT_DRAIN_WAIT, left_bytes: OUTPUT_DRAIN_MAX_BYTES },
    };
    capture.read_pipes(stdout, stderr, &plan.group_empty).await;
    capture.finish().await;
    capture.limit.is_truncated()
}

struct Capture {
    lanes: [Lane; 2],
    limit: OutputLimit,
    queue: mpsc::Sender<OutputChunk>,
    activity: Arc<Activity>,
    drain: Drain,
}

/// What is left to be waited for and read once the group is empty.
struct Drain {
    left: Duration,
    left_bytes: u64,
}

enum News {
    Read(usize, std::io::Result<usize>),
    FlushDue,
    GroupEmpty,
    Drained,
}

impl Capture {
    async fn read_pipes(
        &mut self,
        mut stdout: impl AsyncRead + Unpin,
        mut stderr: impl AsyncRead + Unpin,
        group_empty: &CancellationToken,
    ) {
        let mut buffers = [vec![0; OUTPUT_CHUNK_MAX_BYTES], vec![0; OUTPUT_CHUNK_MAX_BYTES]];
        let mut draining = false;
        while self.lanes.iter().any(|lane| lane.open) {
            let flush_at = self.lanes.iter().filter_map(|lane| lane.flush_at).min();
            let waited_from = Instant::now();
            let [first, second] = &mut buffers;
            let news = tokio::select! {
                read = stdout.read(first), if self.lanes[0].open => News::Read(0, read),
                read = stderr.read(second), if self.lanes[1].open => News::Read(1, read),
                () = sleep_until(flush_at), if flush_at.is_some() => News::FlushDue,
                () = group_empty.cancelled(), if !draining => News::GroupEmpty,
                () = tokio::time::sleep(self.drain.left), if draining => News::Drained,
            };
            if draining {
                self.drain.left = self.drain.left.saturating_sub(waited_from.elapsed());
            }
            match news {
                News::Read(lane, Ok(length @ 1..)) => {
                    if draining && !self.drain.take(length) {
                        return;
                    }
                    self.accept(lane, &buffers[lane][..length]).await;
                }
                News::Read(lane, _) => self.lanes[lane].open = false,
                News::FlushDue => self.flush_due().await,
                News::GroupEmpty => draining = true,
                News::Drained => return,
            }
        }
    }

    async fn accept(&mut self, lane: usize, bytes: &[u8]) {
        self.activity.touch();
        let shown = self.lanes[lane].redaction.push(bytes);
        self.keep(lane, shown).await;
    }

    async fn keep(&mut self, lane: usize, shown: Vec<u8>) {
        let kept = self.limit.admit(shown);
        let chunks = self.lanes[lane].buffer_lines(&kept);
        self.send(lane, chunks).await;
    }

    async fn flush_due(&mut self) {
        let now = Instant::now();
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].flush_at.is_some_and(|at| at <= now) {
                let chunks = self.lanes[lane].take_all();
                self.send(lane, chunks).await;
            }
        }
    }

    async fn finish(&mut self) {
        for lane in 0..self.lanes.len() {
            let rest = self.lanes[lane].redaction.finish();
            self.keep(lane, rest).await;
            let chunks = self.lanes[lane].take_all();
            self.send(lane, chunks).await;
        }
    }

    async fn send(&mut self, lane: usize, chunks: Vec<Bytes>) {
        let stream = self.lanes[lane].stream;
        for bytes in chunks {
            // An executor that does not listen any more drops output; the child is read all the same.
            if let Err(TrySendError::Full(chunk)) = self.queue.try_send(OutputChunk { stream, bytes }) {
                self.activity.hold_up();
                let _ = self.queue.send(chunk).await;
                self.activity.let_go();
            }
        }
    }
}

impl Drain {
    /// False: somebody outside the group floods the pipe.
    fn take(&mut self, length: usize) -> bool {
        self.left_bytes = self.left_bytes.saturating_sub(length as u64);
        self.left_bytes > 0
    }
}

/// One stream.
#[derive(Debug)]
struct Lane {
    stream: OutputStream,
    redaction: RedactionStream,
    buffer: Vec<u8>,
    flush_at: Option<Instant>,
    open: bool,
}

impl Lane {
    fn new(stream: OutputStream, redactor: &Redactor) -> Self {
        Self { stream, redaction: redactor.stream(), buffer: Vec::new(), flush_at: None, open: true }
    }

    /// Adds, and takes out the whole lines, or as much as fills a chunk.
    fn buffer_lines(&mut self, kept: &[u8]) -> Vec<Bytes> {
        self.buffer.extend_from_slice(kept);
        let lines = self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let full = self.buffer.len() / OUTPUT_CHUNK_MAX_BYTES * OUTPUT_CHUNK_MAX_BYTES;
        let rest = self.buffer.split_off(lines.max(full));
        let taken = std::mem::replace(&mut self.buffer, rest);
        if self.buffer.is_empty() {
            self.flush_at = None;
        } else if !taken.is_empty() || self.flush_at.is_none() {
            self.flush_at = Some(Instant::now() + OUTPUT_FLUSH_AFTER);
        }
        cut(taken)
    }

    fn take_all(&mut self) -> Vec<Bytes> {
        self.flush_at = None;
        cut(std::mem::take(&mut self.buffer))
    }
}

fn cut(bytes: Vec<u8>) -> Vec<Bytes> {
    let mut bytes = Bytes::from(bytes);
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        chunks.push(bytes.split_to(bytes.len().min(OUTPUT_CHUNK_MAX_BYTES)));
    }
    chunks
}

/// Never, where there is nothing to wait for.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    struct Rig {
        stdout: tokio::io::DuplexStream,
        stderr: tokio::io::DuplexStream,
        chunks: mpsc::Receiver<OutputChunk>,
        group_empty: CancellationToken,
        activity: Arc<Activity>,
        done: tokio::task::JoinHandle<bool>,
    }

    fn start(limit_bytes: u64, secrets: &[(&str, &str)]) -> Rig {
        let (stdout, read_stdout) = tokio::io::duplex(1024);
        let (stderr, read_stderr) = tokio::io::duplex(1024);
        let (queue, chunks) = mpsc::channel(4);
        let group_empty = CancellationToken::new();
        let named = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let activity = Arc::new(Activity::new());
        let plan = CapturePlan {
            redactor: Redactor::new(named).unwrap(),
            limit_bytes,
            queue,
            activity: activity.clone(),
            group_empty: group_empty.clone(),
        };
        let done = tokio::spawn(capture_output(read_stdout, read_stderr, plan));
        Rig { stdout, stderr, chunks, group_empty, activity, done }
    }

    async fn next_text(chunks: &mut mpsc::Receiver<OutputChunk>) -> (OutputStream, String) {
        let chunk = chunks.recv().await.unwrap();
        (chunk.stream, String::from_utf8(chunk.bytes.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn lines_come_at_once_and_a_prompt_without_newline_comes_too() {
        let mut rig = start(1000, &[]);
        rig.stdout.write_all(b"one\ntwo\nthr").await.unwrap();
        assert_eq!(next_text(&mut rig.chunks).await, (OutputStream::Stdout, "one\ntwo\n".to_owned()));
        assert_eq!(next_text(&mut rig.chunks).await, (OutputStream::Stdout, "thr".to_owned()));
        rig.stderr.write_all(b"ee\n").await.unwrap();
        assert_eq!(next_text(&mut rig.chunks).await, (OutputStream::Stderr, "ee\n".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_over_two_writes_is_redacted() {
        let mut rig = start(1000, &[("TOKEN", "s3cret")]);
        rig.stdout.write_all(b"x s3c").await.unwrap();
        assert_eq!(next_text(&mut rig.chunks).await.1, "x ");
        rig.stdout.write_all(b"ret\n").await.unwrap();
        assert_eq!(next_text(&mut rig.chunks).await.1, "[redacted:TOKEN]\n");
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_group_is_empty_a_held_pipe_is_given_up_and_what_was_in_it_is_kept() {
        let mut rig = start(1000, &[]);
        rig.stdout.write_all(b"last words").await.unwrap();
        rig.group_empty.cancel();
        assert_eq!(next_text(&mut rig.chunks).await.1, "last words");
        // Both pipes are still open here.
        assert!(!rig.done.await.unwrap());
        drop((rig.stdout, rig.stderr));
    }

    /// A minute of the runtime's clock, which is paused: it passes at once, when nobody has anything to do.
    async fn wait_a_paused_minute() {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_whose_output_waits_for_room_is_not_silent() {
        let mut rig = start(1000, &[]);
        // The queue has room for four.
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n"] {
            rig.stdout.write_all(line.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        wait_a_paused_minute().await;
        assert_eq!(rig.activity.last(), Instant::now(), "it is held up, however long that takes");
        let (freed_at, mut seen) = (Instant::now(), String::new());
        while !seen.ends_with("5\n") {
            seen += &next_text(&mut rig.chunks).await.1;
        }
        wait_a_paused_minute().await;
        assert_eq!(rig.activity.last(), freed_at, "from then on its silence is its own");
    }

    #[tokio::test]
    async fn a_flood_is_read_to_its_end_though_nobody_listens_beyond_the_limit() {
        let mut rig = start(5000, &[]);
        let mut writer = rig.stdout;
        let flood = tokio::spawn(async move {
            for _ in 0..1000 {
                writer.write_all(&[b'x'; 1024]).await.unwrap();
            }
        });
        drop(rig.stderr);
        let mut kept = Vec::new();
        while let Some(chunk) = rig.chunks.recv().await {
            kept.extend_from_slice(&chunk.bytes);
        }
        flood.await.unwrap();
        assert!(rig.done.await.unwrap());
        assert!(kept.len() < 5100 && kept.starts_with(&[b'x'; 5000]), "{} bytes kept", kept.len());
    }
}
