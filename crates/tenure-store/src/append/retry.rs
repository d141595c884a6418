//! Sending a batch until each of its appends has an answer. A conflict fails the whole statement; by the second time the
//! competitor is visible and its victim is filtered out, so the batch goes again *whole*: one by one, 500 appends would take
//! fifty times as long. Only after two failures, or where the database refused the data, is it halved.

use super::{
    Append, AppendOutcome, AppendReport,
    group::{Group, group_appends},
};
use crate::{Store, StoreError};

/// How often a batch is sent before it is halved.
const TRIES: u32 = 2;

/// What became of some groups that were sent.
enum Sent {
    /// Each has its answer.
    Answered,
    /// Each part is to be sent by itself.
    Halved(Vec<Vec<Group>>),
    /// Nothing more can be sent.
    Failed(StoreError),
}

impl Store {
    /// As `append_records`, but tries again: the batch whole, and after a second failure, or on a data error, in halves.
    /// A single append that loses its position twice is answered with `Conflict`. Where the database does not answer,
    /// everything that is without an answer gets that error, and nothing more is sent.
    pub async fn append_with_retry(&self, batch: &[Append]) -> AppendReport {
        let (groups, outcomes) = group_appends(batch);
        let outcomes = outcomes.into_iter().map(Ok).collect();
        let mut report = AppendReport { outcomes, statements: 0, classifications: 0 };
        let mut pending = vec![groups];
        while let Some(groups) = pending.pop() {
            match self.send_groups(batch, &groups, &mut report).await {
                Sent::Answered => {}
                Sent::Halved(parts) => pending.extend(parts),
                Sent::Failed(error) => {
                    pending.push(groups);
                    let unanswered = pending.drain(..).flatten();
                    unanswered.for_each(|group| answer(&mut report, &group, Err(error.clone())));
                }
            }
        }
        report
    }

    async fn send_groups(&self, batch: &[Append], groups: &[Group], report: &mut AppendReport) -> Sent {
        let mut tries = 1;
        let error = loop {
            report.statements += 1;
            match self.append_groups(batch, groups).await {
                Ok(written) => {
                    report.classifications += u32::from(written.classified);
                    for (index, outcome) in written.outcomes {
                        report.outcomes[index] = Ok(outcome);
                    }
                    return Sent::Answered;
                }
                Err(StoreError::PositionTaken { .. }) if tries < TRIES => tries += 1,
                Err(error) => break error,
            }
        };
        let (StoreError::PositionTaken { .. } | StoreError::Data { .. }) = error else {
            return Sent::Failed(error);
        };
        if groups.len() > 1 {
            return Sent::Halved(halve(groups));
        }
        let outcome = match error {
            StoreError::PositionTaken { .. } => Ok(AppendOutcome::Conflict),
            error => Err(error),
        };
        groups.iter().for_each(|group| answer(report, group, outcome.clone()));
        Sent::Answered
    }
}

fn answer(report: &mut AppendReport, group: &Group, outcome: Result<AppendOutcome, StoreError>) {
    for &index in &group.members {
        report.outcomes[index] = outcome.clone();
    }
}

fn halve(groups: &[Group]) -> Vec<Vec<Group>> {
    let (first, second) = groups.split_at(groups.len() / 2);
    vec![first.to_vec(), second.to_vec()]
}
