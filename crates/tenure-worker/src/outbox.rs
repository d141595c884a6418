//! What the worker has to tell the coordinator, over all its runs, and in which order: renewals first, then credits and
//! refused grants, then reports, then output. It keeps reports and output until they are acknowledged and offers them
//! again, in their order, on every new stream. Output that is not acknowledged is bounded by the window; whoever has more
//! waits, so that a coordinator that cannot keep up slows the children down instead of filling this process.
//! It knows neither the stream nor the term. Neighbours: `journal` is one run's part of it; `attachment` sends and
//! hands the answers in; `executor` and `run_socket` fill it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tenure_core::{id::Seq, limits, run_ref::RunRef};
use tenure_proto::v1::{self, attach_request::Message};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    journal::{Report, ReportAnswer, RunJournal, size_in_window},
    metrics::metrics,
    run_key::RunKey,
};

/// A window below one chunk would never let a chunk through.
const WINDOW_MIN_BYTES: usize = limits::OUTPUT_CHUNK_MAX_BYTES + limits::OUTPUT_CHUNK_OVERHEAD_BYTES;

/// The next thing to send.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on its way to the connection")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outgoing {
    /// A renewal; whoever sends it composes it, because it bears the moment of sending.
    Renewal,
    /// A message that is complete.
    Message(Message),
}

/// Everything that is to be sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    queues: Mutex<Queues>,
    /// Wakes the sender.
    added: Notify,
    /// Wakes whoever waits for a run's output to be durable.
    acknowledged: Notify,
    /// Bytes of output that may still be added.
    window: Semaphore,
}

#[derive(Debug)]
struct Queues {
    renewal: bool,
    credits: u32,
    withdrawn: bool,
    closed: bool,
    not_mine: VecDeque<v1::RunRef>,
    reports: VecDeque<(RunKey, u64)>,
    output: VecDeque<(RunKey, u64)>,
    runs: BTreeMap<RunKey, RunJournal>,
    window_bytes: usize,
}

impl Outbox {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let window_bytes = usize::try_from(limits::OUTPUT_WINDOW_BYTES).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            queues: Mutex::new(Queues {
                renewal: false,
                credits: 0,
                withdrawn: false,
                closed: false,
                not_mine: VecDeque::new(),
                reports: VecDeque::new(),
                output: VecDeque::new(),
                runs: BTreeMap::new(),
                window_bytes,
            }),
            added: Notify::new(),
            acknowledged: Notify::new(),
            window: Semaphore::new(window_bytes),
        }
    }

    /// Opens the journal of a run that was started by the record at `seq`.
    pub(crate) fn open_run(&self, run: &RunRef, seq: Seq) {
        self.lock().runs.insert(RunKey::from(run), RunJournal::new(run.clone(), seq));
    }

    /// Says that nothing more will be added for a run; it is forgotten once everything was answered.
    pub(crate) fn close_run(&self, run: &RunRef) {
        let key = RunKey::from(run);
        let mut queues = self.lock();
        if let Some(journal) = queues.runs.get_mut(&key) {
            journal.close();
        }
        queues.forget_settled(&key);
    }

    /// Adds a report; its answer comes over the channel, which is closed without one where the run is unknown.
    pub(crate) fn add_report(&self, run: &RunRef, report: Report) -> oneshot::Receiver<ReportAnswer> {
        self.add_bounded_report(run, report, None)
    }

    /// The same for a report that has a turn among so many: it keeps it for as long as it is kept here, also where
    /// nobody waits for its answer any more.
    pub(crate) fn add_bounded_report(
        &self,
        run: &RunRef,
        report: Report,
        turn: Option<OwnedSemaphorePermit>,
    ) -> oneshot::Receiver<ReportAnswer> {
        let (answer, waiting) = oneshot::channel();
        let key = RunKey::from(run);
        let mut queues = self.lock();
        if let Some(journal) = queues.runs.get_mut(&key) {
            let n = journal.add_report(report, answer, turn);
            queues.reports.push_back((key, n));
        }
        drop(queues);
        self.added.notify_one();
        waiting
    }

    /// Adds output as soon as the window has room for it, in as many chunks as it takes.
    pub(crate) async fn add_output(&self, run: &RunRef, stream: v1::OutputStream, mut bytes: Bytes) {
        while bytes.len() > limits::OUTPUT_CHUNK_MAX_BYTES {
            self.add_chunk(run, stream, bytes.split_to(limits::OUTPUT_CHUNK_MAX_BYTES)).await;
        }
        self.add_chunk(run, stream, bytes).await;
    }

    async fn add_chunk(&self, run: &RunRef, stream: v1::OutputStream, bytes: Bytes) {
        let size = size_in_window(&bytes);
        // The window is never closed; an error would mean that there is nothing to bound.
        if let Ok(permit) = self.window.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await {
            permit.forget();
        }
        metrics().note_output(bytes.len());
        let key = RunKey::from(run);
        let mut queues = self.lock();
        match queues.runs.get_mut(&key) {
            Some(journal) => {
                let number = journal.add_output(stream, bytes);
                queues.output.push_back((key, number));
            }
            None => self.window.add_permits(size),
        }
        drop(queues);
        self.added.notify_one();
    }

    /// Waits until nothing of a run's output is unacknowledged.
    pub(crate) async fn flush_output(&self, run: &RunRef) {
        let key = RunKey::from(run);
        loop {
            let acknowledged = self.acknowledged.notified();
            tokio::pin!(acknowledged);
            acknowledged.as_mut().enable();
            if self.lock().runs.get(&key).is_none_or(|journal| journal.waiting_output().next().is_none()) {
                return;
            }
            acknowledged.await;
        }
    }

    /// Reports that are not answered.
    pub(crate) fn count_reports(&self) -> usize {
        self.lock().runs.values().map(|journal| journal.waiting_reports().count()).sum()
    }

    /// Bytes of output that are not acknowledged, as they count in the window.
    pub(crate) fn waiting_output_bytes(&self) -> usize {
        self.lock().window_bytes.saturating_sub(self.window.available_permits())
    }

    /// Asks for a renewal to be sent next.
    pub(crate) fn request_renewal(&self) {
        self.lock().renewal = true;
        self.added.notify_one();
    }

    /// Asks for so many more runs.
    pub(crate) fn offer_credits(&self, more: u32) {
        self.lock().credits += more;
        self.added.notify_one();
    }

    /// Says that no more runs are wanted on this stream.
    pub(crate) fn withdraw_credits(&self) {
        let mut queues = self.lock();
        queues.credits = 0;
        queues.withdrawn = true;
        drop(queues);
        self.added.notify_one();
    }

    /// Says that the worker does not hold a run.
    pub(crate) fn refuse_run(&self, run: v1::RunRef) {
        self.lock().not_mine.push_back(run);
        self.added.notify_one();
    }

    /// Takes the answer to a report.
    pub(crate) fn answer_report(&self, run: &RunRef, n: u64, answer: ReportAnswer) {
        let key = RunKey::from(run);
        let mut queues = self.lock();
        if let Some(journal) = queues.runs.get_mut(&key) {
            // Nobody will ever acknowledge output of a job that is not there.
            let freed_bytes = if answer == ReportAnswer::Missing { journal.drop_output() } else { 0 };
            journal.answer_report(n, answer);
            queues.forget_settled(&key);
            drop(queues);
            self.free_window(freed_bytes);
        }
    }

    /// Takes the acknowledgement of output, up to a chunk.
    pub(crate) fn acknowledge_output(&self, run: &RunRef, up_to: u64) {
        let key = RunKey::from(run);
        let mut queues = self.lock();
        let freed_bytes = queues.runs.get_mut(&key).map_or(0, |journal| journal.acknowledge_output(up_to));
        queues.forget_settled(&key);
        drop(queues);
        self.free_window(freed_bytes);
    }

    /// Nothing more is sent once what stands here was.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.added.notify_one();
    }

    /// Starts over for a new stream with a window of its own: everything unacknowledged is to be sent again, and what was
    /// said about the old stream is void.
    pub(crate) fn rewind(&self, window_bytes: u64) {
        let mut queues = self.lock();
        queues.rewind();
        let wanted = usize::try_from(window_bytes)
            .unwrap_or(usize::MAX)
            .clamp(WINDOW_MIN_BYTES, Semaphore::MAX_PERMITS / 2);
        if wanted > queues.window_bytes {
            self.window.add_permits(wanted - queues.window_bytes);
            queues.window_bytes = wanted;
        } else {
            // What is in use cannot be taken back now; it is at the next stream.
            queues.window_bytes -= self.window.forget_permits(queues.window_bytes - wanted);
        }
        drop(queues);
        self.added.notify_one();
    }

    /// The next thing to send; waits until there is one. None: nothing more is.
    pub(crate) async fn next_outgoing(&self) -> Option<Outgoing> {
        loop {
            let (next, is_closed) = {
                let mut queues = self.lock();
                (queues.take_next(), queues.closed)
            };
            if next.is_some() || is_closed {
                return next;
            }
            self.added.notified().await;
        }
    }

    fn free_window(&self, freed_bytes: usize) {
        self.window.add_permits(freed_bytes);
        self.acknowledged.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    fn take_next(&mut self) -> Option<Outgoing> {
        if std::mem::take(&mut self.renewal) {
            return Some(Outgoing::Renewal);
        }
        let more = std::mem::take(&mut self.credits);
        let withdrawn = std::mem::take(&mut self.withdrawn);
        if more > 0 || withdrawn {
            return Some(Outgoing::Message(Message::Credits(v1::Credits { more, withdrawn })));
        }
        if let Some(run) = self.not_mine.pop_front() {
            return Some(Outgoing::Message(Message::NotMine(v1::NotMine { run: Some(run) })));
        }
        self.take_report().or_else(|| self.take_output()).map(Outgoing::Message)
    }

    fn take_report(&mut self) -> Option<Message> {
        while let Some((key, n)) = self.reports.pop_front() {
            if let Some(message) = self.runs.get(&key).and_then(|journal| journal.compose_report(n)) {
                return Some(message);
            }
        }
        None
    }

    fn take_output(&mut self) -> Option<Message> {
        while let Some((key, number)) = self.output.pop_front() {
            if let Some(message) = self.runs.get(&key).and_then(|journal| journal.compose_output(number)) {
                return Some(message);
            }
        }
        None
    }

    fn rewind(&mut self) {
        self.renewal = false;
        self.credits = 0;
        self.withdrawn = false;
        self.not_mine.clear();
        self.reports.clear();
        self.output.clear();
        for (key, journal) in &self.runs {
            self.reports.extend(journal.waiting_reports().map(|n| (key.clone(), n)));
            self.output.extend(journal.waiting_output().map(|number| (key.clone(), number)));
        }
    }

    fn forget_settled(&mut self, key: &RunKey) {
        if self.runs.get(key).is_some_and(RunJournal::is_settled) {
            self.runs.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
