//! One round of a lane: everything that waits is read for, composed, and written as one batch; then everybody is told.
//! What was contradicted waits for the next round, without its memory. Each piece of work is answered or stays: none is
//! dropped. Neighbours: `read` and `compose` before the write, `wake` and `late` after it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use tenure_core::{
    plan::{JobFacts, LeaseChange, ReadyChange},
    record::NOTICE_KINDS,
    wait::is_awaited_end,
};
use tenure_store::{Append, AppendOutcome, StoreError};

use super::{
    Lane,
    compose::{Composed, compose_job, last_head},
    memory::{Memories, RunMemory},
    read::Queues,
    work::{DecideError, Decided, JobKey, LaneError, Pending, ReportAnswer, RunReport, StandingNotice, Work},
};
use crate::{
    metrics::{Statement, metrics},
    patience::{Unanswered, within},
    refusals::refuse_store,
    wake::{OrderKind, RaisedOrder, WaitHint, Wakes},
};

/// How often a piece of work is tried before it is given back.
pub(super) const ATTEMPTS_MAX: u32 = 16;

impl Lane {
    /// Carries out what waits; what could not be finished waits again.
    pub(super) async fn run_round(&mut self) {
        let mut queues = sort_waiting(std::mem::take(&mut self.waiting), &mut self.memories);
        let known = match within(self.read_known(&queues)).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => return fail_queues(queues, &error),
            Err(unanswered) => return fail_queues(queues, &unanswered.into()),
        };
        let now = self.parts.clock.now();
        let (mut composed, mut late) = (Vec::new(), Vec::new());
        for ((key, queue), known) in queues.iter_mut().zip(known) {
            match known {
                Ok(known) => {
                    let share = compose_job(key, known, queue, now);
                    composed.extend(share.appends);
                    late.extend(share.late);
                }
                Err(error) => fail_queue(queue, &error),
            }
        }
        self.waiting.extend(queues.into_iter().flat_map(|(_, queue)| queue));
        if !composed.is_empty() {
            self.write_composed(composed).await;
        }
        if !late.is_empty() {
            self.answer_late(late).await;
        }
    }

    async fn write_composed(&mut self, composed: Vec<Composed>) {
        let mut appends = Vec::with_capacity(composed.len());
        let mut waiters = Vec::with_capacity(composed.len());
        for Composed { append, pending, facts } in composed {
            appends.push(append);
            waiters.push((pending, facts));
        }
        let begun = Instant::now();
        let report = match within(self.parts.store.append_with_retry(&appends)).await {
            Ok(report) => report,
            Err(unanswered) => return self.fail_unanswered(&appends, waiters, unanswered),
        };
        metrics().note_statement(Statement::Append, begun.elapsed());
        metrics().note_batch(appends.len());
        let applied = report.outcomes.iter().filter(|outcome| is_applied(outcome)).count();
        metrics().note_appends(applied as u64, (appends.len() - applied) as u64);
        tracing::debug!(
            lane = self.number,
            appends = appends.len(),
            statements = report.statements,
            classifications = report.classifications,
            "wrote a batch"
        );
        let mut again = VecDeque::new();
        let results = report.outcomes.into_iter().zip(appends).zip(waiters);
        for ((outcome, append), (pending, facts)) in results {
            if let Some(pending) = self.settle(outcome, append, pending, facts) {
                again.push_back(pending);
            }
        }
        again.extend(std::mem::take(&mut self.waiting));
        self.waiting = again;
    }

    /// Whether it was written is not known: nothing that was remembered holds.
    fn fail_unanswered(
        &mut self,
        appends: &[Append],
        waiters: Vec<(Pending, Option<JobFacts>)>,
        unanswered: Unanswered,
    ) {
        for append in appends {
            self.memories.forget(&(append.tenant.clone(), append.job));
        }
        for (pending, _) in waiters {
            fail(pending.work, unanswered.into());
        }
    }

    /// Tells whoever waits, or gives back what must be tried again.
    fn settle(
        &mut self,
        outcome: Result<AppendOutcome, StoreError>,
        append: Append,
        mut pending: Pending,
        facts: Option<JobFacts>,
    ) -> Option<Pending> {
        let key = (append.tenant.clone(), append.job);
        let refused = match outcome {
            Ok(AppendOutcome::Applied { seq }) => {
                self.note_applied(&key, &append, facts.as_ref());
                match (pending.work, facts) {
                    (Work::Report(report), _) => report.reply.send(Ok(ReportAnswer::Applied(seq))),
                    (Work::Decide(decide), Some(facts)) => {
                        decide.reply.send(Ok(Decided { facts, written: Some(seq) }));
                    }
                    (Work::Decide(_) | Work::Remember { .. }, _) => {}
                }
                return None;
            }
            Ok(refused) => refused,
            Err(error) => {
                self.memories.forget(&key);
                fail_append(pending.work, error);
                return None;
            }
        };
        self.memories.forget(&key);
        pending.attempts += 1;
        if refused != AppendOutcome::Conflict && matches!(pending.work, Work::Report(_)) {
            pending.refused = Some(refused);
        }
        Some(pending)
    }

    /// The memory follows what was written, and others hear of it.
    fn note_applied(&mut self, key: &JobKey, append: &Append, facts: Option<&JobFacts>) {
        self.advance_memory(key, append);
        if let Some(state) = append.changes.job.as_ref().and_then(|job| job.state) {
            metrics().note_state(state);
        }
        self.parts.wakes.wake_watchers(key.1);
        hint_waits(&self.parts.wakes, key, append);
        match &append.changes.ready {
            ReadyChange::Insert { not_before: None, .. } | ReadyChange::Replace { .. } => {
                self.parts.wakes.note_ready();
            }
            ReadyChange::Insert { not_before: Some(_), .. }
            | ReadyChange::Keep
            | ReadyChange::Redirect { .. }
            | ReadyChange::Delete => {}
        }
        if append.gift.is_some() {
            self.parts.wakes.note_ready();
        }
        if let Some(order) = facts.and_then(|facts| order_for_holder(facts, append)) {
            self.parts.wakes.raise_order(order);
        }
    }

    fn advance_memory(&mut self, key: &JobKey, append: &Append) {
        let (Some(last), Some(head)) = (append.records.last(), last_head(&append.records)) else { return };
        let over = match append.changes.lease {
            LeaseChange::Keep
            | LeaseChange::NoteAbandon
            | LeaseChange::NoteSteer
            | LeaseChange::NoteRefusal(_) => false,
            LeaseChange::Release | LeaseChange::Delete => true,
        };
        let Some(memory) = self.memories.recall_mut(key).filter(|memory| !over && memory.epoch == last.epoch)
        else {
            return self.memories.forget(key);
        };
        memory.advance(head, last.at);
        if let (Some(n), Some(request)) = (append.n, append.request) {
            memory.note_append(n, request);
        }
        memory.note_effects(&append.records);
        if let LeaseChange::NoteRefusal(_) = append.changes.lease {
            memory.note_refusal();
        }
        if NOTICE_KINDS.contains(&last.kind) {
            memory.note_notice(last.kind);
        }
    }
}

/// Whoever waits for the job, or what it waits for, is looked at once this is committed.
fn hint_waits(wakes: &Wakes, key: &JobKey, append: &Append) {
    let state = append.changes.job.as_ref().and_then(|job| job.state);
    if state.is_some_and(is_awaited_end) {
        wakes.hint_waits(WaitHint::Concluded(key.clone()));
    }
    if append.changes.wait.as_ref().is_some_and(|wait| !wait.jobs.is_empty()) {
        wakes.hint_waits(WaitHint::Suspended(key.clone()));
    }
}

const fn is_applied(outcome: &Result<AppendOutcome, StoreError>) -> bool {
    matches!(outcome, Ok(AppendOutcome::Applied { .. }))
}

/// What waits, by job. What was tried too often is given back, and what followed it in its stream; what is to be remembered
/// is.
pub(super) fn sort_waiting(waiting: VecDeque<Pending>, memories: &mut Memories) -> Queues {
    let mut queues = Queues::new();
    let mut places: HashMap<JobKey, usize> = HashMap::new();
    for pending in waiting {
        let key = pending.work.job();
        if pending.work.is_overtaking() {
            fail(pending.work, LaneError::Overtaking);
        } else if pending.attempts >= ATTEMPTS_MAX {
            fail(pending.work, LaneError::Contended { attempts: pending.attempts });
        } else if let Work::Remember { run, head, at } = &pending.work {
            memories.remember(key, RunMemory::of_claim(*head, *at, run.epoch, run.run));
        } else {
            let place = *places.entry(key.clone()).or_insert_with(|| {
                queues.push((key, VecDeque::new()));
                queues.len() - 1
            });
            queues[place].1.push_back(pending);
        }
    }
    queues
}

/// What the worker that holds the job must be told of a decision by somebody else.
fn order_for_holder(facts: &JobFacts, append: &Append) -> Option<RaisedOrder> {
    let lease = facts.lease.as_ref().filter(|lease| lease.live && append.n.is_none())?;
    let last = append.records.last()?;
    let kind = if last.epoch > lease.epoch {
        OrderKind::Fenced { epoch: last.epoch }
    } else if NOTICE_KINDS.contains(&last.kind) {
        OrderKind::Notice(StandingNotice { seq: last.seq, kind: last.kind })
    } else {
        return None;
    };
    Some(RaisedOrder { worker: lease.worker.clone(), term: lease.term, run: facts.leased_run(lease), kind })
}

/// A report that the database will never take is refused, or its worker would send it again for ever: its data, or a second
/// announcement of an effect that came past the check in the statement, which is a defect. An error that
/// does not blame the data says nothing about this report: it failed the whole statement, and is sent again.
fn fail_append(work: Work, error: StoreError) {
    match work {
        Work::Report(report)
            if matches!(error, StoreError::Data { .. } | StoreError::AlreadyAnnounced { .. }) =>
        {
            report.reply.send(Ok(ReportAnswer::Refused(refuse_store(&error))));
        }
        work => fail(work, LaneError::Store(Arc::new(error))),
    }
}

fn fail_queues(queues: Queues, error: &LaneError) {
    queues.into_iter().for_each(|(_, mut queue)| fail_queue(&mut queue, error));
}

fn fail_queue(queue: &mut VecDeque<Pending>, error: &LaneError) {
    queue.drain(..).for_each(|pending| fail(pending.work, error.clone()));
}

/// Gives a piece of work back with an error. What follows a report in its stream will be given back too.
pub(super) fn fail(work: Work, error: LaneError) {
    match work {
        Work::Remember { .. } => {}
        Work::Report(RunReport { reply, stream, .. }) => {
            stream.break_off();
            reply.send(Err(error));
        }
        Work::Decide(decide) => decide.reply.send(Err(DecideError::Lane(error))),
    }
}
