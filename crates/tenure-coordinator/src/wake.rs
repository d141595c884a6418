//! The one place where wake-ups are raised and awaited: a job's journal grew, a job became ready, a notice stands for a
//! run. A wake-up says that looking is worth it, never what is to be seen, and one that is lost costs latency and nothing
//! else, because a poll stands behind each. Wake-ups reach this coordinator's own tasks. Neighbours: lanes and the
//! submission raise them; `dispatch`, the watchers and the attachments wait.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tenure_core::{
    id::{Epoch, JobId, Tenant, Term, WorkerName},
    run_ref::RunRef,
};
use tokio::sync::{Notify, broadcast, watch};

use crate::lane::work::StandingNotice;

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
    jobs: Mutex<HashMap<(Tenant, JobId), watch::Sender<u64>>>,
    orders: broadcast::Sender<RaisedOrder>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            dispatch: Notify::new(),
            ready_count: AtomicU64::new(0),
            jobs: Mutex::default(),
            orders: broadcast::Sender::new(ORDERS_MAX),
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
    /// A worker may have become free.
    pub(crate) fn wake_dispatch(&self) {
        self.inner.dispatch.notify_one();
    }

    /// A job became ready: whoever thinks that nothing waits must look again.
    pub(crate) fn note_ready(&self) {
        self.inner.ready_count.fetch_add(1, Ordering::Release);
        self.inner.dispatch.notify_one();
    }

    /// How often a job became ready here.
    pub(crate) fn ready_count(&self) -> u64 {
        self.inner.ready_count.load(Ordering::Acquire)
    }

    /// Returns once dispatch was woken since the last return.
    pub(crate) async fn await_dispatch(&self) {
        self.inner.dispatch.notified().await;
    }

    /// A job's journal or output grew.
    pub(crate) fn wake_watchers(&self, tenant: &Tenant, job: JobId) {
        let jobs = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(changes) = jobs.get(&(tenant.clone(), job)) {
            changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// From now on hears of a job.
    pub(crate) fn watch_job(&self, tenant: &Tenant, job: JobId) -> JobWatch {
        let mut jobs = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = jobs.entry((tenant.clone(), job)).or_insert_with(|| watch::Sender::new(0));
        JobWatch { receiver: Some(changes.subscribe()), key: (tenant.clone(), job), wakes: self.clone() }
    }

    /// Something must be told to the worker of a run, where it is attached here.
    pub(crate) fn raise_order(&self, order: RaisedOrder) {
        // Nobody is attached: the next renewal tells.
        let _ = self.inner.orders.send(order);
    }

    /// Hears of orders from now on.
    pub(crate) fn hear_orders(&self) -> broadcast::Receiver<RaisedOrder> {
        self.inner.orders.subscribe()
    }

    fn forget_unwatched(&self, key: &(Tenant, JobId)) {
        let mut jobs = self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.get(key).is_some_and(|changes| changes.receiver_count() == 0) {
            jobs.remove(key);
        }
    }
}

/// Hears of one job until it is dropped.
#[derive(Debug)]
pub(crate) struct JobWatch {
    receiver: Option<watch::Receiver<u64>>,
    key: (Tenant, JobId),
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
        self.wakes.forget_unwatched(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mint::mint_job_id;

    #[tokio::test]
    async fn a_change_between_two_looks_is_heard_at_the_second() {
        let (wakes, tenant) = (Wakes::default(), Tenant::default_tenant());
        let job = mint_job_id(jiff::Timestamp::UNIX_EPOCH);
        let mut watch = wakes.watch_job(&tenant, job);
        wakes.wake_watchers(&tenant, job);
        watch.changed().await;
    }

    #[test]
    fn nothing_is_kept_for_a_job_that_nobody_watches() {
        let (wakes, tenant) = (Wakes::default(), Tenant::default_tenant());
        let job = mint_job_id(jiff::Timestamp::UNIX_EPOCH);
        let (first, second) = (wakes.watch_job(&tenant, job), wakes.watch_job(&tenant, job));
        drop(first);
        assert_eq!(wakes.inner.jobs.lock().unwrap().len(), 1);
        drop(second);
        assert!(wakes.inner.jobs.lock().unwrap().is_empty());
    }
}
