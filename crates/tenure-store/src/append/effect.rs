//! What the records of a batch say about effects, as arrays for the statement: a row for each announcement and each outcome,
//! and what must stand of the effect before it. Within one append a key occurs once, or twice where the verdict on an attempt
//! stands before the announcement of the next: the statement can neither see nor change a row that it inserts itself. Appends
//! of one job that speak of the same key are not joined, for the same reason.

use std::collections::BTreeSet;

use tenure_core::{
    effect::{Disposition, EffectAct, EffectKey, EffectMark, Outcome},
    record::SealedRecord,
};
use uuid::Uuid;

use super::{Append, group::Group};
use crate::stored::{to_bigint, to_integer};

/// A column for each property of what is said; `no` names its group.
#[derive(Debug, Default)]
pub(super) struct EffectColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    pub(super) seq: Vec<i64>,
    pub(super) epoch: Vec<i64>,
    pub(super) run: Vec<i32>,
    pub(super) key: Vec<&'a str>,
    pub(super) attempt: Vec<i32>,
    pub(super) need: Vec<i16>,
    pub(super) state: Vec<&'static str>,
    pub(super) disposition: Vec<Option<&'static str>>,
    pub(super) recovery: Vec<Option<&'static str>>,
    pub(super) mutates: Vec<Option<bool>>,
    pub(super) tool: Vec<Option<&'a str>>,
    pub(super) compensation: Vec<Option<&'static str>>,
    pub(super) request: Vec<Option<&'a [u8]>>,
}

impl<'a> EffectColumns<'a> {
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            for append in group.appends(batch) {
                columns.push_append(group.no, append);
            }
        }
        columns
    }

    fn push_append(&mut self, no: usize, append: &'a Append) {
        let mut before: Option<&EffectMark> = None;
        for (record, mark) in
            append.records.iter().filter_map(|record| Some((record, record.effect.as_ref()?)))
        {
            self.no.push(to_bigint(no as u64));
            self.tenant.push(append.tenant.as_str());
            self.job.push(append.job.0);
            self.push_position(record);
            self.key.push(mark.key.as_str());
            self.attempt.push(to_integer(mark.attempt));
            self.need.push(need_of(before, mark));
            self.push_act(&mark.act);
            before = Some(mark);
        }
    }

    fn push_position(&mut self, record: &SealedRecord) {
        self.seq.push(to_bigint(record.seq.0));
        self.epoch.push(to_bigint(record.epoch.0));
        self.run.push(to_integer(record.run.0));
    }

    fn push_act(&mut self, act: &'a EffectAct) {
        let outcome = act.outcome().unwrap_or(Outcome::Open);
        self.state.push(outcome.state());
        self.disposition.push(outcome.disposition().map(Disposition::word));
        let announced = match act {
            EffectAct::Announced { declared, tool, request } => Some((declared, tool, request)),
            EffectAct::Done | EffectAct::Failed(_) | EffectAct::Reconciled(_) => None,
        };
        self.recovery.push(announced.map(|(declared, ..)| declared.recovery.word()));
        self.mutates.push(announced.map(|(declared, ..)| declared.mutates));
        self.compensation.push(announced.map(|(declared, ..)| declared.compensation.word()));
        self.tool.push(announced.map(|(_, tool, _)| &tool[..]));
        self.request.push(announced.map(|(.., request)| &request.0[..]));
    }
}

/// What must stand before it, in the numbers of the statement; `before` is what the same append said last.
fn need_of(before: Option<&EffectMark>, mark: &EffectMark) -> i16 {
    let released = before.is_some_and(|before| {
        before.key == mark.key
            && before.act == EffectAct::Reconciled(Disposition::DidNotHappen)
            && before.attempt.checked_add(1) == Some(mark.attempt)
    });
    match &mark.act {
        EffectAct::Announced { .. } if released => 4,
        EffectAct::Announced { .. } if mark.attempt == 1 => 0,
        EffectAct::Announced { .. } => 1,
        EffectAct::Reconciled(_) => 3,
        EffectAct::Failed(Disposition::InDoubt) => 5,
        EffectAct::Done | EffectAct::Failed(_) => 2,
    }
}

/// True where an append announces an effect.
pub(super) fn announces(append: &Append) -> bool {
    let mut marks = append.records.iter().filter_map(|record| record.effect.as_ref());
    marks.any(|mark| matches!(mark.act, EffectAct::Announced { .. }))
}

/// True where an append announces an effect that undoes nothing.
pub(super) fn begins_anew(append: &Append) -> bool {
    let mut marks = append.records.iter().filter_map(|record| record.effect.as_ref());
    marks.any(|mark| matches!(mark.act, EffectAct::Announced { .. }) && !mark.key.is_undo())
}

/// The keys that an append speaks of.
pub(super) fn keys_of(append: &Append) -> BTreeSet<&EffectKey> {
    append.records.iter().filter_map(|record| record.effect.as_ref()).map(|mark| &mark.key).collect()
}
