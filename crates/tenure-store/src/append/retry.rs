//! Sending a batch until each of its appends has an answer. A conflict fails the whole statement; by the second time the
//! competitor is visible and its victim is filtered out, so the batch goes again *whole*: one by one, 500 appends would take
//! fifty times as long. Only after two failures, or where the database refused the data or a second announcement of an
//! effect, is it halved.
//!
//! A lock that somebody keeps is another matter: each statement that needs it waits the whole lock timeout. So the batch
//! is not sent again whole but in few small parts, which find one kept job among 500 in three waits instead of ten; and
//! where too many were in vain, the table is locked rather than a job, and the rest is given up.

use super::{
    Append, AppendOutcome, AppendReport, Written,
    group::{Group, group_appends},
};
use crate::{Store, StoreError};

/// How often a batch is sent before it is halved.
const TRIES: u32 = 2;

/// How many statements of a batch may wait for locks in vain. Together they stay well below what the caller waits.
const LOCK_TIMEOUTS_MAX: u32 = 8;

/// In how many parts a batch is sent that waited for a lock in vain: a full one is down to single jobs in two steps.
const LOCK_PARTS: usize = 24;

/// A batch on its way.
struct Sending {
    report: AppendReport,
    lock_timeouts: u32,
}

/// What became of some groups that were sent.
enum Sent {
    /// Each has its answer.
    Answered,
    /// Each part is to be sent by itself.
    Parted(Vec<Vec<Group>>),
    /// Nothing more can be sent.
    Failed(StoreError),
}

impl Store {
    /// As `append_records`, but tries again: the batch whole, and after a second failure, or on a data error, in halves;
    /// after a lock timeout, in small parts. A single append that loses its position twice is answered with `Conflict`, one
    /// that is kept from its locks gets that error. Where the database does not answer, everything that is without an
    /// answer gets that error, and nothing more is sent.
    pub async fn append_with_retry(&self, batch: &[Append]) -> AppendReport {
        let (groups, outcomes) = group_appends(batch);
        let outcomes = outcomes.into_iter().map(Ok).collect();
        let report = AppendReport { outcomes, statements: 0, classifications: 0 };
        let mut sending = Sending { report, lock_timeouts: 0 };
        let mut pending = vec![groups];
        while let Some(groups) = pending.pop() {
            match self.send_groups(batch, &groups, &mut sending).await {
                Sent::Answered => {}
                Sent::Parted(parts) => pending.extend(parts),
                Sent::Failed(error) => {
                    pending.push(groups);
                    let unanswered = pending.drain(..).flatten();
                    unanswered.for_each(|group| sending.answer(&group, &Err(error.clone())));
                }
            }
        }
        sending.report
    }

    async fn send_groups(&self, batch: &[Append], groups: &[Group], sending: &mut Sending) -> Sent {
        let mut tries = 1;
        loop {
            sending.report.statements += 1;
            match self.append_groups(batch, groups).await {
                Ok(written) => {
                    sending.note_written(written);
                    return Sent::Answered;
                }
                Err(StoreError::PositionTaken { .. } | StoreError::Deadlock { .. }) if tries < TRIES => {
                    tries += 1;
                }
                Err(error) => return sending.judge_failure(groups, error),
            }
        }
    }
}

impl Sending {
    fn note_written(&mut self, written: Written) {
        self.report.classifications += u32::from(written.classified);
        for (index, outcome) in written.outcomes {
            self.report.outcomes[index] = Ok(outcome);
        }
    }

    /// What is left to do with groups that were not written.
    fn judge_failure(&mut self, groups: &[Group], error: StoreError) -> Sent {
        let part_max = match &error {
            StoreError::LockTimeout { .. } => {
                self.lock_timeouts += 1;
                if self.lock_timeouts >= LOCK_TIMEOUTS_MAX {
                    return Sent::Failed(error);
                }
                groups.len().div_ceil(LOCK_PARTS)
            }
            StoreError::PositionTaken { .. }
            | StoreError::Deadlock { .. }
            | StoreError::Data { .. }
            | StoreError::AlreadyAnnounced { .. } => groups.len().div_ceil(2),
            _ => return Sent::Failed(error),
        };
        if groups.len() > 1 {
            return Sent::Parted(groups.chunks(part_max).map(<[Group]>::to_vec).collect());
        }
        let outcome = match error {
            StoreError::PositionTaken { .. } => Ok(AppendOutcome::Conflict),
            error => Err(error),
        };
        groups.iter().for_each(|group| self.answer(group, &outcome));
        Sent::Answered
    }

    fn answer(&mut self, group: &Group, outcome: &Result<AppendOutcome, StoreError>) {
        for &index in &group.members {
            self.report.outcomes[index] = outcome.clone();
        }
    }
}
