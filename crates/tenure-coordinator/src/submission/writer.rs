//! The one writer of submissions: while a statement is on its way, what arrives is collected, and goes as one. A batch that
//! lost against another transaction goes again whole; one that the database refuses is halved until the one that it refuses
//! stands alone; one that was kept from its locks is sent again once, because nothing of it was written. Grants go out after the commit is known.
//! Neighbours: `submission` queues, `eager` matches, `grant` hands over.

use std::{collections::VecDeque, time::Instant};

use tenure_core::{declaration::Declaration, limits, refusal::Refusal};
use tenure_store::{NewJob, StoreError, Submitted};
use tokio::sync::mpsc;

use super::{
    Group, SealedJob,
    eager::{Match, claimed_run, match_worker},
    refuse_store,
};
use crate::{
    attachments::Attachments,
    grant::{grant_first_run, mark_secret},
    lane::{LaneParts, Lanes},
    metrics::{ClaimWay, Statement, metrics},
    patience::{Unanswered, within},
    run_secret::RunSecrets,
    trace::record_admission,
};

/// How often a batch is sent whole where somebody took a position of it, or it was given up in favour of another.
const ATTEMPTS_MAX: u32 = 3;
/// How often it is sent where somebody kept what it needs: each attempt waits the whole lock timeout.
const LOCK_ATTEMPTS_MAX: u32 = 2;

/// The writer.
pub(super) struct Writer {
    pub(super) parts: LaneParts,
    pub(super) attachments: Attachments,
    pub(super) lanes: Lanes,
    pub(super) secrets: RunSecrets,
    pub(super) groups: mpsc::Receiver<Group>,
    /// A group that did not fit into the last batch.
    pub(super) held: Option<Group>,
}

impl Writer {
    /// Writes until nobody can submit any more.
    pub(super) async fn run(mut self) {
        while let Some(batch) = self.collect().await {
            self.write(batch).await;
        }
    }

    /// Whole groups, as many as fit; at least one.
    async fn collect(&mut self) -> Option<Vec<Group>> {
        let first = match self.held.take() {
            Some(held) => held,
            None => self.groups.recv().await?,
        };
        let (mut jobs, mut bytes) = first.size();
        let mut batch = vec![first];
        while let Ok(group) = self.groups.try_recv() {
            let (more_jobs, more_bytes) = group.size();
            (jobs, bytes) = (jobs + more_jobs, bytes + more_bytes);
            if jobs > limits::SUBMIT_BATCH_MAX || bytes > limits::BATCH_MAX_BYTES {
                self.held = Some(group);
                break;
            }
            batch.push(group);
        }
        Some(batch)
    }

    async fn write(&self, batch: Vec<Group>) {
        let (workers, ready_count) = (self.attachments.list(), self.parts.wakes.ready_count());
        let now = self.parts.clock.now();
        let mut sizes = Vec::with_capacity(batch.len());
        let (mut news, mut beside, mut matches) = (Vec::new(), Vec::new(), Vec::new());
        for group in batch {
            sizes.push((group.jobs.len(), group.room, group.reply));
            for mut job in group.jobs {
                // What is told with a payload is read from the journal, as at any claim.
                let is_plain = Declaration::with_payload(&job.document).is_none();
                let mut find = || match_worker(&mut job.new, &workers, ready_count, now, &self.secrets);
                matches.push(is_plain.then(&mut find).flatten());
                beside.push((job.document, job.input));
                news.push(job.new);
            }
        }
        let outcomes = self.store_jobs(&news).await;
        let mut answers: VecDeque<Result<Submitted, Refusal>> = VecDeque::with_capacity(outcomes.len());
        for (((new, (document, input)), matched), outcome) in
            news.into_iter().zip(beside).zip(matches).zip(outcomes)
        {
            record_admission(&new, outcome.as_ref().ok(), &self.parts.clock);
            self.follow_up(SealedJob { new, document, input }, matched, outcome.as_ref().ok()).await;
            answers.push_back(outcome);
        }
        for (size, _room, reply) in sizes {
            // An asker that went away is no error.
            let _ = reply.send(answers.drain(..size.min(answers.len())).collect());
        }
    }

    /// The grant, or the place in the queue, that follows from what was stored.
    async fn follow_up(&self, job: SealedJob, matched: Option<Match>, outcome: Option<&Submitted>) {
        let ready = matches!(outcome, Some(Submitted::Admitted { claimed: false, queue_no: Some(_), .. }));
        if ready {
            self.parts.wakes.note_ready();
        }
        let Some(Match { promise, secret }) = matched else { return };
        if let Some(run) = outcome.and_then(|outcome| claimed_run(job, outcome)) {
            metrics().note_claims(ClaimWay::Eager, 1);
            let secret = mark_secret(&self.secrets, &run, &secret);
            grant_first_run(&self.lanes, promise, run, secret).await;
        }
    }

    async fn store_jobs(&self, jobs: &[NewJob]) -> Vec<Result<Submitted, Refusal>> {
        let mut outcomes = Vec::with_capacity(jobs.len());
        let mut pieces = VecDeque::from([jobs]);
        while let Some(piece) = pieces.pop_front() {
            match self.store_piece(piece).await {
                Ok(stored) => outcomes.extend(stored.into_iter().map(Ok)),
                Err(Failed::Store(StoreError::Data { .. } | StoreError::PositionTaken { .. }))
                    if piece.len() > 1 =>
                {
                    let (first, second) = piece.split_at(piece.len() / 2);
                    pieces.push_front(second);
                    pieces.push_front(first);
                }
                Err(failed) => {
                    let refusal = failed.refuse();
                    outcomes.extend(piece.iter().map(|_| Err(refusal.clone())));
                }
            }
        }
        outcomes
    }

    async fn store_piece(&self, piece: &[NewJob]) -> Result<Vec<Submitted>, Failed> {
        let mut attempts = 1;
        loop {
            let begun = Instant::now();
            let stored = within(self.parts.store.submit_jobs(piece)).await?;
            metrics().note_statement(Statement::Submit, begun.elapsed());
            match stored {
                Err(StoreError::PositionTaken { .. } | StoreError::Deadlock { .. })
                    if attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                }
                Err(StoreError::LockTimeout { .. }) if attempts < LOCK_ATTEMPTS_MAX => attempts += 1,
                outcome => return outcome.map_err(Failed::Store),
            }
        }
    }
}

/// A piece that was not stored, or of which that is not known.
enum Failed {
    Store(StoreError),
    Unanswered(Unanswered),
}

impl From<Unanswered> for Failed {
    fn from(unanswered: Unanswered) -> Self {
        Self::Unanswered(unanswered)
    }
}

impl Failed {
    fn refuse(self) -> Refusal {
        match self {
            Self::Store(error) => refuse_store(&error),
            Self::Unanswered(unanswered) => unanswered.into(),
        }
    }
}

impl Group {
    fn size(&self) -> (usize, usize) {
        (self.jobs.len(), self.jobs.iter().map(SealedJob::size_bytes).sum())
    }
}
