//! The runs that this worker holds, from the grant until their end is acknowledged, what is ordered about each, and the
//! epochs that it has refused. It promises that a refused epoch stays refused for as long as it could still arrive, and
//! that a run never starts twice, nor beside a child of an earlier epoch of its job. It ends no child: it tells the run's executor what stands.
//! Neighbours: `attachment` holds and orders, `executor` obeys and releases.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{
    id::{Epoch, Seq},
    limits,
    run_ref::RunRef,
};
use tokio::sync::watch;

use crate::run_key::RunKey;

/// A record that asks something of a living run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandingNotice {
    /// Its position in the job's journal.
    pub(crate) seq: Seq,
    /// Its kind, as the journal names it.
    pub(crate) kind: String,
}

impl StandingNotice {
    /// Whether it cancels the job.
    pub(crate) fn is_cancel(&self) -> bool {
        self.kind == CANCEL_REQUESTED
    }
}

/// The kind of a notice that cancels.
pub(crate) const CANCEL_REQUESTED: &str = "cancel_requested";

/// Who holds a job whose run is no longer this worker's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FencedBy {
    /// The worker; none where nobody does, or nobody said.
    pub(crate) held_by: Option<String>,
    /// The present epoch, where it was said.
    pub(crate) epoch: Option<Epoch>,
}

/// Everything that stands about a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Orders {
    /// The latest notice.
    pub(crate) notice: Option<StandingNotice>,
    /// Set once the run is no longer this worker's, and never taken back.
    pub(crate) fenced: Option<FencedBy>,
}

/// Why a run is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotHeld {
    /// It is held already.
    AlreadyHeld,
    /// Its epoch was refused before.
    RefusedBefore,
    /// A child of an earlier epoch of the job is not known to be gone.
    EarlierChild,
    /// No slot is free.
    NoSlot,
}

/// The runs of this worker.
#[derive(Debug)]
pub(crate) struct HeldRuns {
    slots: usize,
    table: Mutex<Table>,
    /// Counts the changes of the list.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    runs: BTreeMap<RunKey, HeldRun>,
    refused: BTreeSet<RunKey>,
    /// The refused ones, oldest first, so that the oldest is forgotten where there are too many.
    refused_order: VecDeque<RunKey>,
}

#[derive(Debug)]
struct HeldRun {
    run: RunRef,
    orders: watch::Sender<Orders>,
    /// Whether something of it may be alive.
    has_child: bool,
}

impl HeldRuns {
    /// None yet; at most so many at once.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots: usize::try_from(slots).unwrap_or(usize::MAX),
            table: Mutex::default(),
            version: watch::Sender::new(0),
        }
    }

    /// Holds a run. What is ordered about it comes over the channel.
    pub(crate) fn hold(&self, run: &RunRef) -> Result<watch::Receiver<Orders>, NotHeld> {
        let key = RunKey::from(run);
        let mut table = self.lock();
        if table.refused.contains(&key) {
            return Err(NotHeld::RefusedBefore);
        }
        if table.runs.contains_key(&key) {
            return Err(NotHeld::AlreadyHeld);
        }
        if table.runs.values().any(|held| held.has_child && held.is_of_job(run)) {
            return Err(NotHeld::EarlierChild);
        }
        if table.runs.len() >= self.slots {
            return Err(NotHeld::NoSlot);
        }
        let (sender, receiver) = watch::channel(Orders::default());
        table.runs.insert(key, HeldRun { run: run.clone(), orders: sender, has_child: true });
        drop(table);
        self.count_change();
        Ok(receiver)
    }

    /// Says that nothing of a run is alive, although its end is not acknowledged yet.
    pub(crate) fn note_childless(&self, run: &RunRef) {
        if let Some(held) = self.lock().runs.get_mut(&RunKey::from(run)) {
            held.has_child = false;
        }
    }

    /// Holds a run no longer: its end is acknowledged.
    pub(crate) fn release(&self, run: &RunRef) {
        self.lock().runs.remove(&RunKey::from(run));
        self.count_change();
    }

    /// Refuses an epoch from now on, unless it is held. Returns whether it is refused.
    pub(crate) fn refuse(&self, run: &RunRef) -> bool {
        let key = RunKey::from(run);
        let mut table = self.lock();
        if table.runs.contains_key(&key) {
            return false;
        }
        if table.refused.insert(key.clone()) {
            table.refused_order.push_back(key);
        }
        if table.refused_order.len() > limits::REFUSED_EPOCHS_MAX
            && let Some(oldest) = table.refused_order.pop_front()
        {
            table.refused.remove(&oldest);
        }
        true
    }

    /// Tells a run that a notice stands. An earlier one than it knows changes nothing.
    pub(crate) fn give_notice(&self, run: &RunRef, notice: StandingNotice) {
        self.order(run, |orders| {
            let later = orders.notice.as_ref().is_none_or(|known| known.seq < notice.seq);
            if later {
                orders.notice = Some(notice);
            }
            later
        });
    }

    /// Tells a run that it is no longer this worker's.
    pub(crate) fn fence(&self, run: &RunRef, by: FencedBy) {
        self.order(run, |orders| fence_orders(orders, by));
    }

    /// Tells every run so: the term is closed.
    pub(crate) fn fence_all(&self) {
        for held in self.lock().runs.values() {
            held.orders.send_if_modified(|orders| fence_orders(orders, FencedBy::default()));
        }
    }

    /// Every run that is held.
    pub(crate) fn list(&self) -> Vec<RunRef> {
        self.lock().runs.values().map(|held| held.run.clone()).collect()
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.lock().runs.len()
    }

    /// How many more may be held.
    pub(crate) fn free_slots(&self) -> usize {
        self.slots.saturating_sub(self.lock().runs.len())
    }

    /// Changes whenever a run is held or released.
    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until none is held.
    pub(crate) async fn wait_until_empty(&self) {
        let mut changes = self.watch_changes();
        while !self.lock().runs.is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn order(&self, run: &RunRef, change: impl FnOnce(&mut Orders) -> bool) {
        if let Some(held) = self.lock().runs.get(&RunKey::from(run)) {
            held.orders.send_if_modified(change);
        }
    }

    fn count_change(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldRun {
    fn is_of_job(&self, run: &RunRef) -> bool {
        (&self.run.tenant, self.run.job) == (&run.tenant, run.job)
    }
}

fn fence_orders(orders: &mut Orders, by: FencedBy) -> bool {
    let first = orders.fenced.is_none();
    if first || by.held_by.is_some() {
        orders.fenced = Some(by);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::run_ref;

    fn cancel(seq: u64) -> StandingNotice {
        StandingNotice { seq: Seq(seq), kind: CANCEL_REQUESTED.to_owned() }
    }

    #[test]
    fn a_run_is_held_once() {
        let held = HeldRuns::new(2);
        let _orders = held.hold(&run_ref(1)).unwrap();
        assert_eq!(held.hold(&run_ref(1)).unwrap_err(), NotHeld::AlreadyHeld);
        assert_eq!(held.list(), [run_ref(1)]);
    }

    #[test]
    fn a_refused_epoch_stays_refused() {
        let held = HeldRuns::new(2);
        assert!(held.refuse(&run_ref(1)));
        assert_eq!(held.hold(&run_ref(1)).unwrap_err(), NotHeld::RefusedBefore);
        let later = RunRef { epoch: Epoch(2), ..run_ref(1) };
        assert!(held.hold(&later).is_ok(), "another epoch of the same job is another run");
    }

    #[test]
    fn no_epoch_of_a_job_is_held_while_a_child_of_another_may_live() {
        let held = HeldRuns::new(2);
        let _orders = held.hold(&run_ref(1)).unwrap();
        let later = RunRef { epoch: Epoch(2), ..run_ref(1) };
        assert_eq!(held.hold(&later).unwrap_err(), NotHeld::EarlierChild);
        held.note_childless(&run_ref(1));
        assert!(held.hold(&later).is_ok(), "its end may be on its way to the coordinator for long");
    }

    #[test]
    fn a_held_run_cannot_be_refused() {
        let held = HeldRuns::new(2);
        let _orders = held.hold(&run_ref(1)).unwrap();
        assert!(!held.refuse(&run_ref(1)));
    }

    #[test]
    fn no_more_runs_are_held_than_there_are_slots() {
        let held = HeldRuns::new(1);
        let _orders = held.hold(&run_ref(1)).unwrap();
        assert_eq!(held.hold(&run_ref(2)).unwrap_err(), NotHeld::NoSlot);
        held.release(&run_ref(1));
        assert!(held.hold(&run_ref(2)).is_ok());
    }

    #[test]
    fn the_latest_notice_stands() {
        let held = HeldRuns::new(1);
        let orders = held.hold(&run_ref(1)).unwrap();
        held.give_notice(&run_ref(1), cancel(7));
        held.give_notice(&run_ref(1), cancel(5));
        assert_eq!(orders.borrow().notice, Some(cancel(7)));
    }

    #[test]
    fn a_fenced_run_learns_later_who_holds_its_job() {
        let held = HeldRuns::new(1);
        let orders = held.hold(&run_ref(1)).unwrap();
        held.fence_all();
        let by = FencedBy { held_by: Some("w2".to_owned()), epoch: Some(Epoch(3)) };
        held.fence(&run_ref(1), by.clone());
        held.fence_all();
        assert_eq!(orders.borrow().fenced, Some(by));
    }
}
