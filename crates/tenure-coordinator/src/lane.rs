//! Lanes: the writers into the journal. A job's writes always go through the lane of its hash. While one statement is on
//! its way, what arrives is collected; then everything goes as one batch: one statement, one commit, no artificial waiting.
//! A lane owns the memory of the runs it writes for, so that an append needs no read; the statement checks what is
//! remembered. Promises: an answer means durable; the same report gets its first answer; no report overtakes one of its
//! stream that was given back; each decision is made again for each new head. Bounded: the queue, the batch, the memory.
//! It does not decide anything itself.
//! Neighbours: attachments report, services and the sweep decide, the store writes.

pub(crate) mod work;

mod memory;

mod compose;
mod late;
mod read;
mod round;

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use jiff::Timestamp;
use tenure_core::{chain::Head, limits, run_ref::RunRef};
use tenure_store::{Gift, Store};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    clock::DatabaseClock,
    metrics::{Limit, metrics},
    vital::VitalTasks,
    wake::Wakes,
};
use memory::Memories;
use work::{Decide, DecideError, Decided, JobKey, LaneError, Pending, Planner, Reply, RunReport, Work};

/// What a lane works with.
#[derive(Clone)]
pub(crate) struct LaneParts {
    /// Where it writes.
    pub(crate) store: Store,
    /// The time of records.
    pub(crate) clock: DatabaseClock,
    /// Who hears of it.
    pub(crate) wakes: Wakes,
}

/// All lanes of a coordinator. Clones share them; they end when the last clone is gone and what waited is done.
#[derive(Clone)]
pub(crate) struct Lanes {
    queues: Arc<[mpsc::Sender<Work>]>,
    /// What may wait in all of them, in KiB.
    room: Arc<Semaphore>,
}

impl Lanes {
    /// Starts so many lanes.
    pub(crate) fn start(count: usize, parts: &LaneParts, vital: &VitalTasks) -> Self {
        let queues = (0..count).map(|number| {
            let (sender, receiver) = mpsc::channel(limits::LANE_QUEUE_MAX);
            vital.spawn("lane", Lane::new(number, parts.clone(), receiver).run());
            sender
        });
        Self { queues: queues.collect(), room: Arc::new(Semaphore::new(limits::LANE_QUEUES_MAX_KIB)) }
    }

    /// A run began. Returns once everything that is reported of it later finds it remembered.
    pub(crate) async fn remember_run(&self, run: RunRef, head: Head, at: Timestamp) {
        let work = Work::Remember { run, head, at };
        // A lane that is gone has nothing to remember.
        let _ = self.queue_of(&work.job()).send(work).await;
    }

    /// Queues a report of a run's holder; reports of one run are carried out in the order of the calls. Waits where the
    /// queue is full, so that a worker's stream is slowed down and not cut.
    pub(crate) async fn report(&self, mut report: RunReport) {
        let size_kib = u32::try_from(report.body.size_bytes() / 1024 + 1).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        report.room = self.room.clone().acquire_many_owned(size_kib).await.ok();
        let work = Work::Report(report);
        if let Err(refused) = self.queue_of(&work.job()).send(work).await {
            round::fail(refused.0, LaneError::Stopping);
        }
    }

    /// Decides about a job and writes it, again for each new head.
    pub(crate) async fn decide(&self, job: JobKey, planner: Planner) -> Result<Decided, DecideError> {
        self.decide_giving(job, planner, None).await
    }

    /// As `decide`; with what is written the job comes into being that it gives work to.
    pub(crate) async fn decide_giving(
        &self,
        job: JobKey,
        planner: Planner,
        gift: Option<Box<Gift>>,
    ) -> Result<Decided, DecideError> {
        let (reply, answer) = Reply::channel();
        let work = Work::Decide(Decide { job, planner, gift, reply });
        match self.queue_of(&work.job()).try_send(work) {
            Ok(()) => answer.await.unwrap_or(Err(DecideError::Lane(LaneError::Stopping))),
            Err(mpsc::error::TrySendError::Full(_)) => {
                metrics().note_limit(Limit::LaneQueue);
                Err(DecideError::Lane(LaneError::Overloaded))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(DecideError::Lane(LaneError::Stopping)),
        }
    }

    /// Tells how much waits in each, for as long as they are there.
    pub(crate) fn watch_depths(&self) -> impl Fn() -> Vec<u64> + Send + Sync + use<> {
        // They end when nobody can ask them any more, and whoever watches asks nothing.
        let queues: Vec<_> = self.queues.iter().map(mpsc::Sender::downgrade).collect();
        move || queues.iter().filter_map(|queue| Some(count_waiting(&queue.upgrade()?))).collect()
    }

    fn queue_of(&self, job: &JobKey) -> &mpsc::Sender<Work> {
        let mut hasher = DefaultHasher::new();
        job.hash(&mut hasher);
        let lanes = self.queues.len() as u64;
        &self.queues[usize::try_from(hasher.finish() % lanes).unwrap_or(0)]
    }
}

/// How many messages wait in a queue.
pub(crate) fn count_waiting<T>(queue: &mpsc::Sender<T>) -> u64 {
    (queue.max_capacity() - queue.capacity()) as u64
}

/// One writer.
struct Lane {
    number: usize,
    parts: LaneParts,
    memories: Memories,
    arrivals: mpsc::Receiver<Work>,
    waiting: VecDeque<Pending>,
}

impl Lane {
    fn new(number: usize, parts: LaneParts, arrivals: mpsc::Receiver<Work>) -> Self {
        let memories = Memories::new(limits::LANE_MEMORY_MAX_RUNS);
        Self { number, parts, memories, arrivals, waiting: VecDeque::new() }
    }

    async fn run(mut self) {
        while self.collect_arrivals().await {
            self.run_round().await;
        }
    }

    /// Takes what arrived, as much as goes into one batch; waits only where nothing is left to do. False: there is nothing
    /// left, and nobody who could ask.
    async fn collect_arrivals(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.arrivals.recv().await {
                Some(work) => self.keep(work),
                None => return false,
            }
        }
        let mut bytes: usize = self.waiting.iter().map(|pending| pending.work.size_bytes()).sum();
        while self.waiting.len() < limits::LANE_BATCH_MAX
            && bytes < limits::LANE_BATCH_MAX_BYTES
            && let Ok(work) = self.arrivals.try_recv()
        {
            bytes += work.size_bytes();
            self.keep(work);
        }
        true
    }

    fn keep(&mut self, work: Work) {
        self.waiting.push_back(Pending { work, attempts: 0, refused: None });
    }
}
