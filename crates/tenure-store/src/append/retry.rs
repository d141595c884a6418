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

impl Store {
    /// As `append_records`, but tries again: the batch whole, and after a second failure, or on a data error, in halves.
    /// A single append that loses its position twice is answered with `Conflict`.
    pub async fn append_with_retry(&self, batch: &[Append]) -> AppendReport {
        let (groups, outcomes) = group_appends(batch);
        let outcomes = outcomes.into_iter().map(Ok).collect();
        let mut report = AppendReport { outcomes, statements: 0, classifications: 0 };
        let mut pending = vec![groups];
        while let Some(groups) = pending.pop() {
            pending.extend(self.try_groups(batch, groups, &mut report).await);
        }
        report
    }

    /// Sends some groups; returns the parts that are still without an answer.
    async fn try_groups(
        &self,
        batch: &[Append],
        groups: Vec<Group>,
        report: &mut AppendReport,
    ) -> Vec<Vec<Group>> {
        let mut tries = 1;
        let error = loop {
            report.statements += 1;
            match self.append_groups(batch, &groups).await {
                Ok(written) => {
                    report.classifications += u32::from(written.classified);
                    written
                        .outcomes
                        .into_iter()
                        .for_each(|(index, outcome)| report.outcomes[index] = Ok(outcome));
                    return Vec::new();
                }
                Err(StoreError::PositionTaken { .. }) if tries < TRIES => tries += 1,
                Err(error) => break error,
            }
        };
        let can_be_halved = matches!(error, StoreError::PositionTaken { .. } | StoreError::Data { .. });
        if can_be_halved && groups.len() > 1 {
            return halve(groups);
        }
        let answer = match error {
            StoreError::PositionTaken { .. } => Ok(AppendOutcome::Conflict),
            error => Err(error),
        };
        for &index in groups.iter().flat_map(|group| &group.members) {
            report.outcomes[index] = answer.clone();
        }
        Vec::new()
    }
}

fn halve(mut groups: Vec<Group>) -> Vec<Vec<Group>> {
    let second = groups.split_off(groups.len() / 2);
    vec![groups, second]
}
