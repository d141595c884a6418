//! The waits of jobs that become suspended, and the bookings that take effect with a success, as arrays for the statement: a row
//! for each group that ends so.

use serde_json::Value;
use uuid::Uuid;

use super::{Append, group::Group};
use crate::stored::to_bigint;

/// A column for each property of a wait; `no` names its group.
#[derive(Debug, Default)]
pub(super) struct WaitColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    /// The position of its record, its name, its instant, its jobs.
    pub(super) wait: Vec<Value>,
}

impl<'a> WaitColumns<'a> {
    /// Only the last of a group changes the state.
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            let last = group.appends(batch).last();
            let ended = last.and_then(|append| Some((append, append.changes.wait.as_ref()?)));
            let Some((append, wait)) = ended else { continue };
            let seq = append.records.last().map_or(0, |record| record.seq.0);
            columns.no.push(to_bigint(group.no as u64));
            columns.tenant.push(append.tenant.as_str());
            columns.job.push(append.job.0);
            columns.wait.push(serde_json::json!({
                "seq": seq, "name": wait.name, "until": wait.until, "jobs": wait.jobs,
            }));
        }
        columns
    }
}

/// A column for each property of a booking; `no` names its group.
#[derive(Debug, Default)]
pub(super) struct LayoverColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    pub(super) seq: Vec<i64>,
}

impl<'a> LayoverColumns<'a> {
    /// Only the last of a group concludes.
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            let last = group.appends(batch).last();
            let Some((append, seq)) = last.and_then(|append| Some((append, append.changes.layover?))) else {
                continue;
            };
            columns.no.push(to_bigint(group.no as u64));
            columns.tenant.push(append.tenant.as_str());
            columns.job.push(append.job.0);
            columns.seq.push(to_bigint(seq.0));
        }
        columns
    }
}
