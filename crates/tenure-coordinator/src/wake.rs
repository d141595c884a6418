//! The one place where wake-ups are raised and awaited: a job's journal grew, a job became ready, a notice stands for a
//! run. A wake-up says that looking is worth it, never what is to be seen, and one that is lost costs latency and nothing
//! else, because a poll stands behind each, or for an order the worker's renewal. Wake-ups reach this coordinator's own tasks
//! at once and those of the others through the database: what is raised here is merged until the notifier sends it, in a
//! statement of its own and never inside one that writes; what the listener hears is not told on. A coordinator that is alone
//! tells nothing: its listener greets, whoever is there answers, and whoever comes later greets too. Neighbours: lanes and
//! the submission raise them; `dispatch`, the watchers and the attachments wait.

pub(crate) mod listener;
mod news;
pub(crate) mod notifier;
mod wait_hints;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tenure_core::{
    id::{Epoch, JobId, Term, WorkerName},
    run_ref::RunRef,
};
use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;

use crate::lane::work::StandingNotice;
use news::News;
pub use news::announce_tokens;
pub(crate) use wait_hints::WaitHint;
use wait_hints::WaitHints;

/// Orders that an attachment may be behind; one that missed some learns them with its worker's next renewal.
const ORDERS_MAX: usize = 1_024;

/// Wake-ups of one coordinator. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wakes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dispatch: Notify,
    ready_count: AtomicU64,
    /// By the job alone: an id is one tenant's, and a look that was not worth it tells nobody anything.
    jobs: Mutex<HashMap<JobId, watch::Sender<u64>>>,
    orders: broadcast::Sender<RaisedOrder>,
    tokens: Notify,
    waits: WaitHints,
    /// Who this coordinator is among those that send.
    from: Uuid,
    /// What the others were not told yet.
    untold: Mutex<News>,
    told: Notify,
    /// No other coordinator listens, as far as the listener knows.
    alone: AtomicBool,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            dispatch: Notify::new(),
            ready_count: AtomicU64::new(0),
            jobs: Mutex::default(),
            orders: broadcast::Sender::new(ORDERS_MAX),
            tokens: Notify::new(),
            waits: WaitHints::default(),
            from: Uuid::from_u128(rand::random()),
            untold: Mutex::default(),
            told: Notify::new(),
            alone: AtomicBool::new(false),
        }
    }
}

/// Something that the worker of a run must be told now. Its next renewal says the same.
#[derive(Debug, Clone)]
pub(crate) struct RaisedOrder {
    /// The worker.
    pub(crate) worker: WorkerName,
    /// Its term.
    pub(crate) term: Term,
    /// The run.
    pub(crate) run: RunRef,
    /// What.
    pub(crate) kind: OrderKind,
}

/// What a worker is told about a run.
#[derive(Debug, Clone)]
pub(crate) enum OrderKind {
    /// A notice stands.
    Notice(StandingNotice),
    /// The run was settled under this epoch: it is no longer the worker's.
    Fenced {
        /// The present epoch.
        epoch: Epoch,
    },
}

impl Wakes {
    /// A job concluded here, or began to wait for others: whoever waits for it, or for whom it waits, is looked at.
    pub(crate) fn hint_waits(&self, hint: WaitHint) {
        self.inner.waits.add(hint);
    }

    /// Returns what was hinted at since the last return, once there is anything.
    pub(crate) async fn await_wait_hints(&self) -> Vec<WaitHint> {
        self.inner.waits.take().await
    }

    /// A worker may have become free.
    pub(crate) fn wake_dispatch(&self) {
        self.inner.dispatch.notify_one();
    }

    /// A job became ready: whoever thinks that nothing waits must look again, here and elsewhere.
    pub(crate) fn note_ready(&self) {
        self.look_at_queue();
        self.tell(|news| news.ready = true);
    }

    /// Jobs may have become ready elsewhere.
    fn look_at_queue(&self) {
        self.inner.ready_count.fetch_add(1, Ordering::Release);
        self.inner.dispatch.notify_one();
    }

    /// What happened meanwhile is not known: everybody here looks again.
    pub(crate) fn look_at_everything(&self) {
        self.look_at_queue();
        self.inner.tokens.notify_one();
        self.jobs().values().for_each(count_up);
    }

    /// How often a job became ready, as far as was heard here.
    pub(crate) fn ready_count(&self) -> u64 {
        self.inner.ready_count.load(Ordering::Acquire)
    }

    /// Returns once dispatch was woken since the last return.
    pub(crate) async fn await_dispatch(&self) {
        self.inner.dispatch.notified().await;
    }

    /// Returns once the tokens of the database may have changed since the last return.
    pub(crate) async fn await_tokens(&self) {
        self.inner.tokens.notified().await;
    }

    /// A job's journal or output grew: whoever watches it looks, here and elsewhere.
    pub(crate) fn wake_watchers(&self, job: JobId) {
        self.look_at_job(job);
        self.tell(|news| news.add_job(job));
    }

    fn look_at_job(&self, job: JobId) {
        if let Some(changes) = self.jobs().get(&job) {
            count_up(changes);
        }
    }

    /// From now on hears of a job.
    pub(crate) fn watch_job(&self, job: JobId) -> JobWatch {
        let mut jobs = self.jobs();
        let changes = jobs.entry(job).or_insert_with(|| watch::Sender::new(0));
        JobWatch { receiver: Some(changes.subscribe()), job, wakes: self.clone() }
    }

    /// Something must be told to the worker of a run, wherever it is attached.
    pub(crate) fn raise_order(&self, order: RaisedOrder) {
        self.pass_order(order.clone());
        self.tell(|news| news.add_order(order));
    }

    fn pass_order(&self, order: RaisedOrder) {
        // Nobody is attached: the next renewal tells.
        let _ = self.inner.orders.send(order);
    }

    /// Hears of orders from now on.
    pub(crate) fn hear_orders(&self) -> broadcast::Receiver<RaisedOrder> {
        self.inner.orders.subscribe()
    }

    fn forget_unwatched(&self, job: JobId) {
        let mut jobs = self.jobs();
        if jobs.get(&job).is_some_and(|changes| changes.receiver_count() == 0) {
            jobs.remove(&job);
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, watch::Sender<u64>>> {
        self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to what the others are told next, where there are any.
    fn tell(&self, add: impl FnOnce(&mut News)) {
        if !self.inner.alone.load(Ordering::Acquire) {
            self.tell_anyway(add);
        }
    }

    fn tell_anyway(&self, add: impl FnOnce(&mut News)) {
        add(&mut self.inner.untold.lock().unwrap_or_else(PoisonError::into_inner));
        self.inner.told.notify_one();
    }

    /// Returns once there may be something to tell.
    async fn await_news(&self) {
        self.inner.told.notified().await;
    }

    /// Takes the notifications that tell it; none: there is nothing.
    fn take_untold(&self) -> Vec<String> {
        let news = std::mem::take(&mut *self.inner.untold.lock().unwrap_or_else(PoisonError::into_inner));
        if news.is_empty() { Vec::new() } else { news.write(self.inner.from) }
    }

    /// Asks to be heard by this coordinator's own listener, and by others. Until it is known that there are none, they are
    /// told everything.
    fn greet(&self) {
        self.inner.alone.store(false, Ordering::Release);
        self.tell(|news| news.greeting = true);
    }

    /// Nobody else answered a greeting that was heard.
    fn note_alone(&self) {
        self.inner.alone.store(true, Ordering::Release);
    }

    /// Nobody is heard any more, so somebody may have come unheard: they are told everything again.
    fn note_deaf(&self) {
        self.inner.alone.store(false, Ordering::Release);
    }

    /// What was to be told may be lost, also a greeting, so the others look at everything and answer.
    fn tell_everything(&self) {
        self.tell(|news| (news.everything, news.ready, news.greeting) = (true, true, true));
    }

    /// Takes a notification.
    fn hear(&self, payload: &str) -> Speaker {
        let (from, news) = News::read(payload);
        if from == Some(self.inner.from) {
            // It is known here already.
            return Speaker::Itself;
        }
        if news.tokens {
            self.inner.tokens.notify_one();
        }
        if news.tokens && news.is_empty() {
            // Said by somebody who is no coordinator.
            return Speaker::Another;
        }
        self.inner.alone.store(false, Ordering::Release);
        if news.greeting {
            // Whoever came is answered, and may have missed what was not told before.
            self.tell(|news| (news.everything, news.ready) = (true, true));
        }
        if news.everything {
            self.look_at_everything();
        } else if news.ready {
            self.look_at_queue();
        }
        news.jobs.into_iter().for_each(|job| self.look_at_job(job));
        news.orders.into_iter().for_each(|order| self.pass_order(order));
        Speaker::Another
    }
}

/// Who sent a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Itself,
    Another,
}

fn count_up(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count = count.wrapping_add(1));
}

/// Hears of one job until it is dropped.
#[derive(Debug)]
pub(crate) struct JobWatch {
    receiver: Option<watch::Receiver<u64>>,
    job: JobId,
    wakes: Wakes,
}

impl JobWatch {
    /// Returns once the job changed since the last return.
    pub(crate) async fn changed(&mut self) {
        if let Some(receiver) = &mut self.receiver
            && receiver.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl Drop for JobWatch {
    fn drop(&mut self) {
        self.receiver = None;
        self.wakes.forget_unwatched(self.job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mint::mint_job_id;

    fn job() -> JobId {
        mint_job_id(jiff::Timestamp::UNIX_EPOCH)
    }

    /// Carries what one coordinator tells to another.
    fn carry(from: &Wakes, to: &Wakes) -> usize {
        let payloads = from.take_untold();
        payloads.iter().for_each(|payload| assert_eq!(to.hear(payload), Speaker::Another));
        payloads.len()
    }

    #[tokio::test]
    async fn a_change_between_two_looks_is_heard_at_the_second() {
        let (wakes, job) = (Wakes::default(), job());
        let mut watch = wakes.watch_job(job);
        wakes.wake_watchers(job);
        watch.changed().await;
    }

    #[test]
    fn nothing_is_kept_for_a_job_that_nobody_watches() {
        let (wakes, job) = (Wakes::default(), job());
        let (first, second) = (wakes.watch_job(job), wakes.watch_job(job));
        drop(first);
        assert_eq!(wakes.jobs().len(), 1);
        drop(second);
        assert!(wakes.jobs().is_empty());
    }

    #[tokio::test]
    async fn what_happens_here_wakes_those_who_wait_elsewhere_and_is_not_told_on() {
        let (here, elsewhere, job) = (Wakes::default(), Wakes::default(), job());
        let mut watch = elsewhere.watch_job(job);
        here.wake_watchers(job);
        here.note_ready();
        assert_eq!(carry(&here, &elsewhere), 2);
        watch.changed().await;
        elsewhere.await_dispatch().await;
        assert_eq!(elsewhere.ready_count(), 1);
        assert_eq!(carry(&elsewhere, &here), 0, "what was heard is not told again");
        assert_eq!(carry(&here, &elsewhere), 0, "what was told is not told again");
    }

    #[test]
    fn what_a_coordinator_hears_of_itself_wakes_nobody() {
        let wakes = Wakes::default();
        wakes.note_ready();
        let payloads = wakes.take_untold();
        assert!(
            !payloads.is_empty() && payloads.iter().all(|payload| wakes.hear(payload) == Speaker::Itself)
        );
        assert_eq!(wakes.ready_count(), 1);
    }

    #[tokio::test]
    async fn an_order_reaches_the_attachments_of_another_coordinator() {
        let (here, elsewhere) = (Wakes::default(), Wakes::default());
        let mut orders = elsewhere.hear_orders();
        let run = RunRef {
            tenant: tenure_core::id::Tenant::default_tenant(),
            job: job(),
            epoch: Epoch(3),
            run: tenure_core::id::Run(2),
            generation: tenure_core::id::Generation(1),
        };
        let kind = OrderKind::Fenced { epoch: Epoch(4) };
        here.raise_order(RaisedOrder {
            worker: "w1".parse().unwrap(),
            term: Term(1),
            run: run.clone(),
            kind,
        });
        carry(&here, &elsewhere);
        assert_eq!(orders.recv().await.unwrap().run, run);
    }

    #[test]
    fn a_coordinator_that_is_alone_tells_nothing_until_another_greets_it() {
        let (first, second) = (Wakes::default(), Wakes::default());
        first.note_alone();
        first.note_ready();
        first.wake_watchers(job());
        assert_eq!(carry(&first, &second), 0);
        second.greet();
        assert_eq!(carry(&second, &first), 1);
        assert_eq!(carry(&first, &second), 1, "it answers");
        assert_eq!(second.ready_count(), 1, "what was not told before is looked for");
        assert_eq!(carry(&second, &first), 0, "an answer is not answered");
        first.note_ready();
        assert_eq!(carry(&first, &second), 1);
    }

    #[tokio::test]
    async fn a_gap_wakes_everybody() {
        let (wakes, job) = (Wakes::default(), job());
        let mut watch = wakes.watch_job(job);
        wakes.look_at_everything();
        watch.changed().await;
        wakes.await_dispatch().await;
    }
}
