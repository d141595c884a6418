//! The workers that are attached to this coordinator: for each its term, what it takes, how many more runs it wants, and
//! the way to it. It owns no task: `attachment` reads what a worker says, `dispatch` gives it runs. Promises that a worker
//! whose stream is not read is cut off at a bound, and that nothing is kept of one that is gone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};

use tenure_core::{
    id::{Attach, Term, WorkerName},
    limits::{ATTACHED_MAX, ATTACHMENT_QUEUE_MAX},
    reason::Reason,
    refusal::Refusal,
    run_ref::RunRef,
};
use tenure_proto::v1::{AttachResponse, CreditsWithdrawn, attach_response::Message};
use tenure_store::{AttachedTerm, Floors};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::{Limit, metrics},
    promise::Promises,
    refusals::OVERLOAD_RETRY,
};

/// One attached worker.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Its name.
    pub(crate) worker: WorkerName,
    /// Its term.
    pub(crate) term: Term,
    /// As it was registered, with the number of this attach.
    pub(crate) registration: AttachedTerm,
    state: Mutex<State>,
    outbound: mpsc::Sender<AttachResponse>,
    closing: CancellationToken,
    closed_because: OnceLock<Refusal>,
    look: Notify,
}

#[derive(Debug)]
struct State {
    credits: u32,
    /// Credits that were taken, of which it is not known yet whether a grant comes of them.
    promised: u32,
    /// The worker wants no more runs on this stream, also where a credit is given back.
    withdrawn: bool,
    runs: Vec<RunRef>,
    /// Runs whose grants are still being composed: the worker cannot name them yet.
    composing: Vec<RunRef>,
    queue: QueueView,
    heard_at: Instant,
}

/// What was seen of the queue at the last claim for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QueueView {
    /// Where the next claim begins.
    pub(crate) floors: Floors,
    /// The count of what became ready here when nothing that fits was left; none: something was left.
    pub(crate) empty_at: Option<u64>,
}

impl Attached {
    /// A worker that has just attached, and what it is to be sent.
    pub(crate) fn new(
        worker: WorkerName,
        term: Term,
        registration: AttachedTerm,
        runs: Vec<RunRef>,
    ) -> (Self, mpsc::Receiver<AttachResponse>) {
        let (outbound, messages) = mpsc::channel(ATTACHMENT_QUEUE_MAX);
        let attached = Self {
            worker,
            term,
            registration,
            state: Mutex::new(State {
                credits: 0,
                promised: 0,
                withdrawn: false,
                runs,
                composing: Vec::new(),
                queue: QueueView::default(),
                heard_at: Instant::now(),
            }),
            outbound,
            closing: CancellationToken::new(),
            closed_because: OnceLock::new(),
            look: Notify::new(),
        };
        (attached, messages)
    }

    /// The number of this attach.
    pub(crate) fn attach(&self) -> Attach {
        self.registration.attach
    }

    /// Sends a message. A worker that does not read is cut off: what it was to be told is found again by its next attach.
    pub(crate) fn send(&self, message: Message) {
        let sent = self.outbound.try_send(AttachResponse { message: Some(message) });
        if let Err(mpsc::error::TrySendError::Full(_)) = sent {
            metrics().note_limit(Limit::AttachmentQueue);
            let words = format!("worker {} left {ATTACHMENT_QUEUE_MAX} messages unread", self.worker);
            self.close(Refusal::new(Reason::Overloaded, words));
        }
    }

    /// Ends the stream; the first reason stands.
    pub(crate) fn close(&self, because: Refusal) {
        if self.closed_because.set(because).is_ok() {
            self.closing.cancel();
        }
    }

    /// Ends once the stream is to end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Why the stream ends; none: the worker left.
    pub(crate) fn closed_because(&self) -> Option<&Refusal> {
        self.closed_because.get()
    }

    /// The worker said which runs it holds: what it does not know is to be looked for. Where that goes on already it may have
    /// missed this, so another look follows, and one alone however often this is called.
    pub(crate) fn request_look(&self) {
        self.look.notify_one();
    }

    /// Returns once a look was requested since the last return.
    pub(crate) async fn await_look(&self) {
        self.look.notified().await;
    }

    /// The worker wants more runs.
    pub(crate) fn add_credits(&self, more: u32) {
        let mut state = self.state();
        if !state.withdrawn {
            state.credits = state.credits.saturating_add(more).min(self.registration.slots);
        }
    }

    /// The worker wants no more runs on this stream: it is about to stop. It is told once no grant follows any more.
    pub(crate) fn withdraw_credits(&self) {
        let mut state = self.state();
        state.credits = 0;
        state.withdrawn = true;
        let is_promised = state.promised > 0;
        drop(state);
        if !is_promised {
            self.send(Message::CreditsWithdrawn(CreditsWithdrawn {}));
        }
    }

    /// So many promises are settled, and so many of their credits given back.
    pub(crate) fn settle_promises(&self, settled: u32, given_back: u32) {
        if settled == 0 {
            return;
        }
        let mut state = self.state();
        state.promised = state.promised.saturating_sub(settled);
        if !state.withdrawn {
            state.credits = state.credits.saturating_add(given_back).min(self.registration.slots);
            return;
        }
        let is_promised = state.promised > 0;
        drop(state);
        if !is_promised {
            self.send(Message::CreditsWithdrawn(CreditsWithdrawn {}));
        }
    }

    /// A message came. True where the worker had been silent, so that it is offered runs again.
    pub(crate) fn note_heard(&self) -> bool {
        let mut state = self.state();
        let was_silent = self.is_silent(&state);
        state.heard_at = Instant::now();
        was_silent
    }

    /// A worker speaks every third of its ttl at least. One that did not for half of it may be frozen, or gone with its
    /// stream still open: what it is granted would wait for its term to lapse.
    fn is_silent(&self, state: &State) -> bool {
        state.heard_at.elapsed() > self.registration.ttl / 2
    }

    /// Takes up to so many credits: each is a promise to grant a run, or to give the credit back. A stream that ends takes
    /// no more.
    pub(crate) fn take_credits(self: &Arc<Self>, most: u32) -> Promises {
        let mut state = self.state();
        let is_offered = !self.is_silent(&state) && !self.closing.is_cancelled();
        let taken = if is_offered { state.credits.min(most) } else { 0 };
        state.credits -= taken;
        state.promised += taken;
        drop(state);
        Promises::taken(self.clone(), taken)
    }

    /// How many more runs it is to be offered.
    pub(crate) fn credits(&self) -> u32 {
        let state = self.state();
        if self.is_silent(&state) || self.closing.is_cancelled() { 0 } else { state.credits }
    }

    /// The runs that are not lost: those that the worker said it holds, and those whose grants are being composed.
    pub(crate) fn accounted_runs(&self) -> Vec<RunRef> {
        let state = self.state();
        state.runs.iter().chain(&state.composing).cloned().collect()
    }

    /// A run's grant is being composed, until the answer is dropped.
    pub(crate) fn begin_composing(self: &Arc<Self>, run: RunRef) -> Composing {
        self.state().composing.push(run.clone());
        Composing { attached: self.clone(), run }
    }

    /// The worker says which runs it holds.
    pub(crate) fn set_runs(&self, runs: Vec<RunRef>) {
        self.state().runs = runs;
    }

    /// What was last seen of the queue.
    pub(crate) fn queue_view(&self) -> QueueView {
        self.state().queue
    }

    /// A claim saw the queue.
    pub(crate) fn set_queue_view(&self, view: QueueView) {
        self.state().queue = view;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A grant on its way to being composed.
#[derive(Debug)]
pub(crate) struct Composing {
    attached: Arc<Attached>,
    run: RunRef,
}

impl Drop for Composing {
    fn drop(&mut self) {
        self.attached.state().composing.retain(|run| *run != self.run);
    }
}

type ByTerm = HashMap<(WorkerName, Term), Arc<Attached>>;

/// All attached workers of this coordinator. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachments {
    attached: Arc<Mutex<ByTerm>>,
}

impl Attachments {
    /// Adds a worker; of two attaches of one term the earlier is displaced, in whichever order they come here.
    pub(crate) fn add(&self, attached: Arc<Attached>) -> Result<(), Refusal> {
        let key = (attached.worker.clone(), attached.term);
        let mut all = self.lock();
        if all.len() >= ATTACHED_MAX && !all.contains_key(&key) {
            metrics().note_limit(Limit::Attached);
            let words =
                format!("{ATTACHED_MAX} workers are attached to this coordinator, and no more are taken");
            return Err(Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY));
        }
        let (later, earlier) = match all.remove(&key) {
            Some(present) if present.attach() > attached.attach() => (present, Some(attached)),
            present => (attached, present),
        };
        let attach = later.attach();
        all.insert(key, later);
        if let Some(earlier) = earlier {
            let words = format!(
                "attach {attach} of term {} took over from attach {}",
                earlier.term,
                earlier.attach()
            );
            earlier.close(Refusal::new(Reason::Displaced, words));
        }
        Ok(())
    }

    /// Removes a worker, unless a later attach took its place.
    pub(crate) fn remove(&self, attached: &Attached) {
        let mut all = self.lock();
        let key = (attached.worker.clone(), attached.term);
        if all.get(&key).is_some_and(|present| present.attach() == attached.attach()) {
            all.remove(&key);
        }
    }

    /// Every attached worker.
    pub(crate) fn list(&self) -> Vec<Arc<Attached>> {
        self.lock().values().cloned().collect()
    }

    /// Ends every stream.
    pub(crate) fn close_all(&self, because: &Refusal) {
        for attached in self.list() {
            attached.close(because.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByTerm> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{credential::Tenants, id::Generation, plan::Fencing};

    use super::*;

    fn attached(attach: u64) -> (Arc<Attached>, mpsc::Receiver<AttachResponse>) {
        let registration = AttachedTerm {
            attach: Attach(attach),
            answer: 1,
            ttl: Duration::from_secs(30),
            labels: Vec::new(),
            agents: Vec::new(),
            tenants: Tenants::All,
            slots: 4,
            fencing: Fencing::Kernel,
            generation: Generation(1),
        };
        let (attached, messages) = Attached::new("w1".parse().unwrap(), Term(1), registration, Vec::new());
        (Arc::new(attached), messages)
    }

    #[test]
    fn of_two_attaches_the_later_stays_in_whichever_order_they_come() {
        for order in [[1, 2], [2, 1]] {
            let attachments = Attachments::default();
            let all: Vec<_> = order.into_iter().map(attached).collect();
            for (attached, _) in &all {
                attachments.add(attached.clone()).unwrap();
            }
            let kept: Vec<Attach> = attachments.list().iter().map(|attached| attached.attach()).collect();
            assert_eq!(kept, [Attach(2)]);
            for (attached, _) in &all {
                let displaced = attached.closed_because().map(|refusal| refusal.reason);
                let expected = (attached.attach() == Attach(1)).then_some(Reason::Displaced);
                assert_eq!(displaced, expected);
            }
        }
    }

    /// Provokes `OVERLOADED`.
    #[test]
    fn a_worker_that_does_not_read_is_cut_off_at_the_bound() {
        let (attached, _messages) = attached(1);
        for _ in 0..ATTACHMENT_QUEUE_MAX {
            attached.send(Message::LostGrants(tenure_proto::v1::LostGrants::default()));
            assert!(attached.closed_because().is_none());
        }
        attached.send(Message::LostGrants(tenure_proto::v1::LostGrants::default()));
        assert_eq!(attached.closed_because().map(|refusal| refusal.reason), Some(Reason::Overloaded));
        assert!(attached.closing().is_cancelled());
    }

    #[tokio::test]
    async fn a_look_that_is_requested_while_one_goes_on_follows_it() {
        let (attached, _messages) = attached(1);
        attached.request_look();
        attached.await_look().await;
        // It goes on until the next wait.
        attached.request_look();
        attached.request_look();
        attached.await_look().await;
        tokio::select! {
            biased;
            () = attached.await_look() => panic!("what is requested twice is looked for once"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn a_grant_that_is_being_composed_is_accounted_for_until_it_is_sent_or_given_up() {
        let (attached, _messages) = attached(1);
        let run = |epoch| RunRef {
            tenant: tenure_core::id::Tenant::default_tenant(),
            job: crate::mint::mint_job_id(jiff::Timestamp::UNIX_EPOCH),
            epoch: tenure_core::id::Epoch(epoch),
            run: tenure_core::id::Run(2),
            generation: Generation(1),
        };
        let (held, first, second) = (run(1), run(3), run(5));
        attached.set_runs(vec![held.clone()]);
        let composing = attached.begin_composing(first.clone());
        let other = attached.begin_composing(second.clone());
        assert_eq!(attached.accounted_runs(), [held.clone(), first, second.clone()]);
        drop(composing);
        assert_eq!(attached.accounted_runs(), [held.clone(), second]);
        drop(other);
        assert_eq!(attached.accounted_runs(), [held]);
    }

    #[test]
    fn a_silent_worker_is_offered_nothing_until_it_is_heard_again() {
        let (attached, _messages) = attached(1);
        attached.add_credits(3);
        attached.state().heard_at -= Duration::from_secs(16);
        assert_eq!((attached.credits(), attached.take_credits(1).count()), (0, 0));
        assert!(attached.note_heard(), "it had been silent");
        assert!(!attached.note_heard());
        assert_eq!(attached.take_credits(3).count(), 3);
    }

    #[test]
    fn a_worker_that_withdrew_its_credits_is_offered_nothing_also_where_one_is_given_back() {
        let (attached, _messages) = attached(1);
        attached.add_credits(3);
        let promised = attached.take_credits(1);
        attached.withdraw_credits();
        drop(promised);
        assert_eq!((attached.credits(), attached.take_credits(1).count()), (0, 0));
    }

    #[test]
    fn a_worker_that_withdrew_its_credits_is_told_once_no_grant_follows() {
        let (attached, mut messages) = attached(1);
        let mut is_told = move || match messages.try_recv().map(|response| response.message) {
            Ok(message) => message == Some(Message::CreditsWithdrawn(CreditsWithdrawn {})),
            Err(_) => false,
        };
        attached.add_credits(3);
        let mut promised = attached.take_credits(3);
        let first = promised.split_one().unwrap();
        attached.withdraw_credits();
        assert!(!is_told());
        first.keep();
        assert!(!is_told(), "two are promised still");
        drop(promised);
        assert!(is_told());
        assert!(!is_told(), "it is told once");
    }

    #[test]
    fn a_worker_to_which_nothing_is_promised_is_told_at_once() {
        let (attached, mut messages) = attached(1);
        attached.withdraw_credits();
        let told = messages.try_recv().unwrap().message;
        assert_eq!(told, Some(Message::CreditsWithdrawn(CreditsWithdrawn {})));
    }

    #[test]
    fn a_worker_whose_stream_ends_is_offered_nothing_more() {
        let (attached, _messages) = attached(1);
        attached.add_credits(3);
        attached.close(Refusal::new(Reason::CoordinatorUnavailable, "stopping"));
        assert_eq!((attached.credits(), attached.take_credits(1).count()), (0, 0));
    }

    #[test]
    fn credits_are_taken_once_and_never_exceed_the_slots() {
        let (attached, _messages) = attached(1);
        attached.add_credits(3);
        let taken = [2, 2, 2].map(|most| attached.take_credits(most));
        assert_eq!(taken.each_ref().map(Promises::count), [2, 1, 0]);
        attached.add_credits(u32::MAX);
        assert_eq!(attached.credits(), 4);
    }
}
