//! Groups as the arrays that the statement takes: one value a column for each group, or for each record.

use serde_json::Value;
use tenure_core::{
    admission::Limit,
    id::{JobId, Tenant},
    plan::{LeaseChange, ReadyChange},
    record::{BalanceMark, SealedRecord},
};
use uuid::Uuid;

use super::{
    Append, Guard,
    group::{Group, join_changes},
};
use crate::{
    stored::{to_bigint, to_integer},
    timestamp::Stamp,
};

/// A column for each property of a group.
#[derive(Debug, Default)]
pub(super) struct JobColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<String>,
    pub(super) job: Vec<Uuid>,
    pub(super) generation: Vec<i64>,
    pub(super) guard: Vec<i16>,
    pub(super) guard_epoch: Vec<i64>,
    pub(super) head_seq: Vec<i64>,
    pub(super) head_hash: Vec<&'a [u8]>,
    pub(super) last_epoch: Vec<i64>,
    pub(super) lease_change: Vec<i16>,
    pub(super) ready_change: Vec<i16>,
    pub(super) cause: Vec<Option<Value>>,
    pub(super) not_before: Vec<Option<Stamp>>,
    pub(super) changes_job: Vec<bool>,
    pub(super) state: Vec<Option<&'static str>>,
    pub(super) reason: Vec<Option<String>>,
    pub(super) detail: Vec<Option<String>>,
    pub(super) attempts: Vec<Option<i32>>,
    pub(super) losses: Vec<Option<i32>>,
    pub(super) hops_left: Vec<Option<i32>>,
    pub(super) cancel_seq: Vec<Option<i64>>,
    pub(super) concluded_seq: Vec<Option<i64>>,
    pub(super) concluded_hash: Vec<Option<Vec<u8>>>,
    pub(super) unwinding: Vec<Option<Value>>,
    pub(super) declaration: Vec<Option<Vec<u8>>>,
    pub(super) requires: Vec<Option<Value>>,
    /// Stands only beside a declaration, and is none where that has none.
    pub(super) bundle: Vec<Option<Vec<u8>>>,
    pub(super) runs_back: Vec<i32>,
    pub(super) spent_micros: Vec<i64>,
    pub(super) spent_tokens: Vec<i64>,
    pub(super) spent_turns: Vec<i64>,
    /// What the lease remembers of a limit that refused, or what a limit of the session is raised to.
    pub(super) limit_change: Vec<Option<Value>>,
}

/// A column for each property of a record; `no` names its group, also of the records of a job that is given its work there.
#[derive(Debug, Default)]
pub(super) struct RecordColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    pub(super) seq: Vec<i64>,
    pub(super) epoch: Vec<i64>,
    pub(super) run: Vec<i32>,
    pub(super) kind: Vec<&'a str>,
    pub(super) n: Vec<Option<i64>>,
    pub(super) request: Vec<Option<&'a [u8]>>,
    pub(super) at: Vec<Stamp>,
    pub(super) bytes: Vec<&'a [u8]>,
    pub(super) hash: Vec<&'a [u8]>,
    pub(super) value: Vec<Option<&'a [u8]>>,
    pub(super) salt: Vec<Option<&'a [u8]>>,
}

impl<'a> JobColumns<'a> {
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            let members: Vec<_> = group.appends(batch).collect();
            if let (Some(first), Some(last)) = (members.first(), members.last()) {
                columns.push_position(group.no, first, last);
                columns.push_lease_and_ready(last);
                columns.push_change(&members);
                columns.push_balance(&members);
            }
        }
        columns
    }

    fn push_position(&mut self, no: usize, first: &'a Append, last: &'a Append) {
        self.no.push(to_bigint(no as u64));
        self.tenant.push(first.tenant.as_str().to_owned());
        self.job.push(first.job.0);
        self.generation.push(to_bigint(first.generation.0));
        let (guard, epoch) = match first.guard {
            Guard::Lease(epoch) => (0, epoch.0),
            Guard::ReleasedLease(epoch) => (1, epoch.0),
            Guard::NoLease => (2, 0),
        };
        self.guard.push(guard);
        self.guard_epoch.push(to_bigint(epoch));
        self.head_seq.push(to_bigint(first.head.seq.0));
        self.head_hash.push(&first.head.hash.0);
        let end = last.records.last();
        self.last_epoch.push(to_bigint(end.map_or(0, |record| record.epoch.0)));
    }

    /// Only the last of a group changes the lease or the queue.
    fn push_lease_and_ready(&mut self, last: &Append) {
        self.lease_change.push(match last.changes.lease {
            LeaseChange::Keep => 0,
            LeaseChange::Release => 1,
            LeaseChange::Delete => 2,
            LeaseChange::NoteAbandon => 3,
            LeaseChange::NoteRefusal(_) => 4,
            LeaseChange::NoteSteer => 5,
        });
        self.limit_change.push(match last.changes.lease {
            LeaseChange::NoteRefusal(refused) => Some(serde_json::json!(refused)),
            LeaseChange::Keep
            | LeaseChange::Release
            | LeaseChange::Delete
            | LeaseChange::NoteAbandon
            | LeaseChange::NoteSteer => None,
        });
        let (change, cause, not_before) = match &last.changes.ready {
            ReadyChange::Keep => (0, None, None),
            ReadyChange::Insert { cause, not_before } => (1, Some(serde_json::json!(cause)), *not_before),
            ReadyChange::Delete => (2, None, None),
            ReadyChange::Replace { cause } => (3, Some(serde_json::json!(cause)), None),
            ReadyChange::Redirect { cause } => (4, Some(serde_json::json!(cause)), None),
        };
        self.ready_change.push(change);
        self.cause.push(cause);
        self.not_before.push(not_before.map(Stamp));
    }

    fn push_change(&mut self, members: &[&Append]) {
        let change = join_changes(members);
        self.changes_job.push(change.any);
        self.state.push(change.state.map(tenure_core::job::State::name));
        self.reason.push(change.reason);
        self.detail.push(change.detail);
        self.attempts.push(change.attempts.map(to_integer));
        self.losses.push(change.losses.map(to_integer));
        self.hops_left.push(change.hops_left.map(to_integer));
        self.cancel_seq.push(change.cancel_seq.map(|seq| to_bigint(seq.0)));
        self.concluded_seq.push(change.concluded.map(|(seq, _)| to_bigint(seq.0)));
        self.concluded_hash.push(change.concluded.map(|(_, hash)| hash.0.to_vec()));
        self.unwinding.push(change.unwinding.map(|unwinding| serde_json::json!(unwinding)));
        let bundle = change.declaration.as_ref().and_then(|new| new.bundle);
        self.bundle.push(bundle.map(|digest| digest.0.to_vec()));
        let (declaration, requires) =
            change.declaration.map(|new| (new.digest.0.to_vec(), serde_json::json!(new.requires))).unzip();
        self.declaration.push(declaration);
        self.requires.push(requires);
    }
}

impl JobColumns<'_> {
    /// What all records of a group change in the session's balance, in one amount: a row is updated once.
    fn push_balance(&mut self, members: &[&Append]) {
        let marks = members.iter().flat_map(|append| &append.records).filter_map(|record| record.balance);
        let balance = marks.fold(BalanceMark::default(), BalanceMark::join);
        self.runs_back.push(to_integer(balance.runs_back));
        self.spent_micros.push(to_bigint(balance.spend.cost.0));
        self.spent_tokens.push(to_bigint(balance.spend.tokens));
        self.spent_turns.push(to_bigint(balance.spend.turns));
        let raised = balance.raised.and_then(|(limit, to)| match limit {
            Limit::Budget => Some(serde_json::json!({ "budget_to": to })),
            Limit::Runs => Some(serde_json::json!({ "run_cap_to": to })),
            Limit::Hops | Limit::Reserve => None,
        });
        // No append both raises a limit and notes that one refused.
        if let (Some(raised), Some(change)) = (raised, self.limit_change.last_mut()) {
            *change = Some(raised);
        }
    }
}

impl<'a> RecordColumns<'a> {
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            for append in group.appends(batch) {
                columns.push(group.no, append);
            }
        }
        columns
    }

    fn push(&mut self, no: usize, append: &'a Append) {
        for record in &append.records {
            self.n.push(append.n.map(to_bigint));
            self.request.push(append.request.as_ref().map(|digest| &digest.0[..]));
            self.push_record(no, (&append.tenant, append.job), record);
        }
        // The first records of a job that is given its work here, which no worker sent.
        for (gift, record) in
            append.gift.iter().flat_map(|gift| gift.new.records.iter().map(move |r| (gift, r)))
        {
            self.n.push(None);
            self.request.push(None);
            self.push_record(no, (&gift.new.tenant, gift.new.job), record);
        }
    }

    fn push_record(&mut self, no: usize, (tenant, job): (&'a Tenant, JobId), record: &'a SealedRecord) {
        self.no.push(to_bigint(no as u64));
        self.tenant.push(tenant.as_str());
        self.job.push(job.0);
        self.seq.push(to_bigint(record.seq.0));
        self.epoch.push(to_bigint(record.epoch.0));
        self.run.push(to_integer(record.run.0));
        self.kind.push(record.kind);
        self.at.push(Stamp(record.at));
        self.bytes.push(&record.bytes);
        self.hash.push(&record.hash.0);
        self.value.push(record.value.as_ref().map(|beside| &beside.value[..]));
        self.salt.push(record.value.as_ref().map(|beside| &beside.salt[..]));
    }
}
